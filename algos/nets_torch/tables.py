"""Observation tables on the device, and how minibatches are taken from them."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fast_core.algos.nets.observations import ObservationTable
from fast_core.algos.nets_torch.networks import Rows
from fast_core.algos.nets_torch.staging import Copy, Download, Staging


class Uploader:
    """Brings arrays to a device: through staging, or as they are on the CPU."""

    def __init__(self, staging: Staging | None) -> None:
        self._staging = staging

    @property
    def staged(self) -> bool:
        """Whether there is a device to copy to."""
        return self._staging is not None

    def __call__(self, array: NDArray[np.generic]) -> Tensor:
        """The array as a tensor on the device; on the CPU it shares memory."""
        return self.finish(self.begin(array))

    def begin(self, array: NDArray[np.generic]) -> Copy:
        """Begin to copy an array to the device; on the CPU it shares memory."""
        if self._staging is not None:
            return self._staging.begin(array)
        return Copy(torch.from_numpy(array), None)

    def finish(self, copy: Copy) -> Tensor:
        """The tensor, for what the device computes from now on."""
        return copy.tensor if self._staging is None else self._staging.finish(copy)

    def download(self, tensor: Tensor) -> Download:
        """Begin to copy the tensor to the host; on the CPU the array shares memory."""
        if self._staging is not None:
            return self._staging.download(tensor)
        return Download(tensor.detach().numpy(), None)


class TorchTable:
    """An `ObservationTable` on the device, in an order of its rows.

    Frames are copied there once, as uint8; a minibatch picks those that it sees.

    Attributes:
        mask: Which actions are allowed in each row; None where all are.
    """

    def __init__(
        self,
        vector: Tensor,
        frames: tuple[Tensor, ...],
        indices: tuple[Tensor, ...],
        mask: Tensor | None,
    ) -> None:
        self._vector, self._frames, self._indices, self.mask = vector, frames, indices, mask

    @classmethod
    def upload(cls, table: ObservationTable, upload: Uploader) -> TorchTable:
        """Copy a table to the device, or view it on the CPU."""
        return cls(
            upload(table.vector),
            tuple(upload(image.frames) for image in table.images),
            tuple(upload(image.index) for image in table.images),
            None if table.mask is None else upload(table.mask),
        )

    def __len__(self) -> int:
        return len(self._vector)

    def ordered(self, order: Tensor) -> TorchTable:
        """Rows in this order, numbers copied and frames shared."""
        return TorchTable(
            self._vector[order],
            self._frames,
            tuple(index[order] for index in self._indices),
            None if self.mask is None else self.mask[order],
        )

    def rows(self, start: int, stop: int) -> Rows:
        """Rows ``start`` to ``stop`` as a network takes them."""
        return Rows(
            self._vector[start:stop],
            tuple(
                _gather(frames, index[start:stop])
                for frames, index in zip(self._frames, self._indices, strict=True)
            ),
            None if self.mask is None else self.mask[start:stop],
        )


def _gather(frames: Tensor, index: Tensor) -> Tensor:
    """Frames ``[B, stack, ...]`` at ``index [B, stack]``."""
    if frames.device.type != "cpu":
        return frames[index]
    # NumPy copies whole frames; torch's index goes by elements and takes ten times longer.
    taken: NDArray[np.uint8] = np.take(frames.numpy(), index.numpy(), axis=0)
    return torch.from_numpy(taken)
