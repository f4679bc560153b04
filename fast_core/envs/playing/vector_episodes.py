"""Running exactly so many episodes in environments that a library steps together."""

from __future__ import annotations

import math
from functools import partial
from typing import Unpack

import numpy as np

from fast_core.algorithm import Array
from fast_core.config import EnvironmentConfig
from fast_core.envs.drawing.drawable import Drawable
from fast_core.envs.playing.runner import EpisodeEnd, Playing, Runner
from fast_core.envs.records import leaf_of
from fast_core.envs.stepping.vector_batch import VectorBatch
from fast_core.system.seeding import Role


class VectorEpisodes(Runner):
    """`EpisodeRunner` for environments that there are only in batches.

    Episode ``k`` belongs to environment ``k % envs`` here too, so none is favoured for being
    short. An environment that has played its share is stepped on, and what it does is ignored.

    The environments are made anew for each evaluation, with the same seeds: all evaluations
    begin with the same episodes. A later episode of an environment depends on how much of its
    random stream those before it used.
    """

    def __init__(self, config: EnvironmentConfig, **playing: Unpack[Playing]) -> None:
        """Make the environments."""
        self._envs = envs = playing["envs"]
        self._lanes = min(envs, playing["episodes"])
        self._make = partial(
            VectorBatch,
            config,
            seed=playing["seed"],
            shard=0,
            envs=self._lanes,
            role=playing.get("role", Role.EVALUATION),
            keep_actions=False,
            max_episode_steps=playing.get("max_episode_steps"),
            number=playing.get("number", 0),
            draws=playing.get("draws", ()),
        )
        self._batch = self._make()
        self._fresh = True
        super().__init__(self._batch.spec, playing)
        row = self.spec.row
        self._obs = np.zeros((envs, *row.shape), row.row_dtype)
        if self.spec.action_mask is not None:  # rows without an environment forbid nothing
            leaf_of(self._obs, self.spec.action_mask)[...] = True
        self._final = np.zeros((self._lanes, *row.shape), row.row_dtype)
        self._reward = np.zeros(self._lanes, np.float32)
        self._terminated, self._truncated = np.zeros((2, self._lanes), np.bool_)

    @property
    def _rows(self) -> Array:
        return self._obs

    def _begin_all(self) -> None:
        if not self._fresh:
            self._batch.close()
            self._batch = self._make()
        self._fresh = False
        self._batch.reset(self._obs[: self._lanes])
        self._current = {lane: lane for lane in range(self._lanes)}
        self._first[: self._lanes] = True

    def _step_all(self, actions: Array) -> None:
        self._batch.step(
            actions[: self._lanes],
            next_obs=self._obs[: self._lanes],
            reward=self._reward,
            terminated=self._terminated,
            truncated=self._truncated,
            final_obs=self._final,
        )
        finished = self._batch.take_episodes()
        ended = np.flatnonzero(self._terminated | self._truncated).tolist()
        infos = dict(zip(ended, finished.infos, strict=True))
        self.env_steps += len(self._current)
        for lane, episode in list(self._current.items()):
            self.returns[episode] += float(self._reward[lane])
            self.lengths[episode] += 1
            if lane in self._batch.quarantined:
                self.returns[episode] = math.nan
            if lane in infos:
                self.infos[episode] = infos[lane]
            if self._terminated[lane] or self._truncated[lane]:
                self._end(lane, episode)
        if self._on_step is not None:
            self._on_step()

    def _end(self, lane: int, episode: int) -> None:
        self._first[lane] = True
        goes_on = self._batch.goes_on
        if goes_on is not None and goes_on[lane] and not self._truncated[lane]:
            return
        terminated = bool(self._terminated[lane])
        self.endings[episode] = self._ending(episode, terminated=terminated, cut=self._cut(lane))
        if episode + self._envs < self._episodes:
            self._current[lane] = episode + self._envs
        else:
            del self._current[lane]

    def _cut(self, lane: int) -> EpisodeEnd:
        if self.lengths[self._current[lane]] == self._limit:
            return "cut"
        return "no_reward" if lane in self._batch.unrewarded else "truncated"

    def drawable(self, place: int) -> Drawable:
        """See `Runner.drawable`."""
        return self._batch.drawable(place)

    def close(self) -> None:
        """Close every environment."""
        self._batch.close()
