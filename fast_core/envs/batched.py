"""Observations that come for many environments at once: copied, checked, picked apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from fast_core.algorithm import Array
from fast_core.algorithm.spec import Branch, Tree
from fast_core.envs.records import casts

Places = NDArray[np.integer] | slice
EVERYWHERE = slice(None)


class BatchWriter:
    """Copies batched observations into rows.

    Where one environment gives a dict, its batched form is a dict of arrays ``[n, ...]``; where
    it gives a tuple, a tuple of them.

    Attributes:
        cast: What was cast, see `fast_core.envs.records.assign`.
    """

    def __init__(self, tree: Tree, mask: str | None) -> None:
        """See `fast_core.envs.records.rows_of` for the arguments."""
        self._tree, self._mask = tree, mask
        self.cast = ""

    def write(self, obs: object, out: Array, places: Places = EVERYWHERE) -> None:
        """Copy ``obs``, of ``n`` environments, to the rows ``places`` of ``out`` ``[B, ...]``.

        Raises:
            ValueError: A part is missing or has another shape or dtype than the rows; floats may be
                of another width.
        """
        count = len(out) if isinstance(places, slice) else len(places)
        self._write(obs, out, self._tree, places, count)

    def _write(self, obs: object, out: Array, tree: Tree, places: Places, count: int) -> None:
        if isinstance(tree, Branch):
            for key, part in zip(tree.keys, tree.parts, strict=True):
                self._write(_part(obs, tree, key), out, part, places, count)
            return
        leaf: Array = cast("Any", out)[tree] if tree else out
        given = obs if isinstance(obs, np.ndarray) else np.asarray(obs)
        if tree and tree == self._mask and given.dtype.kind in "biu":
            given = given.reshape(count, -1) != 0
        fits = given.shape == (count, *leaf.shape[1:])
        if fits and given.dtype != leaf.dtype and casts(given.dtype, leaf.dtype):
            self.cast = f"{given.dtype} for {leaf.dtype}"
        elif not fits or given.dtype != leaf.dtype:
            what = f"part {tree!r} of the observations" if tree else "the observations"
            raise ValueError(
                f"{what} of {count} environments have shape {given.shape} of {given.dtype}, their "
                f"space declares shape {leaf.shape[1:]} of {leaf.dtype} for each"
            )
        leaf[places] = given

    def pick(self, obs: object, place: int) -> object:
        """The observation of one environment as it gives it, out of those of all.

        Raises:
            ValueError: A part is missing.
        """
        return self._pick(obs, self._tree, place)

    def _pick(self, obs: object, tree: Tree, place: int) -> object:
        if isinstance(obs, np.ndarray):
            return cast("object", obs[place])
        if not isinstance(tree, Branch):
            return cast("Sequence[object]", obs)[place]
        picked = {
            key: self._pick(_part(obs, tree, key), part, place)
            for key, part in zip(tree.keys, tree.parts, strict=True)
        }
        return picked if tree.named else tuple(picked.values())


def rows_at(obs: Any, places: NDArray[np.integer]) -> Any:
    """The observations of some environments out of those of all, in batched form."""
    if isinstance(obs, Mapping):
        return {key: rows_at(part, places) for key, part in obs.items()}
    if isinstance(obs, tuple):
        return tuple(rows_at(part, places) for part in obs)
    return obs[places]


def _part(obs: object, branch: Branch, key: object) -> object:
    kinds = Mapping if branch.named else tuple | list
    if not isinstance(obs, kinds):
        where = f"part {branch.name!r} of the observations" if branch.name else "the observations"
        raise ValueError(f"{where} are a {type(obs).__name__}, their space declares other parts")
    try:
        return cast("Mapping[object, object]", obs)[key]
    except (KeyError, IndexError):
        raise ValueError(f"the observations lack the part {key!r}") from None
