"""Console games of stable-retro, preprocessed; ``fast_core.clients.games.retro:RetroGame``.

An emulator draws into memory of its own and can be there once in a process. One frame is emitted
per step; stacking happens where the policy acts.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any, Literal, cast

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete
from numpy.typing import NDArray

from fast_core.errors import ConfigError
from fast_core.system.extras import to_install

Frame = NDArray[np.uint8]
Pressed = list[Frame]  # buttons ``[n]`` of each player
Info = dict[str, Any]
Actions = Literal["discrete", "multi_discrete", "filtered", "all"]
FPS = 60.0


class RetroGame(gymnasium.Env[Frame, Any]):
    """A game that observes uint8 frames ``[size, size]``, or ``[size, size, 3]`` in colour.

    Everything random (frames without a button at the start, repeated actions) is drawn from the
    seed that ``reset`` is given, and every game begins in the saved state, so games repeat.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": FPS, "one_per_process": True}

    def __init__(
        self,
        game: str,
        *,
        state: str | None = None,
        scenario: str | None = None,
        actions: Actions | Sequence[Sequence[str]] = "discrete",
        turbo: Sequence[str] = (),
        frame_skip: int = 4,
        screen_size: int = 84,
        grayscale: bool = True,
        noop_max: int = 30,
        repeat_action_probability: float = 0.0,
        render_mode: str | None = None,
    ) -> None:
        """Start the emulator.

        Args:
            game: Its name, such as ``Airstriker-Genesis-v0``; other games than that one need their
                cartridge imported with ``python -m stable_retro.import FOLDER``.
            state: The saved state in which games begin; the game's default.
            scenario: What gives rewards and ends games; the game's default.
            actions: Buttons that are pressed together, a list for each action, such as
                ``[[], [LEFT], [RIGHT], [B]]``; or which of stable-retro's spaces: ``discrete`` (one
                number for each allowed combination), ``multi_discrete``, ``filtered`` (a bit for
                each button, of which impossible ones are dropped) or ``all``.
            turbo: Buttons that are let go in the second half of every step, as by the turbo switch
                of a controller: many games fire once for each time that a button is pressed.
            frame_skip: Frames for which an action is held; rewards are added up.
            screen_size: Width and height of a frame, in pixels.
            grayscale: One channel instead of three.
            noop_max: Most frames without a button at the start of a game.
            repeat_action_probability: Chance, in each frame, that the action before is held on.
            render_mode: ``rgb_array`` or None.

        Raises:
            ConfigError: stable-retro or OpenCV is not installed, there is no such game, state,
                button or value, or another emulator runs in this process.
        """
        _check(frame_skip, screen_size, noop_max, repeat_action_probability, turbo)
        self._cv2 = _import("cv2", "opencv-python-headless")
        self._retro = _make(game, state, scenario, actions)
        self._presses = self._chosen(actions)
        if self._presses is None:
            self.action_space = self._retro.action_space
        else:
            self.action_space = Discrete(len(self._presses))
        self._stays = 1 - self._mask(turbo, "turbo")
        self._skip, self._noop_max = frame_skip, noop_max
        self._sticky, self._size, self._gray = repeat_action_probability, screen_size, grayscale
        shape = (screen_size, screen_size) if grayscale else (screen_size, screen_size, 3)
        self.observation_space = Box(0, 255, shape, np.uint8)
        self.metadata = {**self.metadata, "render_fps": FPS / frame_skip}
        self.render_mode = render_mode
        self._none = np.zeros(self._retro.num_buttons, np.uint8)
        self._held: Pressed = [self._none]

    def _chosen(self, actions: object) -> list[Frame] | None:
        """Which buttons each action presses, None where stable-retro decides it."""
        if isinstance(actions, str):
            return None
        return [self._mask(each, "actions") for each in cast("Sequence[Sequence[str]]", actions)]

    def _mask(self, names: Sequence[str], key: str) -> Frame:
        """Ones where a button has one of the ``names``, ``[n]`` uint8."""
        buttons: list[str] = [str(name) for name in self._retro.buttons if name]
        for name in names:
            if name not in buttons:
                self._retro.close()
                raise ConfigError(
                    f"environment.kwargs.{key} must name buttons of this console "
                    f"({', '.join(buttons)}); got {name!r}"
                )
        mask: Frame = np.isin(self._retro.buttons, list(names)).astype(np.uint8)
        return mask

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Frame, Info]:
        """Begin a game in its saved state."""
        super().reset(seed=seed)
        self._retro.reset()
        self._held = [self._none]
        for _ in range(int(self.np_random.integers(0, self._noop_max + 1))):
            if self._frame()[1]:
                self._retro.reset()
        return self._picture(), dict(self._retro.data.lookup_all())

    def step(self, action: Any) -> tuple[Frame, float, bool, bool, Info]:
        """Hold ``action`` for ``frame_skip`` frames, fewer if the game ends in them."""
        chosen = self._pressed(action)
        repeated = [False] * self._skip
        if self._sticky:
            repeated = (self.np_random.random(self._skip) < self._sticky).tolist()
        total, over = 0.0, False
        for frame, repeats in enumerate(repeated):
            if not repeats:
                self._held = chosen
            reward, over = self._frame(lets_go=2 * frame >= self._skip)
            total += reward
            if over:
                break
        return self._picture(), total, over, False, dict(self._retro.data.lookup_all())

    def _pressed(self, action: Any) -> Pressed:
        if self._presses is not None:
            return [self._presses[int(action)]]
        return cast("Pressed", self._retro.action_to_array(action))

    def _frame(self, *, lets_go: bool = False) -> tuple[float, bool]:
        """Play one frame with what is held, but for what turbo ``lets_go``.

        Returns:
            Its reward and whether the game is over.
        """
        emulator, data = self._retro.em, self._retro.data
        for player, mask in enumerate(self._held):
            emulator.set_button_mask(mask * self._stays if lets_go else mask, player)
        emulator.step()
        data.update_ram()
        return float(data.current_reward()), bool(data.is_done())

    def _picture(self) -> Frame:
        cv2, screen = self._cv2, self._screen()
        if self._gray:
            screen = cv2.cvtColor(screen, cv2.COLOR_RGB2GRAY)
        small: Frame = cv2.resize(screen, (self._size, self._size), interpolation=cv2.INTER_AREA)
        return small

    def _screen(self) -> Frame:
        screen: Frame = self._retro.get_screen(apply_rotation=True)
        return np.ascontiguousarray(screen)

    @property
    def buttons(self) -> list[str | None]:
        """The console's buttons, in the order of the bits of an action; None for what is none."""
        return list(self._retro.buttons)

    def get_action_meanings(self) -> list[str]:
        """The buttons of each action where it is one number, as text."""
        if self._presses is not None:
            masks = self._presses
        else:
            count = int(getattr(self.action_space, "n", 0))
            masks = [self._retro.action_to_array(action)[0] for action in range(count)]
        return ["+".join(np.array(self.buttons)[mask > 0]) or "none" for mask in masks]

    def render(self) -> Any:
        """What the game shows, in colour and full size."""
        return self._screen()

    def close(self) -> None:
        """End the emulator, after which there may be another one in this process."""
        self._retro.close()


def _check(
    frame_skip: int, screen_size: int, noop_max: int, probability: float, turbo: Sequence[str]
) -> None:
    least = {"frame_skip": (frame_skip, 1), "screen_size": (screen_size, 1)}
    least["noop_max"] = (noop_max, 0)
    for name, (value, low) in least.items():
        if type(value) is not int or value < low:
            raise ConfigError(
                f"environment.kwargs.{name} must be an integer of at least {low}; got {value!r}"
            )
    if not 0 <= probability < 1:
        raise ConfigError(
            "environment.kwargs.repeat_action_probability must be at least 0 and below 1; got "
            f"{probability!r}"
        )
    if turbo and frame_skip < 2:
        raise ConfigError(
            "environment.kwargs.turbo needs a frame_skip of at least 2, in whose second half "
            f"buttons are let go; got {frame_skip!r}"
        )


def _import(module: str, package: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ConfigError(
            "console games need stable-retro and OpenCV, which can't be imported "
            f"({error}). Run {to_install('retro')}."
        ) from error


def _make(game: str, state: str | None, scenario: str | None, actions: object) -> Any:
    """stable-retro's environment, which opens no window.

    Raises:
        ConfigError: See `RetroGame`.
    """
    retro = _import("stable_retro", "stable-retro")
    spaces = [each.name.lower() for each in retro.Actions]
    if isinstance(actions, str) and actions not in spaces:
        raise ConfigError(
            f"environment.kwargs.actions must be one of {', '.join(spaces)}, or a list of buttons "
            f"for each action; got {actions!r}"
        )
    space = retro.Actions[actions.upper()] if isinstance(actions, str) else retro.Actions.ALL
    try:
        states = retro.data.list_states(game)
        if state is not None and state not in states:
            raise ConfigError(
                f"environment.kwargs.state must be one that {game!r} has "
                f"({', '.join(sorted(states)) or 'none'}); got {state!r}"
            )
        return retro.make(
            game,
            retro.State.DEFAULT if state is None else state,
            scenario=scenario,
            use_restricted_actions=space,
            render_mode="rgb_array",
        )
    except FileNotFoundError as error:
        raise ConfigError(
            f"environment.kwargs.game {game!r} can't be played: {str(error).rstrip('.')}. Import "
            "its cartridge with `python -m stable_retro.import FOLDER`, or take the game that "
            "comes with stable-retro, Airstriker-Genesis-v0."
        ) from error
    except RuntimeError as error:
        raise ConfigError(
            f"environment.kwargs.game {game!r} needs a process of its own: {error}"
        ) from error
