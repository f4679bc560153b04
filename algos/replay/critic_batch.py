"""What networks take of a replay batch: observations, with actions below them for critics."""

from __future__ import annotations

import numpy as np

from fast_core.algorithm import Array, ReplayBatch
from fast_core.algos.nets.networks import F32
from fast_core.algos.nets.normalizer import Scaling
from fast_core.algos.nets.observations import ObservationEncoder


class CriticInputs:
    """A batch of ``N`` rows, feature-first ``[in, N]``; reused by every update.

    Each of its columns is valid until the next call that fills them.

    Args:
        encoder: Of the observations.
        actions: Numbers of an action.
        scaling: Normalises them; None: raw.
    """

    def __init__(
        self, encoder: ObservationEncoder, actions: int, scaling: Scaling | None = None
    ) -> None:
        self._encoder, self._scaling = encoder, scaling
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
        obs = self._seen(batch.obs).T
        self._now[:size, :rows] = obs
        if self._actions:
            self._now[:size, rows:] = obs
            self._now[size:, :rows] = numbers(batch.action).reshape(rows, -1).T
        self._then[:size] = self._seen(batch.next_obs).T

    def _seen(self, obs: Array) -> F32:
        rows = self._encoder.vector(obs)
        return rows if self._scaling is None else self._scaling(rows)

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

    def with_next(self) -> F32:
        """``[in, 2 N]``: observations, then the next ones; for networks without actions."""
        self._now[:, self._rows :] = self._then
        return self._now

    def with_next_action(self, action: F32) -> F32:
        """The next observations with these actions, ``[in + A, N]``."""
        self._then[self.observed :] = action
        return self._then


def numbers(column: Array) -> F32:
    """A batch's column of numbers, which are float32 already."""
    return column.astype(np.float32, copy=False)
