"""Batches from replay on the device, as losses in torch take them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from torch import Tensor

from fast_core.algorithm import Array, ReplayBatch
from fast_core.algos.nets.observations import ObservationEncoder
from fast_core.algos.nets_torch.networks import Rows
from fast_core.algos.nets_torch.staging import Copy
from fast_core.algos.nets_torch.tables import Uploader
from fast_core.algos.replay.critic_batch import numbers
from fast_core.algos.replay.torch_vectors import TensorScaling


class TorchBatch(NamedTuple):
    """A `ReplayBatch` of ``N`` rows on the device.

    Attributes:
        obs: What the policy saw; `Networks.see` makes of it what networks take.
        action: ``[N, A]`` float32 within [-1, 1], or ``[N]`` int64 from 0.
        reward: ``[N]``.
        discount: ``[N]``, what the value of ``next_obs`` is multiplied with.
        next_obs: The observations after the window.
        weight: ``[N]``, importance weights.
        extra: ``[N, ...]`` by name, the columns that the algorithm declares.
    """

    obs: Rows
    action: Tensor
    reward: Tensor
    discount: Tensor
    next_obs: Rows
    weight: Tensor
    extra: dict[str, Tensor]


class Batches:
    """Brings batches to the device; one that was announced is copied beside an update.

    Args:
        encoder: Takes observations apart.
        upload: Brings arrays there.
        scaling: How the numbers of observations are normalised, if they are.
        discrete: Whether actions are choices.
    """

    def __init__(
        self,
        encoder: ObservationEncoder,
        upload: Uploader,
        scaling: TensorScaling | None,
        *,
        discrete: bool,
    ) -> None:
        self._encoder, self._upload, self._scaling = encoder, upload, scaling
        self._discrete = discrete
        self._announced: ReplayBatch | None = None
        self._sent: tuple[ReplayBatch, int, list[Copy]] | None = None

    def announce(self, batch: ReplayBatch) -> None:
        """This one comes after the next."""
        self._announced = batch if self._upload.staged else None

    def send_announced(self) -> None:
        """Begin to copy what was announced."""
        if self._announced is not None:
            self._sent = self._announced, self._encoder.moved, self._send(self._announced)
            self._announced = None

    def take(self, batch: ReplayBatch) -> TorchBatch:
        """A batch on the device."""
        sent, self._sent = self._sent, None
        if sent is not None and sent[0] is batch and sent[1] == self._encoder.moved:
            copies = sent[2]
        else:
            copies = self._send(batch)
        action, scalars, now, later, *rest = [self._upload.finish(copy) for copy in copies]
        images = len(rest) - len(batch.extra)
        rest, extra = rest[:images], dict(zip(batch.extra, rest[images:], strict=True))
        masks: list[Tensor | None] = [None, None]
        if self._encoder.mask_size:
            masks, rest = [rest[0], rest[1]], rest[2:]
        if self._scaling is not None:
            now, later = self._scaling(now), self._scaling(later)
        half = len(rest) // 2
        reward, discount, weight = scalars.unbind()
        return TorchBatch(
            Rows(now, tuple(rest[:half]), masks[0]),
            action,
            reward,
            discount,
            Rows(later, tuple(rest[half:]), masks[1]),
            weight,
            extra,
        )

    def _send(self, batch: ReplayBatch) -> list[Copy]:
        encoder, rows = self._encoder, len(batch.reward)
        if self._discrete:
            action: Array = batch.action.astype(np.int64, copy=False)
        else:
            action = numbers(batch.action).reshape(rows, -1)
        scalars = np.stack([numbers(c) for c in (batch.reward, batch.discount, batch.weight)])
        both = (batch.obs, batch.next_obs)
        arrays: list[Array] = [action, scalars, *(encoder.vector(obs) for obs in both)]
        if encoder.mask_size:
            arrays += [mask for obs in both if (mask := encoder.mask(obs)) is not None]
        arrays += [image for obs in both for image in encoder.images(obs)]
        arrays += batch.extra.values()
        return [self._begin(array) for array in arrays]

    def _begin(self, array: Array) -> Copy:
        if not (self._upload.staged or array.flags.writeable):
            array = array.copy()  # torch warns of memory that nobody may write to
        return self._upload.begin(array)
