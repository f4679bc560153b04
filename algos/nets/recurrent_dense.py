"""Recurrent layers in NumPy for the learner: unrolled over time, with a backward pass by hand.

For layers of this size NumPy's calls are the cheapest, as in `nets.mlp`. A step of either loop
holds only what depends on the step before: one matrix product and the gates. Inputs, the
coefficients of the gradient and the gradients of the weights are computed for all steps at once.

Shapes: ``T`` steps of ``B`` sequences, ``H`` features, gates in torch's order. A sequence goes on
where ``keep`` is 1 and begins anew where it is 0: ``keep[t]`` multiplies the state that enters
step ``t``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np

from fast_core.algos.nets.networks import F32
from fast_core.algos.nets.recurrent_cells import sigmoid
from fast_core.algos.nets.recurrent_shape import MemoryShape

ONE = np.float32(1)


class Tape(Protocol):
    """What a cell remembers of its way forward until its way back."""

    entering: F32

    def forward(self, from_input: F32, weight: F32, bias: F32, state: F32, keep: F32) -> F32:
        """Return features ``[T, B, H]`` from ``from_input [T, B, gates * H]``."""
        ...

    def backward(self, gradient: F32, weight: F32, keep: F32) -> tuple[F32, F32]:
        """Return gradients ``[T * B, gates * H]`` of the inputs' sums and the states' sums."""
        ...


class UnrolledMemory:
    """A recurrent layer over ``T`` steps; `backward` follows the `forward` that it belongs to.

    Args:
        shape: The layer.
        views: Its parameters by name.
        gradients: Where their gradients are written.
    """

    def __init__(
        self, shape: MemoryShape, views: Mapping[str, F32], gradients: Mapping[str, F32]
    ) -> None:
        self._shape = shape
        self._input = views["memory.input.weight"]
        self._input_bias = views["memory.input.bias"]
        self._weight = views["memory.state.weight"]
        self._bias = views["memory.state.bias"]
        self._gradients = gradients
        self._tapes: dict[tuple[int, int], Tape] = {}

    def forward(self, features: F32, state: F32, keep: F32) -> F32:
        """Return ``[T, B, H]``, overwritten by the next call with as many steps and sequences.

        Args:
            features: ``[in, T * B]``, time-major.
            state: ``[B, S]`` before the first step.
            keep: ``[T, B]`` float32.
        """
        steps, envs = keep.shape
        from_input: F32 = np.matmul(features.T, self._input.T)
        np.add(from_input, self._input_bias, out=from_input)
        tape = self._tape(steps, envs)
        return tape.forward(
            from_input.reshape(steps, envs, -1), self._weight, self._bias, state, keep[:, :, None]
        )

    def backward(self, features: F32, gradient: F32, keep: F32, delta: F32) -> None:
        """Write the parameters' gradients, and that of the features into ``delta``.

        Args:
            features: As in `forward`.
            gradient: ``[T, B, H]``, of the loss with respect to the result.
            keep: As in `forward`.
            delta: ``[in, T * B]``.
        """
        steps, envs = keep.shape
        tape = self._tape(steps, envs)
        to_input, to_state = tape.backward(gradient, self._weight, keep[:, :, None])
        entering = tape.entering.reshape(steps * envs, -1)[:, : self._shape.size]
        np.matmul(to_state.T, entering, out=self._gradients["memory.state.weight"])
        np.add.reduce(to_state, axis=0, out=self._gradients["memory.state.bias"])
        np.matmul(to_input.T, features.T, out=self._gradients["memory.input.weight"])
        np.add.reduce(to_input, axis=0, out=self._gradients["memory.input.bias"])
        np.matmul(self._input.T, to_input.T, out=delta)

    def _tape(self, steps: int, envs: int) -> Tape:
        """Buffers for this many steps and sequences; a run uses one size or two."""
        tape = self._tapes.get((steps, envs))
        if tape is None:
            make = GRUTape if self._shape.cell == "gru" else LSTMTape
            tape = self._tapes[steps, envs] = make(steps, envs, self._shape.size)
        return tape


class GRUTape:
    """``h' = (1 - z) n + z h`` with ``n = tanh(x_n + r h_n)``."""

    def __init__(self, steps: int, envs: int, size: int) -> None:
        self.entering: F32 = np.empty((steps, envs, size), np.float32)
        self._new, self._output = np.empty_like(self.entering), np.empty_like(self.entering)
        self._along = np.empty_like(self.entering)
        self._gates: F32 = np.empty((steps, envs, 2 * size), np.float32)
        self._sums: F32 = np.empty((steps, envs, 3 * size), np.float32)  # W h + b
        self._factors: F32 = np.empty((steps, envs, 3, size), np.float32)
        self._back = np.empty_like(self._factors)

    def forward(self, from_input: F32, weight: F32, bias: F32, state: F32, keep: F32) -> F32:
        """Return features ``[T, B, H]``."""
        size = weight.shape[1]
        two, hidden, transposed = 2 * size, state, weight.T
        rows = zip(
            from_input, keep, self.entering, self._sums, self._gates, self._new, self._output,
            strict=True,
        )  # fmt: skip
        for x, kept, entering, sums, gates, new, output in rows:
            np.multiply(hidden, kept, out=entering)
            np.matmul(entering, transposed, out=sums)
            np.add(sums, bias, out=sums)
            np.add(x[:, :two], sums[:, :two], out=gates)
            sigmoid(gates)
            np.multiply(sums[:, two:], gates[:, :size], out=new)
            np.add(new, x[:, two:], out=new)
            np.tanh(new, out=new)
            np.subtract(entering, new, out=output)
            np.multiply(output, gates[:, size:], out=output)
            np.add(output, new, out=output)
            hidden = output
        return self._output

    def backward(self, gradient: F32, weight: F32, keep: F32) -> tuple[F32, F32]:
        """Return gradients of the inputs' sums and the states' sums."""
        size, rows = weight.shape[1], len(keep) * gradient.shape[1]
        reset, update = self._gates[..., :size], self._gates[..., size:]
        # of h' with respect to the three sums; the new gate's is multiplied by the reset gate
        to_new = (ONE - update) * (ONE - np.square(self._new))
        factors, back = self._factors, self._back
        np.multiply(to_new, reset, out=factors[:, :, 2])
        np.multiply(factors[:, :, 2], self._sums[..., 2 * size :], out=factors[:, :, 0])
        np.multiply(factors[:, :, 0], ONE - reset, out=factors[:, :, 0])
        np.multiply(self.entering - self._new, update * (ONE - update), out=factors[:, :, 1])
        flat = back.reshape(len(keep), -1, 3 * size)
        carried: F32 = np.zeros_like(self._new[0])
        for t in range(len(keep) - 1, -1, -1):
            along = self._along[t]
            np.add(gradient[t], carried, out=along)
            np.multiply(along[:, None], factors[t], out=back[t])
            np.matmul(flat[t], weight, out=carried)
            carried += along * update[t]
            np.multiply(carried, keep[t], out=carried)
        to_input = back.copy()
        np.multiply(self._along, to_new, out=to_input[:, :, 2])
        return to_input.reshape(rows, -1), back.reshape(rows, -1)


class LSTMTape:
    """``c' = f c + i g`` and ``h' = o tanh(c')``."""

    def __init__(self, steps: int, envs: int, size: int) -> None:
        self.entering: F32 = np.empty((steps, envs, 2 * size), np.float32)
        self._output: F32 = np.empty((steps, envs, size), np.float32)
        self._cells, self._squashed = np.empty_like(self._output), np.empty_like(self._output)
        self._gates: F32 = np.empty((steps, envs, 4 * size), np.float32)
        self._factors: F32 = np.empty((steps, envs, 3, size), np.float32)
        self._back = np.empty_like(self._gates)

    def forward(self, from_input: F32, weight: F32, bias: F32, state: F32, keep: F32) -> F32:
        """Return features ``[T, B, H]``."""
        size = weight.shape[1]
        two, three, transposed = 2 * size, 3 * size, weight.T
        np.add(from_input, bias, out=from_input)
        hidden, cell = state[:, :size], state[:, size:]
        rows = zip(
            from_input, keep, self.entering, self._gates, self._cells, self._squashed, self._output,
            strict=True,
        )  # fmt: skip
        for x, kept, entering, gates, new_cell, squashed, output in rows:
            np.multiply(hidden, kept, out=entering[:, :size])
            np.multiply(cell, kept, out=entering[:, size:])
            np.matmul(entering[:, :size], transposed, out=gates)
            np.add(gates, x, out=gates)
            sigmoid(gates[:, :two])
            np.tanh(gates[:, two:three], out=gates[:, two:three])
            sigmoid(gates[:, three:])
            np.multiply(gates[:, size:two], entering[:, size:], out=new_cell)
            new_cell += gates[:, :size] * gates[:, two:three]
            np.tanh(new_cell, out=squashed)
            np.multiply(gates[:, three:], squashed, out=output)
            hidden, cell = output, new_cell
        return self._output

    def backward(self, gradient: F32, weight: F32, keep: F32) -> tuple[F32, F32]:
        """Return the gradient of the gates' sums, twice: inputs and states enter them alike."""
        size, rows = weight.shape[1], len(keep) * gradient.shape[1]
        enter, forget, new, output = np.moveaxis(
            self._gates.reshape(*self._output.shape[:2], 4, size), 2, 0
        )
        factors, back = self._factors, self._back
        # of c' with respect to three sums, and of h' with respect to c' and the fourth
        np.multiply(new, enter * (ONE - enter), out=factors[:, :, 0])
        np.multiply(self.entering[..., size:], forget * (ONE - forget), out=factors[:, :, 1])
        np.multiply(enter, ONE - np.square(new), out=factors[:, :, 2])
        to_output = self._squashed * output * (ONE - output)
        to_cell = output * (ONE - np.square(self._squashed))
        from_cell = back.reshape(len(keep), -1, 4, size)[:, :, :3]
        carried: F32 = np.zeros_like(self._output[0])
        cell = np.zeros_like(carried)
        for t in range(len(keep) - 1, -1, -1):
            np.add(carried, gradient[t], out=carried)
            np.multiply(carried, to_output[t], out=back[t, :, 3 * size :])
            cell += carried * to_cell[t]
            np.multiply(cell[:, None], factors[t], out=from_cell[t])
            np.matmul(back[t], weight, out=carried)
            np.multiply(carried, keep[t], out=carried)
            np.multiply(cell, forget[t], out=cell)
            np.multiply(cell, keep[t], out=cell)
        flat = back.reshape(rows, -1)
        return flat, flat
