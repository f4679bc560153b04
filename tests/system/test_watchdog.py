"""Whether Python runs in a launcher, judged from outside with a clock that the test moves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fast_core.system.process_state import is_stopped
from fast_core.system.watchdog import LEAST_S, PAUSE_S, Silence
from tests.process.harness import eventually

LIMIT_S = 60.0


class Watching:
    """A judge of a process that sleeps, and what it is asked by."""

    def __init__(self, limit_s: float) -> None:
        self.now_s = 1000.0
        self.launcher = subprocess.Popen(["sleep", "60"])
        self.asked, self.asks = os.pipe()
        self.silence = Silence(self.launcher.pid, limit_s, self.asked, self.now_s)

    def look(self, seconds: float, *, beats: bool = False, every_s: float = 0.5) -> str:
        """Time passes; what the judge says first."""
        for _ in range(round(seconds / every_s)):
            self.now_s += every_s
            if beats:
                self.silence.heard(self.now_s)
            if why := self.silence.look(self.now_s):
                return why
        return ""

    def close(self) -> None:
        self.launcher.kill()
        self.launcher.wait()
        os.close(self.asked)
        os.close(self.asks)


@pytest.fixture
def watching(request: pytest.FixtureRequest) -> Iterator[Watching]:
    made = Watching(getattr(request, "param", LIMIT_S))
    yield made
    made.close()


def test_launcher_in_which_no_python_runs_has_its_time(watching: Watching) -> None:
    assert watching.look(5 * LIMIT_S, beats=True) == ""
    assert watching.look(LIMIT_S - 1) == ""
    assert watching.look(2) == "for 60 s (supervision.work_timeout_s, at least 10)"


@pytest.mark.parametrize("watching", [LIMIT_S, 0.0], indirect=True)
def test_launcher_that_was_asked_to_end_has_less(watching: Watching) -> None:
    os.write(watching.asks, b"\2")
    assert watching.look(5 * LEAST_S, beats=True) == "", "it is at work, and will hear of it"
    assert watching.look(LEAST_S - 1) == ""
    assert watching.look(2) == "for 10 s although it was asked to end"


def test_launcher_that_heard_of_it_has_all_its_time_again(watching: Watching) -> None:
    os.write(watching.asks, b"\2")
    watching.look(LEAST_S - 2)
    os.read(watching.asked, 1)
    assert watching.look(LIMIT_S - LEAST_S) == ""


@pytest.mark.parametrize("watching", [0.0], indirect=True)
def test_call_may_take_for_ever_where_it_is_said_so(watching: Watching) -> None:
    assert watching.look(100 * LIMIT_S) == ""


def test_time_in_which_the_launcher_is_stopped_does_not_count(watching: Watching) -> None:
    os.write(watching.asks, b"\2")
    os.kill(watching.launcher.pid, signal.SIGSTOP)
    eventually(lambda: is_stopped(watching.launcher.pid), "the stop")
    assert watching.look(2 * LIMIT_S) == ""
    os.kill(watching.launcher.pid, signal.SIGCONT)
    eventually(lambda: not is_stopped(watching.launcher.pid), "its going on")
    assert watching.look(LEAST_S - 1) == ""
    assert watching.look(2) != ""


def test_time_in_which_nobody_had_a_turn_does_not_count(watching: Watching) -> None:
    """The machine was suspended, or so busy that this process was late too."""
    os.write(watching.asks, b"\2")
    assert watching.look(3 * LIMIT_S, every_s=PAUSE_S + 1) == ""
    assert watching.look(LEAST_S - 1) == ""
    assert watching.look(2) != ""


@pytest.mark.parametrize("watching", [1.0], indirect=True)
def test_thread_that_is_a_little_late_is_no_silence(watching: Watching) -> None:
    assert watching.look(LEAST_S - 1) == ""


LEAVES_A_COPY = """
import os, signal, sys
from pathlib import Path
from fast_core.system.watched import Beats, Watchdog
folder = Path(sys.argv[1])
watchdog = Watchdog(folder, Beats(600.0, os.pipe()[0]))
folder.mkdir()
if os.fork() == 0:
    signal.pause()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_launcher_that_is_gone_is_cleaned_up_after_though_a_copy_of_it_lives(
    tmp_path: Path,
) -> None:
    """User code has forked it, so the pipe does not end, and its number may be another's soon."""
    folder = tmp_path / "fastloop-0"
    program = [sys.executable, "-c", LEAVES_A_COPY, str(folder)]
    with subprocess.Popen(program, process_group=0) as launcher:
        try:
            assert launcher.wait() == -signal.SIGKILL
            eventually(lambda: not folder.exists(), "the watchdog's work")
        finally:
            os.killpg(launcher.pid, signal.SIGKILL)
