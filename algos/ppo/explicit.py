"""PPO's optimizer steps with a gradient written by hand, in NumPy on the CPU."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fast_core.algos.nets.adam import Adam
from fast_core.algos.nets.distributions import I64, Bool, make_distribution
from fast_core.algos.nets.mlp import Head, make_torso, make_torsos
from fast_core.algos.nets.networks import F32, NetworkShape, parameter_layout
from fast_core.algos.nets.observations import ObservationTable
from fast_core.algos.ppo.config import PPOConfig
from fast_core.algos.ppo.loss import clipped_surrogate, squared_error, standardise
from fast_core.algos.rollouts.core import Columns, MinibatchReport, OptimizerState
from fast_core.algos.rollouts.merged import MergedRollout

CHUNK = 4096  # rows of one forward of the values: bounds the memory of large rounds


class ExplicitCore:
    """An actor-critic, its gradient and its optimizer over flat vectors."""

    def __init__(self, config: PPOConfig, shape: NetworkShape, parameters: F32) -> None:
        layout = parameter_layout(shape)
        self._config = config
        self._parameters = parameters
        self._gradient: F32 = np.zeros_like(parameters)
        self._adam = Adam(parameters, epsilon=config.adam_epsilon)
        self._views = views = {p.name: p.view(parameters) for p in layout}
        self._gradients = gradients = {p.name: p.view(self._gradient) for p in layout}
        self._torsos = make_torsos(shape, parameters, self._gradient)
        self._value_torso = make_torso(shape, parameters, -1)
        self._deltas: list[F32] = []
        self._norm, self._said = math.nan, list[MinibatchReport]()
        self._policy_head = Head("policy", views, gradients)
        self._value_head = Head("value", views, gradients)
        self._shared = shape.shared_torso
        self._distribution = make_distribution(
            shape, views.get("policy.log_std"), gradients.get("policy.log_std")
        )
        nothing = np.empty((0, 0), np.float32)
        self._obs = ObservationTable(nothing)
        self._rows = self._epoch = _Epoch(nothing, np.empty(0), nothing, None)

    def observe(self, merged: MergedRollout) -> None:
        """Take the observations of a round."""
        self._obs = merged.obs

    def values(self, start: int, stop: int, name: str = "value") -> F32:
        """Values of rows ``start`` to ``stop`` of the observations."""
        obs = self._obs.vector[start:stop]
        values: F32 = np.empty(len(obs), np.float32)
        for first in range(0, len(obs), CHUNK):
            rows = obs[first : first + CHUNK]
            features = self._value_torso.forward(rows.T)
            values[first : first + CHUNK] = self._value_head.forward(features[-1])[0]
        return values

    def evaluate(self, action: NDArray[np.generic]) -> tuple[F32, F32]:
        """Log-probabilities of ``action`` and values, of the first rows of the observations."""
        found: F32 = np.empty((2, len(action)), np.float32)
        for first in range(0, len(action), CHUNK):
            stop = min(first + CHUNK, len(action))
            policy, value = self._at_heads(first, stop)
            mask = None if self._obs.mask is None else self._obs.mask[first:stop].T
            output = self._policy_head.forward(policy)
            found[0, first:stop], _ = self._distribution.evaluate(output, action[first:stop], mask)
            found[1, first:stop] = self._value_head.forward(value)[0]
        return found[0], found[1]

    def _at_heads(self, start: int, stop: int) -> tuple[F32, F32]:
        """What the heads of policy and value take of rows of the observations."""
        features = [torsos.forward(self._obs.vector[start:stop].T) for torsos in self._torsos]
        return features[0][0], features[-1][-1]

    def begin(self, columns: Columns) -> None:
        """Take the rows of a round and make room for their shuffled copy."""
        obs = self._obs.rows(0, len(columns))
        self._rows = _Epoch(obs.vector, columns.action, columns.scalars, obs.mask)
        if self._epoch.obs.shape != obs.vector.shape:
            self._epoch = self._rows.empty_like()

    def shuffle(self, order: I64) -> None:
        """Gather every column once, so that minibatches are slices."""
        rows, epoch, count = self._rows, self._epoch, len(order)
        # The order is made of places; "clip" only spares the copy that "raise" makes.
        np.take(rows.obs, order, axis=0, out=epoch.obs[:count], mode="clip")
        np.take(rows.action, order, axis=0, out=epoch.action[:count], mode="clip")
        np.take(rows.scalars, order, axis=1, out=epoch.scalars[:, :count], mode="clip")
        if rows.mask is not None and epoch.mask is not None:
            np.take(rows.mask, order, axis=0, out=epoch.mask[:count], mode="clip")

    def gradient(self, start: int, stop: int, scheduled: float) -> None:
        """Write the loss gradient of the shuffled rows into the flat gradient."""
        config, learned = self._config, self._learned(start, stop)
        obs, action = self._epoch.obs[start:stop], self._epoch.action[learned]
        count = len(action)
        anchor, advantage, target, old_value, *weight = self._epoch.scalars[:, learned]
        if config.normalize_advantage:
            advantage = standardise(advantage)
        if weight:
            advantage = advantage * weight[0]
        features = self._forward(obs)

        output = self._policy_head.forward(features[0][0])
        mask = None if self._epoch.mask is None else self._epoch.mask[learned].T
        log_prob, entropy = self._distribution.evaluate(output, action, mask)
        surrogate = clipped_surrogate(log_prob, anchor, advantage, scheduled)
        output_gradient = self._distribution.backward(
            surrogate.log_prob_gradient, -config.entropy_coef / count
        )
        value = self._value_head.forward(features[-1][-1])[0]
        value_loss, value_gradient = squared_error(
            value, target, old_value, config.value_clip_epsilon
        )
        value_gradient *= np.float32(config.value_coef)

        if [delta.shape for delta in self._deltas] != [each.shape for each in features]:
            self._deltas = [np.empty(each.shape, np.float32) for each in features]
        to_policy, to_value = self._deltas[0][0], self._deltas[-1][-1]
        self._policy_head.backward(features[0][0], output_gradient, to_policy, add=False)
        self._value_head.backward(
            features[-1][-1], value_gradient[None], to_value, add=self._shared
        )
        self._backward(obs, self._deltas)
        metrics = {
            "policy_loss": surrogate.loss,
            "value_loss": value_loss,
            "entropy": float(np.add.reduce(entropy)) / count,
            "approx_kl": surrogate.approx_kl,
            "clip_fraction": surrogate.clip_fraction,
        }
        norm = math.sqrt(float(np.dot(self._gradient, self._gradient)))
        self._norm = norm
        self._said.append(MinibatchReport(norm, metrics))

    def _learned(self, start: int, stop: int) -> slice | I64:
        """Which of these shuffled rows the loss is over."""
        return slice(start, stop)

    def _forward(self, obs: F32) -> list[F32]:
        """What the heads take of those rows: ``[torsos, features, B]`` of each ensemble."""
        return [torsos.forward(obs.T) for torsos in self._torsos]

    def _backward(self, obs: F32, deltas: list[F32]) -> None:
        """Write the gradients of everything below the heads, from those of `_forward`'s result."""
        for torsos, delta in zip(self._torsos, deltas, strict=True):
            torsos.backward(delta, rows=len(obs))

    def apply(self, learning_rate: float, longest: float) -> None:
        """Take one Adam step; the gradient is used up."""
        if math.isfinite(self._norm):
            scale = min(1.0, longest / (self._norm + 1e-6))
            self._adam.step(self._gradient, learning_rate, scale)

    def said(self) -> list[MinibatchReport]:
        """What the minibatches said since the last call."""
        said, self._said = self._said, []
        return said

    def change(self, settings: PPOConfig) -> None:
        """Go on with these settings."""
        self._config = settings

    def parameters(self) -> F32:
        """Current flat parameters; shares memory."""
        return self._parameters

    def export_state(self) -> OptimizerState:
        """Copy everything that changes."""
        return OptimizerState(self._parameters.copy(), *self._adam.moments(), self._adam.steps)

    def import_state(self, state: OptimizerState) -> None:
        """Continue from `export_state`, in place: views and optimizer stay bound."""
        self._parameters[:] = state.parameters
        self._adam.load(state.first_moment, state.second_moment, state.steps)


@dataclass(frozen=True)
class _Epoch:
    """The columns that are trained on, in an order."""

    obs: F32
    action: NDArray[np.generic]
    scalars: F32
    mask: Bool | None

    def empty_like(self) -> _Epoch:
        """Room for the same columns."""
        mask = None if self.mask is None else np.empty_like(self.mask)
        return _Epoch(
            np.empty_like(self.obs), np.empty_like(self.action), np.empty_like(self.scalars), mask
        )
