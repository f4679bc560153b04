"""PyTorch's dense tensors as memory that pickle protocol 5 leaves where it is.

A tensor takes its own elements with it, not the whole storage that it may be a view of; tensors
that share a storage are apart afterwards. The graph that made it stays behind. One of a CUDA device
comes back on that device where the process uses CUDA already, else on the CPU: nobody's process
gets a context on the device because a learner has one. Other kinds of tensors are left to PyTorch.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any, cast

import torch


def reduce_tensor(tensor: torch.Tensor) -> Any:
    """What makes it anew; for pickle."""
    if not _is_plain(tensor):
        return tensor.__reduce_ex__(5)  # type: ignore[no-untyped-call]
    raw = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
    device = "" if tensor.device.type == "cpu" else str(tensor.device)
    given = pickle.PickleBuffer(cast("Any", raw)), tensor.dtype, tuple(tensor.shape)
    return remake, (*given, tensor.requires_grad, type(tensor) is torch.nn.Parameter, device)


def remake(
    memory: Any,
    dtype: torch.dtype,
    shape: tuple[int, ...],
    requires_grad: bool,
    is_parameter: bool,
    device: str,
) -> torch.Tensor:
    """Make a tensor around memory that is its own from now on."""
    flat = torch.frombuffer(memory, dtype=dtype) if len(memory) else torch.empty(0, dtype=dtype)
    tensor = flat.reshape(shape)
    if device and _is_in_use(torch.device(device)):
        tensor = tensor.to(device)
    if is_parameter:
        return torch.nn.Parameter(tensor, requires_grad)
    return tensor.requires_grad_() if requires_grad else tensor


def _is_in_use(device: torch.device) -> bool:
    cuda = cast("Any", torch.cuda)  # some of it has no types
    return bool(cuda.is_initialized()) and (device.index or 0) < int(cuda.device_count())


def _is_plain(tensor: torch.Tensor) -> bool:
    """Whether its elements, in order, are all that there is to it."""
    return (
        tensor.device.type in ("cpu", "cuda")
        and tensor.layout is torch.strided
        and not (tensor.is_quantized or tensor.is_conj() or tensor.is_neg())
        and not (tensor.__dict__ or tensor._backward_hooks)
        and tensor.nbytes <= tensor.untyped_storage().nbytes()  # not one that repeats itself
    )


REDUCERS: dict[type, Callable[[Any], Any]] = {
    torch.Tensor: reduce_tensor,
    torch.nn.Parameter: reduce_tensor,
}
