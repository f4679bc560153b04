"""What declared columns have of the last step, from the info of each environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fast_core.algorithm import Array
from fast_core.algorithm.spec import Column, as_dtype

_TAKES = {"f": "biuf", "i": "biu", "u": "biu", "b": "b"}  # what becomes what, by kinds of dtypes


class InfoColumns:
    """Reads the columns that environments write.

    Attributes:
        arrays: Each by name, ``[B, ...]``.
    """

    def __init__(self, columns: Sequence[Column], envs: int) -> None:
        self.arrays: dict[str, Array] = {
            each.name: np.zeros((envs, *each.shape), as_dtype(each.dtype)) for each in columns
        }

    def read(self, info: object, place: int) -> None:
        """Take the info of one environment.

        Raises:
            ValueError: A value is missing, or is not what the column takes.
        """
        for name, array in self.arrays.items():
            if not isinstance(info, Mapping) or name not in info:
                raise _missing(name, array, info)
            _store(name, array, place, np.asarray(info[name]))

    def read_rows(self, info: Mapping[str, object], places: NDArray[np.int64]) -> None:
        """Take the info of all environments, see `info_at`, for those at ``places``.

        Raises:
            ValueError: As `read`.
        """
        for name, array in self.arrays.items() if len(places) else ():
            values, given = info.get(name), info.get(f"_{name}")
            if not isinstance(values, np.ndarray) or values.shape[:1] != array.shape[:1]:
                raise _missing(name, array, info)
            if isinstance(given, np.ndarray) and not given[places].all():
                raise _missing(name, array, info)
            _store(name, array, places, values[places])

    def finite(self) -> bool:
        """Whether no value is NaN or infinite."""
        return all(bool(np.isfinite(array).all()) for array in self.arrays.values())

    def finite_rows(self) -> NDArray[np.bool_] | np.bool_:
        """The same for each row, ``[B]``; true alone where there are no columns."""
        finite: NDArray[np.bool_] | np.bool_ = np.True_
        for array in self.arrays.values():
            finite = finite & np.isfinite(array).reshape(len(array), -1).all(1)
        return finite

    def clear(self, place: int) -> None:
        """Leave zeros where what a step led to is not known."""
        for array in self.arrays.values():
            array[place] = 0


def _store(name: str, array: Array, at: int | NDArray[np.int64], given: Array) -> None:
    rows = array[at]
    same = given.shape == rows.shape or (given.size == rows.size == 1)
    if same and given.dtype.kind in _TAKES[array.dtype.kind]:
        array[at] = given.reshape(rows.shape)
        if array.dtype.kind == "f" or np.array_equal(array[at], given.reshape(rows.shape)):
            return
    raise ValueError(
        f"the info's {name!r} must be of shape {array.shape[1:]} and fit {array.dtype}, as "
        f"columns() of the algorithm says; got shape {given.shape} of {given.dtype}: {given!r}"
    )


def _missing(name: str, array: Array, info: object) -> ValueError:
    names = ", ".join(map(repr, info)) if isinstance(info, Mapping) else ""
    return ValueError(
        f"the info of each step must have {name!r} of shape {array.shape[1:]} and {array.dtype}, "
        f"as columns() of the algorithm says; it has {names or 'nothing'}"
    )
