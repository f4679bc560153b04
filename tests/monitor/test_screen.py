from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor

import pytest

from fast_core.monitor.live_progress import LiveProgress
from fast_core.monitor.progress import PlainProgress, Progress
from fast_core.monitor.screen import make_progress


class FakeTerminal(io.TextIOWrapper):
    def __init__(self, encoding: str, terminal: bool = True) -> None:
        super().__init__(io.BytesIO(), encoding=encoding)
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


@pytest.mark.parametrize(
    ("encoding", "terminal", "term", "kind"),
    [
        ("utf-8", True, "xterm-256color", LiveProgress),
        ("UTF8", True, "xterm-256color", LiveProgress),
        ("utf-8", False, "xterm-256color", PlainProgress),
        ("ascii", True, "xterm-256color", PlainProgress),
        ("utf-8", True, "dumb", PlainProgress),
        ("utf-8", True, None, PlainProgress),
    ],
)
def test_live_table_only_where_the_terminal_can_show_one(
    monkeypatch: pytest.MonkeyPatch,
    encoding: str,
    terminal: bool,
    term: str | None,
    kind: type[Progress],
) -> None:
    monkeypatch.delenv("TERM", raising=False)
    if term is not None:
        monkeypatch.setenv("TERM", term)
    assert type(make_progress(FakeTerminal(encoding, terminal))) is kind


def test_thread_beside_the_main_one_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    with ThreadPoolExecutor(1) as pool:
        made = pool.submit(make_progress, FakeTerminal("utf-8")).result()
    assert type(made) is PlainProgress


def test_stream_of_a_program_is_written_to_itself() -> None:
    """As in a notebook, whose stream has the descriptor of the kernel's terminal."""

    class Cell(io.StringIO):
        def fileno(self) -> int:
            return 1

    cell = Cell()
    make_progress(cell).fail("here")
    assert cell.getvalue() == "here\n"
