"""The networks of a policy as torch modules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fast_core.algorithm import Array, PolicySetup
from fast_core.algorithm.spec import EnvironmentSpec
from fast_core.algos.nets.normalizer import Normalization
from fast_core.algos.nets_torch.networks import Rows
from fast_core.algos.replay.settings import ReplaySettings
from fast_core.algos.replay.torch_actor import ExportingActor
from fast_core.algos.replay.torch_algorithm import TorchAlgorithm, torch_learner
from fast_core.algos.replay.torch_networks import Networks


class Acting(nn.Module):
    """From encoded rows to what a policy chooses by.

    Args:
        learner: Says what that is.
        settings: Hyper-parameters.
        networks: The parts that it needs.
    """

    def __init__(
        self, learner: type[TorchAlgorithm[Any]], settings: ReplaySettings, networks: Networks
    ) -> None:
        super().__init__()
        self.networks = networks
        self._learner, self._settings = learner, settings

    def forward(self, rows: Rows) -> Tensor:
        """``[B, out]`` from what is observed."""
        return self._learner.output(self._settings, self.networks, rows)


class ModuleActor(ExportingActor):
    """Torch modules that only act.

    Args:
        settings: Hyper-parameters, which name the learner.
        environment: What it acts in.
        setup: Device and precision.
        how: How observations are normalised; None where they are not.

    Attributes:
        acting: The networks, with the parameters that were loaded.
    """

    def __init__(
        self,
        settings: ReplaySettings,
        environment: EnvironmentSpec,
        setup: PolicySetup,
        how: Normalization | None,
    ) -> None:
        super().__init__(environment, settings.images(environment), how, setup)
        learner = torch_learner(settings)
        networks = learner.build(settings, environment, seed=0, bf16=self.bf16)
        networks.keep({module.name for module in settings.modules(environment) if module.acts})
        networks.to(self.device).eval().requires_grad_(False)
        self._tensors = [tensor for _, _, tensor in networks.named_tensors()]
        self.acting = Acting(learner, settings, networks)

    def load(self, parameters: Sequence[Array]) -> None:
        """Use these parameters from now on; they are copied."""
        with torch.no_grad():
            for tensor, array in zip(self._tensors, self.take(parameters), strict=True):
                tensor.copy_(torch.from_numpy(np.array(array, np.float32)))

    def network(self) -> nn.Module:
        """They themselves."""
        return self.acting

    def _run(self, rows: Rows) -> Tensor:
        output: Tensor = self.acting(rows)
        return output
