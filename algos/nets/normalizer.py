"""Running statistics of observations and rewards.

They change in the learner only, from raw rollouts in merge order, and are float64 until they
are used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from fast_core.algorithm import ORIGIN, Array
from fast_core.algorithm.spec import FieldSpec
from fast_core.algos.nets.networks import F32

F64 = NDArray[np.float64]
VARIANCE_FLOOR = 1e-8
Centering = Annotated[
    bool,
    Meta(
        description="Count numbers with more digits than float32 (float64, integers of 32 and 64 "
        "bits) from an origin where float32 could not tell them apart, as positions of 5,400,000 m "
        "that differ by decimetres, before they are normalised; false rounds them at once. Only "
        "with normalize_observations."
    ),
]


class RunningMoments:
    """Count, mean and variance of all rows seen, merged batch by batch.

    Source: Chan, Golub, LeVeque 1979, updating formulae for sample variances.
    """

    def __init__(self, size: int) -> None:
        self.count = 0
        self.mean: F64 = np.zeros(size)
        self.square_sum: F64 = np.zeros(size)

    def update(self, rows: NDArray[np.floating[Any]]) -> bool:
        """Merge ``rows [N, size]``, if any; rows that are not finite are refused as a whole.

        Returns:
            Whether the rows were merged: one NaN would stay in the statistics for ever.
        """
        if not len(rows):
            return False
        mean = rows.mean(axis=0, dtype=np.float64)
        square_sum = np.square(rows - mean).sum(axis=0)
        return self.merge(len(rows), mean, square_sum)

    def merge(self, count: int, mean: F64, square_sum: F64) -> bool:
        """Merge ``count`` rows of which only mean and sum of squares about it are known."""
        if not (np.isfinite(mean).all() and np.isfinite(square_sum).all()):
            return False
        total = self.count + count
        shift = mean - self.mean
        self.square_sum += square_sum + np.square(shift) * (self.count * count / total)
        self.mean += shift * (count / total)
        self.count = total
        return True

    @property
    def variance(self) -> F64:
        """Population variance; 1 before anything was seen."""
        return self.square_sum / self.count if self.count else np.ones_like(self.mean)

    def inverse_std(self) -> F64:
        """Return the factor that scales to unit variance."""
        inverse: F64 = 1.0 / np.sqrt(self.variance + VARIANCE_FLOOR)
        return inverse

    def state_dict(self) -> dict[str, object]:
        """Everything that changes."""
        return {
            "count": self.count,
            "mean": self.mean.copy(),
            "square_sum": self.square_sum.copy(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from `state_dict`."""
        self.count = int(state["count"])
        self.mean[:] = np.asarray(state["mean"])
        self.square_sum[:] = np.asarray(state["square_sum"])


def moments_state(mean: Array, inverse_std: Array, count: int) -> dict[str, object]:
    """A state of `RunningMoments` in which ``count`` rows had this mean and deviation."""
    variance = np.square(1.0 / inverse_std.astype(np.float64)) - VARIANCE_FLOOR
    count = max(1, count)
    square_sum = np.maximum(variance, 0.0) * count
    return {"count": count, "mean": mean.astype(np.float64), "square_sum": square_sum}


def normalise(rows: F32, mean: F32, inverse_std: F32, limit: float) -> F32:
    """Centre, scale and clip ``rows [N, size]``.

    Policy and learner both call this, in float32, so that they see the same numbers.
    """
    centred = rows - mean
    np.multiply(centred, inverse_std, out=centred)
    np.maximum(centred, np.float32(-limit), out=centred)
    np.minimum(centred, np.float32(limit), out=centred)
    return centred


@dataclass(frozen=True)
class Normalization:
    """How observations are normalised.

    Attributes:
        limit: Of what is normalised.
        centred: Whether an origin comes with the statistics.
    """

    limit: float
    centred: bool = False

    def fields(self, numbers: int) -> list[FieldSpec]:
        """The statistics of so many numbers, as they follow a policy's parameters."""
        names = ["observation.mean", "observation.inverse_std"]
        fields = [FieldSpec(name, (numbers,), "float32") for name in names]
        return [*fields, *([FieldSpec(ORIGIN, (2, numbers), "float32")] if self.centred else [])]


@dataclass(frozen=True)
class Scaling:
    """How observations are normalised; the arrays are views of what is newest.

    Attributes:
        mean: ``[size]``.
        inverse_std: ``[size]``.
        limit: Of what is normalised.
        origin: What numbers are counted from before, see `ObservationEncoder.centre`; None: 0.
    """

    mean: F32
    inverse_std: F32
    limit: float
    origin: F32 | None = None

    def __call__(self, rows: F32) -> F32:
        """Centre, scale and clip ``rows [N, size]``."""
        return normalise(rows, self.mean, self.inverse_std, self.limit)


class RewardNormalizer:
    """Divides rewards by the running deviation of each environment's discounted return.

    Rewards are not centred, which would change what is optimal. The discounted return of an
    environment starts anew where its episode ended.
    """

    def __init__(self, *, gamma: float, limit: float, shards: int, envs_per_shard: int) -> None:
        self._gamma = gamma
        self._limit = limit
        self._running: F64 = np.zeros((shards, envs_per_shard))
        self._moments = RunningMoments(1)

    def normalise(
        self,
        reward: F32,
        ended: NDArray[np.bool_],
        shards: Sequence[int],
        quarantined: NDArray[np.bool_] | None = None,
    ) -> F32:
        """Merge and scale ``reward [T, N]``, whose columns are those of ``shards`` in order.

        The statistics include these rewards, so that the first ones are scaled too, but for
        those of steps that were ``quarantined [T, N]``. Rewards that are not finite leave the
        statistics alone and are returned as they are.
        """
        if not np.isfinite(reward).all():
            return reward
        steps = len(reward)
        by_shard = (steps, len(shards), -1)
        rewards, ends = reward.reshape(by_shard), ended.reshape(by_shard)
        history = np.empty(rewards.shape)
        for columns in _rounds(shards):
            history[:, columns] = self._discounted(
                [shards[column] for column in columns], rewards[:, columns], ends[:, columns]
            )
        seen = (
            history.reshape(-1) if quarantined is None else history.reshape(steps, -1)[~quarantined]
        )
        self._moments.update(seen[:, None])
        scaled: F32 = reward * np.float32(self._moments.inverse_std()[0])
        np.maximum(scaled, np.float32(-self._limit), out=scaled)
        return np.minimum(scaled, np.float32(self._limit), out=scaled)

    @property
    def inverse_std(self) -> F32:
        """What rewards are multiplied with now, ``[1]``."""
        return self._moments.inverse_std().astype(np.float32)

    def _discounted(
        self, shards: list[int], reward: NDArray[np.float32], ended: NDArray[np.bool_]
    ) -> F64:
        """Continue the returns of different ``shards`` through ``[T, S, B]`` rewards."""
        running = self._running[shards]
        history = np.empty(reward.shape)
        for row, reward_row, ended_row in zip(history, reward, ended, strict=True):
            running = running * self._gamma + reward_row
            row[:] = running
            running[ended_row] = 0.0
        self._running[shards] = running
        return history

    def state_dict(self) -> dict[str, object]:
        """Everything that changes."""
        return {"running": self._running.copy(), "moments": self._moments.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from `state_dict`; open returns start anew when the environments differ."""
        running = np.asarray(state["running"])
        self._running[:] = running if running.shape == self._running.shape else 0.0
        self._moments.load_state_dict(state["moments"])


def _rounds(shards: Sequence[int]) -> list[list[int]]:
    """Split positions so that no shard occurs twice in a part, its rollouts in order.

    Above degree 0 a fast shard may bring several rollouts to one ticket.
    """
    rounds: list[list[int]] = []
    seen: dict[int, int] = {}
    for position, shard in enumerate(shards):
        turn = seen[shard] = seen.get(shard, -1) + 1
        if turn == len(rounds):
            rounds.append([])
        rounds[turn].append(position)
    return rounds
