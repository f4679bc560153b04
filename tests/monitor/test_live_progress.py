from __future__ import annotations

import io
import re
import threading
from collections.abc import Iterator

import pytest

from fast_core.messages import LogLine
from fast_core.monitor.live_progress import LiveProgress
from tests.monitor.views import SUMMARY, view_at

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """A live display on a fake clock whose every drawing costs ``cost_s`` of processor time."""

    def __init__(self, cost_s: float) -> None:
        self.stream = io.StringIO()
        self.now_s = 0.0
        self._cpu_s = self._spent(cost_s)
        self.progress = LiveProgress(
            self.stream, clock=lambda: self.now_s, cpu_clock=lambda: next(self._cpu_s), width=80
        )

    @staticmethod
    def _spent(cost_s: float) -> Iterator[float]:
        while True:
            yield 0.0
            yield cost_s

    def run(self, seconds: float) -> int:
        """Update 100 times a second; returns how often it drew."""
        drawings, before = 0, 0
        for step in range(int(seconds * 100)):
            self.now_s = step / 100
            self.progress.update(view_at(self.now_s, int(self.now_s * 1000)))
            after = len(self.stream.getvalue())
            drawings += after > before
            before = after
        return drawings

    @property
    def text(self) -> str:
        return _ESCAPES.sub("", self.stream.getvalue())


def test_draws_at_most_four_times_a_second() -> None:
    terminal = Terminal(cost_s=0.0)
    assert terminal.run(10) in (40, 41)
    terminal.progress.close()


def test_costly_drawing_becomes_rarer_so_that_it_stays_within_its_share() -> None:
    terminal = Terminal(cost_s=0.02)
    # The first drawing fills caches, so its cost does not count.
    assert (terminal.run(20) - 1) * 0.02 <= 0.01 * 20
    terminal.progress.close()


def test_drawing_starts_no_thread() -> None:
    before = threading.active_count()
    terminal = Terminal(cost_s=0.0)
    terminal.run(1)
    assert threading.active_count() == before
    terminal.progress.close()


def test_table_shows_the_measured_rate() -> None:
    terminal = Terminal(cost_s=0.0)
    terminal.run(2)
    terminal.progress.close()
    assert "env steps/s 1,000 " in terminal.text


def test_warnings_stay_above_the_table_and_other_lines_pass_through_it() -> None:
    terminal = Terminal(cost_s=0.0)
    terminal.run(0.01)
    for number in range(6):
        terminal.progress.log(LogLine("env-0", "INFO", f"line {number}"))
    terminal.progress.log(LogLine("env-1", "ERROR", "[bold]broken " + "x" * 200))
    terminal.run(0.5)
    terminal.progress.close()
    assert "env-1 error: [bold]broken " + "x" * 200 in terminal.text
    assert "line 2" not in terminal.text
    assert "env-0 info: line 5" in terminal.text
    assert "1 warning " in terminal.text


def test_line_that_comes_before_the_table_is_shown_at_once_and_stays() -> None:
    terminal = Terminal(cost_s=0.0)
    terminal.progress.log(LogLine("launcher", "INFO", "still looking"))
    assert terminal.text == "launcher info: still looking\n"
    terminal.run(0.5)
    terminal.progress.close()
    assert terminal.text.count("still looking") == 1


def test_close_gives_the_cursor_back_and_may_be_called_twice() -> None:
    terminal = Terminal(cost_s=0.0)
    terminal.run(0.5)
    assert "\x1b[?25l" in terminal.stream.getvalue()
    terminal.progress.close()
    terminal.progress.close()
    assert terminal.stream.getvalue().count("\x1b[?25h") == 1


def test_end_replaces_the_table_with_the_summary_and_the_failure_comes_last() -> None:
    terminal = Terminal(cost_s=0.0)
    terminal.run(0.5)
    terminal.progress.finish(SUMMARY)
    after_table = terminal.text.rpartition("╯")[2]
    assert "finished" in after_table
    command = "fastloop resume runs/ppo_cartpole/2025-11-27_22-40-00 stop.KEY=VALUE"
    assert f"{command}\n" in after_table, "a command to copy is on one line"
    terminal.progress.fail("Traceback\n  [bold]x\nValueError: bad joint 7")
    assert terminal.text.endswith("Traceback\n  [bold]x\nValueError: bad joint 7\n")


def test_closed_terminal_makes_it_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal(cost_s=0.0)
    terminal.run(0.5)

    def fail(text: str) -> int:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(terminal.stream, "write", fail)
    terminal.run(2)
    terminal.progress.finish(SUMMARY)
    terminal.progress.close()
    assert terminal.progress.quiet


def test_no_color_means_neither_colour_nor_dim_nor_bold(monkeypatch: pytest.MonkeyPatch) -> None:
    styled = re.compile(r"\x1b\[[0-9;]*m")
    for setting, plain in (("", False), ("1", True)):
        monkeypatch.setenv("NO_COLOR", setting)
        monkeypatch.setenv("TERM", "xterm-256color")
        monkeypatch.setenv("COLORTERM", "truecolor")
        terminal = Terminal(cost_s=0.0)
        terminal.progress.log(LogLine("env-0", "WARNING", "careful"))
        terminal.run(0.5)
        terminal.progress.finish(SUMMARY)
        assert (styled.search(terminal.stream.getvalue()) is None) is plain
