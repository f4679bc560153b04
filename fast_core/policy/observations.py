"""Observations as an environment gives them, made the rows that a policy takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn, cast

import numpy as np
from numpy.typing import NDArray

from fast_core.algorithm import Array
from fast_core.algorithm.spec import Branch, EnvironmentSpec, SpaceSpec, Tree
from fast_core.envs.batched import BatchWriter
from fast_core.envs.masks import Masks
from fast_core.envs.records import assign, leaf_of, mismatch, rows_of
from fast_core.errors import PolicyError

# Networks compute in float32: beyond this their sums overflow, and infinity less infinity is NaN.
LARGEST = np.float32(1e30)
_SURELY_USABLE = 1e36  # a sum of squares, which float32 has


def usable(rows: NDArray[Any]) -> bool:
    """Whether no number is NaN, infinite or beyond `LARGEST`, for the cost of one call."""
    return float(np.vdot(rows, rows)) < _SURELY_USABLE or not _unusable(rows).any()


def _unusable(numbers: NDArray[Any]) -> NDArray[np.bool_]:
    off: NDArray[np.bool_] = ~(np.abs(numbers) <= LARGEST)
    return off


class ObservationReader:
    """Reads single observations and batches of them; which of both it is, the shape tells.

    A composite observation is a dict or tuple, of arrays that have one more axis in front where it
    is a batch. An action mask may be of any integers or bools.
    """

    def __init__(self, environment: EnvironmentSpec) -> None:
        self._spec = environment
        self._space = environment.row
        self._writer = BatchWriter(environment.tree, environment.action_mask)
        leaves = self._space.parts or (("", self._space),)
        self._choices = [(name, leaf) for name, leaf in leaves if leaf.kind != "box"]
        self._floats = [name for name, leaf in leaves if leaf.row_dtype.kind == "f"]

    def read(self, obs: object) -> tuple[Array, bool]:
        """New rows ``[B, ...]`` of ``obs``, and whether it is a single one.

        Raises:
            PolicyError: It is not what the policy was trained on, or its mask allows no action.
        """
        if self._space.kind != "composite":
            obs = _as_array(obs, self._space)
        leaf, space = _first_leaf(obs, self._spec.tree, self._space, self._spec.action_mask)
        single = leaf is None or np.ndim(leaf) != len(space.shape) + 1
        count = 1 if single or leaf is None else len(leaf)
        rows: Array = np.zeros((count, *self._space.shape), self._space.row_dtype)
        if single:
            self._write_one(obs, rows)
        else:
            self._write_many(obs, rows)
        self._check_choices(rows)
        self._check_mask(rows)
        return rows, single

    def unusable(self, rows: Array) -> NDArray[np.bool_] | None:
        """Which rows ``[B]`` have a number that is not `usable`; None: none has."""
        found: NDArray[np.bool_] | None = None
        for name in self._floats:
            leaf = leaf_of(rows, name) if name else rows
            if not usable(leaf):
                off = np.logical_or.reduce(_unusable(leaf).reshape(len(rows), -1), axis=1)
                found = off if found is None else found | off
        return found

    def refuse(self, rows: Array) -> NoReturn:
        """Say what of ``rows`` is not `usable`.

        Raises:
            PolicyError: It says which entry of which part, and of which row of a batch.
        """
        for name in self._floats:
            leaf = leaf_of(rows, name) if name else rows
            places = np.argwhere(_unusable(leaf))
            if len(places):
                break
        row, *entry = places[0].tolist()
        whole = f"part {name!r} of the observation" if name else "the observation"
        where = f"row {row}: " if len(rows) > 1 else ""
        at = f" at {entry}" if entry else ""
        more = f", and {len(places) - 1} more numbers of it" if len(places) > 1 else ""
        raise PolicyError(
            f"{where}{whole} is {leaf[(row, *entry)]:g}{at}{more}; a policy acts on finite numbers "
            f"of at most {LARGEST:g}. Do what is safe in your task where what you observe fails, "
            "or take what the network makes of it: load_policy(..., nonfinite='act')."
        )

    def _write_one(self, obs: object, rows: Array) -> None:
        (row,) = rows_of(rows, self._spec.tree, self._spec.action_mask)
        try:
            assign(row, obs)
        except (ValueError, TypeError) as error:
            raise PolicyError(f"{mismatch(obs, self._space, error)}. {self._advice()}") from error

    def _write_many(self, obs: object, rows: Array) -> None:
        try:
            self._writer.write(obs, rows)
        except (ValueError, TypeError) as error:
            raise PolicyError(f"{error}. {self._advice()}") from error

    def _advice(self) -> str:
        whole = "each part of it" if self._space.parts else "it"
        return (
            f"Give one observation as {self._spec.id!r} gives it"
            f"{', a single frame' if self._spec.frames > 1 else ''}, or a batch of them, in which "
            f"{whole} has one more axis in front."
        )

    def _check_choices(self, rows: Array) -> None:
        for name, space in self._choices:
            leaf: NDArray[Any] = leaf_of(rows, name) if name else rows
            low, high = space.choices
            if leaf.size and ((leaf < low).any() or (leaf > high).any()):
                part = f"part {name!r} of the observation" if name else "the observation"
                raise PolicyError(
                    f"{part} must be choices from {low.tolist()} to {high.tolist()}; got "
                    f"{leaf.tolist() if len(leaf) > 1 else leaf[0].tolist()}."
                )

    def _check_mask(self, rows: Array) -> None:
        mask = self._spec.action_mask
        if mask is None:
            return
        masks = Masks(cast("NDArray[np.bool_]", leaf_of(rows, mask)), self._spec.action)
        place = masks.stuck()
        if place is not None:
            where = f"row {place}: " if len(rows) > 1 else ""
            raise PolicyError(
                f"{where}{masks.cause(place)}. Allow at least one choice in each dimension of the "
                f"action with part {mask!r} of the observation."
            )


def _as_array(obs: object, space: SpaceSpec) -> object:
    """A plain observation as an array; lists and numbers, which have no dtype, in that of space."""
    if isinstance(obs, np.ndarray | np.generic):
        return obs
    try:
        array = np.asarray(obs)
    except (ValueError, TypeError) as error:  # rows of different lengths
        raise PolicyError(
            f"the observation is a {type(obs).__name__} that is no array ({error}); give an array "
            f"of shape {space.shape} of {space.dtype}, or a batch of them."
        ) from error
    if array.dtype.kind in "biuf" and np.can_cast(array.dtype, space.row_dtype, "same_kind"):
        return array.astype(space.row_dtype)
    return obs if array.dtype.kind == "O" else array


def _first_leaf(
    obs: object, tree: Tree, space: SpaceSpec, mask: str | None
) -> tuple[Any, SpaceSpec]:
    """Some leaf of ``obs`` and its space, but not the mask; None where it is not there."""
    if not isinstance(tree, Branch):
        return obs, dict(space.parts)[tree] if tree else space
    for key, part in zip(tree.keys, tree.parts, strict=True):
        if part == mask and len(tree.parts) > 1:
            continue
        try:
            below = cast("Mapping[object, object]", obs)[key]
        except (KeyError, IndexError, TypeError):
            return None, space
        found = _first_leaf(below, part, space, mask)
        if found[0] is not None:  # which an empty dict or tuple has not
            return found
    return None, space
