"""From observations as environments give them to what networks take.

A row of an observation has up to three parts: numbers (flattened boxes, one-hot choices), images,
which stay uint8 until they are on the device, and the mask of allowed actions, which is no input.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fast_core.algos.nets.images import ImageShape
from fast_core.algos.nets.networks import F32
from fast_core.spec import EnvironmentSpec, SpaceSpec

Array = NDArray[np.generic]
Bool = NDArray[np.bool_]
I64 = NDArray[np.int64]


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

    Args:
        environment: Whose observations.
        images: The parts that go through convolutions; every other part but the mask becomes
            numbers.
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
    """Encodes one part of an observation."""

    def __init__(self, space: SpaceSpec) -> None:
        self._offsets: I64 | None = None  # from a choice to its place in a row
        self.size = space.size
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
        return obs.reshape(len(obs), self.size).astype(np.float32, copy=False)


def _part(obs: Array, name: str | None) -> Array:
    """A part of composite observations, a view; the whole without a name."""
    part: Array = obs if name is None else obs[name]  # type: ignore[call-overload]
    return part


def encoded_size(environment: EnvironmentSpec, images: tuple[ImageShape, ...]) -> int:
    """Numbers of one encoded observation, without its images and mask."""
    return ObservationEncoder(environment, images).size
