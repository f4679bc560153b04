"""Callbacks in whole runs: what they change is exact, and what they do wrong is named."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.process.harness import ROOT, TOY, Launched, Workplace, digests, eventually
from tests.process.replay_runs import TASKS as REPLAYED
from tests.process.test_equality import TASKS
from tests.process.test_resume import ROWS, UPDATES_PER_TICKET, kill_after

pytestmark = pytest.mark.process

TICKETS = 40


def config(*callbacks: str, **changes: Any) -> dict[str, Any]:
    """Evaluations and checkpoints at other tickets, each of which callbacks are told of."""
    task = TASKS["discrete"]
    return {
        **task,
        "environment": {**task["environment"], "attributes": {"gravity": 9.8}},
        "evaluation": {"every_env_steps": 7 * ROWS, "mode": "sync", "episodes": 2},
        "checkpoint": {"every_updates": 5 * UPDATES_PER_TICKET, "keep": 100},
        "callbacks": [f"listening:{name}" for name in callbacks],
        "stop": {"env_steps": TICKETS * ROWS},
        **changes,
    }


def changes(launched: Launched) -> list[str]:
    return launched.told("change")


def test_what_callbacks_change_is_the_same_inline_and_after_a_kill(workplace: Workplace) -> None:
    inline = workplace.launch("mode=inline", config=config("Curriculum"))
    whole = workplace.launch("nodes.env.count=2", config=config("Curriculum"))
    assert (inline.wait(60), whole.wait(60)) == (0, 0), inline.screen + whole.screen
    assert digests(inline.run) == digests(whole.run)
    assert changes(inline) == changes(whole)
    assert changes(whole)[:3] == [
        "environment.attributes.gravity 9.8 -> 5.0 from ticket 0 on (0 env steps, version 0): "
        "asked for by listening:Curriculum.on_start",
        "algorithm.learning_rate 0.0003 -> 0.00027 from ticket 7 on (448 env steps, version 28): "
        "asked for by listening:Curriculum.on_evaluation",
        "environment.attributes.gravity 5.0 -> 7.0 from ticket 10 on (640 env steps, version 40): "
        "asked for by listening:Curriculum.on_checkpoint",
    ]

    cut = workplace.launch("diagnostics.delay_ms=8", config=config("Curriculum"))
    kill_after(cut, TICKETS // 2)
    resumed = workplace.resume(cut, "nodes.env.count=1").done()
    assert digests(resumed.run) == digests(whole.run)
    resumed.assert_gone()


@pytest.mark.slow
def test_callbacks_that_change_nothing_leave_every_bit(workplace: Workplace) -> None:
    silent = workplace.launch(config=config("Silent", "Silent"))
    without = workplace.launch(config=config())
    assert (silent.wait(60), without.wait(60)) == (0, 0), silent.screen + without.screen
    assert digests(silent.run) == digests(without.run)


@pytest.mark.slow
def test_every_optimizer_changes_before_the_same_step(workplace: Workplace) -> None:
    values = REPLAYED["two optimizers"] | {
        "environment": {"id": "Pendulum-v1", "attributes": {"g": 10.0}},
        "evaluation": {"every_env_steps": 200, "mode": "sync", "episodes": 1},
        "checkpoint": {"every_updates": 100, "keep": 100},
        "callbacks": ["listening:Slower"],
    }
    inline = workplace.launch("mode=inline", config=values)
    whole = workplace.launch(config=values)
    assert (inline.wait(60), whole.wait(60)) == (0, 0), inline.screen + whole.screen
    assert digests(inline.run) == digests(whole.run)
    assert changes(inline) == changes(whole) != []


@pytest.mark.slow
def test_callback_stops_the_run_in_order_and_knows_how_it_ended(workplace: Workplace) -> None:
    run = workplace.launch(config=config("Stopper")).ends()
    assert len(digests(run.run)) == 10
    reason = "two are enough (listening:Stopper.on_checkpoint)"
    assert (run.home / "end").read_text().startswith(f"finished: {reason}")
    assert ("stop", reason) in [(event["what"], event["why"]) for event in run.events()]


def test_callback_that_raises_ends_the_run_with_its_traceback(workplace: Workplace) -> None:
    """ENV-11: whatever it raises."""
    run = workplace.launch(config=config("Leaver")).ends(1)
    crash = (run.run / "crash.txt").read_text()
    assert crash.rstrip().endswith("SystemExit: no licence")
    assert "calling listening:Leaver.on_checkpoint" in crash
    assert "listening.py" in crash
    assert (run.home / "end").read_text().startswith("failed: "), "it is told all the same"


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["process", "inline"])
def test_callback_that_hangs_is_named_with_its_stack(workplace: Workplace, mode: str) -> None:
    limit = "supervision.work_timeout_s=1"
    run = workplace.launch(limit, f"mode={mode}", config=config("Hanger")).ends(1)
    crash = (run.run / "crash.txt").read_text()
    assert "listening:Hanger.on_checkpoint did not return within 1 s" in crash
    assert "time.sleep(0.1)" in crash


@pytest.mark.slow
def test_interrupted_run_does_not_wait_for_a_callback_that_hangs(workplace: Workplace) -> None:
    run = workplace.launch(config=config("Hanger", stop={"time_s": 60}))
    eventually(lambda: (run.home / "hangs").exists(), "the callback hangs")
    run.interrupted()


@pytest.mark.slow
def test_callback_that_keeps_the_interpreters_lock_is_ended_with_its_stack(
    workplace: Workplace,
) -> None:
    """Nothing in the launcher can, nor hears it of Ctrl-C: the watchdog does."""
    run = workplace.launch(config=config("Keeper", stop={"time_s": 600}))
    eventually(lambda: (run.home / "keeps").exists(), "the callback keeps the lock")
    run.signal(signal.SIGINT)
    run.ends(128 + signal.SIGKILL)
    why = "no Python ran in it for 10 s although it was asked to end"
    assert why in run.screen
    assert why in (run.run / "crash.txt").read_text()
    assert "in on_checkpoint" in run.screen, "the stack"


def test_what_is_no_callback_leaves_nothing(workplace: Workplace) -> None:
    run = workplace.launch(config={**TOY, "callbacks": ["listening:Missing"]}).ends(2)
    assert "module 'listening' has no 'Missing'" in run.screen
    assert not Path(run.home / "runs").exists()


@pytest.mark.slow
def test_curriculum_of_the_examples_reaches_the_top(workplace: Workplace) -> None:
    values = yaml.safe_load((ROOT / "examples" / "curriculum.yaml").read_text())
    run = workplace.launch("metrics.tensorboard=false", config=values).done(within_s=120)
    assert "with the goal at 0.5 (examples.curriculum:MovingGoal.on_evaluation)" in run.screen
    assert len(changes(run)) == 8
