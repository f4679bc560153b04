"""The networks of policies that learn from replay, in torch: for convolutions and GPUs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from fast_core.algorithm import Array, PolicySetup
from fast_core.algorithm.spec import EnvironmentSpec
from fast_core.algos.nets.encoder_shape import EncoderShape
from fast_core.algos.nets.images import ImageShape, sees_pixels
from fast_core.algos.nets.mlp import MlpShape
from fast_core.algos.nets.networks import F32, layer_kinds, normalises
from fast_core.algos.nets.normalizer import Normalization
from fast_core.algos.nets.policy_inputs import given
from fast_core.algos.nets.recurrent_shape import MemoryShape
from fast_core.algos.nets_torch.activations import FUNCTIONS
from fast_core.algos.nets_torch.images import PIXEL
from fast_core.algos.nets_torch.networks import Rows, dense
from fast_core.algos.nets_torch.policy_inputs import TorchInputs
from fast_core.algos.nets_torch.policy_module import ActionMode, Leaves, Output, PolicyModule
from fast_core.algos.nets_torch.recurrent import TorchMemory
from fast_core.algos.replay.actors import Remembering, actor_layout
from fast_core.algos.replay.torch_networks import see


class ExportingActor(TorchInputs, ABC):
    """What acts in torch; implements all of `replay.actors.Actor` but `load`.

    Args:
        environment: What it acts in.
        images: The parts of an observation that are no numbers to the networks.
        how: How observations are normalised; None where they are not.
        setup: Device and precision.
    """

    def __init__(
        self,
        environment: EnvironmentSpec,
        images: tuple[ImageShape, ...],
        how: Normalization | None,
        setup: PolicySetup,
    ) -> None:
        super().__init__(environment, images, how, setup)
        self._environment, self._images = environment, images

    @abstractmethod
    def network(self) -> nn.Module:
        """Maps `Rows` to what policies choose by: means, or values of choices."""

    @abstractmethod
    def _run(self, rows: Rows) -> Output:
        """What it puts out, ``[B, out]``; with memory also the state after them."""

    def output(self, obs: Array, state: Array | None = None) -> Remembering:
        """See `fast_core.algos.replay.actors.Actor`."""
        with torch.inference_mode():
            said = self._run(self._given(obs, state))
            if isinstance(said, Tensor):
                return said.cpu().numpy().T, None
            output, after = said
            return output.cpu().numpy().T, after.cpu().numpy()

    def _given(self, obs: Array, state: Array | None) -> Rows:
        return self.rows(obs)

    def exported(self, *, first: int) -> PolicyModule:
        """See `replay.actors.Exporting`."""
        action = self._environment.action
        if action.kind == "box":
            mode = ActionMode(action.size, squashed=True)
        else:
            mode = ActionMode(action.n, first=first, choices=(action.n,))
        return PolicyModule(
            self._environment,
            self._images,
            self.network(),
            mode,
            stretch=True,
            scaling=self.scaling,
        )


class TorchActor(ExportingActor):
    """Convolutions and a recurrent layer, if there are any, and an MLP, on any device.

    With bf16 everything but the last layer and the recurrent one is bfloat16.

    Args:
        encoder: The convolutions.
        memory: The recurrent layer on what they see.
        shape: The network after them, of one member.
        environment: What it acts in.
        setup: Device and precision.
        how: How observations are normalised; None where they are not.
    """

    def __init__(
        self,
        encoder: EncoderShape | None,
        memory: MemoryShape | None,
        shape: MlpShape,
        environment: EnvironmentSpec,
        setup: PolicySetup,
        *,
        how: Normalization | None = None,
    ) -> None:
        super().__init__(environment, () if encoder is None else encoder.images, how, setup)
        self._see, self._shape = encoder, shape
        self._parameters = actor_layout(encoder, memory, shape).parameters
        self._memory = None if memory is None else TorchMemory(memory)
        self._leaves: dict[str, Tensor] = {}

    def load(self, parameters: Sequence[Array]) -> None:
        """Copy the parameters and bring them into the form in which they are used."""
        last = f"policy.{len(self._shape.hidden_sizes)}."
        networks = self.take(parameters)
        with torch.inference_mode():
            for p, source in zip(self._parameters, networks, strict=True):
                # A copy of our own, whose memory format is that of the layout.
                weight = torch.from_numpy(np.array(source, np.float32, order="K"))
                if sees_pixels(p.name):
                    weight = weight * PIXEL
                if weight.dim() == 4:
                    weight = weight.contiguous(memory_format=torch.channels_last)
                wide = p.name.startswith((last, "memory.")) or normalises(p.name)
                narrow = self.bf16 and not wide
                dtype = torch.bfloat16 if narrow else torch.float32
                self._leaves[p.name] = weight.to(self.device, dtype)

    def seen(self, obs: Array, state: Array | None = None) -> F32:
        """See `replay.actors.Seeing`."""
        with torch.inference_mode():
            seen, _ = self._seen(self._leaves, self._given(obs, state))
            found: F32 = seen.float().cpu().numpy()
        return found

    def network(self) -> nn.Module:
        """A copy of them."""
        return Leaves(self._leaves, self._put_out)

    def _run(self, rows: Rows) -> Output:
        return self._put_out(self._leaves, rows)

    def _given(self, obs: Array, state: Array | None) -> Rows:
        rows = self.rows(obs)
        return rows if self._memory is None else rows._replace(state=self.tensor(given(state), -1))

    def _put_out(self, leaves: dict[str, Tensor], rows: Rows) -> Output:
        x, after = self._seen(leaves, rows)
        hidden, activation = len(self._shape.hidden_sizes), FUNCTIONS[self._shape.activation]
        kinds = layer_kinds(layer_norm=self._shape.layer_norm)
        for index in range(hidden):
            layer = [leaves[f"policy.{index}.{kind}"][0] for kind in kinds]
            x = activation(dense(x.to(layer[0].dtype), *layer))
        last = leaves[f"policy.{hidden}.weight"][0]
        output = functional.linear(x.float(), last, leaves[f"policy.{hidden}.bias"][0])
        return output if after is None else (output, after)

    def _seen(self, leaves: dict[str, Tensor], rows: Rows) -> tuple[Tensor, Tensor | None]:
        """What the network gets, and what is remembered then."""
        seen = rows.vector
        if self._see is not None:
            seen = see(self._see, leaves, rows, bf16=self.bf16, scaled=True)
        if self._memory is None:
            return seen, None
        assert rows.state is not None, "it comes with the rows"
        after = self._memory.step(leaves, seen.float(), rows.state)
        return after[:, : self._memory.size], after
