"""Actor-critic networks in torch, over named parameter tensors; rows are ``[B, ...]``."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from fast_core.algos.nets.distributions import FORBIDDEN, LOG_2PI
from fast_core.algos.nets.images import ImageShape
from fast_core.algos.nets.layer_norm import EPSILON
from fast_core.algos.nets.networks import NetworkShape, Parameter, layer_kinds, own_prefix
from fast_core.algos.nets_torch.activations import FUNCTIONS
from fast_core.algos.nets_torch.images import convolve
from fast_core.algos.nets_torch.own import OwnModule
from fast_core.algos.nets_torch.recurrent import TorchMemory


class Rows(NamedTuple):
    """Observations on the device.

    Attributes:
        vector: ``[B, in]`` float32.
        images: ``[B, stack, ...]`` uint8 of each image.
        mask: ``[B, M]`` bool; None where all actions are allowed.
        state: ``[N, S]``, where the rows are ``B / N`` steps of ``N`` sequences, time-major: what
            a network with memory remembers before the first step; None without memory.
        keep: ``[B / N, N]`` float32, 0 where it has forgotten before a step.
        learned: Which of the rows a network with memory is asked about, those of ``mask``; None
            for all.
    """

    vector: Tensor
    images: tuple[Tensor, ...] = ()
    mask: Tensor | None = None
    state: Tensor | None = None
    keep: Tensor | None = None
    learned: Tensor | None = None


class Assessment(NamedTuple):
    """What an actor-critic says of rows and their actions.

    Attributes:
        log_prob: ``[B]``, of the actions.
        entropy: ``[B]``.
        value: ``[B]``.
        output: ``[B, A]``, what the policy's head puts out.
        features: ``[B, F]``, what the value's head takes.
    """

    log_prob: Tensor
    entropy: Tensor
    value: Tensor
    output: Tensor
    features: Tensor


class Network:
    """The forward pass of an actor-critic; it owns no parameters.

    Args:
        shape: The network.
        bf16: Compute torsos in bfloat16; heads, distributions and losses stay in float32.
        scaled: Whether the first convolution's weights already contain the factor 1/255 of
            the pixels. Scaling weights costs next to nothing, and pixels are exact in bfloat16
            as they are.
        device: Where a user's modules are.
        torsos: How many are used, the policy's first; None: all.
    """

    def __init__(
        self,
        shape: NetworkShape,
        *,
        bf16: bool = False,
        scaled: bool = False,
        device: torch.device | str = "cpu",
        torsos: int | None = None,
    ) -> None:
        self._shape = shape
        self._own: dict[str, OwnModule] = {}
        if shape.own is not None:
            self._own = {torso: OwnModule(shape.own, device) for torso in shape.torsos[:torsos]}
        self._bf16 = bf16
        self._scaled = scaled
        self._activation = FUNCTIONS[shape.activation]
        kinds = layer_kinds(layer_norm=shape.layer_norm)
        self._layers = {
            torso: [
                [f"{torso}.{layer}.{kind}" for kind in kinds]
                for layer in range(len(shape.sizes(torso)))
            ]
            for torso in shape.torsos
        }
        self.memory = None if shape.memory is None else TorchMemory(shape.memory)

    @property
    def modules(self) -> list[nn.Module]:
        """A user's modules; whoever uses the network trains or moves them as theirs."""
        return [own.module for own in self._own.values()]

    def bind(self, leaves: dict[str, Tensor]) -> None:
        """Let a user's modules learn in the memory of ``leaves``; see `OwnModule.bind`."""
        for torso, module in self._own.items():
            module.bind(leaves, own_prefix(torso))

    def fill(self, leaves: dict[str, Tensor]) -> None:
        """Let a user's modules act with copies of ``leaves``, and learn no more."""
        for torso, module in self._own.items():
            module.module.requires_grad_(False)
            module.fill(leaves, own_prefix(torso))

    def value(self, leaves: dict[str, Tensor], rows: Rows) -> Tensor:
        """Values ``[B]``."""
        return self.value_of(leaves, self.features(leaves, self._shape.torsos[-1], rows))

    def value_of(self, leaves: dict[str, Tensor], features: Tensor) -> Tensor:
        """Values ``[B]`` from what leaves a torso."""
        features = features[:, self._shape.scores :]
        return _linear(leaves, "value.head", features).squeeze(-1)

    def output(self, leaves: dict[str, Tensor], rows: Rows) -> Tensor | tuple[Tensor, Tensor]:
        """What the policy head says, ``[B, A]``; with memory the state after the rows too."""
        features = self.features(leaves, self._shape.torsos[0], rows)
        if self.memory is None:
            return self.output_of(leaves, features)
        assert rows.state is not None, "rows come with what is remembered"
        after = self.memory.step(leaves, features, rows.state)
        return self.output_of(leaves, after[:, : self._shape.head_inputs(0)]), after

    def output_of(self, leaves: dict[str, Tensor], features: Tensor) -> Tensor:
        """What the policy head says, ``[B, A]``, from what leaves a torso."""
        if self._shape.scores:
            return features[:, : self._shape.scores]
        return _linear(leaves, "policy.head", features)

    def evaluate(self, leaves: dict[str, Tensor], rows: Rows, action: Tensor) -> Assessment:
        """What the networks say of ``action`` and of the rows to learn from."""
        features = self.features(leaves, self._shape.torsos[0], rows)
        if self.memory is not None:
            features = self.memory.unroll_rows(leaves, features, rows.state, rows.keep)
            features = features if rows.learned is None else features[rows.learned]
        output = self.output_of(leaves, features)
        log_prob, entropy = action_log_prob(self._shape, leaves, output, action, rows.mask)
        if not self._shape.shared_torso:
            features = self.features(leaves, "value", rows)
        value = self.value_of(leaves, features)
        return Assessment(log_prob, entropy, value, output, features)

    def features(self, leaves: dict[str, Tensor], torso: str, rows: Rows) -> Tensor:
        """What a torso makes of the rows, ``[B, features]`` float32."""
        if not self._bf16:  # even a context that does nothing costs more than a small layer
            return self._features(leaves, torso, rows)
        with torch.autocast(rows.vector.device.type, torch.bfloat16):
            x = self._features(leaves, torso, rows)
        return x.float()

    def _features(self, leaves: dict[str, Tensor], torso: str, rows: Rows) -> Tensor:
        if self._own:
            x = self._own[torso](rows.vector, rows.images)
        else:
            x = self._joined(leaves, torso, rows) if self._shape.images else rows.vector
        for names in self._layers[torso]:
            x = self._activation(dense(x, *(leaves[name] for name in names)))
        return x

    def _joined(self, leaves: dict[str, Tensor], torso: str, rows: Rows) -> Tensor:
        """The features of all images, and the numbers."""
        parts = [
            self._image(leaves, f"{torso}.image{index}", image, pixels)
            for index, (image, pixels) in enumerate(
                zip(self._shape.images, rows.images, strict=True)
            )
        ]
        if self._shape.inputs:
            parts.append(rows.vector)
        return parts[0] if len(parts) == 1 else torch.cat([part.float() for part in parts], 1)

    def _image(self, leaves: dict[str, Tensor], name: str, image: ImageShape, x: Tensor) -> Tensor:
        """The features of one image."""
        x = convolve(leaves, name, self._shape.cnn, image, x, bf16=self._bf16, scaled=self._scaled)
        return _linear(leaves, f"{name}.features", x).relu_()


def action_log_prob(
    shape: NetworkShape,
    leaves: dict[str, Tensor],
    output: Tensor,
    action: Tensor,
    mask: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """Log-probability and entropy ``[B]`` of actions, from a policy head's ``[B, A]``."""
    if shape.gaussian:
        return gaussian(output, leaves["policy.log_std"], action)
    if mask is not None:
        output = output.masked_fill(~mask, FORBIDDEN)
    if not shape.choices:
        return categorical(output, action)
    parts = [
        categorical(logits, action[:, dimension])
        for dimension, logits in enumerate(torch.split(output, list(shape.choices), 1))
    ]
    log_probs, entropies = zip(*parts, strict=True)
    return torch.stack(log_probs).sum(0), torch.stack(entropies).sum(0)


def categorical(logits: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
    """Log-probability and entropy ``[B]`` of choices ``[B]`` from ``logits [B, A]``."""
    log_probs = torch.log_softmax(logits, -1)
    log_prob = log_probs.gather(1, action[:, None]).squeeze(1)
    return log_prob, -(log_probs.exp() * log_probs).sum(-1)


def gaussian(mean: Tensor, log_std: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
    """Log-probability and entropy ``[B]`` of ``action [B, A]`` with ``log_std [A]``."""
    standard = (action - mean) * torch.exp(-log_std)
    log_prob = (-0.5 * standard.square() - log_std - 0.5 * LOG_2PI).sum(-1)
    entropy = (log_std + 0.5 * (1 + LOG_2PI)).sum().expand(len(mean))
    return log_prob, entropy


def tensor_view(flat: Tensor, p: Parameter) -> Tensor:
    """A parameter's place in a flat tensor, as `nets.networks.Parameter.view` has it."""
    if p.channels_last:
        _, inputs, height, width = p.shape
        return flat.as_strided(
            p.shape,
            (inputs * height * width, 1, width * inputs, inputs),
            flat.storage_offset() + p.offset,
        )
    return flat[p.offset : p.end].view(p.shape)


def dense(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    scale: Tensor | None = None,
    shift: Tensor | None = None,
) -> Tensor:
    """What enters the activation of a hidden layer, ``[B, out]``; normalised with a scale."""
    x = functional.linear(x, weight, bias)
    if scale is None:
        return x
    return functional.layer_norm(x.float(), x.shape[-1:], scale, shift, EPSILON).to(x.dtype)


def _linear(leaves: dict[str, Tensor], name: str, x: Tensor) -> Tensor:
    return functional.linear(x, leaves[f"{name}.weight"], leaves[f"{name}.bias"])
