"""The same policy with torch's matrix products; for networks where they pay."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from algos.networks import F32, NetworkShape
from algos.policies import NumpyPolicy
from fast_core.spec import EnvironmentSpec


class TorchPolicy(NumpyPolicy):
    """A `NumpyPolicy` whose network runs in torch, on the same parameters in memory.

    Sampling and log-probabilities stay in NumPy: a few numbers per row, where each call of
    torch would cost more than all of NumPy's.
    """

    def __init__(
        self, shape: NetworkShape, environment: EnvironmentSpec, observation_clip: float | None
    ) -> None:
        super().__init__(shape, environment, observation_clip)
        self._activation = torch.tanh_ if shape.activation == "tanh" else torch.relu_
        tensors = [torch.from_numpy(view) for view in self._views]
        names = [parameter.name for parameter in self._parameters]
        torso = shape.torsos[0]
        self._linear: list[tuple[Tensor, Tensor]] = [
            (
                tensors[names.index(f"{torso}.{index}.weight")],
                tensors[names.index(f"{torso}.{index}.bias")],
            )
            for index in range(len(shape.hidden_sizes))
        ]
        self._last = (
            tensors[names.index("policy.head.weight")],
            tensors[names.index("policy.head.bias")],
        )
        self._rows = torch.empty(0, shape.inputs)

    def _output(self, x: F32) -> F32:
        if len(self._rows) != len(x):
            self._rows = torch.empty(x.shape)
        with torch.inference_mode():
            # Through a buffer: x may view read-only shared memory, which torch refuses.
            self._rows.numpy()[...] = x
            features = self._rows
            for weight, bias in self._linear:
                features = self._activation(functional.linear(features, weight, bias))
            output: F32 = functional.linear(features, *self._last).numpy().T
        return output
