"""The steward of another host, where something of its own goes wrong."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from fast_core.errors import SegmentError
from fast_core.events import Failed
from fast_core.launcher import steward as module
from fast_core.launcher.processes.start import StewardStart
from fast_core.system import remains
from tests.nodes.stage import Stage


def test_what_it_lacks_is_told_as_the_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else only its end would be known, and where to look for more."""
    stage, told = Stage(tmp_path), list[Failed]()
    given = StewardStart(stage.plan, "b", "socket")

    def full(plan: object) -> NoReturn:
        raise SegmentError("this run needs 31.2 GiB of shared memory")

    channel = SimpleNamespace(send=told.append, close=lambda: None)
    silent = SimpleNamespace(take=lambda *_: None, STOP_SIGNALS=(), leave_to_parent=None)
    for name, value in {
        "take": lambda link: (given, os.open(os.devnull, os.O_RDONLY)),
        "forks": silent,
        "setproctitle": SimpleNamespace(setproctitle=lambda title: None),
        "ZmqNodeChannel": lambda *_: channel,
        "process_tree": lambda *_: SimpleNamespace(directory=tmp_path),
        "RunMemory": SimpleNamespace(create=full),
    }.items():
        monkeypatch.setattr(module, name, value)
    for mark in remains.MARKS:
        monkeypatch.setenv(mark, "the launcher's")
    link: Any = SimpleNamespace(close=lambda: None)
    assert module.steward_main("steward@b", link) == 1
    assert [(failed.node, failed.error) for failed in told] == [
        ("steward@b", "SegmentError: this run needs 31.2 GiB of shared memory")
    ]
    assert not set(remains.MARKS) & os.environ.keys(), "its processes are not the launcher's"
    stage.close()
