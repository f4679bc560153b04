"""The numbers of the info that came with the last step of an episode."""

from __future__ import annotations

import difflib
import logging
import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

import numpy as np

# An environment that puts ever new names into its info must not fill messages and memory.
MOST = 32
GROUP = "episode"

_logger = logging.getLogger(__name__)


class EpisodeInfo:
    """Reads the stated names, and every number of the group ``episode`` if there is one.

    Numbers of the group, which `gymnasium.wrappers.RecordEpisodeStatistics` and many simulators
    give, are called ``episode/NAME``. Booleans count as 0 and 1; what is no finite number is left
    out.
    """

    def __init__(self, names: Sequence[str]) -> None:
        """``names`` are those of ``environment.info``."""
        self._names = names
        self._untold = set(names)

    def read(self, info: object, place: int | None = None) -> dict[str, float]:
        """The numbers by name; says once of each stated name that it is not there.

        With ``place``, ``info`` is that of many environments, see `info_at`.
        """
        if not isinstance(info, Mapping) or not (self._names or GROUP in info):
            return {}
        if place is not None:
            info = info_at(info, place)
        group = info.get(GROUP)
        given = {name: info.get(name) for name in self._names}
        if isinstance(group, Mapping):
            given |= {f"{GROUP}/{name}": value for name, value in group.items()}
        numbers = {name: number for name in given if (number := _number(given[name])) is not None}
        for name in [name for name in self._untold if name not in numbers]:
            self._untold.discard(name)
            self._tell(name, info)
        return dict(list(numbers.items())[:MOST])

    def _tell(self, name: str, info: Mapping[str, object]) -> None:
        names = [str(key) for key in info]
        near = difflib.get_close_matches(name, names, n=1)
        _logger.warning(
            "environment.info names %r, but the info of an episode's last step has no such number; "
            "it has %s.%s",
            name,
            ", ".join(map(repr, names[:MOST])) or "nothing",
            f" Did you mean {near[0]!r}?" if near else "",
        )


def numbers_of(info: object) -> dict[str, float]:
    """Every number of one environment's info, and of its group ``episode``, as `EpisodeInfo`."""
    if not isinstance(info, Mapping):
        return {}
    given = {str(name): value for name, value in info.items()}
    if isinstance(group := info.get(GROUP), Mapping):
        given |= {f"{GROUP}/{name}": value for name, value in group.items()}
    numbers = {name: number for name in given if (number := _number(given[name])) is not None}
    return dict(list(numbers.items())[:MOST])


def info_at(info: Mapping[str, object], place: int) -> dict[str, object]:
    """The info of one environment out of that of all: arrays ``[n]``, dicts of them.

    As Gymnasium has it, an array ``_NAME`` says which environments gave ``NAME``.
    """
    picked: dict[str, object] = {}
    for name, values in info.items():
        given = info.get(f"_{name}")
        hidden = name.startswith("_") and name[1:] in info
        if hidden or (_has(given, place) and not given[place]):
            continue
        if isinstance(values, Mapping):
            picked[name] = info_at(values, place)
        elif _has(values, place):
            picked[name] = values[place]
    return picked


def _has(values: object, place: int) -> TypeGuard[np.ndarray[Any, Any]]:
    return isinstance(values, np.ndarray) and values.ndim > 0 and place < len(values)


def _number(value: object) -> float | None:
    """A finite number, also one in an array of its own; None for everything else."""
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.item()
    if isinstance(value, bool | int | float | np.bool_ | np.integer | np.floating):
        number = float(value)
        return number if math.isfinite(number) else None
    return None
