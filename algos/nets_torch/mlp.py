"""The passes of `nets.mlp` in torch: for bfloat16 and GPUs.

The backward pass is written by hand here too: autograd took 1.28 times as long in float32 and
1.26 times in bfloat16 for the passes of an update of SAC (two critics and the policy of 256, 256
on 256 rows, forward and backward; one thread, processor time, medians of 30: 9.4 ms against 7.4,
7.3 against 5.8). Inside, rows come first: products of some of the rows would copy otherwise.
"""

from __future__ import annotations

from typing import cast

import numpy as np
import torch
from torch import Tensor

from fast_core.algos.nets.mlp import KEPT_SIZES, Columns, MlpShape
from fast_core.algos.nets.networks import F32, Parameter
from fast_core.algos.nets_torch.networks import tensor_view
from fast_core.algos.nets_torch.tables import Uploader


class TorchMlp:
    """An ensemble in torch; implements `nets.mlp.Mlp`.

    With ``bf16`` hidden layers are bfloat16; the last layer and all parameters stay float32.

    Args:
        shape: What it is.
        parameters: Its layout.
        flat: The tensor with its parameters, read by every `forward`.
        gradient: The tensor that takes their gradients; None for networks that only act.
        upload: Brings inputs to the device and outputs back.
        bf16: Whether hidden layers are bfloat16.
    """

    def __init__(
        self,
        shape: MlpShape,
        parameters: tuple[Parameter, ...],
        flat: Tensor,
        gradient: Tensor | None,
        upload: Uploader,
        *,
        bf16: bool,
    ) -> None:
        self._shape, self._upload = shape, upload
        self._tanh = shape.activation == "tanh"
        self._dtype = torch.bfloat16 if bf16 else torch.float32
        views = [tensor_view(flat, p.offset, p.shape) for p in parameters]
        self._masters = views[0::2], [bias[:, None] for bias in views[1::2]]
        # What passes use: the masters, or copies in bfloat16.
        self._weights, self._biases = (
            [master.to(self._dtype) for master in masters] for masters in self._masters
        )
        gradients: list[Tensor] = []
        if gradient is not None:
            gradients = [tensor_view(gradient, p.offset, p.shape) for p in parameters]
        self._weight_gradients, self._bias_gradients = gradients[0::2], gradients[1::2]
        self._narrow = [torch.empty_like(weight) for weight in self._weights] if bf16 else []
        self._buffers: dict[int, Buffers] = {}
        self._x = flat[:0]

    def forward(self, x: Columns) -> F32:
        """Map ``x [in, B]``, or a tensor ``[B, in]``, to ``[M, out, B]``; see `nets.mlp.Mlp`."""
        if isinstance(x, np.ndarray):
            x = self._upload(x).t()
        assert isinstance(x, Tensor)
        with torch.no_grad():
            output = self._forward(x)
        return self._host(output).transpose(0, 2, 1)

    def backward(self, delta: F32, *, rows: int, inputs: slice | None = None) -> F32 | None:
        """Go back through the last `forward`; see `nets.mlp.Mlp.backward`."""
        with torch.no_grad():
            gradient = self._backward(self._upload(delta).transpose(1, 2), rows, inputs)
        return None if gradient is None else self._host(gradient)

    def slope(self, inputs: slice, rows: int) -> Tensor:
        """Gradient ``[rows, inputs]`` with respect to the first rows; see `nets.mlp.Mlp.slope`."""
        delta = self._buffers[len(self._x)].deltas[0]
        with torch.no_grad():
            gradient = delta[0, :rows] @ self._weights[0][0, :, inputs]
            for member in range(1, len(delta)):
                gradient = gradient + delta[member, :rows] @ self._weights[0][member, :, inputs]
        return gradient.float()

    def _host(self, values: Tensor) -> F32:
        host = cast(F32, self._upload.download(values))
        # What staging hands out is overwritten by any network's next result of this size.
        return host.copy() if self._upload.staged else host

    def _forward(self, x: Tensor) -> Tensor:
        """Map ``x [B, in]`` to ``[M, B, out]``."""
        self._refresh()
        buffers = self._buffers_for(len(x), x.device)
        self._x = inputs = x.to(self._dtype)
        for index, hidden in enumerate(buffers.hidden):
            _affine(inputs, self._weights[index], self._biases[index], hidden)
            _activate(hidden, self._tanh)
            inputs = hidden
        if buffers.wide is not inputs:
            buffers.wide.copy_(inputs)
        _affine(buffers.wide, self._masters[0][-1], self._masters[1][-1], buffers.output)
        return buffers.output

    def _backward(self, delta: Tensor, rows: int, inputs: slice | None) -> Tensor | None:
        """Go back from ``delta [M, B, out]`` to ``[inputs, B - rows]``."""
        buffers = self._buffers[len(self._x)]
        below = buffers.wide
        for index in reversed(range(len(self._weights))):
            if rows:
                self._write_gradients(index, delta[:, :rows], below[..., :rows, :])
            if index == 0:
                break
            into, output = buffers.deltas[index - 1], buffers.hidden[index - 1]
            _product(delta.to(self._dtype), self._weights[index], into)
            _through_activation(into, output, self._tanh)
            delta, below = into, buffers.hidden[index - 2] if index > 1 else self._x
        if inputs is None:
            return None
        # Few inputs are wanted: products with them as rows are four times faster.
        weight = self._weights[0][:, :, inputs].transpose(1, 2)
        gradient = weight[0] @ delta[0, rows:].t()
        for member in range(1, len(delta)):
            gradient = gradient + weight[member] @ delta[member, rows:].t()
        return gradient.float()

    def _write_gradients(self, index: int, delta: Tensor, below: Tensor) -> None:
        target = self._weight_gradients[index]
        if delta.dtype == target.dtype:
            _product(delta.transpose(1, 2), below, target)
        else:
            _product(delta.transpose(1, 2), below, self._narrow[index])
            target.copy_(self._narrow[index])
        torch.sum(delta, 1, dtype=torch.float32, out=self._bias_gradients[index])

    def _refresh(self) -> None:
        """Cast the parameters, which may have changed."""
        if self._dtype != torch.float32:
            for copies, masters in zip((self._weights, self._biases), self._masters, strict=True):
                for copy, master in zip(copies, masters, strict=True):
                    copy.copy_(master)

    def _buffers_for(self, rows: int, device: torch.device) -> Buffers:
        buffers = self._buffers.get(rows)
        if buffers is None:
            if len(self._buffers) >= KEPT_SIZES:
                self._buffers.clear()
            buffers = self._buffers[rows] = Buffers(self._shape, rows, self._dtype, device)
        return buffers


class Buffers:
    """What passes over ``B`` rows write: memory that is fresh each time would be paged in anew.

    Attributes:
        hidden: ``[M, B, out]`` of each hidden layer.
        deltas: Gradients with respect to them.
        wide: The last of ``hidden``, in float32.
        output: ``[M, B, out]`` float32.
    """

    def __init__(
        self, shape: MlpShape, rows: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        sizes = [(shape.members, rows, size) for size in shape.hidden_sizes]
        self.hidden = [torch.empty(size, dtype=dtype, device=device) for size in sizes]
        self.deltas = [torch.empty_like(hidden) for hidden in self.hidden]
        last = self.hidden[-1]
        self.wide = last if dtype == torch.float32 else torch.empty_like(last, dtype=torch.float32)
        self.output = torch.empty((shape.members, rows, shape.outputs), device=device)


def _product(a: Tensor, b: Tensor, out: Tensor) -> None:
    """``out[m] = a[m] @ b[m]``; either may be the same for all members, without an axis ``m``."""
    members = len(out)
    if out.device.type != "cpu":
        torch.bmm(a.expand(members, *a.shape[-2:]), b.expand(members, *b.shape[-2:]), out=out)
        return
    for member in range(members):  # a batched product was slower on the CPU
        torch.mm(
            a if a.dim() == 2 else a[member], b if b.dim() == 2 else b[member], out=out[member]
        )


def _affine(x: Tensor, weight: Tensor, bias: Tensor, out: Tensor) -> None:
    """``out[m] = x[m] @ weight[m]^T + bias[m]``; ``x`` may be the same for all members."""
    if out.device.type != "cpu":
        torch.baddbmm(bias, x.expand(len(out), *x.shape[-2:]), weight.transpose(1, 2), out=out)
        return
    for member in range(len(out)):
        inputs = x if x.dim() == 2 else x[member]
        torch.addmm(bias[member], inputs, weight[member].t(), out=out[member])


def _activate(x: Tensor, tanh: bool) -> None:
    if tanh:
        x.tanh_()
    else:
        x.relu_()


def _through_activation(delta: Tensor, output: Tensor, tanh: bool) -> None:
    """Multiply ``delta`` by the activation's slope where it put out ``output``."""
    if tanh:
        torch.ops.aten.tanh_backward.grad_input(delta, output, grad_input=delta)
    else:
        torch.ops.aten.threshold_backward.grad_input(delta, output, 0, grad_input=delta)
