"""A recorded run of processes, whatever its timing, comes out the same again in one process."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from tests.process.harness import TOY, Launched, Workplace, digests, eventually
from tests.process.test_resume import has_run

pytestmark = pytest.mark.process

RECORDED: dict[str, Any] = {
    **TOY,
    "environment": {"id": "CartPole-v1"},
    "rollout": {"shards": 4, "envs_per_shard": 2, "steps": 8},
    "evaluation": {"every_env_steps": 640, "episodes": 2, "envs": 2},
    "checkpoint": {"every_updates": 40},
    "diagnostics": {"schedule": True, "digests": True, "delay_ms": 2},
    "stop": {"env_steps": 40 * 64},
}

REPLAY: dict[str, Any] = {
    **RECORDED,
    "environment": {"id": "Pendulum-v1"},
    "rollout": {"shards": 3, "envs_per_shard": 2, "steps": 16},
    "algorithm": {"name": "sac", "hidden_sizes": [8], "batch_size": 8},
    # less than a round is new in each of the draws of one, and old rows are overwritten meanwhile
    "replay": {"capacity": 800, "learning_starts": 200, "prioritized": True},
    "scheduler": {"off_policy_degree": 3, "replay_ratio": "1/4"},
    "diagnostics": {"schedule": True, "digests": True, "delay_ms": 1},
    "stop": {"env_steps": 40 * 96},
}


def rerun(workplace: Workplace, recorded: Launched, *options: str, run: Path) -> Launched:
    return workplace.fastloop(["rerun", str(run), *options], recorded.home)


def rerun_of(run: Path) -> Path:
    return sorted((run / "rerun").iterdir())[-1]


def check_equal(workplace: Workplace, config: dict[str, Any], *overrides: str) -> None:
    launched = workplace.launch(*overrides, config=config).done()
    run = launched.run
    rerun(workplace, launched, run=run).done()
    recorded = digests(run)
    assert len(recorded) == 40
    assert digests(rerun_of(run)) == recorded


def test_recorded_run_gives_equal_digests_again(workplace: Workplace) -> None:
    """`test_degree` has one that chose its degree by itself."""
    check_equal(workplace, RECORDED, "scheduler.off_policy_degree=4")


NODES = ("policy={placement: node, groups: 2}", "nodes.policy.count=2")


@pytest.mark.slow
def test_forward_passes_of_policy_nodes_are_the_same_again(workplace: Workplace) -> None:
    check_equal(workplace, RECORDED, *NODES, "scheduler.off_policy_degree=2")


@pytest.mark.slow
@pytest.mark.parametrize(
    "given",
    [NODES, ("nodes.optimizer={count: 3, update: async, max_gradient_staleness: 1}",)],
    ids=["policy nodes", "asynchronous optimizers"],
)
def test_draws_from_a_replay_that_grows_meanwhile_are_the_same_again(
    workplace: Workplace, given: tuple[str, ...]
) -> None:
    check_equal(workplace, REPLAY, *given)


@pytest.mark.slow
def test_rerun_ends_after_the_ticket_with_the_update_that_was_asked_for(
    workplace: Workplace,
) -> None:
    launched = workplace.launch("scheduler.off_policy_degree=2", config=RECORDED).done()
    run = launched.run
    rerun(workplace, launched, "--until", "update=30", run=run).done()
    recorded = digests(run)
    assert digests(rerun_of(run)) == {ticket: recorded[ticket] for ticket in range(8)}


@pytest.mark.slow
def test_rerun_of_a_part_that_ctrl_c_ended_has_come_to_its_end(workplace: Workplace) -> None:
    """It is interrupted only where its own Ctrl-C ends it."""
    launched = workplace.launch("stop={time_s: 60}", config=RECORDED)
    eventually(lambda: has_run(launched) and len(digests(launched.run)) > 3, "training")
    launched.signal(signal.SIGINT)
    assert launched.wait() == 130, launched.screen
    again = rerun(workplace, launched, run=launched.run).done()
    assert "ran again as recorded, until the recorded run ended: " in again.screen
    assert digests(rerun_of(launched.run)) == digests(launched.run)


@pytest.mark.slow
def test_recorded_failure_of_an_environment_happens_again(workplace: Workplace) -> None:
    launched = workplace.launch(
        "environment.kwargs.fault=raise",
        "diagnostics={schedule: true, delay_ms: 1}",
        "scheduler.off_policy_degree=2",
    ).ends(1)
    run = launched.run
    again = rerun(workplace, launched, run=run)
    assert again.wait() == 1, again.screen
    cause = (run / "crash.txt").read_text().splitlines()[-1]
    assert "failed in step 37 of episode 0" in cause
    assert (rerun_of(run) / "crash.txt").read_text().splitlines()[-1] == cause
