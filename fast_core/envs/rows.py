"""What environments return, side by side, and whether it is finite."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from fast_core.algorithm import Array
from fast_core.algorithm.spec import EnvironmentSpec, SpaceSpec
from fast_core.envs.masks import Masks
from fast_core.envs.records import CheckedRow, leaf_of, rows_of

_DOT_LIMIT = 4096
NONFINITE = (
    "an observation or reward is NaN or infinite; environment.nonfinite: quarantine would cut the "
    "episode and go on"
)
_FLAGS = (bool, np.bool_)
_FLOAT32_MAX = float(np.finfo(np.float32).max)


class Observations:
    """One observation per environment, in one array.

    Attributes:
        array: ``[B, ...]``; structured where the space is composite.
        rows: Its rows, to assign to; they refuse choices that their space lacks.
        unchecked: The same where `outside` looks at all of them at once.
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
        self.unchecked = rows_of(self.array, spec.tree, mask)
        self.masks: Masks | None = None
        if mask is not None:
            self.masks = Masks(cast("NDArray[np.bool_]", leaf_of(self.array, mask)), spec.action)
            self.masks.allow_all()
        leaves = [leaf_of(self.array, name) for name, _ in space.parts] or [self.array]
        self._choices = [
            _Choices(name, leaf.reshape(envs, -1), part)
            for leaf, (name, part) in zip(leaves, space.parts or (("", space),), strict=True)
            if part.kind in ("discrete", "multi_discrete") and not (name and name == mask)
        ]
        self.rows = self.unchecked
        if self._choices:
            self.rows = [
                CheckedRow(row, partial(_wrong, self._choices, place))
                for place, row in enumerate(self.unchecked)
            ]
        self._floats = [
            cast("NDArray[np.floating]", leaf.reshape(envs, -1))
            for leaf in leaves
            if leaf.dtype.kind == "f" and leaf.size
        ]
        self._plain = self._floats[0].reshape(-1) if space.parts == () and self._floats else None

    def outside(self) -> tuple[int, str] | None:
        """The first environment with a choice that its space lacks, and what is wrong with it."""
        for choices in self._choices:
            found = choices.outside()
            if found is not None:
                return found
        return None

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


class _Choices:
    """The choices in one leaf of observations.

    A network takes them as one-hot rows: one outside its space would be another one.
    """

    def __init__(self, name: str, leaf: Array, space: SpaceSpec) -> None:
        """``leaf`` is ``[B, D]``, a view."""
        self._name, self._space = name, space
        low, high = (bound.reshape(-1) for bound in space.choices)
        # Of what is below the first choice, the distance without a sign is large, too.
        unsigned = np.dtype(f"u{leaf.dtype.itemsize}")
        distance = np.empty(leaf.shape, leaf.dtype)
        self._whole: tuple[NDArray[Any], ...] = (
            leaf,
            np.tile(low.astype(leaf.dtype), (len(leaf), 1)),  # to broadcast takes six times as long
            distance,
            distance.view(unsigned),
            np.tile((high - low).astype(unsigned), (len(leaf), 1)),
            np.empty(leaf.shape, np.bool_),
        )

    def outside(self, row: int | None = None) -> tuple[int, str] | None:
        """The first row with a choice outside its space, and what is wrong with it.

        Of all rows, for which there is no time to take slices, or of one, which counts as 0.
        """
        leaf, low, distance, unsigned, most, off = self._whole
        if row is not None:
            leaf, low, distance, unsigned, most, off = (each[row : row + 1] for each in self._whole)
        np.subtract(leaf, low, distance)
        np.greater(unsigned, most, off)
        if not np.count_nonzero(off):
            return None
        place, at = (int(index) for index in np.argwhere(off)[0])
        first, last = (int(bound.reshape(-1)[at]) for bound in self._space.choices)
        entry = [int(index) for index in np.unravel_index(at, self._space.shape or (1,))]
        what = f"part {self._name!r} of the observation" if self._name else "the observation"
        where = f" at {entry}" if self._space.shape else ""
        return place, (
            f"{what} is {leaf[place, at]}{where}, its space declares choices from {first} to "
            f"{last}. Correct one of them: a network would take it for another choice"
        )


def _wrong(leaves: Sequence[_Choices], place: int) -> str:
    """What `Observations.outside` says of one row, empty if nothing."""
    found = (choices.outside(place) for choices in leaves)
    return next((said for _, said in filter(None, found)), "")


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


def as_ends(terminated: object, truncated: object) -> tuple[bool, bool]:
    """Whether an episode terminated and whether it was truncated, each true or false.

    Raises:
        TypeError: One is no number, such as a text, which Python takes for true, or None, or is
            several.
    """
    if type(terminated) in _FLAGS and type(truncated) in _FLAGS:
        return bool(terminated), bool(truncated)
    return _as_end("terminated", terminated), _as_end("truncated", truncated)


def _as_end(name: str, value: object) -> bool:
    array = np.asarray(value)
    if array.dtype.kind not in "biuf" or array.size != 1:
        raise TypeError(f"{name} must be True or False; got {value!r}")
    return bool(array.reshape(-1)[0])


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


def store_ends(values: Sequence[object] | Array, out: NDArray[np.bool_]) -> int | None:
    """Write which episodes ended in a step to ``out`` ``[B]``.

    Returns the place of a value that `as_ends` refuses, or None.
    """
    given = np.asarray(values)
    if given.dtype.kind in "biuf":
        out[...] = given
        return None
    for place, value in enumerate(values):
        try:
            out[place], _ = as_ends(value, False)
        except TypeError:
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
