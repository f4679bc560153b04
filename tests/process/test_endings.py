"""However a run ends: nothing of it is left, the exit status is right, one cause is shown."""

from __future__ import annotations

import contextlib
import os
import signal
import time

import pytest

from fast_core.system.forks import STOP_SIGNALS, WARNINGS
from tests.forms import slow_but
from tests.process.harness import (
    FIGURES,
    Launched,
    Process,
    Workplace,
    assert_first_cause_is_last,
    eventually,
    read_process,
    signal_everybody,
    tracebacks,
)

pytestmark = pytest.mark.process

# From before Python has started to the middle of training; Ctrl-C and the launcher's death in turn.
STOPPED_S = (0.05, 0.2, 0.5, 1.0, 1.5)
KILLED_S = (0.1, 0.35, 0.75, 1.5, 2.0)
INTERRUPTED = 130


# --- orderly ends ------------------------------------------------------------------------------


def test_finished_run_leaves_nothing(workplace: Workplace) -> None:
    launched = workplace.launch("stop={env_steps: 500}", fresh=True).ends()
    assert not (launched.run / "crash.txt").exists()
    assert "Traceback" not in launched.screen


@pytest.mark.parametrize("after_s", slow_but([0.2, 1.0], STOPPED_S))
def test_ctrl_c_leaves_nothing(workplace: Workplace, after_s: float) -> None:
    """FT-07: to the group, as a terminal sends it."""
    launched = workplace.toy("", step_s=0.001, fresh=True)
    launched.sleep_until(after_s)
    launched.signal(signal.SIGINT, group=True)
    begun_s = time.monotonic()
    assert launched.wait() == INTERRUPTED or python_was_starting(launched), launched.screen
    launched.assert_gone(max(0.0, begun_s + 5.0 - time.monotonic()))
    assert tracebacks(launched) <= 1, launched.screen


def python_was_starting(launched: Launched) -> bool:
    """Ctrl-C before the interpreter has run anything of ours is its own business."""
    return "KeyboardInterrupt" in launched.screen and "fast_core/" not in launched.screen


def test_signal_that_reaches_a_fork_server_which_is_starting_is_not_its_end(
    workplace: Workplace,
) -> None:
    """One to the group may reach it before it has a group of its own."""
    launched = workplace.toy("", "stop={env_steps: 100}", fresh=True)
    server = eventually(
        lambda: [each for each in launched.members() if "fork_server" in each.command],
        "the fork server",
    )
    os.kill(server[0].pid, signal.SIGINT)
    assert launched.wait() == 0, launched.screen


def test_ctrl_c_while_the_environment_is_looked_at_leaves_no_run_directory(
    workplace: Workplace,
) -> None:
    """`fastloop eval NAME` would take it for the newest run, and `list` shows it for ever."""
    launched = workplace.toy("sleep", at=2)
    eventually(lambda: list(launched.home.glob("runs/*/*/logs")), "the run directory")
    launched.interrupted()
    assert not (launched.home / "runs").exists()


def test_ctrl_c_waits_for_a_round_that_takes_longer_than_a_save(workplace: Workplace) -> None:
    launched = workplace.toy(
        "", FIGURES, "supervision.save_s=0.02", "rollout.steps=200", step_s=0.001
    )
    launched.await_update()
    launched.signal(signal.SIGINT)
    assert launched.wait() == INTERRUPTED, launched.screen
    assert list((launched.run / "checkpoints").glob("*/manifest.json")), launched.screen


def test_ctrl_c_before_the_first_round_is_trained_on_says_that_nothing_is_saved(
    workplace: Workplace,
) -> None:
    launched = workplace.toy("", "rollout.steps=4000", step_s=0.001)
    launched.await_training()
    launched.signal(signal.SIGINT)
    assert launched.wait() == INTERRUPTED, launched.screen
    assert "Ctrl-C: nothing was trained yet, so there is nothing to save" in launched.screen


@pytest.mark.parametrize("number", slow_but([signal.SIGINT, signal.SIGUSR1], STOP_SIGNALS))
def test_signal_to_the_launcher_ends_the_run_in_order(
    workplace: Workplace, number: signal.Signals
) -> None:
    launched = workplace.toy("", FIGURES, step_s=0.001)
    launched.await_update()
    launched.signal(number)
    launched.ends(128 + number)
    assert ("Ctrl-C" if number == signal.SIGINT else f"signal {number.name}") in launched.screen
    assert tracebacks(launched) == 0
    assert list((launched.run / "checkpoints").glob("*/manifest.json")), launched.screen


@pytest.mark.parametrize("number", slow_but([signal.SIGTERM, signal.SIGUSR2], STOP_SIGNALS))
def test_signal_to_everybody_counts_as_one_to_the_launcher(
    workplace: Workplace, number: signal.Signals
) -> None:
    """Batch systems signal every process of a job, so nodes die beside the launcher."""
    launched = workplace.toy("", FIGURES, step_s=0.001)
    launched.await_update()
    signal_everybody(launched, number)
    launched.ends(128 + number)
    assert not (launched.run / "crash.txt").exists(), launched.screen
    assert "watchdog" not in launched.screen
    assert list((launched.run / "checkpoints").glob("*/manifest.json")), launched.screen


@pytest.mark.parametrize("number", slow_but([signal.SIGUSR1], WARNINGS))
def test_warning_to_those_who_are_starting_ends_nobody(
    workplace: Workplace, number: signal.Signals
) -> None:
    """It comes at any time, also while nodes import and have none of their handlers yet."""
    launched = workplace.toy("", "stop={env_steps: 100}", fresh=True)
    launched.node("fork server")
    for _ in range(40):
        for process in launched.members():
            if process.pid != launched.pid:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, number)
        time.sleep(0.01)
    status = launched.wait()
    heard = number == signal.SIGXCPU  # of a node's own time
    assert status in ((0, 128 + number) if heard else (0,)), launched.screen
    assert "watchdog" not in launched.screen


@pytest.mark.slow
def test_job_that_is_suspended_goes_on(workplace: Workplace) -> None:
    """As Slurm does it, and what it sends that means nothing."""
    launched = workplace.toy("", step_s=0.001)
    launched.await_training()
    for number in (signal.SIGTSTP, signal.SIGCONT, signal.SIGURG, signal.SIGWINCH):
        signal_everybody(launched, number)
        time.sleep(0.3)
    signal_everybody(launched, signal.SIGTERM)
    launched.ends(128 + signal.SIGTERM)
    assert not (launched.run / "crash.txt").exists(), launched.screen


@pytest.mark.slow
def test_ignored_hangup_does_not_end_the_run(workplace: Workplace) -> None:
    """What ``nohup`` asks for."""
    home = workplace.folder()
    launched = workplace.launch(
        "stop={time_s: 1.0}",
        'environment.kwargs={"step_s": 0.001}',
        home=home,
        ignore=[signal.SIGHUP],
    )
    launched.await_training()
    launched.signal(signal.SIGHUP, group=True)
    assert launched.wait() == 0, launched.screen


@pytest.mark.parametrize("fault", slow_but(["gil"], ["gil", "deaf"]))
def test_second_ctrl_c_does_not_wait(workplace: Workplace, fault: str) -> None:
    launched = workplace.toy(fault, "supervision.grace_s=600")
    eventually((launched.home / "went-wrong").exists, "the fault")
    launched.signal_twice(signal.SIGINT)
    launched.ends(INTERRUPTED)


@pytest.mark.parametrize("after_s", slow_but([0.5], [0.5, 1.0]))
def test_two_ctrl_c_at_once_leave_nothing(workplace: Workplace, after_s: float) -> None:
    launched = workplace.toy("", step_s=0.001, fresh=True)
    launched.sleep_until(after_s)
    launched.signal(signal.SIGINT, group=True)
    launched.signal(signal.SIGINT, group=True)
    launched.ends(INTERRUPTED)


# --- what environments fork --------------------------------------------------------------------


def helpers(launched: Launched) -> list[int]:
    """What the environments have forked, by their own account."""
    path = launched.home / "helpers"
    return [int(line.split()[0]) for line in path.read_text().splitlines()] if path.exists() else []


def test_forked_helper_does_not_hold_up_the_start(workplace: Workplace) -> None:
    """It inherits everything that its node has open, the probe's way to the launcher too."""
    launched = workplace.toy(
        "helper", "stop={env_steps: 300}", "supervision.start_timeout_s=10"
    ).done()
    assert len(helpers(launched)) > 4
    launched.assert_gone()


@pytest.mark.parametrize("mode", slow_but(["process"], ["process", "inline"]))
def test_forked_simulator_ends_when_its_environment_terminates_it(
    workplace: Workplace, mode: str
) -> None:
    """The probe's, the nodes' and, inline, the launcher's own handlers don't reach it."""
    launched = workplace.toy("simulator", f"mode={mode}", "stop={env_steps: 300}").ends()
    assert "is killed" not in launched.screen


@pytest.mark.parametrize("how", slow_but(["kill"], ["finish", "kill"]))
def test_forked_helper_of_another_session_does_not_outlive_the_run(
    workplace: Workplace, how: str
) -> None:
    """It runs no program of its own, so only its environment tells to whom it belongs."""
    end = "stop={env_steps: 300}" if how == "finish" else "stop={time_s: 60}"
    launched = workplace.toy("helper session", end, "supervision.start_timeout_s=10", step_s=0.001)
    if how == "kill":
        launched.await_training()
        assert all(read_process(pid) for pid in helpers(launched))
        launched.signal(signal.SIGKILL)
    launched.wait()
    pids = helpers(launched)
    assert len(pids) > 4, launched.screen
    try:
        eventually(lambda: not any(map(read_process, pids)), "every helper is gone", 5.0)
    finally:
        for pid in filter(read_process, pids):
            os.kill(pid, signal.SIGKILL)
    launched.assert_gone()


# --- nodes that can't stop ---------------------------------------------------------------------


DEAF = ("gil", "deaf", "deaf child", "daemon", "stopped")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize("fault", slow_but(DEAF[:1], DEAF))
def test_nodes_that_do_not_listen_end_with_their_launcher(
    workplace: Workplace, fault: str, number: signal.Signals
) -> None:
    """FT-08: asked, then terminated, then killed; with what they started."""
    launched = workplace.toy("" if fault == "stopped" else fault, step_s=0.001)
    launched.await_training()
    if fault == "stopped":
        os.kill(launched.node("env-0"), signal.SIGSTOP)
    elif fault in ("gil", "deaf"):
        eventually((launched.home / "went-wrong").exists, "the fault")
    launched.signal(number)
    launched.ends_soon(128 + number)
    assert tracebacks(launched) == 0


def test_node_that_has_to_be_killed_is_told_to_the_person(workplace: Workplace) -> None:
    launched = workplace.toy("sleep", "supervision.grace_s=0.5")
    eventually((launched.home / "went-wrong").exists, "the fault")
    time.sleep(0.1)
    launched.interrupted()
    told = " ".join(launched.screen.split())
    assert "did not stop within 0.5 s (supervision.grace_s) and is killed" in told
    assert "it was in _fault (" in told
    assert "toy_envs.py, line" in told


@pytest.mark.parametrize(
    ("fault", "cause"),
    slow_but(
        [("close", "window gone")],
        [("close", "window gone"), ("close exit", "exited with status 7")],
    ),
)
def test_node_that_fails_while_it_stops_is_told_to_the_person(
    workplace: Workplace, fault: str, cause: str
) -> None:
    launched = workplace.toy(fault, "stop={time_s: 1}", "nodes.env.count=1", step_s=0.001)
    launched.await_training()
    (launched.home / "trained").touch()
    launched.ends()
    warnings = [line for line in launched.screen.splitlines() if cause in line]
    assert len(warnings) == 1, launched.screen
    assert "launcher warning: env-0 failed while the run ended" in warnings[0]


def test_ctrl_c_while_the_environment_is_made(workplace: Workplace) -> None:
    launched = workplace.toy("constructor sleep")
    eventually((launched.home / "made").exists, "the constructor")
    launched.interrupted()


# --- the launcher is killed --------------------------------------------------------------------


@pytest.mark.parametrize("after_s", slow_but([0.35, 1.5], KILLED_S))
def test_killed_launcher_leaves_nothing(workplace: Workplace, after_s: float) -> None:
    launched = workplace.toy("child", step_s=0.001, fresh=True)
    launched.sleep_until(after_s)
    launched.signal(signal.SIGKILL)
    launched.wait()
    launched.assert_gone()


def test_kernel_alone_ends_the_nodes(workplace: Workplace) -> None:
    """Without the watchdog: what a node's environment has started then survives, no node does."""
    launched = workplace.toy("gil")
    eventually((launched.home / "went-wrong").exists, "the fault")
    watchdog = next(p for p in launched.members() if "watchdog.py" in p.command)
    os.kill(watchdog.pid, signal.SIGKILL)
    os.kill(launched.node("optimizer-0"), signal.SIGSTOP)
    launched.signal(signal.SIGKILL)
    launched.wait()
    eventually(lambda: not launched.members(), "every process is gone", 5.0)


def test_launcher_killed_while_the_probe_has_children(workplace: Workplace) -> None:
    """The probe's environment starts a process and hangs before anything else has begun."""
    launched = workplace.toy("constructor child")
    eventually((launched.home / "made").exists, "the constructor")
    time.sleep(0.05)
    launched.signal(signal.SIGKILL)
    launched.wait()
    launched.assert_gone()


# --- a node or the fork server dies ------------------------------------------------------------


FAILURES = [
    ("raise", "bad joint 7"),
    ("segfault", "was killed by SIGSEGV"),
    ("exit", "exited with status 7"),
]


@pytest.mark.parametrize(("fault", "cause"), slow_but(FAILURES[:2], FAILURES))
def test_failing_environment_ends_the_run_with_its_cause(
    workplace: Workplace, fault: str, cause: str
) -> None:
    """ENV-10: what is shown last, and kept, says where and when it happened."""
    launched = workplace.toy(fault).ends(1)
    assert_first_cause_is_last(launched, cause)
    report = (launched.run / "crash.txt").read_text()
    assert "First cause: node 'env-" in report
    for fact in ("shard", "environment", "episode", "seed", "step", "action", "37"):
        assert fact in report, report
    if fault == "raise":
        assert 'in _move_joint\n    raise ValueError(f"bad joint {number}")' in launched.screen
        assert tracebacks(launched) == 1


@pytest.mark.parametrize(
    "name",
    slow_but(
        ["env-0", "fork server"],
        ["env-0", "optimizer-0", "evaluator-0", "metrics-0", "fork server"],
    ),
)
def test_killed_process_ends_the_run(workplace: Workplace, name: str) -> None:
    fault = "daemon" if name == "env-0" else "deaf child"
    launched = workplace.toy(fault, "evaluation.every_env_steps=1000", step_s=0.001)
    launched.await_training()
    os.kill(launched.node(name), signal.SIGKILL)
    launched.ends_soon(1)
    assert_first_cause_is_last(launched, "SIGKILL")
    assert f"First cause: node '{name}'" in launched.screen


LEAVING = [
    ("process", "leave with text", "SystemExit: the licence has"),
    ("inline", "leave with text", "SystemExit: the licence has"),
    ("process", "cancelled", "CancelledError: by the"),
]


@pytest.mark.parametrize(("mode", "fault", "cause"), slow_but(LEAVING[:1], LEAVING))
def test_environment_that_raises_past_exception_ends_the_run_with_its_cause(
    workplace: Workplace, mode: str, fault: str, cause: str
) -> None:
    launched = workplace.toy(fault, f"mode={mode}").ends(1)
    assert_first_cause_is_last(launched, cause)
    assert "in step 37" in launched.screen


def test_node_that_dies_while_it_waits_for_its_plan_ends_the_start(workplace: Workplace) -> None:
    launched = workplace.toy("constructor sleep")
    eventually((launched.home / "made").exists, "the constructor")
    server = launched.node("fork server")

    def waiting() -> list[Process]:
        forked = [process for process in launched.members() if process.parent == server]
        return [process for process in forked if "fastloop:" not in process.command]

    eventually(lambda: len(waiting()) == 4, "nodes without a plan")
    os.kill(waiting()[0].pid, signal.SIGKILL)
    launched.ends(1)
    last = launched.screen.strip().splitlines()[-1]
    assert "was killed by SIGKILL before the run began" in last
    assert "logs/fork-server.log" in last


def test_fork_server_killed_while_starting(workplace: Workplace) -> None:
    launched = workplace.toy("constructor sleep")
    eventually((launched.home / "made").exists, "the constructor")
    os.kill(launched.node("fork server"), signal.SIGKILL)
    launched.ends(1)
    assert "fork server" in launched.screen.strip().splitlines()[-1]


@pytest.mark.parametrize("number", slow_but([signal.SIGKILL], [signal.SIGKILL, signal.SIGSTOP]))
def test_watchdog_that_is_gone_does_not_matter(
    workplace: Workplace, number: signal.Signals
) -> None:
    launched = workplace.toy("", "stop={time_s: 0.5}", step_s=0.001)

    def watchdogs() -> list[int]:
        return [found.pid for found in launched.members() if "watchdog.py" in found.command]

    (watchdog,) = eventually(watchdogs, f"a watchdog\n{launched.screen}")
    os.kill(watchdog, number)
    launched.ends()
