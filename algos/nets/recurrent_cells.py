"""Recurrent cells in NumPy: their first parameters, and one step for a policy that acts.

The state of one environment is one row: ``h``, followed by ``c`` for an LSTM. Gates lie in
torch's order: reset, update, new for a GRU; input, forget, cell, output for an LSTM.

Sources: Cho et al. 2014, arXiv:1406.1078, in the variant of `torch.nn.GRU`; Hochreiter and
Schmidhuber 1997 with the forget gate of Gers et al. 2000.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fast_core.algos.nets.networks import F32, orthogonal
from fast_core.algos.nets.recurrent_shape import MemoryShape

HALF = np.float32(0.5)


def initialise(shape: MemoryShape, views: Mapping[str, F32], rng: np.random.Generator) -> None:
    """Draw each gate's weights orthogonal, and let an LSTM remember at first.

    The forget gate's bias of 1 is from Jozefowicz et al. 2015.
    """
    for name in ("memory.input.weight", "memory.state.weight"):
        for gate in np.split(views[name], shape.gates):
            gate[...] = orthogonal(rng, gate.shape, 1.0)
    views["memory.input.bias"][:] = 0.0
    views["memory.state.bias"][:] = 0.0
    if shape.cell == "lstm":
        views["memory.input.bias"][shape.size : 2 * shape.size] = 1.0


class Memory:
    """A recurrent layer that acts; features are ``[in, B]`` as in `nets.mlp`.

    Args:
        shape: The layer.
        views: Its parameters by name, read at every step.
    """

    def __init__(self, shape: MemoryShape, views: Mapping[str, F32]) -> None:
        self._size = shape.size
        self._input = views["memory.input.weight"]
        self._state = views["memory.state.weight"]
        self._input_bias = views["memory.input.bias"][:, None]
        self._state_bias = views["memory.state.bias"][:, None]
        self._step = self._gru if shape.cell == "gru" else self._lstm

    def step(self, features: F32, state: F32) -> tuple[F32, F32]:
        """Advance by one row.

        Args:
            features: ``[in, B]``.
            state: ``[B, S]`` before this row; not changed.

        Returns:
            Features ``[H, B]`` and the state ``[B, S]`` after this row, in fresh memory.
        """
        from_input: F32 = np.matmul(self._input, features)
        np.add(from_input, self._input_bias, out=from_input)
        before = state.T
        from_state: F32 = np.matmul(self._state, before[: self._size])
        np.add(from_state, self._state_bias, out=from_state)
        return self._step(from_input, from_state, before)

    def _gru(self, from_input: F32, from_state: F32, before: F32) -> tuple[F32, F32]:
        size = self._size
        gates = sigmoid(from_input[: 2 * size] + from_state[: 2 * size])
        new = from_state[2 * size :]
        np.multiply(new, gates[:size], out=new)
        np.add(new, from_input[2 * size :], out=new)
        np.tanh(new, out=new)
        hidden = before - new
        np.multiply(hidden, gates[size:], out=hidden)
        np.add(hidden, new, out=hidden)
        return hidden, np.ascontiguousarray(hidden.T)

    def _lstm(self, from_input: F32, from_state: F32, before: F32) -> tuple[F32, F32]:
        size = self._size
        gates = np.add(from_input, from_state, out=from_input)
        kept = sigmoid(gates[: 2 * size])
        cell = np.tanh(gates[2 * size : 3 * size])
        np.multiply(cell, kept[:size], out=cell)
        np.add(cell, kept[size:] * before[size:], out=cell)
        hidden = sigmoid(gates[3 * size :])
        np.multiply(hidden, np.tanh(cell), out=hidden)
        return hidden, np.concatenate([hidden, cell]).T.copy()


def sigmoid(x: F32) -> F32:
    """Logistic function, in place; a tanh never overflows."""
    np.multiply(x, HALF, out=x)
    np.tanh(x, out=x)
    np.multiply(x, HALF, out=x)
    return np.add(x, HALF, out=x)
