"""What environments return, side by side, and whether it is finite."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray

from fast_core.algorithm import Array
from fast_core.envs.masks import Masks
from fast_core.envs.records import leaf_of, rows_of
from fast_core.spec import EnvironmentSpec

_DOT_LIMIT = 4096
NONFINITE = (
    "an observation or reward is NaN or infinite; environment.nonfinite: quarantine would cut the "
    "episode and go on"
)
_FLOAT32_MAX = float(np.finfo(np.float32).max)


class Observations:
    """One observation per environment, in one array.

    Attributes:
        array: ``[B, ...]``; structured where the space is composite.
        rows: Its rows, to assign to.
        masks: The action masks within ``array``, None where there are none.
    """

    def __init__(self, envs: int, spec: EnvironmentSpec) -> None:
        """Make ``envs`` rows; all actions are allowed at first.

        Args:
            envs: Number of rows.
            spec: Of the environments.
        """
        space, mask = spec.row, spec.action_mask
        self.array: Array = np.zeros((envs, *space.shape), space.row_dtype)
        self.rows = rows_of(self.array, spec.tree, mask)
        self.masks: Masks | None = None
        if mask is not None:
            self.masks = Masks(cast("NDArray[np.bool_]", leaf_of(self.array, mask)), spec.action)
            self.masks.allow_all()
        leaves = [leaf_of(self.array, name) for name, _ in space.parts] or [self.array]
        self._floats = [
            cast("NDArray[np.floating]", leaf.reshape(envs, -1))
            for leaf in leaves
            if leaf.dtype.kind == "f" and leaf.size
        ]
        self._plain = self._floats[0].reshape(-1) if space.parts == () and self._floats else None

    def finite(self) -> bool:
        """Whether no element is NaN or infinite; integers always are finite."""
        if self._plain is not None:
            return _finite(self._plain)
        return all(_finite(leaf) for leaf in self._floats)

    def finite_row(self, place: int) -> bool:
        """Whether no element of one row is NaN or infinite."""
        return all(_finite(leaf[place]) for leaf in self._floats)

    def finite_rows(self) -> NDArray[np.bool_]:
        """For each row whether it is finite; ``[B]``."""
        finite: NDArray[np.bool_] = np.ones(len(self.array), np.bool_)
        for leaf in self._floats:
            finite &= np.isfinite(leaf).all(axis=1)
        return finite


def _finite(values: NDArray[np.floating]) -> bool:
    """Whether every element of ``values`` is finite.

    The scalar product of a short vector with itself takes a third of the time of `isfinite`.
    It is finite only if every element is; where it overflowed, `isfinite` decides.
    """
    if values.size <= _DOT_LIMIT and math.isfinite(np.vdot(values, values)):
        return True
    return bool(np.isfinite(values).all())


def as_reward(value: object) -> float:
    """A reward as a float: a number, or an array of one element of any shape.

    Raises:
        ValueError: ``value`` is an array of another size.
        TypeError: ``value`` is no number.
    """
    array = np.asarray(value)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"the reward must be a number; got {value!r}")
    if array.size != 1:
        raise ValueError(f"the reward must be one number; got {array.size}: {value!r}")
    return float(array.reshape(-1)[0])


def store_rewards(values: Sequence[object] | Array, out: NDArray[np.float64]) -> int | None:
    """Write the rewards of a step to ``out`` ``[B]``.

    Returns the place of a value that `as_reward` refuses, or None.
    """
    try:
        given = np.array(values)
        if given.dtype.kind in "fiub":  # NumPy would make numbers of texts, and NaN of None
            out[:] = given
            return None
    except (ValueError, TypeError):  # of different shapes
        pass
    for place, value in enumerate(values):
        try:
            out[place] = as_reward(value)
        except (ValueError, TypeError):
            return place
    return None


def fits_float32(value: float) -> bool:
    """Whether ``value`` is finite as a float32; NaN fails the comparison."""
    return abs(value) <= _FLOAT32_MAX


def rewards_fit(reward: NDArray[np.float64]) -> bool:
    """Whether every reward is finite as a float32; as `_finite`."""
    return bool(np.vdot(reward, reward) < _FLOAT32_MAX) or bool(fitting_rewards(reward).all())


def fitting_rewards(reward: NDArray[np.float64]) -> NDArray[np.bool_]:
    """For each reward whether it is finite as a float32."""
    return np.abs(reward) <= _FLOAT32_MAX
