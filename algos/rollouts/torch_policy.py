"""The same policy with torch's matrix products and convolutions; for networks where they pay."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from fast_core.algorithm import Array, PolicySetup
from fast_core.algos.nets.images import sees_pixels
from fast_core.algos.nets.networks import F32, OWN, NetworkShape, normalises
from fast_core.algos.nets.normalizer import Scaling
from fast_core.algos.nets.precision import warn_of_slow_bf16
from fast_core.algos.nets_torch.images import PIXEL
from fast_core.algos.nets_torch.networks import Network, Rows
from fast_core.algos.nets_torch.policy_module import (
    ActionMode,
    Leaves,
    PolicyModule,
)
from fast_core.algos.nets_torch.staging import Staging, make_staging
from fast_core.algos.rollouts.policies import ActorPolicy
from fast_core.spec import EnvironmentSpec


class TorchPolicy(ActorPolicy):
    """A policy whose network runs in torch, on any device.

    Sampling and log-probabilities stay in NumPy: a few numbers per row, where each call of
    torch would cost more than all of NumPy's.

    Args:
        shape: The actor-critic network; its value part is not used.
        environment: What it acts in.
        observation_clip: As `ActorPolicy` has it.
        setup: Device and precision.
        staging: How observations get to the device; by default what the device needs.
    """

    def __init__(
        self,
        shape: NetworkShape,
        environment: EnvironmentSpec,
        observation_clip: float | None,
        setup: PolicySetup,
        staging: Staging | None = None,
    ) -> None:
        super().__init__(shape, environment, observation_clip)
        self._shape = shape
        self._device = torch.device(setup.device)
        self._staging = staging or make_staging(self._device)
        self._bf16 = setup.precision == "bf16"
        if self._bf16:
            warn_of_slow_bf16(self._device, "policy.precision")
        self._network = Network(shape, bf16=self._bf16, scaled=True, device=self._device, torsos=1)
        self._leaves: dict[str, Tensor] = {}
        self._buffers: dict[int, Tensor] = {}

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
        narrow = self._bf16 and not wide and not normalises(name)
        dtype = torch.bfloat16 if narrow else torch.float32
        return weight.to(self._device, dtype)

    def _output(self, obs: Array, state: Array | None) -> tuple[F32, F32 | None]:
        with torch.inference_mode():
            rows = self._rows(obs)
            if self._network.memory is not None:
                rows = rows._replace(state=self._to_device(self._checked(state), -1))
            said = self._network.output(self._leaves, rows)
            if isinstance(said, Tensor):
                return said.cpu().numpy().T, None
            output, after = said
            return output.cpu().numpy().T, after.cpu().numpy()

    def module(self, environment: EnvironmentSpec) -> PolicyModule:
        """The policy with the parameters that were loaded last, without exploration."""
        shape, scaling = self._shape, None
        if self._clip is not None:
            scaling = Scaling(self._mean, self._inverse_std, self._clip, self._origin)
        choices = () if shape.gaussian else shape.choices or (shape.outputs,)
        # A user's modules hold what is theirs.
        leaves = {name: leaf for name, leaf in self._leaves.items() if OWN not in name}
        return PolicyModule(
            environment,
            shape.images,
            Leaves(leaves, self._network.output, self._network.modules),
            ActionMode(shape.outputs, choices=choices),
            stretch=shape.stretched,
            scaling=scaling,
        )

    def _rows(self, obs: Array) -> Rows:
        """Observations on the device, without their mask."""
        images = self._encoder.images(obs)
        return Rows(
            self._to_device(self._numbers(obs)),
            tuple(self._to_device(image, 1 + index) for index, image in enumerate(images)),
        )

    def _to_device(self, rows: Array, place: int = 0) -> Tensor:
        """Rows on the device; through a buffer, as they may view read-only shared memory.

        Args:
            rows: ``[B, ...]``.
            place: Which of several arrays of one call this is; each has a buffer of its own.
        """
        if self._staging is not None:
            return self._staging.upload(rows)
        buffer = self._buffers.get(place)
        if buffer is None or len(buffer) < len(rows):
            buffer = self._buffers[place] = torch.from_numpy(np.empty(rows.shape, rows.dtype))
        buffer = buffer[: len(rows)]
        buffer.numpy()[...] = rows
        return buffer
