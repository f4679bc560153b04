"""Watching and playing, with a window that nobody sees."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
import pytest

from fast_core.config import EnvironmentConfig
from fast_core.envs.playing.rendering import check_screen
from fast_core.errors import ConfigError
from fast_core.policy.file import best_policy_path
from fast_core.tools import play as playing
from fast_core.tools.play import play, play_by_hand
from fast_core.tools.play_words import _mask, ask
from tests.launcher.trained_run import DRAWING, Drawing, make_trained

BY_HAND = "FastLoopTest/ByHand-v0"


class ByHand(Drawing):
    """Tells the test of each step, which may then close the window or press a key."""

    after_step: Any = None
    actions: list[int] = []

    def step(self, action: Any) -> Any:
        type(self).actions.append(int(action))
        type(self).after_step(len(self.actions))
        return super().step(action)


gymnasium.register(BY_HAND, ByHand)


@pytest.fixture(autouse=True)
def unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    monkeypatch.setenv("SDL_AUDIODRIVER", "dummy")
    monkeypatch.setattr(ByHand, "actions", [])


def test_person_plays_until_the_window_is_closed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pygame = pytest.importorskip("pygame")
    events = {
        3: pygame.event.Event(pygame.KEYDOWN, key=pygame.K_1),
        6: pygame.event.Event(pygame.QUIT),
    }

    def after_step(number: int) -> None:
        if number in events:
            pygame.event.post(events[number])

    monkeypatch.setattr(ByHand, "after_step", after_step)
    assert play(BY_HAND, None) == 0
    assert ByHand.actions == [0, 0, 0, 1, 1, 1]
    assert "Keys 0 to 1" in capsys.readouterr().out


def test_what_is_neither_a_run_nor_an_environment_is_called_so() -> None:
    with pytest.raises(ConfigError, match="'runs/typo' is no run directory, no configuration file"):
        play("runs/typo", None)


def test_nothing_is_said_of_packages_that_playing_does_not_need(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Gymnasium's module warns where matplotlib is missing, and warnings are errors here."""
    pytest.importorskip("pygame")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "gymnasium.utils.play", raising=False)
    monkeypatch.setattr(ByHand, "after_step", lambda number: signal.raise_signal(signal.SIGINT))
    assert play(BY_HAND, None) == 130


@pytest.mark.parametrize("file", [False, True])
def test_interrupt_ends_it_in_order(
    file: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pygame")
    what = BY_HAND
    if file:
        path = tmp_path / "config.yaml"
        path.write_text(
            f"name: x\nenvironment: {{id: {BY_HAND}}}\nalgorithm: {{name: ppo}}\n"
            "stop: {env_steps: 1}\n"
        )
        what = str(path)
    monkeypatch.setattr(
        ByHand, "after_step", lambda number: number == 2 and signal.raise_signal(signal.SIGINT)
    )
    before = signal.getsignal(signal.SIGINT)
    assert play(what, None) == 130
    assert len(ByHand.actions) <= 3
    assert signal.getsignal(signal.SIGINT) is before


def test_policy_is_watched_for_ever_until_an_interrupt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_trained(tmp_path)
    shown: list[int] = []
    original = Drawing.step

    def step(self: Drawing, action: Any) -> Any:
        """Show the step in a window, as environments do; the interrupt comes in a later round."""
        if self.render_mode == "human":
            shown.append(self._step)
            if len(shown) == 60:
                signal.raise_signal(signal.SIGINT)
        return original(self, action)

    monkeypatch.setattr(Drawing, "step", step)
    monkeypatch.setattr(Drawing, "metadata", {"render_modes": ["human"], "render_fps": 25})
    monkeypatch.setattr(playing, "EPISODES", 4)
    assert play(str(run.path), None) == 130
    told = capsys.readouterr().out.splitlines()
    numbers = [int(line.split()[1].rstrip(":")) for line in told]
    assert numbers[:6] == [0, 1, 2, 0, 1, 2]  # the end of the last one of a round is not told
    assert len(shown) == 60


def test_policy_that_plays_in_words_is_watched_in_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_trained(tmp_path)

    def render(self: Drawing) -> str:
        if self._step == 3:
            signal.raise_signal(signal.SIGINT)
        return f"{self.render_mode}: step {self._step}"

    monkeypatch.setattr(Drawing, "render", render)
    monkeypatch.setattr(Drawing, "metadata", {"render_modes": ["ansi"], "render_fps": 1000})
    assert play(str(run.path), None) == 130
    told = capsys.readouterr().out.split()
    assert told[:6] == ["ansi:", "step", "0", "ansi:", "step", "1"]


def test_person_plays_in_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = iter(["7", "nothing", "2", "1", "q"])
    monkeypatch.setattr("builtins.input", lambda prompt: next(said))
    assert play("FrozenLake-v1", None) == 0
    told = capsys.readouterr().out
    assert told.count("is none of them") == 2
    assert "(Right)" in told, "the second step is seen, and no third one was taken"
    monkeypatch.setattr("builtins.input", fail_with(EOFError))
    assert play("FrozenLake-v1", None) == 0
    monkeypatch.setattr("builtins.input", fail_with(KeyboardInterrupt))
    assert play("FrozenLake-v1", None) == 130


def test_choices_below_0_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    choices = gymnasium.spaces.Discrete(3, start=-1)
    said = iter(["-2", "--1", "-1"])
    monkeypatch.setattr("builtins.input", lambda prompt: next(said))
    assert choices.contains(ask(SimpleNamespace(action_space=choices, has_wrapper_attr=has_none)))
    assert not list(said)


def test_keys_are_asked_for_that_the_mask_allows(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []
    said = iter(["9", "9", "0", "5", "1", "q"])

    def answer(prompt: str) -> str:
        asked.append(prompt)
        return next(said)

    monkeypatch.setattr("builtins.input", answer)
    monkeypatch.setenv("DISPLAY", ":0")  # a window would take a key in many frames
    against = ["environment.kwargs={opponent: random, side: second}"]
    assert play("fastloop/TicTacToe-v0", None, (), against) == 0
    (taken,) = set("123456789") - set(asked[0])
    left = [key for key in "123456789" if key != taken]
    assert asked[0] == f"{' '.join(left)}: "
    told = capsys.readouterr().out
    assert "'0' is none of them" in told and "is not allowed now" in told
    assert "O moves; you are O" in told


def test_parts_of_masks_are_found_wherever_they_stand() -> None:
    assert _mask("info.open", None, {"open": [[0, 1]]}).tolist() == [0, 1]
    assert _mask("arm/1", {"arm": (None, [1, 0])}, {}).tolist() == [1, 0]


def test_person_plays_in_a_terminal() -> None:
    main, terminal = os.openpty()
    command = [sys.executable, "-m", "fast_core.cli", "play", "fastloop/TicTacToe-v0"]
    kwargs = "environment.kwargs={opponent: perfect, side: first}"
    with subprocess.Popen(
        [*command, kwargs], stdin=terminal, stdout=terminal, stderr=terminal
    ) as process:
        os.close(terminal)
        # one cell after the other, of which those that are taken are refused
        os.write(main, "".join(f"{key}\n" for key in [*range(1, 10), "q"]).encode())
        told = b""
        with contextlib.suppress(OSError):  # how a terminal says that nobody writes any more
            while part := os.read(main, 4096):
                told += part
    os.close(main)
    assert process.returncode == 0, told.decode()
    assert b"X has won" not in told and (b"O has won" in told or b"a draw" in told)


def has_none(name: str) -> bool:
    return False


def fail_with(error: type[BaseException]) -> Any:
    def fail(prompt: str) -> str:
        raise error

    return fail


def test_closed_window_ends_the_watching(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_trained(tmp_path)
    monkeypatch.setattr(Drawing, "metadata", {"render_modes": ["human"], "render_fps": 25})
    left = [False] * 7 + [True]
    monkeypatch.setattr(playing, "window_closed", lambda: left.pop(0))
    assert play(str(run.path), "newest") == 0
    assert left == []
    left[:] = [False] * 7 + [True]
    assert play(str(best_policy_path(run.path)), None) == 0, "a policy's file"
    assert left == []


def test_closing_is_seen_in_both_kinds_of_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    quitting = SimpleNamespace(
        display=SimpleNamespace(get_init=lambda: True),
        event=SimpleNamespace(peek=lambda kind: kind == 7),
        QUIT=7,
    )
    closing = SimpleNamespace(
        get_current_context=lambda: "window", window_should_close=lambda window: window == "window"
    )
    for pygame, glfw, closed in (
        (None, None, False),
        (quitting, None, True),
        (None, closing, True),
    ):
        monkeypatch.setitem(playing.sys.modules, "pygame", pygame)
        monkeypatch.setitem(playing.sys.modules, "glfw", glfw)
        monkeypatch.setitem(playing.sys.modules, "mujoco", SimpleNamespace())
        assert playing.window_closed() is closed


def test_nothing_is_said_before_there_is_a_window() -> None:
    """MuJoCo brings GLFW along, which warns of every call before its first window."""
    pytest.importorskip("mujoco")
    pytest.importorskip("glfw")
    assert not playing.window_closed()


def test_actions_without_keys_are_refused() -> None:
    pytest.importorskip("pygame")
    with pytest.raises(ConfigError, match=r"can't be played by keyboard.*Box"):
        play_by_hand(EnvironmentConfig(id="Pendulum-v1"))


def test_mujoco_needs_a_screen_and_nobody_else_minds(monkeypatch: pytest.MonkeyPatch) -> None:
    """SDL can draw into nothing, as it is told here; GLFW would abort the process."""
    pytest.importorskip("mujoco")
    check_screen(EnvironmentConfig(id=BY_HAND))
    with pytest.raises(ConfigError, match="DISPLAY"):
        check_screen(EnvironmentConfig(id="HalfCheetah-v5"))
    check_screen(EnvironmentConfig(id=BY_HAND))  # with MuJoCo imported


def test_window_needs_a_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SDL_VIDEODRIVER")
    with pytest.raises(ConfigError, match="DISPLAY"):
        play(DRAWING, None)


def test_checkpoint_of_what_is_no_run_is_refused() -> None:
    with pytest.raises(ConfigError, match="--checkpoint needs a run"):
        play(DRAWING, "best")


def test_missing_pygame_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError("pygame is not installed")

    monkeypatch.setattr(playing.importlib, "import_module", missing)
    with pytest.raises(ConfigError, match="pip install pygame-ce"):
        play_by_hand(EnvironmentConfig(id=DRAWING))
