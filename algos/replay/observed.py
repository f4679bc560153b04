"""Running statistics of the observations that a replay learner sees.

They are of all rows that were drawn, each as often as it was: of what the networks learn from. A
batch is normalised by what the batches before it said, and so is what policies act on: mean and
inverse deviation lie among the parameters, are published with them, and change with a step alone.

Several optimizers differentiate batches of their own. What a batch says is a mean over its rows,
so it travels with the gradient and is averaged with it: all merge the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fast_core.algorithm import ReplayBatch
from fast_core.algos.nets.networks import F32
from fast_core.algos.nets.normalizer import RunningMoments
from fast_core.algos.nets.observations import ObservationEncoder
from fast_core.algos.replay.vectors import OBSERVATIONS, Vectors


class ObservedRows:
    """Keeps the group ``observations`` of a learner's vectors.

    Its numbers are mean and inverse deviation, ``[2, in]``, and a row without meaning. Its
    gradient is what a batch says, ``[3, in]``: the mean that was known when it was said, the mean
    of the distances from there, and the mean of their squares. Squares of the numbers themselves
    would lose the variance in float32 where it is small beside the mean.

    Args:
        vectors: The learner's.
        encoder: Takes observations apart.
        batch_size: Rows of a step.
    """

    def __init__(self, vectors: Vectors, encoder: ObservationEncoder, batch_size: int) -> None:
        self._vectors, self._encoder, self._rows = vectors, encoder, batch_size
        self._moments = RunningMoments(encoder.size)
        self._known: F32 = np.empty(0, np.float32)  # the mean, where no device is asked for it
        self._publish()

    def say(self, batch: ReplayBatch) -> None:
        """Write what a batch says of its observations."""
        known = self._known
        distance = self._encoder.vector(batch.obs) - known
        mean = distance.mean(axis=0, dtype=np.float64)
        square = np.square(distance, dtype=np.float64).mean(axis=0)
        said = np.stack([known, mean, square]).astype(np.float32)
        self._vectors.put_gradient(OBSERVATIONS, said.ravel())

    def merge(self) -> None:
        """Merge what the batches of a step said, which is in the gradient."""
        gradient = self._vectors.gradient(OBSERVATIONS).reshape(3, -1)
        known, mean, square = gradient.astype(np.float64)
        variance = np.maximum(square - np.square(mean), 0.0)
        self._moments.merge(self._rows, known + mean, variance * self._rows)
        self._publish()

    def published(self) -> list[F32]:
        """Mean and inverse deviation as networks use them."""
        return list(self._vectors.numbers(OBSERVATIONS).reshape(3, -1)[:2])

    def state_dict(self) -> dict[str, object]:
        """What the published numbers are made of."""
        return self._moments.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from `state_dict`; the published numbers are among the parameters."""
        self._moments.load_state_dict(state)
        self.look()

    def look(self) -> None:
        """See what is published, after it came from elsewhere."""
        self._known = self.published()[0].copy()

    def _publish(self) -> None:
        numbers: F32 = np.zeros((3, self._encoder.size), np.float32)
        numbers[0] = self._moments.mean
        numbers[1] = self._moments.inverse_std()
        self._vectors.put_numbers(OBSERVATIONS, numbers.ravel())
        self._known = numbers[0]
