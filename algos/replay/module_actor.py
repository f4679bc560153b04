"""The networks of a policy as torch modules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fast_core.algorithm import Array, PolicySetup
from fast_core.algos.nets.networks import F32
from fast_core.algos.nets.normalizer import Normalization, Scaling
from fast_core.algos.nets.observations import ObservationEncoder
from fast_core.algos.nets.precision import warn_of_slow_bf16
from fast_core.algos.nets_torch.networks import Rows
from fast_core.algos.nets_torch.policy_module import PolicyModule
from fast_core.algos.nets_torch.staging import make_staging
from fast_core.algos.replay.actors import take_statistics
from fast_core.algos.replay.policy_module import make_module
from fast_core.algos.replay.settings import ReplaySettings
from fast_core.algos.replay.torch_algorithm import TorchAlgorithm, torch_learner
from fast_core.algos.replay.torch_networks import Networks
from fast_core.spec import EnvironmentSpec


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

    def forward(self, vector: Tensor, *images: Tensor) -> Tensor:
        """``[B, out]`` from numbers ``[B, in]`` and images ``[B, stack, ...]`` uint8."""
        return self._learner.output(self._settings, self.networks, Rows(vector, images))


class _OfRows(nn.Module):
    """`Acting` as `PolicyModule` calls it."""

    def __init__(self, acting: Acting) -> None:
        super().__init__()
        self.acting = acting

    def forward(self, rows: Rows) -> Tensor:
        outputs: Tensor = self.acting(rows.vector, *rows.images)
        return outputs


class ModuleActor:
    """Torch modules that only act; implements `replay.actors.Actor`.

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
        self._environment, self._images = environment, settings.images(environment)
        self.encoder = ObservationEncoder(environment, self._images)
        self._how = how
        self._device = torch.device(setup.device)
        self._staging = make_staging(self._device)
        bf16 = setup.precision == "bf16"
        if bf16:
            warn_of_slow_bf16(self._device, "policy.precision")
        learner = torch_learner(settings)
        networks = learner.build(settings, environment, seed=0, bf16=bf16)
        networks.keep({module.name for module in settings.modules(environment) if module.acts})
        networks.to(self._device).eval().requires_grad_(False)
        self._tensors = [tensor for _, _, tensor in networks.named_tensors()]
        self.acting = Acting(learner, settings, networks)
        self._scaling: Scaling | None = None

    def load(self, parameters: Sequence[Array]) -> None:
        """Use these parameters from now on; they are copied."""
        arrays = list(parameters)
        self._scaling = take_statistics(arrays, self._how, self.encoder)
        with torch.no_grad():
            for tensor, array in zip(self._tensors, arrays, strict=True):
                tensor.copy_(torch.from_numpy(np.array(array, np.float32)))

    def exported(self, *, first: int) -> PolicyModule:
        """See `replay.actors.Exporting`."""
        network, scaling = _OfRows(self.acting), self._scaling
        return make_module(self._environment, self._images, network, first=first, scaling=scaling)

    def output(self, obs: Array) -> F32:
        """The output ``[out, B]`` for observations ``[B, ...]``."""
        vector = self.encoder.vector(obs)
        if self._scaling is not None:
            vector = self._scaling(vector)
        images = [self._tensor(image) for image in self.encoder.images(obs)]
        with torch.inference_mode():
            output: F32 = self.acting(self._tensor(vector), *images).cpu().numpy().T
        return output

    def _tensor(self, rows: Array) -> Tensor:
        if self._staging is not None:
            return self._staging.upload(rows)
        if not rows.flags.writeable:
            rows = rows.copy()  # torch warns of memory that nobody may write to
        return torch.from_numpy(rows)
