"""Optimizer steps from rollouts through time with torch, on any device."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fast_core.algorithm import LearnerSetup
from fast_core.algos.nets.networks import F32, NetworkShape
from fast_core.algos.nets.observations import I64
from fast_core.algos.nets_torch.networks import Rows, action_log_prob
from fast_core.algos.nets_torch.tables import TorchTable
from fast_core.algos.rollouts.config import ActorCriticConfig
from fast_core.algos.rollouts.core import Columns
from fast_core.algos.rollouts.merged import MergedRollout
from fast_core.algos.rollouts.sequences import Minibatches, Sequences
from fast_core.algos.rollouts.torch_core import Objective, TorchCore


class RecurrentTorchCore(TorchCore):
    """A `TorchCore` with a recurrent layer; orders and minibatches are whole sequences."""

    def __init__(
        self,
        settings: ActorCriticConfig,
        shape: NetworkShape,
        parameters: F32,
        setup: LearnerSetup,
        objective: Objective,
    ) -> None:
        super().__init__(settings, shape, parameters, setup, objective)
        assert shape.memory is not None, "the network has a memory"
        self._size = shape.memory.size
        if setup.compile and self._network.memory is not None:
            self._network.memory.hide_from_compiler()
        self._minibatches = Minibatches(settings.minibatch_size)
        self._values: dict[str, F32] = {}
        self._hidden: Tensor | None = None  # [R, H] of every row, what all heads take

    def observe(self, merged: MergedRollout) -> None:
        """Take the observations of a round, and what was remembered before it."""
        super().observe(merged)
        self._minibatches.sequences = Sequences.of(merged)
        self._values, self._hidden = {}, None

    def values(self, start: int, stop: int, name: str = "value") -> F32:
        """Values of rows ``start`` to ``stop`` of the observations, by the head ``name``."""
        if name not in self._values:
            with torch.no_grad():
                if self._hidden is None:
                    self._hidden = self._all_hidden(self._minibatches.sequences)
                self._values[name] = self._judged(name, self._hidden).cpu().numpy()
        return self._values[name][start:stop]

    def _all_hidden(self, sequences: Sequences) -> Tensor:
        network, leaves = self._network, self._leaves
        assert network.memory is not None and self._table is not None, "observe comes first"
        features = torch.cat(list(self._features(0, len(self._table))))
        grid, final = features[: sequences.keep.size], features[sequences.keep.size :]
        keep, state = self._upload(sequences.keep), self._upload(sequences.state)
        states = network.memory.states(leaves, grid.view(*keep.shape, -1), state, keep)
        hidden = states[..., : self._size].flatten(0, 1)
        if len(final):
            step, column = self._upload(sequences.final_step), self._upload(sequences.final_column)
            going_on = torch.ones(1, len(final), device=self._device)
            (last,) = network.memory.states(leaves, final[None], states[step, column], going_on)
            hidden = torch.cat([hidden, last[:, : self._size]])
        return hidden

    def evaluate(self, action: NDArray[np.generic]) -> tuple[F32, F32]:
        """Log-probabilities of ``action`` and values, of the first rows of the observations."""
        values = self.values(0, len(action))
        assert self._table is not None and self._hidden is not None, "the values remember it"
        mask = None if self._table.mask is None else self._table.mask[: len(action)]
        with torch.no_grad():
            output = self._network.output_of(self._leaves, self._hidden[: len(action)])
            log_probs, _ = action_log_prob(
                self._shape, self._leaves, output, self._upload(action), mask
            )
        return log_probs.cpu().numpy(), values

    def shuffle(self, order: I64) -> None:
        """Put the sequences into this order, each minibatch time-major."""
        super().shuffle(self._minibatches.shuffle(order))

    def begin(self, columns: Columns) -> None:
        """Take the rows of a round; quarantined ones stay in their sequence, out of the loss."""
        super().begin(columns)
        self._minibatches.known = columns.known

    def _learned(self, start: int, stop: int) -> slice | Tensor:
        rows = self._minibatches.learned(start, stop)
        return slice(start, stop) if rows is None else self._upload(start + rows)

    def _minibatch(self, table: TorchTable, start: int, stop: int) -> Rows:
        part, rows = self._minibatches.part(start, stop), super()._minibatch(table, start, stop)
        rows = rows._replace(state=self._upload(part.state), keep=self._upload(part.keep))
        known = self._minibatches.learned(start, stop)
        if known is None:
            return rows
        learned = self._upload(known)
        mask = None if rows.mask is None else rows.mask[learned]
        return rows._replace(learned=learned, mask=mask)


def torch_core(
    settings: ActorCriticConfig,
    shape: NetworkShape,
    parameters: F32,
    setup: LearnerSetup,
    objective: Objective,
) -> TorchCore:
    """The one that fits a network; see `TorchCore`."""
    core = TorchCore if shape.memory is None else RecurrentTorchCore
    return core(settings, shape, parameters, setup, objective)
