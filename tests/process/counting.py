"""A policy that counts the steps of each episode, and an environment that knows the answer.

Importing this module registers `fastloop/Counting-v0`; `CountingConfig` is the algorithm's
import path. Every fault in keeping, storing or forgetting a policy's state costs a reward.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

from fast_core.algorithm import ActionOutput, Array, RolloutBatch, UpdateReport
from fast_core.algorithm.spec import EnvironmentSpec
from tests.process.tiny import TinyConfig, TinyLearner, TinyPolicy

LENGTHS = (3, 5, 7)


class Counting(gymnasium.Env[np.ndarray, np.int64]):
    """Observes the step of the episode; rewards the action that names it. Episodes of 3, 5, 7."""

    observation_space = Box(0, max(LENGTHS), (1,), np.float32)
    action_space = Discrete(max(LENGTHS))

    def __init__(self) -> None:
        self._step = 0
        self._length = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self._length, self._step = int(self.np_random.choice(LENGTHS)), 0
        return np.zeros(1, np.float32), {}

    def step(self, action: np.int64) -> Any:
        reward = float(action == self._step)
        self._step += 1
        ends = self._step == self._length
        cut = self._length == LENGTHS[1]  # some episodes are cut off, the others have an end
        return np.full(1, self._step, np.float32), reward, ends and not cut, ends and cut, {}


class CountingPolicy(TinyPolicy):
    """Does not look at the observation."""

    def act(
        self, obs: Array, *, noise: Array, explore: bool, state: Array | None = None
    ) -> ActionOutput:
        assert state is not None and state.shape == (len(obs), 2) and state.dtype == np.float32
        after = state + np.float32([1, 2])
        action = state[:, 0].astype(np.int64) % max(LENGTHS)
        return ActionOutput(action, np.zeros(len(obs), np.float32), after)


class CountingLearner(TinyLearner):
    """Checks every row."""

    def update(self, batch: RolloutBatch) -> UpdateReport:
        for rollout in batch.rollouts:
            assert rollout.state is not None
            wrong = np.argwhere(rollout.reward != 1)
            assert not len(wrong), f"wrong counts of shard {rollout.shard} at {wrong.tolist()}"
            np.testing.assert_array_equal(rollout.state[:, 0], rollout.obs[0, :, 0])
            np.testing.assert_array_equal(rollout.state[:, 1], 2 * rollout.obs[0, :, 0])
            np.testing.assert_array_equal(rollout.action, rollout.obs[:-1, :, 0])
        return UpdateReport(updates=1, skipped=0)


class CountingConfig(TinyConfig, frozen=True, kw_only=True):
    """Acts by what it remembers alone: ``h <- h + 1``, and for a check ``2 h``."""

    policy, learner = CountingPolicy, CountingLearner

    def state_size(self, environment: EnvironmentSpec) -> int:
        return 2


gymnasium.register("fastloop/Counting-v0", Counting)
