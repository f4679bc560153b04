"""What goes wrong inside a run is found, told once, and ends it."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.forms import slow_but
from tests.process.harness import Launched, Workplace, eventually

pytestmark = pytest.mark.process


def last_line(launched: Launched) -> str:
    return launched.screen.strip().splitlines()[-1]


def marks(launched: Launched, word: str) -> Counter[str]:
    """How often each environment, named by process and object, left a mark."""
    path = launched.home / word
    return Counter(path.read_text().splitlines() if path.exists() else [])


# --- environments that hang ----------------------------------------------------------------------


@pytest.mark.parametrize("fault", slow_but(["gil"], ["sleep", "gil"]))
def test_step_that_does_not_return_ends_the_run(workplace: Workplace, fault: str) -> None:
    """ENV-13, as far as nodes are not restarted."""
    launched = workplace.toy(fault, "environment.step_timeout_s=1")
    eventually((launched.home / "went-wrong").exists, "the fault")
    launched.ends(1)
    assert "an environment did not return from reset or step within 1 s" in last_line(launched)
    assert "First cause: node 'env-" in launched.screen
    assert 'toy_envs.py", line' in launched.screen  # the stack of the call that hangs


@pytest.mark.slow
def test_slow_steps_are_no_hang(workplace: Workplace) -> None:
    workplace.toy("", "environment.step_timeout_s=0.5", "stop={time_s: 2.5}", step_s=0.04).done()


@pytest.mark.slow
def test_paused_launcher_blames_nobody(workplace: Workplace) -> None:
    """Ctrl-Z and a suspended machine: the nodes were not silent, the launcher did not listen."""
    launched = workplace.toy(
        "",
        "supervision.heartbeat_timeout_s=1.5",
        "environment.step_timeout_s=1.5",
        "stop={time_s: 6}",
        step_s=0.001,
    )
    launched.await_training()
    launched.signal(signal.SIGSTOP)
    time.sleep(3)
    launched.signal(signal.SIGCONT)
    assert launched.wait() == 0, launched.screen


def test_training_that_ends_in_nan_again_and_again_ends_with_the_cause(
    workplace: Workplace,
) -> None:
    """An episode that breaks in its second step costs 1, and is not solved by that."""
    launched = workplace.toy(
        "nan",
        "stop={env_steps: 100000, score: -1}",
        "evaluation={every_env_steps: 1, episodes: 2, envs: 2, mode: sync}",
        at=2,
    ).ends(1)
    assert "100 of the last 100 training episodes met NaN or infinity" in last_line(launched)
    assert "2 of 2 evaluation episodes met NaN or infinity" in launched.screen
    assert not (launched.run / "checkpoints" / "best-policy.msgpack").exists()


# --- environments that can't be made -------------------------------------------------------------


def test_constructor_that_raises_ends_the_start(workplace: Workplace) -> None:
    """FT-02, FT-04 without restarts: one node's constructor fails, after the probe's worked."""
    launched = workplace.toy(
        "constructor", "nodes.env.count=4", "rollout.shards=4", process=3
    ).ends(1)
    assert "no licence" in last_line(launched)
    assert launched.screen.count("no licence") <= 5, launched.screen
    assert launched.screen.count("Traceback (most recent call last)") == 1
    assert not any(event["what"] == "start" for event in launched.events()), "nobody got work"


def test_constructor_that_always_raises_fails_before_any_node(workplace: Workplace) -> None:
    launched = workplace.toy("constructor", process=0)
    assert launched.wait() == 2, "that is a fault of the configuration"
    launched.assert_gone()
    assert "no licence" in last_line(launched)
    assert not list((launched.home / "runs").glob("*/*")), "nothing has begun"
    assert launched.screen.count("Traceback (most recent call last)") == 1


@pytest.mark.slow
def test_nodes_that_make_many_slow_environments_have_their_time(workplace: Workplace) -> None:
    """Each node's take longer than the limit, one of them does not."""
    five = ("rollout.envs_per_shard=5", "stop={env_steps: 80}")
    workplace.toy("", *five, "supervision.start_timeout_s=5", made_s=1.2).ends()


HANGS = [
    (0, ["was not made, reset and stepped within 3 s"]),
    (1, ["missing: env-", "First cause: node 'env-"]),  # it never gets ready
]


@pytest.mark.parametrize(("process", "says"), slow_but(HANGS[:1], HANGS))
def test_constructor_that_hangs_runs_into_the_start_timeout(
    workplace: Workplace, process: int, says: list[str]
) -> None:
    limit = "supervision.start_timeout_s=3"
    launched = workplace.toy("constructor sleep", limit, process=process).ends(1)
    assert says[0] in last_line(launched)
    for words in [*says, "in _fail_while_made"]:
        assert words in launched.screen


# --- environments are closed ---------------------------------------------------------------------


@pytest.mark.parametrize("how", slow_but(["ctrl-c"], ["finish", "ctrl-c", "fault"]))
def test_every_environment_is_closed_once(workplace: Workplace, how: str) -> None:
    """ENV-14: those of the probe, the env nodes and the evaluator."""
    launched = workplace.toy(
        "raise" if how == "fault" else "",
        "evaluation={every_env_steps: 300, episodes: 2, envs: 2}",
        "stop={env_steps: 600}" if how == "finish" else "stop={time_s: 60}",
        step_s=0.001,
    )
    launched.await_training()
    if how == "ctrl-c":
        time.sleep(0.3)
        launched.signal(signal.SIGINT)
    assert launched.wait() == {"finish": 0, "ctrl-c": 130, "fault": 1}[how], launched.screen
    made = marks(launched, "made")
    assert len(made) > 6
    assert marks(launched, "closed") == made


# --- resources -----------------------------------------------------------------------------------


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def mappings(pid: int) -> int:
    return len(Path(f"/proc/{pid}/maps").read_text().splitlines())


def assert_constant(launched: Launched, names: Sequence[str]) -> None:
    """Its nodes and its launcher have as many of both as 3 s before."""
    pids = {"launcher": launched.pid} | {name: launched.node(name) for name in names}
    time.sleep(1.5)
    before = {name: (descriptors(pid), mappings(pid)) for name, pid in pids.items()}
    time.sleep(3.0)

    def as_before(name: str) -> bool:
        files, maps = before[name]
        return descriptors(pids[name]) <= files + 2 and mappings(pids[name]) < maps + 100

    # The files of a checkpoint that is being written are open for a moment.
    for name in pids:
        eventually(lambda name=name: as_before(name), name)
    launched.interrupted()


@pytest.mark.slow
def test_descriptors_and_mappings_stay_constant(workplace: Workplace) -> None:
    """SHM-04, SHM-05: a fixed number for each node, however long it runs."""
    launched = workplace.launch(
        "evaluation={every_env_steps: 2000, episodes: 2, envs: 2}",
        "checkpoint.every_updates=200",
        "metrics={interval_s: 0.2, tensorboard: true}",
    )
    launched.await_training()
    names = ("env-0", "env-1", "optimizer-0", "evaluator-0", "metrics-0", "fork server")
    assert_constant(launched, names)


@pytest.mark.parametrize("mode", slow_but(["process"], ["process", "inline"]))
def test_environment_that_forks_disturbs_nothing(workplace: Workplace, mode: str) -> None:
    """SCH-03: each step forks a helper, beside a ZeroMQ context that it inherits."""
    workplace.toy("forks", f"mode={mode}", "stop={env_steps: 128}").ends()


# --- log lines -----------------------------------------------------------------------------------


def test_log_lines_are_whole_and_in_order(workplace: Workplace) -> None:
    """LOG-03, LOG-04: many lines from the first moment on, none blocks, none is torn."""
    launched = workplace.toy("chatty", "stop={env_steps: 1600}", length=5000).done()
    for name in ("env-0", "env-1"):
        lines = (launched.run / "logs" / f"{name}.log").read_text().splitlines()
        assert any("made in process" in line for line in lines)
        steps = [int(line.rpartition("step ")[2]) for line in lines if "INFO" in line]
        assert len(steps) > 100
        # two environments take turns, so each step stands there twice
        assert steps == sorted(steps), "in order"
        assert f"{name} warning: made in process" in launched.screen
