"""A policy that says which observation it saw and which weights it had, and a learner that checks.

Importing this module registers `fastloop/Ticket-v0`, whose observations are all different.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

from fast_core.algorithm import ActionOutput, Array, RolloutBatch, UpdateReport
from tests.process.tiny import TinyConfig, TinyLearner, TinyPolicy

VERSIONS = 1 << 20


class Ticket(gymnasium.Env[np.ndarray, np.int64]):
    """Observes (step of the episode, what reset drew)."""

    observation_space = Box(0, np.inf, (3,), np.float32)
    action_space = Discrete(VERSIONS)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self._obs = np.array([0, *self.np_random.random(2)], np.float32)
        return self._obs.copy(), {}

    def step(self, action: np.int64) -> Any:
        self._obs[0] += 1
        return self._obs.copy(), 0.0, bool(self._obs[0] == 11), False, {}


class EchoPolicy(TinyPolicy):
    """Nothing in it is learned."""

    def load(self, parameters: Sequence[Array]) -> None:
        self._version = int(parameters[0][0])

    def act(
        self, obs: Array, *, noise: Array, explore: bool, state: Array | None = None
    ) -> ActionOutput:
        return ActionOutput(np.full(len(obs), self._version, np.int64), obs.sum(axis=1))


class EchoLearner(TinyLearner):
    """Its weight is its version; any row that is not what its policy answered ends the run.

    So does one that is trained on twice, and a rollout that is not one piece.
    """

    def __init__(self) -> None:
        super().__init__()
        self._seen: set[tuple[object, ...]] = set()

    def update(self, batch: RolloutBatch) -> UpdateReport:
        several = False
        for rollout in batch.rollouts:
            np.testing.assert_array_equal(rollout.action, rollout.policy_version)
            np.testing.assert_array_equal(rollout.behaviour_log_prob, rollout.obs[:-1].sum(axis=2))
            self._check_rows(rollout.shard, rollout.obs)
            several |= len(np.unique(rollout.policy_version)) > 1
        self.number += 1
        return UpdateReport(1, 0, {"versions_differ": float(several)})

    def _check_rows(self, shard: int, obs: Array) -> None:
        before, after = obs[:-1], obs[1:]
        goes_on = (after[..., 0] == before[..., 0] + 1) & (after == before)[..., 1:].all(axis=-1)
        assert (goes_on | (after[..., 0] == 0)).all(), f"a torn rollout of shard {shard}"
        rows = {
            (shard, env, *row) for env in range(obs.shape[1]) for row in before[:, env].tolist()
        }
        assert len(rows) == before[..., 0].size and not rows & self._seen, "trained on twice"
        self._seen |= rows


class EchoConfig(TinyConfig, frozen=True, kw_only=True):
    """The action is the version of the weights, the log-probability the sum of what was seen."""

    policy, learner = EchoPolicy, EchoLearner


gymnasium.register("fastloop/Ticket-v0", entry_point=Ticket)
