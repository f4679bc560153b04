"""Atari games with the standard preprocessing (Machado et al. 2018, arXiv:1709.06009).

One frame is emitted per step; stacking happens where the policy acts. The emulator is driven
directly: of the frames that a step skips, only the last two are ever drawn.
"""

from __future__ import annotations

import copy
import importlib
from collections.abc import Callable
from typing import Any, cast

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec
from numpy.typing import NDArray

from fast_core.config import AtariConfig
from fast_core.errors import ConfigError
from fast_core.system.extras import to_install

Frame = NDArray[np.uint8]
State = Any  # ale_py.ALEState; the package is optional and has no types
_NOOP = 0
_STEPS_BYTES = 8
# Arguments of ALE's own environment that `AtariConfig` replaces, and what to say about each.
_OWN_KWARGS = {
    "frameskip": "use environment.atari.frame_skip",
    "repeat_action_probability": "use environment.atari.repeat_action_probability",
    "obs_type": "use environment.atari.grayscale, or remove environment.atari to observe the RAM",
    "sound_obs": "remove environment.atari to observe the sound",
}


class AtariGame(gymnasium.Env[Frame, np.int64]):
    """An ALE game that observes uint8 frames ``[size, size]``, or ``[size, size, 3]`` in colour.

    Everything random (actions without effect at the start, repeated actions) is drawn from the
    seed that ``reset`` is given, and every game begins in the emulator's one initial state. So a
    seeded reset does not load the cartridge again, which takes as long as 300 steps.

    With ``terminal_on_life_loss``, a lost life is a termination, but the next reset continues
    the game. Such an episode can't be begun again by its seed alone: `episode_start` says where
    in its game it began, and `begin_at` begins the next one there. The end of a game and a time
    limit are always followed by a new game.

    Attributes:
        max_episode_steps: Steps of one game after which it is truncated.
    """

    def __init__(
        self, game: gymnasium.Env[Any, Any], config: AtariConfig, max_episode_steps: int | None
    ) -> None:
        """Take over ``game``, which must not skip frames or repeat actions by itself.

        The time limit is the lower one of ``max_episode_steps`` and the emulator's own limit in
        frames, with which actions without effect at the start count too.
        """
        self._game, self._config = game, config
        self._ale: Any = cast("Any", game.unwrapped).ale  # ale_py.ALEInterface
        self._resize = _resizer(config.screen_size)
        self._actions: list[object] = list(cast("Any", game.unwrapped)._action_set)
        self._fire = _fire(game) if config.fire_on_reset else None
        channels = () if config.grayscale else (3,)
        shape = (*self._ale.getScreenDims(), *channels)
        self._older, self._newer = np.zeros(shape, np.uint8), np.zeros(shape, np.uint8)
        self._draw = self._ale.getScreenGrayscale if config.grayscale else self._ale.getScreenRGB
        size = config.screen_size
        self.observation_space = gymnasium.spaces.Box(0, 255, (size, size, *channels), np.uint8)
        self.action_space = cast("gymnasium.spaces.Discrete", game.action_space)
        fps = game.metadata.get("render_fps", 60) / config.frame_skip  # of one picture per step
        self.metadata = {**game.metadata, "render_fps": fps}
        self.render_mode = game.render_mode
        frames = self._ale.getInt("max_num_frames_per_episode")
        limits = [max_episode_steps, -(-frames // config.frame_skip) if frames > 0 else None]
        self.max_episode_steps = min((limit for limit in limits if limit), default=None)
        self.spec = _spec(game, self.max_episode_steps)
        self._ale.reset_game()
        self._initial = self._ale.cloneState(include_rng=False)
        self._draw(self._newer)
        self._initial_frame = self._newer.copy()
        self._held: object = self._actions[_NOOP]
        self._steps = self._lives = 0
        self._life_lost = False
        self._start: tuple[int, State] | None = None
        self._begin: bytes | None = None

    def get_action_meanings(self) -> list[str]:
        """What its actions are called, as ALE's own environment says."""
        return list(cast("Any", self._game.unwrapped).get_action_meanings())

    @property
    def life_lost(self) -> bool:
        """Whether the episode ended by a lost life alone: the next reset goes on in its game."""
        return self._life_lost

    @property
    def steps(self) -> int:
        """Steps of the game; 0 after a reset in whose frames it ended and began anew, too."""
        return self._steps

    @property
    def episode_start(self) -> bytes:
        """Where in its game the open episode began, empty if with the game."""
        if self._start is None:
            return b""
        steps, state = self._start
        return steps.to_bytes(_STEPS_BYTES, "little") + bytes(state.serialize())

    def begin_at(self, start: bytes) -> None:
        """Let the next reset begin where `episode_start` said, or a new game if it is empty."""
        self._begin = start

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Frame, dict[str, Any]]:
        """Begin the next episode: a new game, unless a life was lost before the game's end."""
        super().reset(seed=seed, options=options)
        begin, self._begin = self._begin, None
        if begin is not None:
            self._start = _read_start(begin) if begin else None
            if self._start is not None:
                self._steps, state = self._start
                self._ale.restoreState(state)
        elif self._life_lost:
            self._start = self._steps, self._ale.cloneState(include_rng=False)
        else:
            self._start = None
        if self._start is None:
            self._new_game()
        else:
            self._wake()
        self._life_lost = False
        self._lives = self._ale.lives()
        return self._resize(self._newer), {"lives": self._lives}

    def _new_game(self) -> None:
        self._restart()
        most = self._config.noop_max
        for _ in range(int(self.np_random.integers(1, most + 1)) if most else 0):
            self._frame(_NOOP)
        if self._fire is not None:
            self._press(self._fire)

    def _restart(self) -> None:
        self._ale.restoreState(self._initial)
        self._newer[...] = self._initial_frame
        self._held, self._steps = self._actions[_NOOP], 0

    def _wake(self) -> None:
        """Go past the frames in which the game shows that a life was lost."""
        self._press(_NOOP)
        if self._fire is not None:
            self._press(self._fire)

    def _press(self, action: int) -> None:
        for _ in range(self._config.frame_skip):
            self._frame(action)

    def _frame(self, action: int) -> None:
        """Play one frame of a reset; a game that ends in it begins anew."""
        self._held = self._actions[action]
        self._ale.act(self._held)
        if self._ale.game_over(with_truncation=True):
            self._restart()
        else:
            self._draw(self._newer)

    def step(self, action: np.int64) -> tuple[Frame, float, bool, bool, dict[str, Any]]:
        """Play ``frame_skip`` frames, fewer if the episode ends in them.

        The observation is the maximum over the last two frames, or the last one alone where the
        episode ended earlier.
        """
        config, ale = self._config, self._ale
        reward = self._play(self._actions[action])
        self._steps += 1
        lives, over = ale.lives(), ale.game_over(with_truncation=False)
        truncated = ale.game_truncated() or self._steps == self.max_episode_steps
        lost = config.terminal_on_life_loss and lives < self._lives
        self._lives = lives
        self._life_lost = lost and not (over or truncated)
        if config.clip_rewards:
            reward = float(np.sign(reward))
        return self._resize(self._newer), reward, over or lost, truncated, {"lives": lives}

    def _play(self, chosen: object) -> float:
        """Play the frames of one step and leave what is seen in ``_newer``; returns the reward."""
        ale, skip, life = self._ale, self._config.frame_skip, self._config.terminal_on_life_loss
        repeated = self._repeated(skip)
        reward = 0.0
        for frame in range(skip):
            if not repeated[frame]:
                self._held = chosen
            reward += float(ale.act(self._held))
            if ale.game_over(with_truncation=True) or (life and ale.lives() < self._lives):
                self._draw(self._newer)
                if frame == skip - 1 and skip > 1:
                    break
                return reward
            if frame == skip - 2:
                self._draw(self._older)
        else:
            self._draw(self._newer)
        if skip > 1:
            np.maximum(self._older, self._newer, out=self._newer)
        return reward

    def _repeated(self, frames: int) -> list[bool]:
        """For each frame whether the emulator repeats the action of the one before."""
        probability = self._config.repeat_action_probability
        if not probability:
            return [False] * frames
        return cast("list[bool]", (self.np_random.random(frames) < probability).tolist())

    def render(self) -> Any:
        """What the game shows, in colour and full size."""
        return self._game.unwrapped.render()

    def get_keys_to_action(self) -> dict[tuple[str, ...], int]:
        """Which keys mean which action, for people who play."""
        keys: dict[tuple[str, ...], int] = cast("Any", self._game.unwrapped).get_keys_to_action()
        return keys

    def close(self) -> None:
        """Close the game."""
        self._game.close()


def atari_kwargs(spec: EnvSpec, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Arguments of `gymnasium.make` for a game that `AtariGame` takes over.

    Raises:
        ConfigError: ``spec`` is of no ALE game, or ``kwargs`` sets what ``environment.atari`` says.
    """
    if "ale_py" not in str(spec.entry_point):
        raise ConfigError(
            f"environment.atari needs an ALE game; {spec.id!r} is none. Remove environment.atari, "
            "or take an id like 'ALE/Pong-v5'."
        )
    for name, advice in _OWN_KWARGS.items():
        if name in kwargs:
            raise ConfigError(
                f"environment.kwargs.{name} and environment.atari contradict each other; {advice}"
            )
    return kwargs | {"frameskip": 1, "repeat_action_probability": 0.0}


def import_ale() -> None:
    """Register the ALE games with Gymnasium, and keep the emulator's greeting off the screen.

    Raises:
        ConfigError: ale-py is not installed.
    """
    try:
        ale_py = importlib.import_module("ale_py")
    except ImportError as error:
        raise ConfigError(
            "Atari games need ale-py and OpenCV, which can't be imported "
            f"({error}). Run {to_install('atari')}."
        ) from error
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)


def preprocess(game: gymnasium.Env[Any, Any], config: AtariConfig, limit: int | None) -> AtariGame:
    """`AtariGame` over ``game``, made with `atari_kwargs`; ``limit`` is in steps.

    Raises:
        ConfigError: Its actions are not discrete, or OpenCV is not installed.
    """
    if not isinstance(game.action_space, gymnasium.spaces.Discrete):
        raise ConfigError(
            f"environment.atari needs discrete actions; got {game.action_space!r}. Remove "
            "environment.kwargs.continuous."
        )
    return AtariGame(game, config, limit)


def _spec(game: gymnasium.Env[Any, Any], limit: int | None) -> EnvSpec | None:
    spec = copy.deepcopy(game.spec)
    if spec is not None:
        spec.max_episode_steps = limit
    return spec


def _read_start(start: bytes) -> tuple[int, State]:
    """Steps of the game and state of the emulator, from `AtariGame.episode_start`."""
    state = importlib.import_module("ale_py").ALEState(start[_STEPS_BYTES:])
    return int.from_bytes(start[:_STEPS_BYTES], "little"), state


def _fire(game: gymnasium.Env[Any, Any]) -> int | None:
    """The action that fires, where the game has one; many wait for it to begin."""
    meanings: list[str] = cast("Any", game.unwrapped).get_action_meanings()
    return meanings.index("FIRE") if "FIRE" in meanings else None


def _resizer(size: int) -> Callable[[Frame], Frame]:
    """Resize by area, in the calling thread."""
    try:
        cv2 = importlib.import_module("cv2")
    except ImportError as error:
        raise ConfigError(
            f"environment.atari needs OpenCV, which can't be imported ({error}). Run "
            f"{to_install('atari')}."
        ) from error
    cv2.setNumThreads(0)
    cv2.ocl.setUseOpenCL(False)
    resize, area = cv2.resize, cv2.INTER_AREA

    def shrink(frame: Frame) -> Frame:
        small: Frame = resize(frame, (size, size), interpolation=area)
        return small

    return shrink
