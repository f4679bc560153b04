"""Copies between host and device that nobody waits for without need.

The device is driven through a few functions, so that a test can put a recorder in its place.
Nothing here runs before a learner or policy is built on a device: importing it and forking from
a process that has imported it never touch CUDA.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[np.generic]

BLOCK_BYTES = 4 << 20
BLOCKS = 3


class Event(Protocol):
    """A place in the order of a stream's work."""

    def synchronize(self) -> None:
        """Wait, on the host, until everything before it is done."""
        ...

    def query(self) -> bool:
        """Whether everything before it is done."""
        ...


class DeviceStreams(Protocol):
    """What staging needs of a device: a side stream for copies beside the one that computes."""

    def pinned(self, nbytes: int) -> Tensor:
        """Host memory ``[nbytes]`` uint8 that the device can read by itself."""
        ...

    def empty(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """Device memory that the side stream may write at once."""
        ...

    def copy_in(self, target: Tensor, source: Tensor) -> Event:
        """Begin a copy to the device on the side stream; the event marks its end."""
        ...

    def use(self, tensor: Tensor, event: Event) -> None:
        """Let the computing stream wait for ``event`` before what it does with ``tensor``."""
        ...

    def copy_out(self, target: Tensor, source: Tensor) -> Event:
        """Begin a copy to the host on the computing stream; the event marks its end."""
        ...


class CudaStreams:
    """The streams of a CUDA device."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._side = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def pinned(self, nbytes: int) -> Tensor:
        """Page-locked memory."""
        return torch.empty(nbytes, dtype=torch.uint8, pin_memory=True)

    def empty(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """Memory of the side stream's pool: no kernel in flight can still be using it."""
        with torch.cuda.stream(self._side):
            return torch.empty(shape, dtype=dtype, device=self._device)

    def copy_in(self, target: Tensor, source: Tensor) -> Event:
        """Copy on the side stream."""
        with torch.cuda.stream(self._side):
            target.copy_(source, non_blocking=True)
            return self._record(self._side)

    def use(self, tensor: Tensor, event: Event) -> None:
        """Wait on the current stream, which keeps the memory from being given out again."""
        current = torch.cuda.current_stream(self._device)
        current.wait_event(event)  # type: ignore[arg-type]
        tensor.record_stream(current)

    def copy_out(self, target: Tensor, source: Tensor) -> Event:
        """Copy on the current stream, after what computes ``source``."""
        target.copy_(source, non_blocking=True)
        return self._record(torch.cuda.current_stream(self._device))

    @staticmethod
    def _record(stream: torch.cuda.Stream) -> Event:
        event: Event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        stream.record_event(event)  # type: ignore[arg-type]
        return event


@dataclass
class _Block:
    """A part of the ring: pinned memory, and when the device has read it."""

    memory: Tensor
    free: Event | None = None


@dataclass(frozen=True)
class Copy:
    """A tensor on its way to the device.

    Attributes:
        tensor: What nobody may use before `Staging.finish` was called.
        end: The end of its last copy, None where there was nothing to copy.
    """

    tensor: Tensor
    end: Event | None


@dataclass(frozen=True)
class Download:
    """A tensor on its way to the host.

    Attributes:
        array: Where it comes to; overwritten by the next download of its size.
        end: The end of its copy, None where there was nothing to copy.
    """

    array: Array
    end: Event | None

    @property
    def there(self) -> bool:
        """Whether it has arrived."""
        return self.end is None or self.end.query()

    def wait(self) -> Array:
        """The array, once it has."""
        if self.end is not None:
            self.end.synchronize()
        return self.array


class Staging:
    """A ring of pinned blocks between arrays in pageable memory and the device.

    While the device copies one block, the host fills the next. A block is filled again only
    after the event of its last copy; a tensor is used only after that of its last block.
    """

    def __init__(
        self, streams: DeviceStreams, *, block_bytes: int = BLOCK_BYTES, blocks: int = BLOCKS
    ) -> None:
        self._streams = streams
        self._block_bytes = block_bytes
        self._ring = [_Block(streams.pinned(block_bytes)) for _ in range(blocks)]
        self._next = 0
        self._out: dict[int, Tensor] = {}

    def upload(self, array: Array) -> Tensor:
        """Copy ``array`` to the device, in the stream's order; it may change at once."""
        return self.finish(self.begin(array))

    def begin(self, array: Array) -> Copy:
        """Begin to copy ``array``, beside what the device computes; it may change at once."""
        source = np.ascontiguousarray(array)
        target = self._streams.empty(source.shape, _torch_dtype(source))
        if source.nbytes == 0:
            return Copy(target, None)
        source_bytes = source.reshape(-1).view(np.uint8)
        target_bytes = target.view(-1).view(torch.uint8)
        for start in range(0, source.nbytes, self._block_bytes):
            part = source_bytes[start : start + self._block_bytes]
            block = self._ring[self._next]
            self._next = (self._next + 1) % len(self._ring)
            if block.free is not None:
                block.free.synchronize()
            pinned = block.memory[: len(part)]
            pinned.numpy()[...] = part
            block.free = self._streams.copy_in(target_bytes[start : start + len(part)], pinned)
        return Copy(target, block.free)

    def finish(self, copy: Copy) -> Tensor:
        """The tensor, for what the device computes from now on; the host waits for nothing."""
        if copy.end is not None:
            self._streams.use(copy.tensor, copy.end)
        return copy.tensor

    def download(self, tensor: Tensor) -> Download:
        """Begin to copy ``tensor`` to the host, in the stream's order."""
        nbytes = tensor.numel() * tensor.element_size()
        pinned = self._out.get(nbytes)
        if pinned is None:
            pinned = self._out[nbytes] = self._streams.pinned(nbytes)
        host = pinned.view(tensor.dtype).view(tensor.shape)
        return Download(host.numpy(), self._streams.copy_out(host, tensor.detach()))


def _torch_dtype(array: Array) -> torch.dtype:
    """Of an array like this one; torch warns of those that nobody may write to."""
    return torch.from_numpy(np.empty(0, array.dtype)).dtype


def make_staging(device: torch.device) -> Staging | None:
    """Staging for a CUDA device; None where tensors can use the arrays' own memory."""
    return Staging(CudaStreams(device)) if device.type == "cuda" else None
