"""Recurrent layers in torch, unrolled over time, with a backward pass written by hand.

Autograd over a loop took 1.4 to 2.4 times as long, forward and backward (one thread, processor
time, medians of 30): 32 steps of 8 sequences, 64 features: GRU 6.6 ms against 3.3, LSTM 5.6
against 4.0; 64 steps of 32, 128 features: GRU 55.8 against 23.6, LSTM 64.3 against 29.0. It costs
a dozen graph nodes a step, and adds up the weights' gradient step by step. Here a step of the loop
holds only what really depends on the one before: one matrix product and the gates. Inputs,
coefficients of the gradient and the weights' gradients are computed for all steps at once.

Shapes: ``T`` steps of ``B`` sequences, features ``H``, ``G`` gates in torch's order. A sequence
goes on where ``keep`` is 1 and begins anew where it is 0: ``keep[t]`` multiplies the state that
enters step ``t``.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from fast_core.algos.nets.recurrent_shape import Cell, MemoryShape


class TorchMemory:
    """A recurrent layer over named parameter tensors; it owns none.

    Attributes:
        size: Features that leave it, ``H``.
    """

    def __init__(self, shape: MemoryShape) -> None:
        self._shape, self.size = shape, shape.size
        self._over_time = _over_time

    def hide_from_compiler(self) -> None:
        """Let torch.compile leave the loop over time alone.

        It would unroll it: 12 steps of 6 features took 53 s to compile.
        """
        self._over_time = torch.compiler.disable(_over_time)  # type: ignore[no-untyped-call]

    def unroll(
        self, leaves: dict[str, Tensor], features: Tensor, state: Tensor, keep: Tensor
    ) -> Tensor:
        """Features ``[T, B, H]`` after each step; gradients flow to the leaves and ``features``.

        Args:
            leaves: Parameters by name.
            features: ``[T, B, in]``.
            state: ``[B, S]`` before the first step.
            keep: ``[T, B]`` float32.
        """
        outputs: Tensor = self._run(leaves, features, state, keep)[0]
        return outputs

    def step(self, leaves: dict[str, Tensor], features: Tensor, state: Tensor) -> Tensor:
        """The state ``[B, S]`` after ``features [B, in]``, of which the first ``H`` leave."""
        parameters = (
            leaves["memory.input.weight"],
            leaves["memory.state.weight"],
            leaves["memory.input.bias"],
            leaves["memory.state.bias"],
        )
        if self._shape.cell == "gru":
            return torch.gru_cell(features, state, *parameters)
        size = self._shape.size
        pair = [state[:, :size], state[:, size:]]
        return torch.cat(torch.lstm_cell(features, pair, *parameters), -1)

    def unroll_rows(
        self, leaves: dict[str, Tensor], features: Tensor, state: Tensor | None, keep: Tensor | None
    ) -> Tensor:
        """As `unroll`, for time-major rows: ``[T * B, in]`` to ``[T * B, H]``."""
        assert state is not None and keep is not None, "rows come with what is remembered"
        return self.unroll(leaves, features.view(*keep.shape, -1), state, keep).flatten(0, 1)

    def states(
        self, leaves: dict[str, Tensor], features: Tensor, state: Tensor, keep: Tensor
    ) -> Tensor:
        """States ``[T, B, S]`` after each step, before ``keep`` of the next one; no gradient."""
        with torch.no_grad():
            outputs = self._run(leaves, features, state, keep)
        return outputs[0] if len(outputs) == 1 else torch.cat(outputs, -1)

    def _run(
        self, leaves: dict[str, Tensor], features: Tensor, state: Tensor, keep: Tensor
    ) -> tuple[Tensor, ...]:
        from_input = functional.linear(
            features, leaves["memory.input.weight"], leaves["memory.input.bias"]
        )
        weight, bias = leaves["memory.state.weight"], leaves["memory.state.bias"]
        return self._over_time(self._shape.cell, from_input, weight, bias, state, keep)


def _over_time(
    cell: Cell, from_input: Tensor, weight: Tensor, bias: Tensor, state: Tensor, keep: Tensor
) -> tuple[Tensor, ...]:
    function = GRUFunction if cell == "gru" else LSTMFunction
    outputs: tuple[Tensor, ...] = function.apply(  # type: ignore[no-untyped-call]
        from_input, weight, bias, state, keep.unsqueeze(-1)
    )
    return outputs


class GRUFunction(torch.autograd.Function):
    """``h' = (1 - z) n + z h`` with ``n = tanh(x_n + r h_n)``, over all steps."""

    @staticmethod
    def forward(
        ctx: Any, from_input: Tensor, weight: Tensor, bias: Tensor, state: Tensor, keep: Tensor
    ) -> tuple[Tensor]:
        """Return features ``[T, B, H]``."""
        steps, size = len(from_input), weight.shape[1]
        transposed = weight.t()
        entering = torch.empty((steps, *state.shape), dtype=state.dtype, device=state.device)
        outputs, new = torch.empty_like(entering), torch.empty_like(entering)
        sums = torch.empty_like(from_input)  # W h + b
        gates = torch.empty_like(from_input[..., : 2 * size])
        hidden = state
        for t in range(steps):
            torch.mul(hidden, keep[t], out=entering[t])
            torch.addmm(bias, entering[t], transposed, out=sums[t])
            torch.add(from_input[t, :, : 2 * size], sums[t, :, : 2 * size], out=gates[t])
            gates[t].sigmoid_()
            torch.addcmul(
                from_input[t, :, 2 * size :],
                gates[t, :, :size],
                sums[t, :, 2 * size :],
                out=new[t],
            ).tanh_()
            hidden = torch.lerp(new[t], entering[t], gates[t, :, size:], out=outputs[t])
        ctx.save_for_backward(weight, keep, entering, gates, new, sums[..., 2 * size :])
        return (outputs,)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:
        """Return gradients of the inputs, the weight and the bias."""
        weight, keep, entering, gates, new, new_sum = ctx.saved_tensors
        (gradient,) = gradients
        size = weight.shape[1]
        reset, update = gates[..., :size], gates[..., size:]
        # d sums / d h', for the three gates; the new gate's sum is multiplied by the reset gate
        to_new = (1 - update) * (1 - new * new)
        factors = torch.stack(
            [
                to_new * new_sum * reset * (1 - reset),
                (entering - new) * update * (1 - update),
                to_new * reset,
            ],
            -2,
        )
        back, along = torch.empty_like(factors), torch.empty_like(new)
        carried = torch.zeros_like(new[0])
        for t in range(len(new) - 1, -1, -1):
            torch.add(gradient[t], carried, out=along[t])
            torch.mul(along[t].unsqueeze(1), factors[t], out=back[t])
            torch.addmm(along[t] * update[t], back[t].flatten(1), weight, out=carried)
            carried.mul_(keep[t])
        flat = back.flatten(0, 1).flatten(1)
        to_input = back.clone()
        torch.mul(along, to_new, out=to_input[..., 2, :])
        return to_input.flatten(2), flat.t() @ entering.flatten(0, 1), flat.sum(0), None, None


class LSTMFunction(torch.autograd.Function):
    """``c' = f c + i g`` and ``h' = o tanh(c')``, over all steps."""

    @staticmethod
    def forward(
        ctx: Any, from_input: Tensor, weight: Tensor, bias: Tensor, state: Tensor, keep: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return features and cells, ``[T, B, H]`` each."""
        steps, size = len(from_input), weight.shape[1]
        transposed = weight.t()
        entering = torch.empty((steps, *state.shape), dtype=state.dtype, device=state.device)
        outputs = torch.empty_like(entering[..., :size])
        cells, squashed = torch.empty_like(outputs), torch.empty_like(outputs)
        gates = from_input + bias
        hidden, cell = state[:, :size], state[:, size:]
        for t in range(steps):
            torch.mul(hidden, keep[t], out=entering[t, :, :size])
            torch.mul(cell, keep[t], out=entering[t, :, size:])
            gate = gates[t]
            gate.addmm_(entering[t, :, :size], transposed)
            gate[:, : 2 * size].sigmoid_()
            gate[:, 2 * size : 3 * size].tanh_()
            gate[:, 3 * size :].sigmoid_()
            cell = torch.mul(gate[:, size : 2 * size], entering[t, :, size:], out=cells[t])
            cell.addcmul_(gate[:, :size], gate[:, 2 * size : 3 * size])
            torch.tanh(cell, out=squashed[t])
            hidden = torch.mul(gate[:, 3 * size :], squashed[t], out=outputs[t])
        ctx.save_for_backward(weight, keep, entering, gates, squashed)
        ctx.mark_non_differentiable(cells)
        return outputs, cells

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:
        """Return gradients of the inputs, the weight and the bias."""
        weight, keep, entering, gates, squashed = ctx.saved_tensors
        gradient = gradients[0]
        size = weight.shape[1]
        enter, forget, new, output = gates.unflatten(-1, (4, size)).unbind(-2)
        # d sums / d c' for three gates, / d h' for the output gate
        factors = torch.stack(
            [
                new * enter * (1 - enter),
                entering[..., size:] * forget * (1 - forget),
                enter * (1 - new * new),
            ],
            -2,
        )
        to_output = squashed * output * (1 - output)
        to_cell = output * (1 - squashed * squashed)
        back = torch.empty_like(gates)
        from_cell = back.view(*squashed.shape[:2], 4, size)[:, :, :3]
        carried, cell = torch.zeros_like(squashed[0]), torch.zeros_like(squashed[0])
        for t in range(len(gates) - 1, -1, -1):
            carried.add_(gradient[t])
            torch.mul(carried, to_output[t], out=back[t, :, 3 * size :])
            cell.addcmul_(carried, to_cell[t])
            torch.mul(cell.unsqueeze(1), factors[t], out=from_cell[t])
            torch.mm(back[t], weight, out=carried)
            carried.mul_(keep[t])
            cell.mul_(forget[t]).mul_(keep[t])
        flat = back.flatten(0, 1)
        to_weight = flat.t() @ entering[..., :size].flatten(0, 1)
        return back, to_weight, flat.sum(0), None, None
