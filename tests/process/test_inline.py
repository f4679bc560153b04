"""Inline mode ends as process mode does: the same status, cause and nothing left."""

from __future__ import annotations

import signal

import pytest

from tests.process.harness import FIGURES, Workplace, eventually, tracebacks

pytestmark = pytest.mark.process


@pytest.mark.parametrize(
    ("number", "fault"), [(signal.SIGINT, ""), (signal.SIGTERM, "seizes signals")]
)
def test_signal_ends_the_run_in_order_and_saves(
    workplace: Workplace, number: signal.Signals, fault: str
) -> None:
    launched = workplace.toy(fault, "mode=inline", FIGURES, step_s=0.001)
    launched.await_update()
    launched.signal(number)
    launched.ends(128 + number)
    assert "Traceback" not in launched.screen
    assert list((launched.run / "checkpoints").glob("*/manifest.json"))
    made = sorted((launched.home / "made").read_text().splitlines())
    assert sorted((launched.home / "closed").read_text().splitlines()) == made


def test_second_ctrl_c_gets_out_of_an_environment_that_hangs(workplace: Workplace) -> None:
    launched = workplace.toy("sleep", "mode=inline")
    eventually((launched.home / "went-wrong").exists, "the fault")
    launched.signal_twice(signal.SIGINT)
    launched.ends(130)
    assert "Traceback" not in launched.screen


@pytest.mark.parametrize(
    ("fault", "limit", "cause"),
    [
        ("sleep", "environment.step_timeout_s=2", "in step 37 .*within 2 s (environment.step_time"),
        pytest.param(
            "stuck in c",
            "environment.step_timeout_s=2",
            "within 2 s (environment.step_timeout_s)",
            marks=pytest.mark.slow,
        ),
        ("constructor sleep", "supervision.start_timeout_s=2", "was not made within 2 s"),
    ],
)
def test_call_that_does_not_return_ends_the_run_with_its_stack(
    workplace: Workplace, fault: str, limit: str, cause: str
) -> None:
    launched = workplace.toy(fault, "mode=inline", limit)
    assert launched.wait() in (1, 2), launched.screen
    launched.assert_gone()
    last = launched.screen.strip().splitlines()[-1]
    assert all(part in last for part in cause.split(".*")), launched.screen
    assert 'toy_envs.py", line' in launched.screen
    if fault == "sleep":
        made = sorted((launched.home / "made").read_text().splitlines())
        assert sorted((launched.home / "closed").read_text().splitlines()) == made
        assert "while closing" not in launched.screen


def test_failing_environment_is_reported(workplace: Workplace) -> None:
    launched = workplace.toy("raise", "mode=inline").ends(1)
    assert "bad joint 7" in launched.screen.strip().splitlines()[-1]
    assert launched.screen.count("Traceback (most recent call last)") == 1
    assert "bad joint 7" in (launched.run / "crash.txt").read_text()
    made = sorted((launched.home / "made").read_text().splitlines())
    assert sorted((launched.home / "closed").read_text().splitlines()) == made


@pytest.mark.slow
def test_nodes_that_take_long_to_make_are_ready_in_time(workplace: Workplace) -> None:
    """They report before the start time-out is looked at, however long all of them took."""
    workplace.toy(
        "", "mode=inline", "supervision.start_timeout_s=2", "stop={env_steps: 100}", made_s=0.45
    ).ends()


def test_ctrl_c_gets_out_of_a_constructor_that_takes_long(workplace: Workplace) -> None:
    """A node makes its environments one after the other: that may be minutes."""
    launched = workplace.toy("", "mode=inline", "rollout.envs_per_shard=9", made_s=0.3)
    eventually(lambda: list(launched.home.glob("runs/*/*/config.yaml")), "the checks are over")
    made = launched.home / "made"
    before = len(made.read_text().splitlines())
    eventually(lambda: len(made.read_text().splitlines()) > before, "one is made for a node")
    launched.signal(signal.SIGINT)
    assert launched.wait() == 130, launched.screen
    assert "interrupted" in launched.screen and tracebacks(launched) == 0, launched.screen
    assert len(made.read_text().splitlines()) < before + 5
    launched.assert_gone()


@pytest.mark.slow
def test_resume_waits_for_nodes_that_come_forward_and_leaves_at_once(workplace: Workplace) -> None:
    """It takes longer to step an open episode again than a node may take to start."""
    one = ("rollout={shards: 1, envs_per_shard: 1, steps: 16}", "nodes.env.count=1")
    first = workplace.toy("slows", "mode=inline", *one, "stop={env_steps: 64}", length=1000).done()
    (first.home / "slow").touch()
    patient = ("stop.env_steps=80", "supervision.start_timeout_s=2")
    left = workplace.resume(first, *patient)
    eventually((first.home / "slowed").exists, "a step taken again")
    left.signal(signal.SIGINT)
    assert left.wait() == 130, left.screen
    assert len((first.home / "slowed").read_text().splitlines()) < 34, "it took them all"
    again = workplace.resume(first, *patient).ends()
    assert "not exact" not in again.screen
