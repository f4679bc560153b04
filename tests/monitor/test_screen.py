from __future__ import annotations

import io

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
