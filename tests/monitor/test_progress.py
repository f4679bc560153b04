from __future__ import annotations

import io

import pytest

from fast_core.messages import LogLine
from fast_core.monitor.progress import PlainProgress
from tests.monitor.views import SUMMARY, view_at


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def run_for(progress: PlainProgress, clock: Clock, seconds: float, per_second: int = 10) -> None:
    for step in range(int(seconds * per_second)):
        elapsed_s = step / per_second
        clock.now_s = 1000.0 + elapsed_s
        progress.update(view_at(elapsed_s, env_steps=int(elapsed_s * 2000)))


def test_plain_lines_come_at_most_every_five_seconds_and_carry_the_rate() -> None:
    clock, stream = Clock(), io.StringIO()
    run_for(PlainProgress(stream, clock=clock), clock, 30)
    lines = stream.getvalue().splitlines()
    assert len(lines) == 6
    assert lines[-1].startswith("[25 s] env steps")
    assert "2,000 steps/s" in lines[-1]
    assert "\x1b" not in stream.getvalue()


def test_plain_lines_grow_rarer_in_a_long_run_but_never_stop() -> None:
    clock, stream = Clock(), io.StringIO()
    run_for(PlainProgress(stream, clock=clock), clock, 3 * 3600, per_second=1)
    assert 180 < len(stream.getvalue().splitlines()) < 400


def test_due_says_when_a_view_is_worth_building() -> None:
    clock = Clock()
    progress = PlainProgress(io.StringIO(), clock=clock)
    assert progress.due
    progress.update(view_at(0.0, 0))
    assert not progress.due
    clock.now_s = progress.next_s
    assert progress.due


def test_log_lines_are_printed_whole_with_the_node_and_warnings_counted() -> None:
    stream = io.StringIO()
    progress = PlainProgress(stream)
    progress.log(LogLine("env-3", "INFO", "first\nsecond"))
    progress.log(LogLine("optimizer-0", "WARNING", "slow \x1b[31mdisk"))
    assert stream.getvalue() == (
        "env-3 info: first\nenv-3 info: second\noptimizer-0 warning: slow �[31mdisk\n"
    )
    assert progress.warnings == 1


def test_failure_is_the_last_thing_on_the_screen() -> None:
    stream = io.StringIO()
    progress = PlainProgress(stream)
    progress.finish(SUMMARY)
    progress.fail("First cause: ...\nValueError: bad joint 7\n")
    progress.close()
    assert stream.getvalue().endswith("\nValueError: bad joint 7\n")
    assert stream.getvalue().startswith("finished")


@pytest.mark.parametrize("error", [BrokenPipeError(32, "Broken pipe"), ValueError("closed file")])
def test_closed_pipe_makes_it_quiet_and_never_raises(error: Exception) -> None:
    class Broken(io.StringIO):
        calls = 0

        def write(self, text: str) -> int:
            self.calls += 1
            raise error

    stream = Broken()
    progress = PlainProgress(stream)
    progress.log(LogLine("env-0", "INFO", "x"))
    progress.finish(SUMMARY)
    progress.fail("x")
    progress.close()
    assert progress.quiet
    assert stream.calls == 1


def test_terminal_that_knows_only_ascii_gets_question_marks() -> None:
    raw = io.BytesIO()
    progress = PlainProgress(io.TextIOWrapper(raw, encoding="ascii"))
    progress.log(LogLine("env-0", "INFO", "±1"))
    assert raw.getvalue() == b"env-0 info: ?1\n"
