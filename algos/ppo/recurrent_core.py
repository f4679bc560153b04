"""PPO's optimizer steps through time with a gradient written by hand, in NumPy on the CPU."""

from __future__ import annotations

import numpy as np

from fast_core.algos.nets.networks import F32, NetworkShape
from fast_core.algos.nets.observations import I64
from fast_core.algos.nets.recurrent_cells import Memory
from fast_core.algos.nets.recurrent_dense import UnrolledMemory
from fast_core.algos.ppo.config import PPOConfig
from fast_core.algos.ppo.explicit import CHUNK, ExplicitCore
from fast_core.algos.rollouts.core import Columns
from fast_core.algos.rollouts.merged import MergedRollout
from fast_core.algos.rollouts.sequences import Minibatches, Part, Sequences


class RecurrentExplicitCore(ExplicitCore):
    """An `ExplicitCore` with a recurrent layer; orders and minibatches are whole sequences."""

    def __init__(self, config: PPOConfig, shape: NetworkShape, parameters: F32) -> None:
        super().__init__(config, shape, parameters)
        assert shape.memory is not None, "the network has a memory"
        self._memory = Memory(shape.memory, self._views)
        self._unrolled = UnrolledMemory(shape.memory, self._views, self._gradients)
        self._features_size, self._size = shape.features, shape.memory.size
        self._minibatches = Minibatches(config.minibatch_size)
        self._part = Part(parameters[:0, None], parameters[:0, None])
        self._features: F32 = np.empty((0, 0), np.float32)
        self._values: F32 | None = None
        self._hidden: F32 = np.empty((0, 0), np.float32)
        self._learned_rows: I64 | None = None

    def observe(self, merged: MergedRollout) -> None:
        """Take the observations of a round, and what was remembered before it."""
        super().observe(merged)
        self._minibatches.sequences = Sequences.of(merged)
        self._values = None

    def values(self, start: int, stop: int, name: str = "value") -> F32:
        """Values of rows ``start`` to ``stop`` of the observations."""
        if self._values is None:
            self._values = self._all_values(self._minibatches.sequences)
        return self._values[start:stop]

    def _all_values(self, sequences: Sequences) -> F32:
        features = self._all_features()
        envs = len(sequences.state)
        grid = sequences.keep.size
        values: F32 = np.empty(features.shape[1], np.float32)
        states: F32 = np.empty((len(sequences.keep), *sequences.state.shape), np.float32)
        state = sequences.state
        for t, keep in enumerate(sequences.keep):
            rows = slice(t * envs, (t + 1) * envs)
            hidden, state = self._memory.step(features[:, rows], state * keep[:, None])
            values[rows] = self._value_head.forward(hidden)[0]
            states[t] = state
        self._hidden = states[..., : self._size].reshape(grid, -1).T
        if len(values) > grid:
            before = states[sequences.final_step, sequences.final_column]
            hidden, _ = self._memory.step(features[:, grid:], before)
            values[grid:] = self._value_head.forward(hidden)[0]
        return values

    def _at_heads(self, start: int, stop: int) -> tuple[F32, F32]:
        self.values(start, stop)  # remembers what both heads take
        hidden = self._hidden[:, start:stop]
        return hidden, hidden

    def _all_features(self) -> F32:
        """What the torso makes of every row: ``[features, R]``."""
        obs = self._obs.vector
        features: F32 = np.empty((self._features_size, len(obs)), np.float32)
        for first in range(0, len(obs), CHUNK):
            rows = obs[first : first + CHUNK]
            features[:, first : first + CHUNK] = self._torsos[0].forward(rows.T)[0]
        return features

    def begin(self, columns: Columns) -> None:
        """Take the rows of a round; quarantined ones stay in their sequence, out of the loss."""
        super().begin(columns)
        self._minibatches.known = columns.known

    def shuffle(self, order: I64) -> None:
        """Put the sequences into this order, each minibatch time-major."""
        super().shuffle(self._minibatches.shuffle(order))

    def gradient(self, start: int, stop: int, scheduled: float) -> None:
        """Compute the loss gradient of the shuffled rows ``start`` to ``stop``."""
        self._part = self._minibatches.part(start, stop)
        super().gradient(start, stop, scheduled)

    def _learned(self, start: int, stop: int) -> slice | I64:
        rows = self._learned_rows = self._minibatches.learned(start, stop)
        return slice(start, stop) if rows is None else start + rows

    def _forward(self, obs: F32) -> list[F32]:
        self._features = super()._forward(obs)[0][0]
        output = self._unrolled.forward(self._features, self._part.state, self._part.keep)
        rows = output.reshape(len(obs), -1)
        return [(rows if self._learned_rows is None else rows[self._learned_rows]).T[None]]

    def _backward(self, obs: F32, deltas: list[F32]) -> None:
        keep, rows = self._part.keep, deltas[0][0].T
        if self._learned_rows is not None:
            rows = np.zeros((len(obs), self._size), np.float32)
            rows[self._learned_rows] = deltas[0][0].T
        gradient = np.ascontiguousarray(rows).reshape(*keep.shape, -1)
        below: F32 = np.empty((1, *self._features.shape), np.float32)
        self._unrolled.backward(self._features, gradient, keep, below[0])
        super()._backward(obs, [below])
