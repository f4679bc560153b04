"""Batches and sequences from replay on the device, as losses in torch take them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from torch import Tensor

from fast_core.algorithm import Array, ReplayBatch, SequenceBatch, Window
from fast_core.algos.nets.observations import I64, ObservationEncoder
from fast_core.algos.nets_torch.networks import Rows
from fast_core.algos.nets_torch.staging import Copy
from fast_core.algos.nets_torch.tables import Uploader
from fast_core.algos.replay.critic_batch import numbers
from fast_core.algos.replay.learner import DrawnBatch
from fast_core.algos.replay.sequence_targets import going_on, learned_rows
from fast_core.algos.replay.torch_memory import Picked, Sequences
from fast_core.algos.replay.torch_vectors import TensorScaling


class TorchBatch(NamedTuple):
    """A `ReplayBatch` of ``N`` rows on the device, or the ``N`` learned rows of a `SequenceBatch`.

    Attributes:
        obs: What the policy saw; `Networks.see` makes of it what networks take.
        action: ``[N, A]`` float32 within [-1, 1], or ``[N]`` int64 from 0.
        reward: ``[N]``.
        discount: ``[N]``, what the value of ``next_obs`` is multiplied with.
        next_obs: The observations after the window.
        weight: ``[N]``, importance weights.
        extra: ``[N, ...]`` by name, the columns that the algorithm declares.
    """

    obs: Rows | Picked
    action: Tensor
    reward: Tensor
    discount: Tensor
    next_obs: Rows | Picked
    weight: Tensor
    extra: dict[str, Tensor]


_Sent = tuple[list[Copy], I64 | None]  # and `Batches.starts`


class Batches:
    """Brings batches to the device; one that was announced is copied beside an update.

    Args:
        encoder: Takes observations apart.
        upload: Brings arrays there.
        scaling: How the numbers of observations are normalised, if they are.
        discrete: Whether actions are choices.

    Attributes:
        starts: Where in the batch that was taken last each sequence begins; None: there are none.
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
        self._announced: DrawnBatch | None = None
        self._sent: tuple[DrawnBatch, int, _Sent] | None = None
        self.starts: I64 | None = None

    def announce(self, batch: DrawnBatch) -> None:
        """This one comes after the next."""
        self._announced = batch if self._upload.staged else None

    def send_announced(self) -> None:
        """Begin to copy what was announced."""
        if self._announced is not None:
            self._sent = self._announced, self._encoder.moved, self._send(self._announced)
            self._announced = None

    def take(self, batch: DrawnBatch) -> TorchBatch:
        """A batch on the device."""
        sent, self._sent = self._sent, None
        if sent is not None and sent[0] is batch and sent[1] == self._encoder.moved:
            copies, self.starts = sent[2]
        else:
            copies, self.starts = self._send(batch)
        return self._put_together(batch, [self._upload.finish(copy) for copy in copies])

    def _send(self, batch: DrawnBatch) -> _Sent:
        arrays, starts = self._arrays(batch)
        return [self._begin(array) for array in arrays], starts

    def _arrays(self, batch: DrawnBatch) -> tuple[list[Array], I64 | None]:
        """What is copied, and `starts`."""
        assert isinstance(batch, ReplayBatch), "sequences are for those who remember"
        scalars = batch.reward, batch.discount, batch.weight
        first = self._said(batch.action, *scalars)
        return [*first, *self._observed(batch.obs, batch.next_obs), *batch.extra.values()], None

    def _put_together(self, batch: DrawnBatch, tensors: list[Tensor]) -> TorchBatch:
        action, scalars, *rest = tensors
        seen = len(rest) - len(batch.extra)
        now, later = self._rows(rest[:seen])
        reward, discount, weight = scalars.unbind()
        extra = dict(zip(batch.extra, rest[seen:], strict=True))
        return TorchBatch(now, action, reward, discount, later, weight, extra)

    def _said(self, action: Array, *scalars: Array) -> list[Array]:
        """Actions, and numbers of each row."""
        if self._discrete:
            taken: Array = action.astype(np.int64, copy=False)
        else:
            taken = numbers(action).reshape(len(action), -1)
        return [taken, np.stack([numbers(column) for column in scalars])]

    def _observed(self, *both: Array) -> list[Array]:
        """Two arrays of observations, taken apart."""
        encoder = self._encoder
        arrays: list[Array] = [encoder.vector(obs) for obs in both]
        if encoder.mask_size:
            arrays += [mask for obs in both if (mask := encoder.mask(obs)) is not None]
        return arrays + [image for obs in both for image in encoder.images(obs)]

    def _rows(self, tensors: list[Tensor]) -> tuple[Rows, Rows]:
        """The same on the device."""
        now, later, *images = tensors
        masks: list[Tensor | None] = [None, None]
        if self._encoder.mask_size:
            masks, images = [*images[:2]], images[2:]
        if self._scaling is not None:
            now, later = self._scaling(now), self._scaling(later)
        half = len(images) // 2
        first, second = tuple(images[:half]), tuple(images[half:])
        return Rows(now, first, masks[0]), Rows(later, second, masks[1])

    def _begin(self, array: Array) -> Copy:
        if not (self._upload.staged or array.flags.writeable):
            array = array.copy()  # torch warns of memory that nobody may write to
        return self._upload.begin(array)


class SequenceBatches(Batches):
    """Brings sequences there, and the rows of them that are learned from.

    Args:
        encoder: See `Batches`.
        upload: See `Batches`.
        scaling: See `Batches`.
        window: What is drawn; rows after those that are learned from are for their targets.
        gamma: Discount of one step.
        state_size: Numbers that are remembered.
        discrete: See `Batches`.
    """

    def __init__(
        self,
        encoder: ObservationEncoder,
        upload: Uploader,
        scaling: TensorScaling | None,
        window: Window,
        gamma: float,
        state_size: int,
        *,
        discrete: bool,
    ) -> None:
        super().__init__(encoder, upload, scaling, discrete=discrete)
        self._window, self._gamma, self._state_size = window, gamma, state_size

    def _arrays(self, batch: DrawnBatch) -> tuple[list[Array], I64 | None]:
        assert isinstance(batch, SequenceBatch), "a memory is unrolled over sequences"
        rows, before = learned_rows(batch, self._window, self._gamma), self._window.before
        place, weight = (rows.sequence, rows.now), batch.weight[rows.sequence]
        said = self._said(batch.action[place], rows.reward, rows.discount, weight)
        # One time after the other, as they are unrolled.
        obs, many = np.ascontiguousarray(batch.obs.swapaxes(0, 1)), len(batch.weight)
        shape = obs.shape[2:]
        seen = self._observed(*(part.reshape(-1, *shape) for part in (obs[:before], obs[before:])))
        picks = [(at - before) * many + rows.sequence for at in (rows.now, rows.then)]
        state = batch.state
        if state is None:
            state = np.zeros((many, self._state_size), np.float32)
        extra = [column[place] for column in batch.extra.values()]
        return [*said, *picks, going_on(batch.mask), state, *seen, *extra], rows.starts

    def _put_together(self, batch: DrawnBatch, tensors: list[Tensor]) -> TorchBatch:
        action, scalars, now, then, keep, state, *rest = tensors
        seen = len(rest) - len(batch.extra)
        before, rows = self._rows(rest[:seen])
        sequences = Sequences(before, rows, state, keep)
        reward, discount, weight = scalars.unbind()
        obs, next_obs = (
            Picked(sequences, at, None if rows.mask is None else rows.mask.index_select(0, at))
            for at in (now, then)
        )
        extra = dict(zip(batch.extra, rest[seen:], strict=True))
        return TorchBatch(obs, action, reward, discount, next_obs, weight, extra)
