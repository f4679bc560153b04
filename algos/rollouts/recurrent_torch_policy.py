"""Policies with memory, in torch."""

from __future__ import annotations

import torch
from torch import Tensor

from fast_core.algorithm import ActionOutput, Array, PolicySetup
from fast_core.algos.nets.networks import F32, NetworkShape
from fast_core.algos.nets_torch.networks import Rows
from fast_core.algos.nets_torch.staging import Staging
from fast_core.algos.rollouts.recurrent_policies import checked
from fast_core.algos.rollouts.torch_policy import TorchPolicy
from fast_core.spec import EnvironmentSpec


class RecurrentTorchPolicy(TorchPolicy):
    """A `TorchPolicy` with a recurrent layer, in float32, before its head."""

    def __init__(
        self,
        shape: NetworkShape,
        environment: EnvironmentSpec,
        observation_clip: float | None,
        setup: PolicySetup,
        staging: Staging | None = None,
    ) -> None:
        assert shape.memory is not None, "the network has a memory"
        super().__init__(shape, environment, observation_clip, setup, staging)
        self._torso, self._size = shape.torsos[0], shape.memory.size

    def act(
        self, obs: Array, *, noise: Array, explore: bool, state: Array | None = None
    ) -> ActionOutput:
        """Choose actions for ``obs [B, ...]``, remembering ``state [B, S]``."""
        with torch.inference_mode():
            before = self._to_device(checked(state), -1)
            rows = self._rows(obs)._replace(state=before)
            said, now = self._run(self._leaves, rows)
            output: F32 = said.cpu().numpy().T
            after: F32 = now.cpu().numpy()
        return self._choose(output, obs, noise, explore)._replace(state=after)

    def _run(self, leaves: dict[str, Tensor], rows: Rows) -> tuple[Tensor, Tensor]:
        network = self._network
        assert network.memory is not None and rows.state is not None
        features = network.features(leaves, self._torso, rows)
        after = network.memory.step(leaves, features, rows.state)
        return network.output_of(leaves, after[:, : self._size]), after
