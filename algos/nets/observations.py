"""From observations as environments give them to what networks take.

A row of an observation has up to three parts: numbers (flattened boxes, one-hot choices), images,
which stay uint8 until they are on the device, and the mask of allowed actions, which is no input.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fast_core.algorithm.spec import EnvironmentSpec, SpaceSpec
from fast_core.algos.nets.images import ImageShape
from fast_core.algos.nets.networks import F32
from fast_core.algos.nets.normalizer import F64

Array = NDArray[np.generic]
Bool = NDArray[np.bool_]
I64 = NDArray[np.int64]
LEAST_STEPS = 256  # of float32 in a deviation
LEAST_DEVIATION = 1e-3


@dataclass(frozen=True)
class ImageTable:
    """The images of many rows; a frame that several rows see is stored once.

    Attributes:
        frames: ``[F, ...]`` uint8, frames as they were stored.
        index: ``[R, stack]``, which frames each row sees, the newest last.
    """

    frames: Array
    index: I64


@dataclass(frozen=True)
class ObservationTable:
    """The observations of ``R`` rows.

    Attributes:
        vector: ``[R, in]``, numbers.
        images: One table for each image of the observation.
        mask: ``[R, M]``, which actions are allowed; None where all are.
    """

    vector: F32
    images: tuple[ImageTable, ...] = ()
    mask: Bool | None = None

    def __len__(self) -> int:
        return len(self.vector)

    def rows(self, start: int, stop: int) -> ObservationTable:
        """Some of the rows; shares memory."""
        return ObservationTable(
            self.vector[start:stop],
            tuple(replace(image, index=image.index[start:stop]) for image in self.images),
            None if self.mask is None else self.mask[start:stop],
        )

    @property
    def finite(self) -> bool:
        """Whether there is no NaN or infinity."""
        return bool(np.isfinite(self.vector).all())


class ObservationEncoder:
    """Takes observations apart.

    Numbers become float32. Where that could not tell them apart, as positions of 5,400,000 m that
    differ by decimetres, they are counted from an origin first, in their own type (`centre`):
    nothing else sees more of them than the distance from there.

    Args:
        environment: Whose observations.
        images: The parts that go through convolutions; every other part but the mask becomes
            numbers.

    Attributes:
        wide: Whether any number has more digits than float32.
        moved: How often it was told to count from elsewhere.
    """

    def __init__(self, environment: EnvironmentSpec, images: tuple[ImageShape, ...]) -> None:
        space, mask = environment.observation, environment.action_mask
        taken = {image.part for image in images} | ({mask} if mask is not None else set())
        leaves = space.parts if space.kind == "composite" else ((None, space),)
        self._mask = mask
        self._images = images
        self.image_count = len(images)
        self.mask_size = sum(leaf.size for name, leaf in leaves if mask and name == mask)
        self._parts = [(name, _Numbers(leaf)) for name, leaf in leaves if name not in taken]
        self.size = sum(part.size for _, part in self._parts)
        self.wide = any(part.own is not None for _, part in self._parts)
        self._origin: F32 = np.zeros((2, self.size), np.float32)
        self.moved = 0
        # The common case, kept short: it runs on every step.
        only = self._parts[0] if len(self._parts) == 1 else None
        self._only = only[1] if only is not None and only[0] is None else None

    def vector(self, obs: Array) -> F32:
        """Numbers ``[B, size]`` of observations ``[B, ...]``; may share memory with them."""
        if self._only is not None:
            return self._only.encode(obs)
        columns = [part.encode(_part(obs, name)) for name, part in self._parts]
        if len(columns) == 1:
            return columns[0]
        return np.concatenate(columns, axis=1) if columns else np.empty((len(obs), 0), np.float32)

    def centre(self, origin: F32) -> None:
        """Count numbers from the sum of the rows of ``origin [2, size]`` from now on."""
        if np.array_equal(origin, self._origin):
            return
        self._origin, self.moved = origin.copy(), self.moved + 1
        for part, place in self._places():
            own = origin[:, place]
            part.origin = None if part.own is None or not own.any() else joined(own, part.own)

    def spread(self, *obs: Array) -> tuple[F64, F64]:
        """Mean and variance of each number, ``[size]``, as its own type tells them."""
        found = [
            part.spread(np.concatenate([_part(rows, name) for rows in obs]))
            for name, part in self._parts
        ]
        mean, variance = zip(*found, strict=True)
        return np.concatenate(mean), np.concatenate(variance)

    def find_origin(self, mean: F64, variance: F64) -> F32:
        """Where numbers of this spread are to be counted from, for `centre`.

        That is their mean where float32 has few steps in a deviation there, else 0: what float32
        can tell keeps its bits. What never differed yet may come to by a little.
        """
        origin: F32 = np.zeros((2, self.size), np.float32)
        step, deviation = np.spacing(np.abs(mean).astype(np.float32)), np.sqrt(variance)
        for part, place in self._places():
            if part.own is not None:
                least = LEAST_DEVIATION if part.own.kind == "f" else 1.0
                far = step[place] * LEAST_STEPS > np.maximum(deviation[place], least)
                origin[:, place] = np.where(far, _in_two(mean[place], part.own), 0)
        return origin

    def _places(self) -> Iterator[tuple[_Numbers, slice]]:
        """Where the numbers of each part stand."""
        at = 0
        for _, part in self._parts:
            yield part, slice(at, at + part.size)
            at += part.size

    def images(self, obs: Array) -> list[Array]:
        """The images ``[B, stack, ...]`` uint8 of observations; views."""
        images = [(shape.stack, _part(obs, shape.part)) for shape in self._images]
        return [image if stack > 1 else image[:, None] for stack, image in images]

    def frames(self, image: int, rows: Array) -> Array:
        """One image of stored rows ``[..., row]``: ``[..., frame]``, a view."""
        return _part(rows, self._images[image].part)

    def mask(self, obs: Array) -> Bool | None:
        """Which actions are allowed, ``[B, M]``; None where all always are."""
        if self._mask is None:
            return None
        allowed: Bool = np.not_equal(_part(obs, self._mask), 0)
        return allowed.reshape(len(obs), -1)


class _Numbers:
    """Encodes one part of an observation.

    Attributes:
        size: How many numbers it becomes.
        own: What they are counted in, see `own_type`.
        origin: Where they are counted from, ``[size]`` of that type; None: 0.
    """

    def __init__(self, space: SpaceSpec) -> None:
        self._offsets: I64 | None = None  # from a choice to its place in a row
        self.size = space.size
        self.own = own_type(space)
        self.origin: Array | None = None
        if space.kind == "discrete":
            self.size = space.n
            self._offsets = np.array([-space.start])
        elif space.kind == "multi_discrete":
            self.size = sum(space.counts)
            first = np.cumsum((0, *space.counts[:-1]))
            self._offsets = first - np.asarray(space.starts or np.zeros_like(first))

    def encode(self, obs: Array) -> F32:
        if self._offsets is not None:
            # no table of one row for each choice, which has n * n numbers
            rows = np.zeros((len(obs), self.size), np.float32)
            choices = obs.reshape(len(obs), -1).astype(np.int64, copy=False)
            rows[np.arange(len(obs))[:, None], choices + self._offsets] = 1
            return rows
        numbers = obs.reshape(len(obs), self.size)
        if self.origin is not None:
            numbers = _distance(numbers, self.origin)
        return numbers.astype(np.float32, copy=False)

    def spread(self, obs: Array) -> tuple[F64, F64]:
        """Mean and variance."""
        rows: NDArray[Any]
        rows = self.encode(obs) if self.own is None else obs.reshape(len(obs), self.size)
        mean: F64 = rows.mean(axis=0, dtype=np.float64)
        if self.own is not None:
            rows = _distance(rows, joined(_in_two(mean, self.own), self.own))
        return mean, rows.var(axis=0, dtype=np.float64)


def own_type(space: SpaceSpec) -> np.dtype[Any] | None:
    """What numbers are counted in that have more digits than float32; None: they have not."""
    dtype = space.row_dtype
    if space.kind != "box" or dtype.itemsize < 4 or dtype == np.float32:
        return None
    return dtype if dtype.kind == "f" else np.dtype(np.uint64 if dtype.kind == "u" else np.int64)


def joined(origin: F32, own: np.dtype[Any]) -> Array:
    """An origin in numbers' own type, ``[size]``."""
    first, rest = origin
    if own.kind != "f":  # a rest below 0 goes round in those without a sign
        rest = rest.astype(np.int64)
    total: Array = first.astype(own) + rest.astype(own)
    return total


def _in_two(mean: F64, own: np.dtype[Any]) -> F32:
    """Two float32 whose sum is the number of that type nearest to each mean, to 48 bits."""
    if own.kind != "f":
        mean = np.rint(mean)
    first = mean.astype(np.float32)
    if own.kind != "f":  # the last of a type may be rounded to what lies behind it
        end = np.nextafter(np.float32(np.iinfo(own).max), np.float32(0))
        first = np.minimum(first, end)
    return np.stack([first, (mean - first).astype(np.float32)])


def _distance(numbers: Array, origin: Array) -> NDArray[Any]:
    """How far numbers are from an origin of their own type."""
    distance: NDArray[Any] = numbers.astype(origin.dtype, copy=False) - origin  # type: ignore[operator]
    return distance.view(np.int64) if origin.dtype == np.uint64 else distance


def _part(obs: Array, name: str | None) -> Array:
    """A part of composite observations, a view; the whole without a name."""
    part: Array = obs if name is None else obs[name]  # type: ignore[call-overload]
    return part


def encodes_wide(environment: EnvironmentSpec, images: tuple[ImageShape, ...]) -> bool:
    """Whether any number of an observation has more digits than float32."""
    return ObservationEncoder(environment, images).wide


def encoded_size(environment: EnvironmentSpec, images: tuple[ImageShape, ...]) -> int:
    """Numbers of one encoded observation, without its images and mask."""
    return ObservationEncoder(environment, images).size
