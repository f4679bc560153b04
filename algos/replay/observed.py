"""Running statistics of the observations that a replay learner sees.

They are of all rows that were drawn, each as often as it was: of what the networks learn from. A
batch is normalised by what the batches before it said, and so is what policies act on: mean and
inverse deviation lie among the parameters, are published with them, and change with a step alone.

Several optimizers differentiate batches of their own. What a batch says is a mean over its rows,
so it travels with the gradient and is averaged with it: all merge the same. How far the means of
their first batches are apart is not in it: once, as much of the variance as one row is of a batch.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fast_core.algorithm import Array
from fast_core.algos.nets.networks import F32
from fast_core.algos.nets.normalizer import RunningMoments
from fast_core.algos.nets.observations import ObservationEncoder
from fast_core.algos.replay.vectors import OBSERVATIONS, Vectors


class ObservedRows:
    """Keeps the group ``observations`` of a learner's vectors.

    Its numbers are mean and inverse deviation, ``[2, in]``, and a row without meaning; if they are
    ``centred`` two rows in its place, whose sum everything is counted from. Its gradient
    is what a batch says, ``[3, in]``: the mean that was known when it was said, the mean of the
    distances from there, and the mean of their squares. Squares of the numbers themselves would
    lose the variance in float32 where it is small beside the mean, so the first batch has its own
    mean in place of a known one. Where they are centred it says that itself, by ones in a fourth
    row, and its variance in place of the squares: the origin follows from both.

    Args:
        vectors: The learner's.
        encoder: Takes observations apart.
        batch_size: Rows of a step.
        centred: Whether numbers may be counted from an origin.
    """

    def __init__(
        self, vectors: Vectors, encoder: ObservationEncoder, batch_size: int, *, centred: bool
    ) -> None:
        self._vectors, self._encoder, self._rows = vectors, encoder, batch_size
        self._centred = centred
        self._moments = RunningMoments(encoder.size)
        self._known: F32 = np.empty(0, np.float32)  # the mean, where no device is asked for it
        self._origin: F32 = np.zeros((2, encoder.size), np.float32)
        self._publish()

    def say(self, obs: Array, *, first: bool) -> None:
        """Write what observations of a batch say; ``first``: nothing was merged before them."""
        alone = first and self._centred
        if alone:
            exact, square = self._encoder.spread(obs)
            known = exact.astype(np.float32)
            mean = exact - known
        else:
            rows = self._encoder.vector(obs)
            known = rows.mean(axis=0, dtype=np.float64).astype(np.float32) if first else self._known
            distance = rows - known
            mean = distance.mean(axis=0, dtype=np.float64)
            square = np.square(distance, dtype=np.float64).mean(axis=0)
        said: F32 = np.zeros((3 + self._centred, len(known)), np.float32)
        said[:3] = known, mean, square
        if alone:
            said[3] = 1
        self._vectors.put_gradient(OBSERVATIONS, said.ravel())

    def merge(self) -> None:
        """Merge what the batches of a step said, which is in the gradient."""
        gradient = self._vectors.gradient(OBSERVATIONS).reshape(-1, self._encoder.size)
        known, mean, square, *alone = gradient.astype(np.float64)
        variance, middle = np.maximum(square - np.square(mean), 0.0), known + mean
        if alone and alone[0].any():
            if self._moments.count:
                return  # said by another optimizer, before it knew what is counted from by now
            variance, self._origin = square, self._encoder.find_origin(middle, square)
            middle -= self._origin.sum(axis=0, dtype=np.float64)
        self._moments.merge(self._rows, middle, variance * self._rows)
        self._publish()

    def published(self) -> list[F32]:
        """Mean and inverse deviation as networks use them, and the origin if they are centred."""
        mean, inverse_std, *origin = self._numbers()
        return [mean, inverse_std, *([np.stack(origin)] if self._centred else [])]

    def state_dict(self) -> dict[str, object]:
        """What the published numbers are made of."""
        return self._moments.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from `state_dict`; the published numbers are among the parameters."""
        self._moments.load_state_dict(state)
        self.look()

    def look(self) -> None:
        """See what is published, after it came from elsewhere."""
        self._keep(self._numbers().copy())

    def _publish(self) -> None:
        numbers: F32 = np.zeros((3 + self._centred, self._encoder.size), np.float32)
        numbers[0] = self._moments.mean
        numbers[1] = self._moments.inverse_std()
        if self._centred:
            numbers[2:] = self._origin
        self._vectors.put_numbers(OBSERVATIONS, numbers.ravel())
        self._keep(numbers)

    def _keep(self, numbers: F32) -> None:
        """Know without asking a device what is published."""
        self._known = numbers[0]
        if self._centred:
            self._origin = numbers[2:]
            self._encoder.centre(self._origin)

    def _numbers(self) -> F32:
        return self._vectors.numbers(OBSERVATIONS).reshape(-1, self._encoder.size)
