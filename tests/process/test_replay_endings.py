"""However a run that learns from replay is disturbed: nothing is lost, one cause is told."""

from __future__ import annotations

import os
import signal
import time

import pytest

from tests.forms import slow_but
from tests.process.harness import Workplace, eventually
from tests.process.replay_runs import (
    DISCRETE,
    ROWS,
    TICKETS,
    assert_death_ends_the_run,
    finished,
    granted,
    last_metrics,
    learning,
    metrics,
    reached,
)
from tests.process.test_faults import assert_constant
from tests.process.test_restarts import kill, lost

pytestmark = pytest.mark.process

# Both ways to update with each end of what is shared; an evaluator shares nothing with a replay.
KILLED = [
    *(("allreduce", f"{role}-0") for role in ("env", "policy", "optimizer")),
    ("async", "replay-0"),
    ("async", "optimizer-1"),
]


# --- deaths --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("update", "name"), slow_but([("async", "optimizer-1")], KILLED))
def test_killed_node_ends_the_run_with_its_name(
    workplace: Workplace, update: str, name: str
) -> None:
    launched = learning(
        workplace,
        f"nodes.optimizer.update={update}",
        "policy.placement=node",
        "evaluation={every_env_steps: 1000, episodes: 2, envs: 2}",
    )
    assert_death_ends_the_run(launched, name)


def test_killed_env_node_is_survived(workplace: Workplace) -> None:
    """Its shards begin anew, and no window joins what it wrote with what comes after."""
    tickets = 100
    launched = learning(
        workplace,
        "scheduler.off_policy_degree=2",
        "supervision.restarts.env=1",
        f"stop={{env_steps: {tickets * ROWS}}}",
    )
    kill(launched, "env-1")
    launched.ends()
    (why,) = lost(launched)
    assert why.startswith("env-1 is gone: was killed by SIGKILL")
    assert reached(launched) == (tickets * ROWS, granted(tickets * ROWS))


# --- pauses --------------------------------------------------------------------------------------

STILL_S = 0.5  # ten intervals of metrics


@pytest.mark.slow
@pytest.mark.parametrize(("name", "degree"), [("optimizer-1", 2), ("replay-0", 2), ("env-0", 0)])
def test_paused_node_is_waited_for_and_the_ratio_holds(
    workplace: Workplace, name: str, degree: int
) -> None:
    """SCH-07: nobody runs ahead of it, nothing is dropped, nothing is made up for."""
    tickets = 100
    launched = learning(
        workplace, f"scheduler.off_policy_degree={degree}", f"stop={{env_steps: {tickets * ROWS}}}"
    )
    victim = launched.node(name)
    os.kill(victim, signal.SIGSTOP)

    def stands_still() -> bool:
        before = len(metrics(launched))
        time.sleep(STILL_S)
        return len(metrics(launched)) == before

    eventually(stands_still, "the others have done what they may")
    assert all(event["what"] != "end" for event in launched.events()), "without it"
    os.kill(victim, signal.SIGCONT)
    assert launched.wait(60) == 0, launched.screen
    assert reached(launched) == (tickets * ROWS, granted(tickets * ROWS))
    assert last_metrics(launched)["replay/empty_batches"] == 0


# --- resources -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_descriptors_and_mappings_stay_constant(workplace: Workplace) -> None:
    """SHM-04, SHM-05: with batches, answers, gradients and rows that are saved."""
    launched = learning(workplace, "checkpoint.every_updates=100")
    names = ("env-0", "replay-0", "optimizer-0", "optimizer-1", "metrics-0")
    eventually(lambda: list(launched.run.glob("checkpoints/*")), "a checkpoint")
    assert_constant(launched, names)


# --- what can't be, and what must not matter -----------------------------------------------------


def test_priorities_that_can_not_be_are_refused_and_counted(workplace: Workplace) -> None:
    wrong = {"name": "failing:FailingConfig", "fault": "priorities"}
    config = DISCRETE | {"algorithm": DISCRETE["algorithm"] | wrong}
    launched = workplace.launch(config=config)
    finished(launched)
    refused = last_metrics(launched)["replay/refused_values"]
    steps = granted(TICKETS * ROWS)
    slots = 2  # the last answers wait for a draw that never comes
    assert 3 * (steps - slots) - 3 <= refused <= 3 * steps, "three rows of every batch"
