"""The same policy with torch's matrix products and convolutions; for networks where they pay."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fast_core.algorithm import Array, PolicySetup
from fast_core.algorithm.spec import EnvironmentSpec
from fast_core.algos.nets.images import sees_pixels
from fast_core.algos.nets.networks import F32, OWN, NetworkShape, normalises
from fast_core.algos.nets.normalizer import Normalization
from fast_core.algos.nets.policy_inputs import given
from fast_core.algos.nets_torch.images import PIXEL
from fast_core.algos.nets_torch.networks import Network
from fast_core.algos.nets_torch.policy_inputs import TorchInputs
from fast_core.algos.nets_torch.policy_module import (
    ActionMode,
    Leaves,
    PolicyModule,
)
from fast_core.algos.nets_torch.staging import Staging
from fast_core.algos.rollouts.policies import ActorPolicy


class TorchPolicy(ActorPolicy[TorchInputs]):
    """A policy whose network runs in torch, on any device.

    Sampling and log-probabilities stay in NumPy: a few numbers per row, where each call of
    torch would cost more than all of NumPy's.

    Args:
        shape: The actor-critic network; its value part is not used.
        environment: What it acts in.
        how: How observations are normalised; None where they are not.
        setup: Device and precision.
        staging: How observations get to the device; by default what the device needs.
    """

    def __init__(
        self,
        shape: NetworkShape,
        environment: EnvironmentSpec,
        how: Normalization | None,
        setup: PolicySetup,
        staging: Staging | None = None,
    ) -> None:
        given = TorchInputs(environment, shape.images, how, setup, staging)
        super().__init__(shape, environment, given)
        self._shape = shape
        self._network = Network(shape, bf16=given.bf16, scaled=True, device=given.device, torsos=1)
        self._leaves: dict[str, Tensor] = {}

    def load(self, parameters: Sequence[Array]) -> None:
        """Copy the parameters and bring them into the form in which they are used."""
        super().load(parameters)
        with torch.inference_mode():
            for name, view in self._views.items():
                self._leaves[name] = self._prepared(name, torch.from_numpy(view))
            self._network.fill(self._leaves)

    def _prepared(self, name: str, weight: Tensor) -> Tensor:
        """A parameter on the device, in its precision; convolutions stay channels-last."""
        if sees_pixels(name):
            weight = weight * PIXEL
        # A user's network is cast by autocast, operation by operation.
        wide = name.startswith(("policy.head", "memory.", "policy.log_std")) or OWN in name
        narrow = self._inputs.bf16 and not wide and not normalises(name)
        dtype = torch.bfloat16 if narrow else torch.float32
        return weight.to(self._inputs.device, dtype)

    def _output(self, obs: Array, state: Array | None) -> tuple[F32, F32 | None]:
        with torch.inference_mode():
            rows = self._inputs.rows(obs)
            if self._network.memory is not None:
                rows = rows._replace(state=self._inputs.tensor(given(state), -1))
            said = self._network.output(self._leaves, rows)
            if isinstance(said, Tensor):
                return said.cpu().numpy().T, None
            output, after = said
            return output.cpu().numpy().T, after.cpu().numpy()

    def module(self, environment: EnvironmentSpec) -> PolicyModule:
        """The policy with the parameters that were loaded last, without exploration."""
        shape = self._shape
        choices = () if shape.gaussian else shape.choices or (shape.outputs,)
        # A user's modules hold what is theirs.
        leaves = {name: leaf for name, leaf in self._leaves.items() if OWN not in name}
        return PolicyModule(
            environment,
            shape.images,
            Leaves(leaves, self._network.output, self._network.modules),
            ActionMode(shape.outputs, choices=choices),
            stretch=shape.stretched,
            scaling=self._inputs.scaling,
        )
