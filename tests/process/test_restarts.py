"""Nodes that die within the budget come back, and the run comes to its end."""

from __future__ import annotations

import itertools
import os
import re
import signal
from collections import Counter
from typing import Any

import pytest

from fast_core.monitor.run_state import read_state
from fast_core.system.seeding import EpisodeSeeds, Role
from tests.forms import slow_but
from tests.process import handover_faults
from tests.process.harness import (
    TOY,
    Launched,
    Workplace,
    assert_first_cause_is_last,
    digests,
    eventually,
)
from tests.process.test_control import said
from tests.process.test_policy_node import ECHO

pytestmark = pytest.mark.process

TICKET = 2 * 2 * 8
GROUPS = {"envs_per_shard": 6, "steps": 7}
PATIENT: dict[str, Any] = {
    **TOY,
    "environment": {**TOY["environment"], "kwargs": {"step_s": 0.002, "length": 50}},
    "supervision": {"env_restarts": 1},
    "checkpoint": {"every_updates": 40, "at_end": True},
    "stop": {"env_steps": 60 * TICKET},
}


def decided(launched: Launched, what: str) -> list[str]:
    return launched.told(what)


def lost(launched: Launched) -> list[str]:
    return decided(launched, "node lost")


def back(launched: Launched) -> list[str]:
    return decided(launched, "node back")


def kill(launched: Launched, node: str) -> None:
    os.kill(launched.node(node), signal.SIGKILL)


@pytest.mark.slow
def test_killed_env_node_is_survived_and_so_is_one_of_the_resumed_run(workplace: Workplace) -> None:
    """There the shard begins anew: the checkpoint's state of it has been trained on since."""
    launched = workplace.launch(config=PATIENT)
    launched.await_training()
    kill(launched, "env-1")
    launched.ends()
    (why,) = lost(launched)
    assert why.startswith("env-1 is gone: was killed by SIGKILL")
    assert "it is started anew now" in why
    assert back(launched) == ["env-1 is ready again"]
    end = launched.told("end")
    assert end == [f"finished: {60 * TICKET} env steps trained (stop.env_steps: {60 * TICKET})"]
    assert "was killed by SIGKILL" in (launched.run / "crash.txt").read_text()

    resumed = workplace.resume(launched, f"stop.env_steps={120 * TICKET}")
    resumed.await_training()
    eventually(lambda: any(e["what"] == "resume" for e in resumed.events()), "the resumption")
    kill(resumed, "env-0")
    resumed.ends()
    assert len(lost(resumed)) == len(back(resumed)) == 2


def test_death_beyond_the_budget_ends_the_run_with_its_cause(workplace: Workplace) -> None:
    config = {**PATIENT, "rollout": {**TOY["rollout"], "shards": 3}, "nodes": {"env": {"count": 3}}}
    launched = workplace.launch("stop={time_s: 60}", config=config)
    launched.await_training()
    kill(launched, "env-1")
    eventually(lambda: lost(launched), "news of the death")
    kill(launched, "env-2")
    launched.ends(1)
    report = (launched.run / "crash.txt").read_text()
    assert "env-2 was killed by SIGKILL" in report


# --- no start is met twice -----------------------------------------------------------------------


def launch_starts(workplace: Workplace, *overrides: str, **kwargs: Any) -> Launched:
    """A run whose learner refuses a row that it has trained on; ``starts`` are the seeds begun."""
    home = workplace.folder()
    environment = {
        "id": "fastloop/Starts-v0",
        "modules": ["starts"],
        "kwargs": {"folder": str(home), **kwargs},
    }
    config = ECHO | {"environment": environment, "rollout": {"shards": 2, **GROUPS}}
    launched = workplace.launch(
        "stop={time_s: 60}", "diagnostics.delay_ms=9", *overrides, config=config, home=home
    )
    launched.await_training()
    return launched


def assert_no_start_was_met_twice(workplace: Workplace, launched: Launched) -> None:
    eventually(lambda: len(seeds(launched)) > 200, "more episodes")
    said(workplace, launched, "stop", str(launched.run.relative_to(launched.home)))
    assert launched.wait() == 130, launched.screen
    twice = [seed for seed, count in Counter(seeds(launched)).items() if count > 1]
    assert not twice, f"{len(twice)} of {len(seeds(launched))} episodes were begun twice"


def seeds(launched: Launched) -> list[int]:
    """Those with which shards began episodes; nodes try environments out with others."""
    keys = itertools.product(range(2), range(GROUPS["envs_per_shard"]))
    each = [EpisodeSeeds(0, Role.ENVIRONMENT_EPISODE, *key) for key in keys]
    known = {seed for of_env in each for seed in (of_env[episode] for episode in range(1024))}
    begun = [int(line) for line in (launched.home / "starts").read_text().splitlines()]
    return [seed for seed in begun if seed in known]


def test_successor_that_is_killed_while_it_makes_its_second_group_forgets_no_start(
    workplace: Workplace,
) -> None:
    launched = launch_starts(
        workplace,
        "nodes.env.count=1",
        "supervision={restarts: {env: 2, backoff_s: 0.01}}",
        dies_at=GROUPS["envs_per_shard"],
    )
    (launched.home / "die").touch()
    kill(launched, "env-0")
    eventually(lambda: len(back(launched)) == 1, "the successor's successor")
    assert len(lost(launched)) == 2
    assert_no_start_was_met_twice(workplace, launched)


@pytest.mark.slow
def test_shards_that_move_there_and_back_at_once_meet_no_start_twice(workplace: Workplace) -> None:
    """They rest, as the learner lags, and the new node has not made their environments yet."""
    launched = launch_starts(workplace, "nodes.env.count=1")
    (launched.home / "slow").touch()
    run, learner = str(launched.run.relative_to(launched.home)), launched.node("optimizer-0")
    os.kill(learner, signal.SIGSTOP)
    said(workplace, launched, "scale", run, "env=2")
    scale = workplace.fastloop(["scale", run, "env=1"], launched.home)
    eventually(lambda: len(decided(launched, "scale")) == 2, "what was asked for")
    os.kill(learner, signal.SIGCONT)
    assert scale.wait() == 0, scale.screen
    assert_no_start_was_met_twice(workplace, launched)


# --- errors and hangs ----------------------------------------------------------------------------

FLAKY = ("supervision.restarts={env: 5, on_error: restart, backoff_s: 0.1, max_backoff_s: 9}",)


def test_error_of_an_environment_is_a_death_only_if_asked_for(workplace: Workplace) -> None:
    launched = workplace.toy("raise", "supervision.env_restarts=5").ends(1)
    assert not lost(launched)

    launched = workplace.toy("raise", *FLAKY, f"stop.env_steps={40 * TICKET}").ends()
    (why,) = lost(launched)
    assert "bad joint 7" in why and len(back(launched)) == 1
    kept = (launched.run / "crash.txt").read_text()
    assert "(incarnation 1) failed" in kept and "in _move_joint" in kept
    assert kept.strip().splitlines()[-1].startswith("The run went on")
    assert re.search(r"restarts +1 death of nodes \(env-. 1\), 1 back", launched.screen)
    assert read_state(launched.run).state == "finished"


@pytest.mark.slow
def test_hanging_environment_becomes_a_death_and_comes_back(workplace: Workplace) -> None:
    """ENV-13."""
    launched = workplace.toy(
        "stuck in c", *FLAKY, "environment.step_timeout_s=1", f"stop.env_steps={40 * TICKET}"
    ).ends()
    (why,) = lost(launched)
    assert "within 1 s (environment.step_timeout_s)" in why and len(back(launched)) == 1
    assert "in _fault" in (launched.run / "crash.txt").read_text(), "the stack of the call"


@pytest.mark.slow
def test_node_that_can_not_come_back_is_tried_ever_more_rarely(workplace: Workplace) -> None:
    """FT-04: five restarts are six tries, then the run ends with the last traceback."""
    launched = workplace.toy("no licence since", *FLAKY, "environment.kwargs.process=3")
    launched.await_training()
    kill(launched, "env-1")
    launched.ends(1)
    events = launched.events()
    died_s = [event["time_s"] for event in events if event["what"] == "node lost"]
    gaps = [after - before for before, after in itertools.pairwise(died_s)]
    waits = [re.search(r"started anew (now|in (\S+) s)", why) for why in lost(launched)]
    waits_s = [float(wait[2] or 0) for wait in waits if wait]
    assert waits_s == [0, 0.1, 0.2, 0.4, 0.8]
    assert all(gap >= wait_s for gap, wait_s in zip(gaps, waits_s, strict=False))
    kept = (launched.run / "crash.txt").read_text()
    assert kept.count("no licence") >= 5 and "node 'env-1' (incarnation 6) failed" in kept
    assert_first_cause_is_last(launched, "no licence")


# --- policy nodes --------------------------------------------------------------------------------

HANDED: dict[str, Any] = {
    **TOY,
    "environment": {"id": "fastloop/Toy-v0", "modules": ["toy_envs", "handover_faults"]},
    "policy": {"placement": "node"},
    "supervision": {
        "restarts": {"env": 40, "policy": 40, "backoff_s": 0.01, "max_backoff_s": 0.01}
    },
    "diagnostics": {"digests": True},
    "checkpoint": {"at_end": False},
    "stop": {"env_steps": 15 * TICKET},
}


def faulty(workplace: Workplace, point: str) -> Launched:
    launched = workplace.launch(config=HANDED, environment={handover_faults.VARIABLE: point}).ends()
    # The run may end before the last one is back.
    assert len(back(launched)) >= 1 and len(lost(launched)) - len(back(launched)) in (0, 1)
    return launched


@pytest.mark.parametrize("point", slow_but(["half published"], ["half published", "published"]))
def test_dead_policy_node_changes_no_bit(workplace: Workplace, point: str) -> None:
    """It remembers nothing but weights, so its successor gives the answers that it would have."""
    whole = workplace.launch("mode=inline", config=HANDED).done()
    assert digests(faulty(workplace, f"policy-0:{point}").run) == digests(whole.run)


@pytest.mark.slow
def test_env_node_that_dies_in_the_hand_over_comes_back(workplace: Workplace) -> None:
    launched = faulty(workplace, "env-0:half published")
    assert len(digests(launched.run)) == 15


# --- the evaluator -------------------------------------------------------------------------------


@pytest.mark.slow
def test_killed_evaluator_plays_the_same_evaluation_again(workplace: Workplace) -> None:
    config = {
        **PATIENT,
        "evaluation": {"every_env_steps": 12 * TICKET, "episodes": 4, "envs": 2, "mode": "sync"},
        "supervision": {"restarts": {"evaluator": 50, "backoff_s": 0.01, "max_backoff_s": 0.01}},
        "checkpoint": {"at_end": False},
        "stop": {"env_steps": 36 * TICKET},
    }
    found = []
    for deaths in (0, 2):
        launched = workplace.launch(config=config)
        launched.await_training()
        for _ in range(deaths):
            seen = len(back(launched))
            kill(launched, "evaluator-0")
            eventually(lambda: len(back(launched)) > seen, "its return")  # noqa: B023
        launched.ends()
        found.append(launched.told("evaluated"))
    assert len(found[0]) >= 3 and found[1] == found[0]
