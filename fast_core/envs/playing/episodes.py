"""Running exactly so many episodes, for evaluation."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Unpack

import numpy as np

from fast_core.algorithm import Array
from fast_core.config import EnvironmentConfig, Values
from fast_core.envs.drawing.drawable import Drawable
from fast_core.envs.episode_info import EpisodeInfo, numbers_of
from fast_core.envs.instance import Instance, close_all, make_instances
from fast_core.envs.making import Maker, make_env
from fast_core.envs.playing.runner import EpisodeEnd, Playing, Record, Runner, Step
from fast_core.envs.rows import fits_float32
from fast_core.envs.stepping.no_reward import no_reward
from fast_core.errors import EnvironmentFailed
from fast_core.system.seeding import EpisodeSeeds, Role


class EpisodeRunner(Runner):
    """Runs episodes 0 to ``episodes - 1`` in ``envs`` environments stepped together.

    Episode ``k`` belongs to environment ``k % envs`` and its seed to (run, ``role``, ``k``).
    So every evaluation sees the same episodes, none is run beyond the number asked, and all
    that were begun count: taking those that end first would favour short ones.

    The policy always sees ``envs`` rows, because its results may depend on the batch size. A
    row whose environment has no episode left keeps its last observation, and what the policy
    says about it is ignored.
    """

    def __init__(
        self,
        config: EnvironmentConfig,
        *,
        watch: Callable[[Instance], None] | None = None,
        record: Record | None = None,
        every_info: bool = False,
        maker: Maker = make_env,
        **playing: Unpack[Playing],
    ) -> None:
        """Make the environments.

        With ``watch``, one environment plays all the episodes, one after the other, each in the
        row of the policy's batch that it has without, so its result is the same; ``watch`` is
        called with it after each reset and step. ``record`` is told of every step. With
        ``every_info``, every number of the info counts where the configuration names none.
        ``maker`` makes the environments.

        Raises:
            ConfigError: As `make_batch`.
            EnvironmentFailed: A constructor raised.
        """
        seed, role = playing["seed"], playing.get("role", Role.EVALUATION)
        envs = playing["envs"]
        self._instances = make_instances(
            config,
            seed=seed,
            role=role,
            shard=0,
            indices=range(min(envs, playing["episodes"]) if watch is None else 1),
            incarnation=1,
            number=playing.get("number", 0),
            maker=maker,
            draws=playing.get("draws", ()),
        )
        super().__init__(self._instances[0].spec, playing)
        self._watch = watch
        self._record = record
        self._fail_nonfinite = config.nonfinite == "fail"
        self._seeds = EpisodeSeeds(seed, role, 0, 0)
        every = every_info and not config.info
        self._read_info = numbers_of if every else EpisodeInfo(config.info).read
        self._obs = self._instances[0].observations(envs)
        self._no_reward = no_reward(config, envs)

    @property
    def _rows(self) -> Array:
        return self._obs.array

    def _begin_all(self) -> None:
        for place in range(len(self._instances)):
            self._begin(place, place)

    def _step_all(self, actions: Array) -> None:
        rows = list(actions.copy())
        for place in list(self._current):
            self._step_one(place, rows[place])

    def change(self, attributes: Values) -> None:
        """See `Runner.change`."""
        for instance in self._instances:
            instance.attributes = attributes

    def _begin(self, place: int, episode: int) -> None:
        if episode >= self._episodes:
            self._current.pop(place, None)
            return
        self._current[place] = episode
        self._first[place] = True
        seed = self.seeds[episode] = self._seeds[episode]
        self._instance(place).reset(self._obs.rows[place], episode=episode, seed=seed, start=b"")
        self._check_first(place)

    def _check_first(self, place: int) -> None:
        if self._no_reward is not None:
            self._no_reward.steps[place] = 0
        if not self._obs.finite_row(place):
            raise self._failure(place, "the first observation is NaN or infinite", None)
        self._check_mask(place, None)
        self._show(place)

    def _next(self, place: int, episode: int) -> None:
        """Go on after ``episode``: with the next of this environment, or the next of all."""
        if self._obs.masks is not None:  # that of an end may allow nothing, and the row may stay
            self._obs.masks.allow_all(place)
        if self._watch is None:
            self._begin(place, episode + len(self._obs.rows))
        else:
            del self._current[place]
            self._begin((episode + 1) % len(self._obs.rows), episode + 1)

    def _instance(self, place: int) -> Instance:
        return self._instances[place if self._watch is None else 0]

    def _show(self, place: int) -> None:
        if self._watch is not None:
            self._watch(self._instance(place))

    def _step_one(self, place: int, action: object) -> None:
        episode = self._current[place]
        before = self._obs.array[place].copy()
        taken = None if self._record is None else copy.copy(action)  # a step may change it
        self.lengths[episode] += 1
        self.env_steps += 1
        reward, terminated, truncated = self._instance(place).checked_step(
            self._obs.rows[place],
            action,
            number=self.lengths[episode],
            episode=episode,
            seed=self._seeds[episode],
        )
        if self._on_step is not None:
            self._on_step()
        self._show(place)
        known = fits_float32(reward) and self._obs.finite_row(place)
        if known:
            self.returns[episode] += reward
        else:
            self._refuse_nonfinite(place, action)
            self._obs.array[place] = before
            self.returns[episode] = math.nan
            truncated = True
        cut: EpisodeEnd | None = None
        if not (terminated or truncated):
            cut = self._cut(place, episode, reward)
        truncated = truncated or cut is not None
        info = self._instance(place).info
        if self._record is not None:
            ends = terminated, truncated
            step = Step(episode, before, np.array(taken), reward, *ends, numbers_of(info))
            self._record(step, self._obs.array[place].copy())
        if (terminated or truncated) and known:
            self.infos[episode] = self._read_info(info)
        if not (terminated or truncated):
            self._check_mask(place, action)
        elif truncated or not self._goes_on(place, episode):
            how = cut or "truncated"
            self.endings[episode] = self._ending(episode, terminated=terminated, cut=how)
            self._next(place, episode)

    def _cut(self, place: int, episode: int, reward: float) -> EpisodeEnd | None:
        """How the episode is cut in this step, which did not end it, if it is."""
        unrewarded = self._no_reward is not None and self._no_reward.due_at(place, reward)
        if self.lengths[episode] == self._limit:
            return "cut"
        return "no_reward" if unrewarded else None

    def _goes_on(self, place: int, episode: int) -> bool:
        """Begin the next life, if the game goes on after what ends an episode of training."""
        if not self._instance(place).go_on(self._obs.rows[place], episode=episode):
            return False
        self._first[place] = True
        self._check_first(place)
        return True

    def _check_mask(self, place: int, action: object) -> None:
        masks = self._obs.masks
        if masks is not None and not masks.open(place):
            raise self._failure(place, masks.cause(place), action)

    def _refuse_nonfinite(self, place: int, action: object) -> None:
        if self._fail_nonfinite:
            raise self._failure(place, "an observation or reward is NaN or infinite", action)

    def _failure(self, place: int, cause: str, action: object) -> EnvironmentFailed:
        episode = self._current[place]
        when = 0 if action is None else self.lengths[episode]
        return self._instance(place).failure(when, cause, episode, self._seeds[episode], action)

    def drawable(self, place: int) -> Drawable:
        """See `Runner.drawable`."""
        return self._instance(place).drawable

    def close(self) -> None:
        """Close every environment once."""
        close_all(self._instances)
