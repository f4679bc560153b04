"""What runs exactly so many episodes for evaluation, whatever steps the environments."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from typing import Literal, NamedTuple, Required, TypedDict

import numpy as np
from numpy.typing import NDArray

from fast_core.algorithm import Array
from fast_core.algorithm.spec import EnvironmentSpec
from fast_core.config import Values
from fast_core.envs.drawing.drawable import Drawable, Present
from fast_core.envs.frames import FrameStack
from fast_core.system.seeding import Role

Act = Callable[[Array, NDArray[np.bool_]], Array]
Record = Callable[["Step", Array], None]  # is told of every step, and what was observed after it
EpisodeEnd = Literal["terminated", "truncated", "cut", "no_reward", "nonfinite"]


class Step(NamedTuple):
    """What is recorded of a step; the arrays are the recorder's own.

    Attributes:
        episode: Which episode.
        obs: What was observed before it, one frame where they are stacked.
        action: As the environment took it.
        reward: As it gave it.
        terminated: Whether the episode terminated.
        truncated: Whether it was truncated.
        info: Every number of what came with it, by name.
    """

    episode: int
    obs: Array
    action: Array
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, float]


class Playing(TypedDict, total=False):
    """Which episodes are played, whatever plays them.

    Attributes:
        episodes: How many.
        envs: Rows of the policy's batch.
        seed: Seed of the run.
        role: Which stream seeds the episodes; by default that of evaluations.
        max_episode_steps: Where episodes of environments without a time limit of their own are
            cut, since a policy may never reach an end.
        on_step: Called after each step of each environment, or of all where one call steps them.
        number: That of the first environment, see `fast_core.envs.place.Place`.
        draws: Which of the environments are made to draw themselves.
    """

    episodes: Required[int]
    envs: Required[int]
    seed: Required[int]
    role: Role
    max_episode_steps: int | None
    on_step: Callable[[], None] | None
    number: int
    draws: Collection[int]


class Runner(ABC):
    """Runs episodes 0 to ``episodes - 1`` and keeps their results.

    Where training ends an episode at a lost life, an episode is the whole game all the same. After
    a lost life the policy finds what it finds in training: what the reset does, and nothing that it
    remembers.

    Attributes:
        spec: Spaces and time limit of the environments.
        returns: Undiscounted return of each episode so far, in order of episodes; NaN where a
            value was not finite, since what the episode would have come to is not known.
        lengths: Steps of each episode so far.
        infos: Numbers of the info of each one's last step, by name (`EpisodeInfo`).
        endings: How each one ended: ``cut`` at ``max_episode_steps`` alone, ``no_reward`` after
            ``environment.no_reward_timeout_steps`` alone, ``nonfinite`` where its return is not
            known; None while it is open.
        seeds: Seed of the reset that began each one, None where it had none of its own.
        env_steps: Steps of all episodes so far.
    """

    def __init__(self, spec: EnvironmentSpec, playing: Playing) -> None:
        """What is played is ``playing``, in environments like ``spec``."""
        self.spec = spec
        limit = playing.get("max_episode_steps")
        self._limit = limit if spec.max_episode_steps is None else None
        self._episodes, envs = playing["episodes"], playing["envs"]
        self._on_step = playing.get("on_step")
        self._first: NDArray[np.bool_] = np.zeros(envs, np.bool_)
        self._stack = FrameStack(envs, spec.row, spec.frames) if spec.frames > 1 else None
        self.restart()

    def restart(self) -> None:
        """Forget all results; the next `step` begins with episode 0 again."""
        self.returns = [0.0] * self._episodes
        self.lengths = [0] * self._episodes
        self.infos: list[dict[str, float]] = [{} for _ in range(self._episodes)]
        self.endings: list[EpisodeEnd | None] = [None] * self._episodes
        self.seeds: list[int | None] = [None] * self._episodes
        self.env_steps = 0
        self._current: dict[int, int] = {}  # the open episode of each place that has one
        self._begun = False

    def step(self, act: Act) -> bool:
        """Step every open episode once; returns whether any is open still.

        Args:
            act: Called once with observations ``[envs, ...]``, frames stacked, and ``[envs]``
                marks of the first ones of episodes, which it must not keep; returns actions
                ``[envs, ...]`` as the environments take them.

        Raises:
            EnvironmentFailed: An environment raised or gave what its spaces do not declare.
        """
        if not self._begun:
            self._begun = True
            self._begin_all()
        if not self._current:
            return False
        self._step_all(self._ask(act, self._rows))
        return bool(self._current)

    @property
    @abstractmethod
    def _rows(self) -> Array:
        """The newest observations ``[envs, ...]``."""

    @abstractmethod
    def _begin_all(self) -> None:
        """Begin the first episodes."""

    @abstractmethod
    def _step_all(self, actions: Array) -> None:
        """Step every open episode with its row of ``actions``."""

    def _ending(self, episode: int, *, terminated: bool, cut: EpisodeEnd) -> EpisodeEnd:
        """How an episode has ended, ``cut`` if its environment did not terminate it."""
        if math.isnan(self.returns[episode]):
            return "nonfinite"
        return "terminated" if terminated else cut

    def change(self, attributes: Values) -> None:
        """Begin episodes with these ``environment.attributes`` from the next `restart` on."""
        assert not attributes, "the configuration's rules refuse them"

    @abstractmethod
    def drawable(self, place: int) -> Drawable:
        """What draws the environment at ``place``, if it is one of those made to draw."""

    def present(self, place: int) -> Present | None:
        """Where the environment at ``place`` is, between two steps; None without an episode."""
        episode = self._current.get(place)
        if episode is None:
            return None
        seed, total = self.seeds[episode] or 0, float(self.returns[episode])
        return Present(episode, seed, self.lengths[episode], total)

    @abstractmethod
    def close(self) -> None:
        """Close every environment once."""

    @property
    def quarantined(self) -> int:
        """Episodes whose return is not known."""
        return self.endings.count("nonfinite")

    @property
    def cut(self) -> int:
        """Episodes that ended at ``max_episode_steps`` alone."""
        return self.endings.count("cut")

    def info_means(self) -> dict[str, float]:
        """Mean of each number over the episodes that gave it."""
        names = dict.fromkeys(name for info in self.infos for name in info)
        return {
            name: float(np.mean([info[name] for info in self.infos if name in info]))
            for name in names
        }

    def _ask(self, act: Act, obs: Array) -> Array:
        """What ``act`` says to the newest rows ``[envs, ...]``."""
        if self._stack is not None:
            self._stack.push(obs, self._first)
            obs = self._stack.array
        actions = act(obs, self._first)
        self._first[:] = False
        return actions
