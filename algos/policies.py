"""Policies that act next to the environments: an MLP in NumPy, free of torch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from algos.dense import Torso, hidden_layers
from algos.distributions import Categorical, DiagonalGaussian, Distribution
from algos.networks import F32, NetworkShape, parameter_layout
from algos.normalizer import normalise
from algos.observations import ObservationEncoder
from fast_core.algorithm import ActionOutput, Array
from fast_core.spec import EnvironmentSpec


class NumpyPolicy:
    """The actor of an MLP actor-critic.

    Args:
        shape: The actor-critic network; its value part is not used.
        environment: What it acts in.
        observation_clip: Limit of normalised observations, or None where observations are
            not normalised; otherwise mean and inverse deviation follow the network's
            parameters in `load`.
    """

    def __init__(
        self, shape: NetworkShape, environment: EnvironmentSpec, observation_clip: float | None
    ) -> None:
        self._encoder = ObservationEncoder(environment.observation)
        self._clip = observation_clip
        self._action_space = environment.action
        self._low = np.asarray(environment.action.low, np.float32)
        self._high = np.asarray(environment.action.high, np.float32)
        layout = parameter_layout(shape)
        self._parameters = [p for p in layout if p.belongs_to_policy]
        self._flat: F32 = np.zeros(layout[-1].end, np.float32)
        self._views = [p.view(self._flat) for p in self._parameters]
        views = {p.name: view for p, view in zip(self._parameters, self._views, strict=True)}
        self._torso = Torso(
            [layer.only(0) for layer in hidden_layers(shape, layout, self._flat)], shape.activation
        )
        self._head = views["policy.head.weight"]
        self._head_bias = views["policy.head.bias"][:, None]
        self._distribution: Distribution = (
            DiagonalGaussian(views["policy.log_std"]) if shape.gaussian else Categorical()
        )
        self._mean: F32 = np.zeros(shape.inputs, np.float32)
        self._inverse_std: F32 = np.ones(shape.inputs, np.float32)

    def load(self, parameters: Sequence[Array]) -> None:
        """Use these parameters from now on; they are copied."""
        statistics = [] if self._clip is None else [self._mean, self._inverse_std]
        for target, source in zip([*self._views, *statistics], parameters, strict=True):
            target[...] = source

    def act(
        self, obs: Array, *, noise: Array, explore: bool, state: Array | None = None
    ) -> ActionOutput:
        """Choose actions for ``obs [B, ...]``."""
        x = self._encoder.encode(obs)
        if self._clip is not None:
            x = normalise(x, self._mean, self._inverse_std, self._clip)
        output = self._output(x)
        if explore:
            action, log_prob = self._distribution.sample(output, noise)
        else:
            action, log_prob = self._distribution.mode(output)
        return ActionOutput(action.reshape(len(obs), *self._action_space.shape), log_prob)

    def environment_action(self, action: Array) -> Array:
        """Clip to the box, or count from the discrete space's first choice."""
        space = self._action_space
        if space.kind == "discrete":
            return action + space.start if space.start else action
        rows = action.reshape(len(action), -1)
        clipped = np.minimum(np.maximum(rows, self._low), self._high)
        return clipped.reshape(action.shape).astype(space.dtype, copy=False)

    def _output(self, x: F32) -> F32:
        """Map encoded rows ``[B, in]`` to the policy head's output ``[A, B]``."""
        output: F32 = np.matmul(self._head, self._torso.forward(x)[0])
        np.add(output, self._head_bias, out=output)
        return output
