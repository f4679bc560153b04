"""A start that waits for an environment says so."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from fast_core.launcher import session as sessions
from fast_core.launcher.session import _told_if_slow
from tests.nodes.stage import make_config


@pytest.mark.parametrize(("limit_s", "told"), [(0.01, True), (60.0, False)])
def test_person_is_told_what_a_slow_start_waits_for(
    limit_s: float, told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "SLOW_LOOK_S", limit_s)
    said, lines = threading.Event(), list[str]()

    def say(text: str, level: str) -> None:
        lines.append(text)
        said.set()

    def look() -> Any:
        assert said.wait(10 if told else 0) is told
        return "found"

    session: Any = SimpleNamespace(config=make_config(), progress=SimpleNamespace(say=say))
    assert _told_if_slow(session, look) == "found"
    assert [session.config.environment.id in line for line in lines] == [True] * told
