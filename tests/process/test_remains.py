"""What is left by a run that was killed with everything that cleans up, and who removes it.

Any run that starts on this machine does, those of other tests too, so what is left may be gone
before a test has looked at it.
"""

from __future__ import annotations

import os
import signal

import pytest

from tests.forms import slow_but
from tests.process.harness import Launched, Process, Workplace, eventually, read_process

pytestmark = pytest.mark.process

OURS = ("watchdog", "fork_server", "fast_core.tools.cli", "fastloop: ")


def watchdog(launched: Launched) -> Process:
    found = eventually(
        lambda: [each for each in launched.members() if "watchdog" in each.command], "a watchdog"
    )
    return found[0]


def kill_everything(launched: Launched) -> None:
    """All of FastLoop, so that none sees another one's end; nothing that environments started."""
    mine = [each for each in launched.members() if any(it in each.command for it in OURS)]
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for process in mine:
            os.kill(process.pid, number)
    launched.wait()
    eventually(lambda: not any(read_process(each.pid) for each in mine), "all are gone", 5.0)


@pytest.mark.parametrize("fault", slow_but(["daemon"], ["daemon", "helper session"]))
def test_next_start_removes_what_a_dead_run_left_and_nothing_of_a_living_one(
    workplace: Workplace, fault: str
) -> None:
    living = workplace.toy("daemon", step_s=0.001)
    shared = {"TMPDIR": str(living.home)}
    given = (f"environment.kwargs.fault={fault}", "environment.kwargs.step_s=0.001")
    home = workplace.folder()
    dead = workplace.launch(
        *given, f"environment.kwargs.folder={home}", home=home, environment=shared
    )
    living.await_training()
    dead.await_training()
    simulators = {each.pid for each in living.members() if each.command.startswith("sleep ")}
    assert simulators
    folders = set(living.home.glob("fastloop-*"))
    kill_everything(dead)
    workplace.launch("stop={env_steps: 100}", environment=shared).done()
    eventually(lambda: not dead.members(), "nothing of the dead run is left", 5.0)
    assert len(folders) == 2
    assert len(set(living.home.glob("fastloop-*")) & folders) == 1
    assert simulators <= {each.pid for each in living.members()}
    living.interrupted()


@pytest.mark.slow
def test_doctor_removes_what_a_dead_run_left(workplace: Workplace) -> None:
    dead = workplace.toy("daemon", step_s=0.001)
    dead.await_training()
    kill_everything(dead)
    code = "from fast_core.tools.doctor import check_remains; print(check_remains())"
    done = workplace.start(["-c", code], home=dead.home).done()
    assert "Finding(name='dead runs'" in done.screen
    dead.assert_gone()


@pytest.mark.slow
def test_killed_watchdog_is_told_of_and_replaced_within_its_budget(workplace: Workplace) -> None:
    launched = workplace.toy("daemon", step_s=0.001)
    launched.await_training()
    seen = set[int]()
    for times in range(1, 5):
        process = watchdog(launched)
        assert process.pid not in seen
        seen.add(process.pid)
        os.kill(process.pid, signal.SIGKILL)
        eventually(
            lambda times=times: (
                sum(event["what"] == "watchdog" for event in launched.events()) == times
            ),
            "the journal tells of it",
        )
    assert launched.screen.count("was killed by SIGKILL; another one has taken its place") == 3
    assert "is not replaced again" in launched.screen
    launched.interrupted()


@pytest.mark.slow
def test_successor_of_a_watchdog_cleans_up_after_the_launcher(workplace: Workplace) -> None:
    launched = workplace.toy("daemon", step_s=0.001)
    launched.await_training()
    first = watchdog(launched)
    os.kill(first.pid, signal.SIGKILL)
    eventually(lambda: watchdog(launched).pid != first.pid, "another watchdog")
    launched.signal(signal.SIGKILL)
    launched.wait()
    launched.assert_gone()


@pytest.mark.parametrize("fault", slow_but(["helper session"], ["daemon", "helper session"]))
def test_simulators_of_a_killed_node_end_with_it(workplace: Workplace, fault: str) -> None:
    launched = workplace.toy(fault, "supervision.env_restarts=1", step_s=0.001)
    launched.await_training()
    node, other = launched.node("env-0"), launched.node("env-1")
    of_node, of_other = (
        [each.pid for each in launched.members() if came_from(each, pid)] for pid in (node, other)
    )
    assert of_node
    assert of_other
    os.kill(node, signal.SIGKILL)
    eventually(lambda: not any(map(read_process, of_node)), "its simulators end", 5.0)
    assert all(map(read_process, of_other))
    launched.signal(signal.SIGINT)
    launched.wait()
    launched.assert_gone()


def came_from(process: Process, node: int) -> bool:
    return process.parent == node
