"""Rows that observations are copied into: one per environment, of plain and composite spaces.

An observation is copied the moment it is returned: environments may hand out the same array
each time, or share one among them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from fast_core.algorithm import Array
from fast_core.algorithm.spec import Branch, SpaceSpec, Tree


class Row(Protocol):
    """The place of one environment's observation.

    ``row[:] = obs`` copies, and raises ValueError or TypeError if ``obs`` does not have the
    shape and dtype of the row.
    """

    def __setitem__(self, key: slice, obs: object, /) -> None: ...


EVERYTHING = object()  # an action mask that allows all


class WrongPart(ValueError):
    """A part of a composite observation is not what its space declares.

    Attributes:
        leaf: Name of the leaf that is wrong, None where it is a Dict or Tuple.
    """

    def __init__(self, message: str, leaf: str | None = None) -> None:
        super().__init__(message)
        self.leaf = leaf


def leaf_of(array: Array, name: str) -> Array:
    """The leaf ``name`` of structured rows ``[B]``: ``[B, ...]``, a view."""
    leaf: Array = cast("NDArray[np.void]", array)[name]
    return leaf


def rows_of(array: Array, tree: Tree = "", mask: str | None = None) -> list[Row]:
    """The rows of ``array`` ``[B, ...]``, in the form that is quickest to assign to.

    For vectors that is a memoryview: its slice assignment compares format and shape in C and
    copies in 0.11 us, where NumPy's assignment takes 0.17 us and would broadcast and cast.

    Args:
        array: Structured where the space is composite.
        tree: Where the leaves of a composite space lie in an observation.
        mask: Name of the leaf that is an action mask; takes any integers or bools.
    """
    if isinstance(tree, Branch):
        columns = [rows_of(array, part, mask) for part in tree.parts]
        each = zip(*columns, strict=True) if columns else [()] * len(array)
        return [_RecordRow(tree, rows) for rows in each]
    leaf = leaf_of(array, tree) if tree else array
    if tree and tree == mask:
        return [_MaskRow(row) for row in leaf]
    if leaf.ndim == 1:
        return [_ScalarRow(leaf, index) for index in range(len(leaf))]
    if leaf.ndim == 2:
        return [cast("Row", memoryview(row)) for row in leaf]
    return [_ArrayRow(row) for row in leaf]


def assign(row: Row, obs: object) -> str:
    """Copy ``obs`` to its row; floats may be of another width than declared.

    Returns:
        What was cast, such as "float64 for float32", mostly nothing.

    Raises:
        ValueError, TypeError: As the row does, of anything else.
    """
    try:
        row[:] = obs
    except (ValueError, TypeError):
        cast = _assign_cast(row, obs)
        if not cast:
            raise
        return cast
    return ""


def _assign_cast(row: Row, obs: object) -> str:
    """As `assign` where the plain way failed; says nothing where another width is not all."""
    if isinstance(row, CheckedRow):
        if said := _assign_cast(row.row, obs):
            row.check()
        return said
    if isinstance(row, _RecordRow):
        return row.assign_cast(obs)
    target: object = row.obj if isinstance(row, memoryview) else getattr(row, "array", None)
    if not (isinstance(target, np.ndarray) and isinstance(obs, np.ndarray)):
        return ""
    if not (casts(obs.dtype, target.dtype) and obs.shape == target.shape):
        return ""
    np.copyto(target, obs, casting="same_kind")
    return f"{obs.dtype} for {target.dtype}"


def casts(given: np.dtype[Any], declared: np.dtype[Any]) -> bool:
    """Whether observations of one dtype may be cast to the other: both are floats."""
    return given.kind == declared.kind == "f"


class CheckedRow:
    """A row that looks at what was assigned to it.

    Attributes:
        row: What takes it.
    """

    def __init__(self, row: Row, wrong: Callable[[], str]) -> None:
        """``wrong`` says what of the row can't be, if anything."""
        self.row, self._wrong = row, wrong

    def __setitem__(self, key: slice, obs: object, /) -> None:
        self.row[key] = obs
        self.check()

    def check(self) -> None:
        """Raise `WrongPart` if something of it can't be."""
        if said := self._wrong():
            raise WrongPart(said)


class _ScalarRow:
    """Row of a space with shape ``()``; takes Python numbers too, which have no dtype."""

    def __init__(self, array: Array, index: int) -> None:
        self._array, self._dtype = array, array.dtype
        self._index = index

    def __setitem__(self, _key: slice, obs: object, /) -> None:
        value = np.asarray(obs)
        dtype = value.dtype  # mostly the very object
        if value.shape or not (
            dtype is self._dtype or np.can_cast(dtype, self._dtype, "same_kind")
        ):
            raise ValueError
        self._array[self._index] = value


class _ArrayRow:
    """Row of two dimensions or more."""

    def __init__(self, row: Array) -> None:
        self.array = row

    def __setitem__(self, _key: slice, obs: object, /) -> None:
        row = self.array
        if not isinstance(obs, np.ndarray) or obs.shape != row.shape or obs.dtype != row.dtype:
            raise ValueError
        np.copyto(row, obs)


class _MaskRow:
    """Row of an action mask: integers or bools of any shape, kept as bools."""

    def __init__(self, row: Array) -> None:
        self._row = row

    def __setitem__(self, _key: slice, obs: object, /) -> None:
        if obs is EVERYTHING:
            self._row.fill(True)
            return
        given = np.asarray(obs)
        if given.dtype.kind not in "biu" or given.size != self._row.size:
            raise ValueError
        np.not_equal(given.reshape(-1), 0, out=self._row)


class _RecordRow:
    """Row of a Dict or Tuple space: each part is copied to its place."""

    def __init__(self, branch: Branch, rows: Sequence[Row]) -> None:
        self._parts = tuple(zip(branch.keys, rows, strict=True))
        self._branch = branch
        self._kinds = (dict, Mapping) if branch.named else (tuple, list)

    def __setitem__(self, _key: slice, obs: object, /) -> None:
        if not isinstance(obs, self._kinds) or len(obs) != len(self._parts):
            raise WrongPart(_wrong_parts(obs, self._branch))
        parts = cast("Mapping[Hashable, object]", obs)
        place = 0
        try:
            for place, (key, row) in enumerate(self._parts):  # noqa: B007
                row[:] = parts[key]
        except WrongPart:
            raise
        except KeyError:
            raise WrongPart(_wrong_parts(obs, self._branch)) from None
        except (ValueError, TypeError) as error:
            key, name = self._parts[place][0], self._branch.parts[place]
            said = f"part {name!r} of the observation {_form(parts[key])}"
            raise WrongPart(said, cast("str", name)) from error

    def assign_cast(self, obs: object) -> str:
        """As `assign`, which found that a part does not fit as it is."""
        if not isinstance(obs, self._kinds) or len(obs) != len(self._parts):
            return ""
        parts = cast("Mapping[Hashable, object]", obs)
        try:
            said = {assign(row, parts[key]) for key, row in self._parts}
        except (ValueError, TypeError, KeyError):
            return ""
        return max(said)


def _wrong_parts(obs: object, branch: Branch) -> str:
    what = f"part {branch.name!r} of the observation" if branch.name else "the observation"
    if branch.named and isinstance(obs, Mapping):
        missing = [key for key in branch.keys if key not in obs]
        extra = [key for key in obs if key not in branch.keys]
        return f"{what} lacks the keys {missing!r} and has the undeclared keys {extra!r}"
    declared = f"its space declares {'a dict of' if branch.named else 'a tuple of'}"
    size = f" of {len(obs)}" if isinstance(obs, tuple | list) else ""
    return f"{what} is a {type(obs).__name__}{size}, {declared} {len(branch.keys)}"


def mismatch(obs: object, space: SpaceSpec, error: BaseException | None = None) -> str:
    """Say how ``obs`` differs from what ``space`` declares.

    Args:
        obs: What an environment returned.
        space: What it should be like.
        error: What assigning it to its row raised.
    """
    if isinstance(error, WrongPart):
        leaf = dict(space.parts).get(error.leaf or "")
        return str(error) if leaf is None else f"{error}, {_declares(leaf)}"
    return f"the observation {_form(obs)}, {_declares(space)}"


def _declares(space: SpaceSpec) -> str:
    return f"its space declares shape {space.shape} of {space.dtype}"


def _form(obs: object) -> str:
    if isinstance(obs, np.ndarray | np.generic):
        return f"has shape {obs.shape} of {obs.dtype}"
    return f"is a {type(obs).__name__}"
