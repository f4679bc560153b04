"""Both heads of an actor-critic in torch, for convolutions and a user's network."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from fast_core.algorithm import Array
from fast_core.algos.nets.networks import F32, NetworkShape, parameter_layout
from fast_core.algos.nets_torch.networks import Network, Rows, tensor_view


class TorchHeads:
    """Both heads on the CPU, in float32; implements `fast_core.algos.rollouts.thinking.Heads`."""

    def __init__(self, shape: NetworkShape, flat: F32) -> None:
        self._shape, self._network = shape, Network(shape)
        whole = torch.from_numpy(flat)
        self._leaves = {p.name: tensor_view(whole, p) for p in parameter_layout(shape)}

    def loaded(self) -> None:
        """Bring a user's modules to the values of the vector."""
        self._network.fill(self._leaves)

    def __call__(
        self, vector: F32, images: Sequence[Array], state: Array | None
    ) -> tuple[F32, F32]:
        """See `Heads`."""
        network, leaves = self._network, self._leaves
        rows = Rows(_tensor(vector), tuple(_tensor(image) for image in images))
        with torch.inference_mode():
            names = self._shape.torsos
            features = [network.features(leaves, names[0], rows)]
            if network.memory is not None:
                assert state is not None, "a network with memory is given its state"
                after = network.memory.step(leaves, features[0], _tensor(state))
                features = [after[:, : self._shape.head_inputs(0)]]
            elif len(names) > 1:
                features.append(network.features(leaves, names[1], rows))
            output = network.output_of(leaves, features[0]).numpy().T
            value: F32 = network.value_of(leaves, features[-1]).numpy()
        return output, value


def _tensor(rows: Array) -> torch.Tensor:
    """A copy: what came may be read-only, of which torch warns."""
    return torch.from_numpy(np.array(rows))
