"""Columns of a replay batch as critics take them: feature-first, side by side."""

from __future__ import annotations

import numpy as np

from algos.networks import F32
from algos.observations import ObservationEncoder
from algos.replay_learner import numbers
from fast_core.algorithm import ReplayBatch


class CriticInputs:
    """Buffers for observations with actions below them; reused by every update.

    Args:
        encoder: Of the observations.
        actions: Numbers of an action.
    """

    def __init__(self, encoder: ObservationEncoder, actions: int) -> None:
        self._encoder = encoder
        self.observed = encoder.size
        self._actions = actions
        self._rows = -1
        self._now: F32 = np.empty((0, 0), np.float32)
        self._then = self._now

    @property
    def action_rows(self) -> slice:
        """Where actions are among a critic's inputs."""
        return slice(self.observed, None)

    def fill(self, batch: ReplayBatch) -> None:
        """Take a batch of ``N`` rows; actions still to be chosen are left open."""
        rows, size = len(batch.reward), self.observed
        if rows != self._rows:
            self._rows = rows
            self._now = np.empty((size + self._actions, 2 * rows), np.float32)
            self._then = np.empty((size + self._actions, rows), np.float32)
        obs = self._encoder.vector(batch.obs).T
        self._now[:size, :rows] = obs
        self._now[:size, rows:] = obs
        self._now[size:, :rows] = numbers(batch.action).reshape(rows, -1).T
        self._then[:size] = self._encoder.vector(batch.next_obs).T

    @property
    def obs(self) -> F32:
        """Observations ``[in, N]``."""
        return self._now[: self.observed, : self._rows]

    @property
    def next_obs(self) -> F32:
        """Observations after the window ``[in, N]``."""
        return self._then[: self.observed]

    @property
    def stored(self) -> F32:
        """Observations with the stored actions ``[in + A, N]``."""
        return self._now[:, : self._rows]

    def with_action(self, action: F32) -> F32:
        """``[in + A, 2 N]``: the stored actions, then those of the policy, ``[A, N]``."""
        self._now[self.observed :, self._rows :] = action
        return self._now

    def with_next_action(self, action: F32) -> F32:
        """The next observations with these actions, ``[in + A, N]``."""
        self._then[self.observed :] = action
        return self._then
