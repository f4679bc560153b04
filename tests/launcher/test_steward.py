"""The steward of another host, where something of its own goes wrong."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from fast_core.errors import SegmentError, TransportError
from fast_core.launcher import steward as module
from fast_core.launcher.processes.start import StewardStart
from fast_core.messages import Failed, NodeExited, Ready, Stop
from fast_core.system import remains
from tests.nodes.stage import Stage


def test_stop_of_a_node_that_never_came_is_none_of_its_troubles(tmp_path: Path) -> None:
    stage, signals = Stage(tmp_path), list[str]()

    def absent(node: str, command: object) -> NoReturn:
        raise TransportError(f"{node} is not connected")

    tree = SimpleNamespace(
        children={"env-0": SimpleNamespace(name="env-0")},
        send_signal=lambda child, number: signals.append(child.name),
    )
    plan = replace(stage.plan, places={"env-0": "b", "env-1": "b"})
    unused: Any = (SimpleNamespace(), SimpleNamespace(), SimpleNamespace(send=absent), None, -1)
    steward = module.Steward(plan, "b", tree, *unused)  # type: ignore[arg-type]
    for node in ("env-0", "env-1"):
        steward._obey(node, Stop("finished"))
    assert signals == ["env-0"]


def test_nothing_is_expected_of_the_dead_until_their_successor_is_ready(tmp_path: Path) -> None:
    stage, told, expected = Stage(tmp_path), list[object](), list[set[str]]()
    gone, events = [SimpleNamespace(name="env-0", status=-9)], list[Ready]()
    nodes = SimpleNamespace(
        give_plans=lambda: None,
        exit_of=lambda child, known: NodeExited(child.name, "was killed", reaped=True),
        hanging=lambda now_s, but: expected.append({*but}),
    )
    tree = SimpleNamespace(poll=lambda: [gone.pop()] if gone else [])
    hub = SimpleNamespace(receive=lambda: events, retire=lambda node: None)
    link = SimpleNamespace(pack=lambda sender, message, figures: message)
    channel = SimpleNamespace(send=told.append)
    plan = replace(stage.plan, places={"env-0": "b"})
    steward = module.Steward(plan, "b", tree, nodes, link, hub, channel, -1)  # type: ignore[arg-type]
    steward._take_exits()
    steward._look(10.0)
    events.append(Ready("env-0", 7))
    steward._carry_up()
    steward._look(20.0)
    assert expected == [{"env-0"}, set()]
    assert told[0] == NodeExited("env-0", "was killed", reaped=True)


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
