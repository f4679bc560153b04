"""EnvPool draws only where a child of the process could, since it may end whoever asks it to."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fast_core.config import EnvironmentConfig
from fast_core.envs.backends.envpool import EnvPool
from fast_core.envs.drawing import envpool_drawing
from fast_core.envs.drawing.drawable import NotYet
from fast_core.envs.drawing.envpool_drawing import try_drawing
from tests.process.harness import eventually


@pytest.mark.parametrize(
    ("task", "script", "limit_s", "says"),
    [
        ("good", "", 30, "drawn"),
        (
            "bad",
            "import sys; sys.exit('\\nERROR: no OpenGL\\n\\n')",
            30,
            "'bad' here: ERROR: no Op",
        ),
        ("mute", "import os; os._exit(7)", 30, "EnvPool can't draw 'mute' here: 7"),
        ("stuck", "import time; time.sleep(60)", 1.5, "did not draw 'stuck' within 1.5 s"),
    ],
)
def test_what_became_of_the_child_is_said(
    task: str, script: str, limit_s: float, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(envpool_drawing, "_SCRIPT", script)
    monkeypatch.setattr(envpool_drawing, "LIMIT_S", limit_s)
    assert says in eventually(lambda: outcome(task), "the child's end")


def outcome(task: str) -> str:
    try:
        try_drawing(task, {"render_mode": "rgb_array"})
    except NotYet:
        return ""
    except RuntimeError as error:
        return str(error)
    return "drawn"


def test_nothing_is_known_while_the_child_is_at_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(envpool_drawing, "_SCRIPT", "import time; time.sleep(60)")
    with pytest.raises(NotYet, match="slow"):
        try_drawing("slow", {})
    child = envpool_drawing._trial("slow", "{}")._child
    child.kill()
    child.communicate()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux ties processes")
def test_child_that_hangs_does_not_outlive_who_draws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = tmp_path / "there"
    script = f"import pathlib, time; pathlib.Path({str(there)!r}).touch(); time.sleep(60)"
    monkeypatch.setattr(envpool_drawing, "_SCRIPT", script)
    begun: list[subprocess.Popen[str]] = []

    def draw() -> None:
        begun.append(envpool_drawing._Trial("hangs", "{}")._child)
        eventually(there.exists, "the child")

    thread = threading.Thread(target=draw)
    thread.start()
    thread.join()
    begun[0].communicate(timeout=30)
    assert begun[0].returncode == -signal.SIGKILL


def test_envpool_that_can_not_draw_trains_as_ever() -> None:
    pytest.importorskip("envpool")
    source: Any = EnvPool(EnvironmentConfig(id="CartPole-v1"), 2, draws=True)
    envpool, made = source._envpool, []

    def make(task: str, **arguments: Any) -> Any:
        made.append(arguments)
        if "render_mode" in arguments:
            raise TypeError("got an unexpected key 'render_mode'")
        return envpool.make_gymnasium(task, **arguments)

    source._envpool = SimpleNamespace(make_gymnasium=make)
    source.start([1, 2])
    source.start([3, 4])
    assert len(made) == 3, "it is asked once"
    assert "unexpected key 'render_mode'" in source.drawable(0).why_not
    source.close()


@pytest.mark.slow
@pytest.mark.process
def test_task_of_envpool_is_drawn() -> None:
    pytest.importorskip("envpool")
    assert eventually(lambda: outcome("CartPole-v1"), "a picture of EnvPool's", 60) == "drawn"
