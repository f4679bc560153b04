"""Acting at random, and learning nothing from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray

from fast_core.algorithm import ActionOutput, Array, RolloutBatch, UpdateReport
from fast_core.algorithm.spec import EnvironmentSpec
from fast_core.algos.nets.action_map import ActionMap
from fast_core.algos.nets.networks import F32
from fast_core.algos.replay.box_actions import BoxActions


class RandomPolicy:
    """Takes every allowed action with the same probability, whether it explores or not.

    Who does not explore gives no noise, evaluations mostly: then it draws its own, the same in each
    process that evaluates.
    """

    def __init__(self, environment: EnvironmentSpec) -> None:
        action = environment.action
        self._mask, self._shape = environment.action_mask, action.shape
        self._box = BoxActions(environment) if action.kind == "box" else None
        self._map = ActionMap(action, stretch=True)
        self._counts = (action.n,) if action.kind == "discrete" else action.counts
        generator = np.random.default_rng(0)
        self._draw = generator.random if self._box is None else generator.standard_normal

    def load(self, parameters: Sequence[Array]) -> None:
        """Nothing is used."""

    def act(
        self, obs: Array, *, noise: Array, explore: bool, state: Array | None = None
    ) -> ActionOutput:
        """Choose actions for ``obs [B, ...]`` by ``noise``, or without exploring by its own."""
        rows = len(obs)
        given: Array = noise if explore else self._draw(noise.shape, np.float32)
        drawn = np.asarray(given, np.float32).reshape(rows, -1)
        if self._box is not None:
            action: Array = self._box.uniform(drawn)
            log_prob = np.full(rows, self._box.uniform_log_prob, np.float32)
        else:
            action, log_prob = self._choose(drawn, obs)
        return ActionOutput(action.reshape(rows, *self._shape), log_prob)

    def _choose(self, drawn: F32, obs: Array) -> tuple[Array, F32]:
        """Choices ``[B, D]`` and their log-probabilities, by uniform numbers ``[B, D]``."""
        rows, begin = len(drawn), 0
        action = np.zeros((rows, len(self._counts)), np.int64)
        log_prob = np.zeros(rows, np.float32)
        mask = None if self._mask is None else cast("NDArray[np.void]", obs)[self._mask]
        for dimension, count in enumerate(self._counts):
            allowed = np.ones((rows, count), np.bool_)
            if mask is not None:
                allowed = mask[:, begin : begin + count] != 0
            number = np.maximum(allowed.sum(1), 1)
            k = np.minimum((drawn[:, dimension] * number).astype(np.int64), number - 1)
            # the k-th allowed choice is the first with more than k allowed ones up to it
            action[:, dimension] = (np.cumsum(allowed, 1) > k[:, None]).argmax(1)
            log_prob -= np.log(number).astype(np.float32)
            begin += count
        return action, log_prob

    def environment_action(self, action: Array) -> Array:
        """Stretch boxes, and count choices from the space's first ones."""
        return self._map(action)


class Nothing:
    """Takes rollouts and stays as it is."""

    def update(self, batch: RolloutBatch) -> UpdateReport:
        """Learn nothing."""
        return UpdateReport(updates=0, skipped=0)

    def policy_parameters(self) -> Sequence[Array]:
        """The number that nobody uses."""
        return [np.zeros(1, np.float32)]

    def state_dict(self) -> dict[str, object]:
        """Nothing changes."""
        return {}

    def load_state_dict(self, state: dict[str, object]) -> None:
        """Nothing changes."""
