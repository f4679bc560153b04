"""What of observations float32 can't tell apart, and rewards far from 0, as a few steps show."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from fast_core.algorithm.spec import REWARD, Blur, EnvironmentSpec, SpaceSpec
from fast_core.envs.records import assign, leaf_of, rows_of
from fast_core.envs.rows import as_reward

Array = NDArray[np.generic]
Step = Callable[[Any], Any]
_MOST_NUMBERS = 10_000
_NOISE = 2.0**-40  # of a number that is computed in float64 and always the same
# Of a reward of 100 and half its deviation of 0.5 PPO learned half; Gymnasium's have ten at most.
_MOST_DEVIATIONS = 200


class ShortLook:
    """Keeps the numbers that an environment gives in a few steps, with all digits they have."""

    def __init__(self, spec: EnvironmentSpec) -> None:
        self._spec = spec
        row = _widened(spec.row)
        self._row: NDArray[Any] = np.zeros((1, *row.shape), row.row_dtype)
        leaves = dict(spec.row.parts or (("", spec.row),))
        self._numbers = {name: leaf for name, leaf in leaves.items() if _may_blur(leaf)}
        self._seen: dict[str, list[Array]] = {name: [] for name in self._numbers}
        self._rewards: list[float] = []

    def watching(self, step: Step) -> Step:
        """The same step, of which is kept what it gives."""

        def watched(action: object) -> Any:
            given = step(action)
            # Of what is not declared whoever called says what is wrong.
            with suppress(ValueError, TypeError):
                obs, reward, *_ = given
                (row,) = rows_of(self._row, self._spec.tree, self._spec.action_mask)
                assign(row, obs)
                self._rewards.append(as_reward(reward))
                self._keep(self._row)
            return given

        return watched

    def keep_rows(self, obs: Array, reward: NDArray[np.float32]) -> None:
        """Keep those of several environments, in the digits that are stored."""
        self._rewards.extend(reward.tolist())
        self._keep(obs)

    def _keep(self, rows: Array) -> None:
        for name, kept in self._seen.items():
            leaf = leaf_of(rows, name) if name else rows
            kept.append(np.array(leaf).reshape(len(rows), -1))

    def blurred(self) -> tuple[Blur, ...]:
        """What float32 rounds more coarsely than it differs, of each part the worst; rewards."""
        found: list[Blur] = []
        for name, kept in self._seen.items():
            what = f"of part {name!r} of the observation" if name else "of the observation"
            found += _blurs(kept, self._numbers[name].dtype, what)
        return (*found, *self._far_reward())

    def _far_reward(self) -> Iterator[Blur]:
        """The reward, where nearly all of it is the same in every step."""
        rewards = np.array(self._rewards or [0.0])
        with np.errstate(all="ignore"):  # as below
            mean, deviation = float(rewards.mean()), float(rewards.std())
            step = float(np.spacing(np.float32(abs(mean))))
        if _NOISE * abs(mean) < deviation < abs(mean) / _MOST_DEVIATIONS:
            yield Blur(REWARD, "float64", mean, deviation, step)


def _may_blur(leaf: SpaceSpec) -> bool:
    """Whether a part has numbers that float32 may round, not so many that they are an image."""
    wide = leaf.kind == "box" and leaf.row_dtype.itemsize >= 4
    return wide and 0 < leaf.size <= _MOST_NUMBERS


def _blurs(rows: list[Array], dtype: str, of: str) -> Iterator[Blur]:
    """Of numbers ``[B, size]`` the one that is told apart worst, if float32 can't."""
    if not rows:
        return
    values = np.concatenate(rows)
    floats = values.dtype.kind == "f"
    # All digits of integers too, where the machine has such floats.
    exact = values.astype(np.float64 if floats else np.longdouble)
    with np.errstate(all="ignore"):  # NaN and infinity are somebody else's
        mean, deviation = exact.mean(axis=0), exact.std(axis=0)
        step = np.spacing(np.abs(mean).astype(np.float32))
        noise = _NOISE * np.abs(mean) if floats else 0
        coarse = np.where((deviation > noise) & (deviation < step), step / deviation, 0)
    place = int(coarse.argmax())
    if coarse[place]:
        numbers = (float(each[place]) for each in (mean, deviation, step))
        yield Blur(f"number {place} {of}", dtype, *numbers)


def _widened(space: SpaceSpec) -> SpaceSpec:
    """The same space, with floats in float64."""
    if space.parts:
        return SpaceSpec.composite([(name, _widened(part)) for name, part in space.parts])
    wide = space.kind == "box" and space.row_dtype.kind == "f"
    return replace(space, dtype="float64") if wide else space
