"""What networks take of a replay batch, on the device, through convolutions if there are any."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from fast_core.algorithm import Array, ReplayBatch
from fast_core.algos.nets.mlp import Mlp
from fast_core.algos.nets.networks import F32
from fast_core.algos.nets.observations import ObservationEncoder
from fast_core.algos.nets_torch.mlp import TorchMlp
from fast_core.algos.nets_torch.networks import Rows
from fast_core.algos.nets_torch.staging import Copy
from fast_core.algos.nets_torch.tables import Uploader
from fast_core.algos.replay.critic_batch import numbers
from fast_core.algos.replay.torch_encoder import TorchEncoder


class TensorScaling(NamedTuple):
    """Mean and inverse deviation, on the device, and the limit of what is normalised by them."""

    mean: Tensor
    inverse_std: Tensor
    limit: float

    def __call__(self, rows: Tensor) -> Tensor:
        """Centre, scale and clip ``rows [N, size]``, to the bits of `nets.normalizer.normalise`."""
        return ((rows - self.mean) * self.inverse_std).clamp_(-self.limit, self.limit)


class DeviceInputs:
    """Tensors ``[B, in]`` on the device; implements `replay.critic_batch.Inputs`.

    Every pixel is copied there once. A batch that was announced by `prefetch` is copied while
    the device looks at the one before: after its convolutions were begun, and before anything
    waits for them.

    Args:
        encoder: Takes observations apart.
        actions: Numbers of an action.
        upload: Brings arrays to the device.
        device: Where it is.
        online: The convolutions that are learned, None where there are none.
        target: The target network's.
        scaling: Normalises the numbers, by what is newest when a batch is taken; None: raw.
    """

    def __init__(
        self,
        encoder: ObservationEncoder,
        actions: int,
        upload: Uploader,
        device: torch.device,
        online: TorchEncoder | None,
        target: TorchEncoder | None,
        scaling: TensorScaling | None = None,
    ) -> None:
        self._encoder, self._actions = encoder, actions
        self._upload, self._device = upload, device
        self._online, self._target, self._scaling = online, target, scaling
        self._announced: ReplayBatch | None = None
        self._copied: tuple[ReplayBatch, int, list[Copy]] | None = None
        self._features: Tensor | None = None
        self._later: Rows | None = None
        self._size = self._rows = 0
        self._now = self._then = torch.empty((0, 0), device=device)

    @property
    def action_rows(self) -> slice:
        """Where actions are among a critic's inputs."""
        return slice(self._size, None)

    def prefetch(self, batch: ReplayBatch) -> None:
        """Copy this batch to the device beside the update that begins with the next `fill`."""
        self._announced = batch if self._upload.staged else None

    def fill(self, batch: ReplayBatch) -> None:
        """Take a batch; actions still to be chosen are left open."""
        columns = self._take(batch)
        now, self._later = columns.now, columns.later
        seen = now.vector if self._online is None else self._online.forward(now)
        later = self._later.vector if self._target is None else self._target.look(self._later)
        self._features = seen
        self._allocate(*seen.shape)
        with torch.no_grad():
            self._now[: self._rows, : self._size] = seen
            self._now[: self._rows, self._size :] = columns.action
            self._then[:, : self._size] = later
        if self._announced is not None:
            self._copied = self._announced, self._encoder.moved, self._send(self._announced)
            self._announced = None

    @property
    def obs(self) -> Tensor:
        """Observations ``[N, in]``."""
        return self._now[: self._rows, : self._size]

    @property
    def next_obs(self) -> Tensor:
        """Observations after the window ``[N, in]``, as target networks see them."""
        return self._then[:, : self._size]

    @property
    def next_seen(self) -> Tensor:
        """The same as the online networks see them."""
        assert self._later is not None, "fill comes first"
        return self.next_obs if self._online is None else self._online.look(self._later)

    @property
    def stored(self) -> Tensor:
        """Observations with the stored actions ``[N, in + A]``."""
        return self._now[: self._rows]

    def with_action(self, action: F32) -> Tensor:
        """``[2 N, in + A]``: the stored actions, then those of the policy, ``[A, N]``."""
        own = self._now[self._rows :]
        own[:, : self._size] = self.obs
        own[:, self._size :] = self._upload(action).t()
        return self._now

    def with_next(self) -> Tensor:
        """``[2 N, in]``: observations, then the next ones as online networks see them."""
        self._now[self._rows :, : self._size] = self.next_seen
        return self._now

    def with_next_action(self, action: F32) -> Tensor:
        """`next_obs` with these actions, ``[N, in + A]``."""
        self._then[:, self._size :] = self._upload(action).t()
        return self._then

    def backward(self, network: Mlp, *, scale: float = 1.0) -> None:
        """Send the gradient of the first ``N`` rows into the convolutions."""
        if self._online is None:
            return
        assert isinstance(network, TorchMlp) and self._features is not None
        delta = network.slope(slice(self._size), self._rows)
        self._online.backward(self._features, delta if scale == 1.0 else delta * scale)
        self._features = None  # and with it what the convolutions kept

    def _take(self, batch: ReplayBatch) -> _Columns:
        copied, self._copied = self._copied, None
        if copied is not None and copied[0] is batch and copied[1] == self._encoder.moved:
            copies = copied[2]
        else:
            copies = self._send(batch)
        action, now, later, *images = [self._upload.finish(copy) for copy in copies]
        if self._scaling is not None:
            now, later = self._scaling(now), self._scaling(later)
        half = len(images) // 2
        return _Columns(action, Rows(now, tuple(images[:half])), Rows(later, tuple(images[half:])))

    def _send(self, batch: ReplayBatch) -> list[Copy]:
        """Begin to copy a batch to the device: actions, numbers, images."""
        encoder, rows = self._encoder, len(batch.action)
        action = numbers(batch.action).reshape(rows, -1)[:, : self._actions]
        vectors = [encoder.vector(batch.obs), encoder.vector(batch.next_obs)]
        images = [*encoder.images(batch.obs), *encoder.images(batch.next_obs)]
        return [self._begin(array) for array in (action, *vectors, *images)]

    def _begin(self, array: Array) -> Copy:
        if not (self._upload.staged or array.flags.writeable):
            array = array.copy()  # torch warns of memory that nobody may write to
        return self._upload.begin(array)

    def _allocate(self, rows: int, size: int) -> None:
        if (rows, size) != (self._rows, self._size):
            self._rows, self._size = rows, size
            width = size + self._actions
            self._now = torch.empty((2 * rows, width), device=self._device)
            self._then = torch.empty((rows, width), device=self._device)


class _Columns(NamedTuple):
    """A batch on the device.

    Attributes:
        action: ``[N, A]``.
        now: Observations.
        later: Those after the window.
    """

    action: Tensor
    now: Rows
    later: Rows
