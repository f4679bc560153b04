"""The networks of policies that learn from replay, in torch: for convolutions and GPUs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from fast_core.algorithm import Array, PolicySetup
from fast_core.algos.nets.encoder_shape import EncoderShape
from fast_core.algos.nets.images import sees_pixels
from fast_core.algos.nets.mlp import MlpShape
from fast_core.algos.nets.networks import F32, layer_kinds, normalises
from fast_core.algos.nets.normalizer import Normalization, Scaling
from fast_core.algos.nets.observations import ObservationEncoder
from fast_core.algos.nets.precision import warn_of_slow_bf16
from fast_core.algos.nets_torch.activations import FUNCTIONS
from fast_core.algos.nets_torch.images import PIXEL
from fast_core.algos.nets_torch.networks import Rows, dense
from fast_core.algos.nets_torch.policy_module import Leaves, PolicyModule
from fast_core.algos.nets_torch.staging import Staging, make_staging
from fast_core.algos.replay.actors import actor_layout, take_statistics
from fast_core.algos.replay.policy_module import make_module
from fast_core.algos.replay.torch_networks import see
from fast_core.spec import EnvironmentSpec


class TorchActor:
    """Convolutions, if there are any, and an MLP, on any device; implements `replay.actors.Actor`.

    With bf16 everything but the last layer is bfloat16.

    Args:
        encoder: The convolutions.
        shape: The network after them, of one member.
        environment: What it acts in.
        setup: Device and precision.
        staging: How observations get to the device; by default what the device needs.
        how: How observations are normalised; None where they are not.
    """

    def __init__(
        self,
        encoder: EncoderShape | None,
        shape: MlpShape,
        environment: EnvironmentSpec,
        setup: PolicySetup,
        staging: Staging | None = None,
        *,
        how: Normalization | None = None,
    ) -> None:
        self._how = how
        self._scaling: Scaling | None = None
        self.encoder = ObservationEncoder(environment, () if encoder is None else encoder.images)
        self._see, self._shape, self._environment = encoder, shape, environment
        self._device = torch.device(setup.device)
        self._staging = staging or make_staging(self._device)
        self._bf16 = setup.precision == "bf16"
        if self._bf16:
            warn_of_slow_bf16(self._device, "policy.precision")
        self._parameters = actor_layout(encoder, shape).parameters
        self._leaves: dict[str, Tensor] = {}

    def load(self, parameters: Sequence[Array]) -> None:
        """Copy the parameters and bring them into the form in which they are used."""
        last = f"policy.{len(self._shape.hidden_sizes)}."
        networks = list(parameters)
        self._scaling = take_statistics(networks, self._how, self.encoder)
        with torch.inference_mode():
            for p, source in zip(self._parameters, networks, strict=True):
                # A copy of our own, whose memory format is that of the layout.
                weight = torch.from_numpy(np.array(source, np.float32, order="K"))
                if sees_pixels(p.name):
                    weight = weight * PIXEL
                if weight.dim() == 4:
                    weight = weight.contiguous(memory_format=torch.channels_last)
                narrow = self._bf16 and not p.name.startswith(last) and not normalises(p.name)
                dtype = torch.bfloat16 if narrow else torch.float32
                self._leaves[p.name] = weight.to(self._device, dtype)

    def output(self, obs: Array) -> F32:
        """The output ``[out, B]`` for observations ``[B, ...]``."""
        with torch.inference_mode():
            x = self._run(self._leaves, self._rows(obs))
            output: F32 = x.cpu().numpy().T
        return output

    def seen(self, obs: Array) -> F32:
        """See `replay.actors.Seeing`."""
        with torch.inference_mode():
            found: F32 = self._seen(self._leaves, self._rows(obs)).float().cpu().numpy()
        return found

    def exported(self, *, first: int) -> PolicyModule:
        """See `replay.actors.Exporting`."""
        images = () if self._see is None else self._see.images
        network, scaling = Leaves(self._leaves, self._run), self._scaling
        return make_module(self._environment, images, network, first=first, scaling=scaling)

    def _run(self, leaves: dict[str, Tensor], rows: Rows) -> Tensor:
        x = self._seen(leaves, rows)
        hidden, activation = len(self._shape.hidden_sizes), FUNCTIONS[self._shape.activation]
        kinds = layer_kinds(layer_norm=self._shape.layer_norm)
        for index in range(hidden):
            layer = [leaves[f"policy.{index}.{kind}"][0] for kind in kinds]
            x = activation(dense(x.to(layer[0].dtype), *layer))
        last = leaves[f"policy.{hidden}.weight"][0]
        return functional.linear(x.float(), last, leaves[f"policy.{hidden}.bias"][0])

    def _seen(self, leaves: dict[str, Tensor], rows: Rows) -> Tensor:
        if self._see is None:
            return rows.vector
        return see(self._see, leaves, rows, bf16=self._bf16, scaled=True)

    def _rows(self, obs: Array) -> Rows:
        """Observations on the device, without their mask."""
        images = self.encoder.images(obs)
        vector = self.encoder.vector(obs)
        if self._scaling is not None:
            vector = self._scaling(vector)
        return Rows(self._tensor(vector), tuple(self._tensor(image) for image in images))

    def _tensor(self, rows: Array) -> Tensor:
        if self._staging is not None:
            return self._staging.upload(rows)
        if not rows.flags.writeable:
            rows = rows.copy()  # torch warns of memory that nobody may write to
        return torch.from_numpy(rows)
