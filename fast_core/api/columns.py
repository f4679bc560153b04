"""Rows of metrics as columns: an array for each value, by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fast_core.errors import FastLoopError
from fast_core.messages.metrics import MetricsRow

if TYPE_CHECKING:
    import pandas

Column = NDArray[np.float64] | NDArray[np.int64]


class Columns(Mapping[str, Column]):
    """A dict of arrays of one length; ``env_steps``, ``updates`` and ``time_s`` come first.

    A value that a row does not have, or that was not finite, is NaN.
    """

    def __init__(self, rows: Iterable[MetricsRow]) -> None:
        rows = list(rows)
        self._columns: dict[str, Column] = {
            "env_steps": np.array([row.env_steps for row in rows], np.int64),
            "updates": np.array([row.updates for row in rows], np.int64),
            "time_s": np.array([row.time_s for row in rows], np.float64),
        }
        for name in dict.fromkeys(name for row in rows for name in row.values):
            values = [row.values.get(name) for row in rows]
            numbers = [np.nan if value is None else value for value in values]
            self._columns[name] = np.array(numbers, np.float64)

    @property
    def rows(self) -> int:
        """Length of each column."""
        return len(self._columns["env_steps"])

    def to_pandas(self) -> pandas.DataFrame:
        """The same as a data frame.

        Raises:
            FastLoopError: pandas is not installed.
        """
        try:
            import pandas
        except ImportError as error:
            raise FastLoopError(
                f"to_pandas() needs pandas, which can't be imported ({error}). Install it with "
                "`pip install pandas`, or use the columns as they are: they are NumPy arrays."
            ) from error
        return pandas.DataFrame(self._columns)

    def __getitem__(self, name: str) -> Column:
        try:
            return self._columns[name]
        except KeyError:
            raise KeyError(f"no column {name!r}; there are {', '.join(self._columns)}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __repr__(self) -> str:
        return f"<{self.rows} rows of {len(self)} columns: {', '.join(self)}>"
