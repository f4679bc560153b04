"""A policy that leaves a mark of what it saw, and a learner that looks whether it sees the same.

Importing this module registers `fastloop/Numbered-v0`; `SeeingConfig` is the algorithm's import
path. Every frame says its episode and its step, so a stack that is wrong in any place is found.
"""

from __future__ import annotations

import zlib
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

from fast_core.algorithm import ActionOutput, Array, RolloutBatch, ShardRollout, UpdateReport
from tests.process.tiny import TinyConfig, TinyLearner, TinyPolicy

LENGTHS = (1, 3, 5, 9)
CUT = (3, 9)  # episodes of these lengths are truncated, the others have an end


class Numbered(gymnasium.Env[np.ndarray, np.int64]):
    """Observes the number of the episode and the step in it."""

    observation_space = Box(0, np.inf, (2,), np.float32)
    action_space = Discrete(2)

    def __init__(self) -> None:
        self._number = self._step = self._length = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self._number = int(self.np_random.integers(1 << 20))
        self._length, self._step = int(self.np_random.choice(LENGTHS)), 0
        return self._observe(), {}

    def step(self, action: np.int64) -> Any:
        self._step += 1
        ends, cut = self._step == self._length, self._length in CUT
        return self._observe(), 0.0, ends and not cut, ends and cut, {}

    def _observe(self) -> np.ndarray:
        return np.array([self._number, self._step], np.float32)


def marks(seen: Array) -> np.ndarray:
    """A number for each row that another row is most unlikely to have, exact in float32."""
    return np.array([zlib.crc32(row.tobytes()) & 0xFFFFFF for row in seen], np.float32)


class SeeingPolicy(TinyPolicy):
    """Where a log-probability belongs it stores the mark of what it sees."""

    def act(
        self, obs: Array, *, noise: Array, explore: bool, state: Array | None = None
    ) -> ActionOutput:
        return ActionOutput(np.zeros(len(obs), np.int64), marks(obs))


class SeeingLearner(TinyLearner):
    """Checks every row; counts them, so that a resumed run has something to go on from."""

    def update(self, batch: RolloutBatch) -> UpdateReport:
        for rollout in batch.rollouts:
            _check_rows(rollout)
            _check_ends(rollout)
            self.number += rollout.reward.size
        return UpdateReport(updates=1, skipped=0, metrics={"rows": float(self.number)})


class SeeingConfig(TinyConfig, frozen=True, kw_only=True):
    """Nothing to set."""

    policy, learner = SeeingPolicy, SeeingLearner


def _check_rows(rollout: ShardRollout) -> None:
    steps, envs = rollout.reward.shape
    step, env = np.indices((steps + 1, envs)).reshape(2, -1)
    seen = rollout.take_obs(step, env)
    assert rollout.frames is not None and seen.shape[1] == rollout.stack > 1
    acted = step < steps
    stored = rollout.behaviour_log_prob[step[acted], env[acted]]
    np.testing.assert_array_equal(marks(seen[acted]), stored)
    _check_stacks(seen)


def _check_ends(rollout: ShardRollout) -> None:
    ended = np.asarray(rollout.terminated | rollout.truncated)
    step, env = np.nonzero(ended)
    final = rollout.take_final_obs(step, env)
    _check_stacks(final)
    before = rollout.obs[step, env]
    np.testing.assert_array_equal(final[:, -1], before + np.float32([0, 1]))
    np.testing.assert_array_equal(rollout.obs[step + 1, env][:, 1], 0)


def _check_stacks(seen: Array) -> None:
    """One episode in each stack, step after step, the first one as often as it takes."""
    newest = seen[:, -1]
    back = np.arange(seen.shape[1] - 1, -1, -1)
    np.testing.assert_array_equal(seen[:, :, 0], np.repeat(newest[:, :1], len(back), 1))
    np.testing.assert_array_equal(seen[:, :, 1], np.maximum(newest[:, 1:] - back, 0))


gymnasium.register("fastloop/Numbered-v0", Numbered)
