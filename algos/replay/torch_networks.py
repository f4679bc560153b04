"""The networks of an algorithm that learns from replay as torch modules, built in one place.

`Networks` holds them by name. What all of them take is what `Networks.see` makes of rows: the
numbers of an observation; the features that convolutions or a user's module make of it; or, where
a user's module is every network itself, the rows as they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from fast_core.algos.nets.distributions import FORBIDDEN
from fast_core.algos.nets.encoder_shape import BRANCH_GAIN, GAIN, EncoderShape
from fast_core.algos.nets.layer_norm import EPSILON
from fast_core.algos.nets.mlp import MlpShape
from fast_core.algos.nets.own_shape import OwnShape
from fast_core.algos.nets_torch.activations import FUNCTIONS
from fast_core.algos.nets_torch.networks import Rows
from fast_core.algos.nets_torch.own import as_module_takes, make, sample, tensors
from fast_core.algos.replay.torch_encoder import see

Seen = Tensor | Rows


class Linear(nn.Module):
    """A linear layer of ``M`` networks at once: ``[M or 1, B, in]`` to ``[M, B, out]``.

    Args:
        members: ``M``.
        inputs: Numbers that enter.
        outputs: Numbers that leave.
        layer_norm: Whether those are normalised, as `nets.layer_norm` has it.
    """

    def __init__(
        self, members: int, inputs: int, outputs: int, *, layer_norm: bool = False
    ) -> None:
        super().__init__()
        limit = 1.0 / math.sqrt(inputs)  # as `nets.mlp.draw_first_values` has it
        self.weight = nn.Parameter(torch.empty(members, outputs, inputs).uniform_(-limit, limit))
        self.bias = nn.Parameter(torch.empty(members, outputs).uniform_(-limit, limit))

        self.scale = nn.Parameter(torch.ones(members, outputs)) if layer_norm else None
        self.shift = nn.Parameter(torch.zeros(members, outputs)) if layer_norm else None

    def forward(self, x: Tensor) -> Tensor:
        """The outputs of all members."""
        x = self._product(x)
        if self.scale is None or self.shift is None:
            return x
        normal = functional.layer_norm(x.float(), x.shape[-1:], eps=EPSILON)
        return (normal * self.scale[:, None] + self.shift[:, None]).to(x.dtype)

    def alone(self, x: Tensor) -> Tensor:
        """What the product of the only member is, ``[B, in]`` to ``[B, out]``."""
        # What is squeezed goes back as a view; an index would fill a tensor with zeros first.
        return functional.linear(x, self.weight.squeeze(0), self.bias.squeeze(0))

    def _product(self, x: Tensor) -> Tensor:
        members = len(self.weight)
        if members == 1:
            return self.alone(x.squeeze(0))[None]
        if x.device.type != "cpu":
            inputs = x.expand(members, -1, -1)
            return torch.baddbmm(self.bias[:, None], inputs, self.weight.transpose(1, 2))
        shared = len(x) == 1  # a batched product is slower on the CPU
        weights, biases = self.weight.unbind(), self.bias.unbind()
        outputs = [
            functional.linear(x[0 if shared else member], weight, bias)
            for member, (weight, bias) in enumerate(zip(weights, biases, strict=True))
        ]
        return torch.stack(outputs)


class Mlp(nn.ModuleList):
    """``M`` networks of one shape: ``[B, in]`` to ``[M, B, out]``; the last layer is float32."""

    def __init__(self, shape: MlpShape) -> None:
        hidden = len(shape.hidden_sizes)
        super().__init__(
            Linear(shape.members, a, b, layer_norm=shape.layer_norm and index < hidden)
            for index, (a, b) in enumerate(shape.layers)
        )
        self._activation = FUNCTIONS[shape.activation]

    def forward(self, x: Tensor) -> Tensor:
        """The outputs of all members."""
        *hidden, last = self
        x = x[None]
        for layer in hidden:
            x = self._activation(layer(x))
        return _wide(last, x)


class Perceptron(nn.Module):
    """An MLP that sees."""

    def __init__(self, shape: MlpShape) -> None:
        super().__init__()
        self.layers = Mlp(shape)

    def forward(self, seen: Seen) -> Tensor:
        """``[B, out]``."""
        outputs: Tensor = self.layers(seen)
        return outputs[0]


class Critics(nn.Module):
    """MLPs that see and take an action."""

    def __init__(self, shape: MlpShape) -> None:
        super().__init__()
        self.layers = Mlp(shape)

    def forward(self, seen: Seen, action: Tensor) -> Tensor:
        """``[M, B, out]``."""
        assert isinstance(seen, Tensor), "there is one encoder under all networks"
        outputs: Tensor = self.layers(torch.cat([seen, action], 1))
        return outputs


class OwnNetwork(nn.Module):
    """A user's module, and a linear layer on it."""

    def __init__(self, shape: OwnShape, outputs: int, seed: int) -> None:
        super().__init__()
        self._shape = shape
        self.own = make(shape, seed)
        self.head = Linear(1, width(shape), outputs)

    def forward(self, seen: Seen, *action: Tensor) -> Tensor:
        """``[B, out]``."""
        assert isinstance(seen, Rows), "the module is every network itself"
        inputs = as_module_takes(self._shape, seen.vector, seen.images)
        return _wide(self.head.alone, self.own(inputs, *action))


class OwnCritics(nn.ModuleList):
    """``M`` of them, on observations with actions."""

    def __init__(self, shape: OwnShape, outputs: int, members: int, seed: int) -> None:
        super().__init__([OwnNetwork(shape, outputs, seed + member) for member in range(members)])

    def forward(self, seen: Seen, action: Tensor) -> Tensor:
        """``[M, B, out]``."""
        return torch.stack([member(seen, action) for member in self])


class Numbers(nn.Module):
    """Numbers that learn, or are kept, beside the networks."""

    def __init__(self, *shape: int) -> None:
        super().__init__()
        self.values = nn.Parameter(torch.zeros(shape))


class OwnEncoder(nn.Module):
    """A user's module under all networks."""

    def __init__(self, shape: OwnShape, seed: int) -> None:
        super().__init__()
        self._shape = shape
        self.own = make(shape, seed)

    def forward(self, rows: Rows) -> Tensor:
        """Features ``[B, out]``."""
        features: Tensor = self.own(as_module_takes(self._shape, rows.vector, rows.images))
        return features


class Convolutions(nn.Module):
    """FastLoop's convolutions under all networks."""

    def __init__(self, shape: EncoderShape) -> None:
        super().__init__()
        self._shape = shape
        self._names: dict[str, str] = {}
        for p in shape.parameters("encoder", 0):
            name = self._names[p.name] = p.name.removeprefix("encoder.").replace(".", "_")
            tensor = torch.zeros(p.shape)
            if len(p.shape) > 1:
                branch = ".block" in p.name and p.name.endswith(".conv1.weight")
                nn.init.orthogonal_(tensor, BRANCH_GAIN if branch else GAIN)
            self.register_parameter(name, nn.Parameter(tensor))

    def forward(self, rows: Rows) -> Tensor:
        """What the convolutions put out, then the numbers ``[B, out]``."""
        leaves: dict[str, Tensor] = {
            name: self.get_parameter(own) for name, own in self._names.items()
        }
        bf16 = torch.is_autocast_enabled(rows.vector.device.type)
        return see(self._shape, leaves, rows, bf16=bf16)


class Networks(nn.Module):
    """All networks of an algorithm.

    Args:
        encoder: What lies under all of them; None: nothing does.
        modules: They themselves.
        raw: Whether they take rows as they are.
        bf16: Whether they compute in bfloat16, but for what they say otherwise.
        random: Whether any draws random numbers while it learns.
    """

    __call__: Callable[..., Tensor]

    def __init__(
        self,
        encoder: nn.Module | None,
        modules: Mapping[str, nn.Module],
        *,
        raw: bool = False,
        bf16: bool = False,
        random: bool = False,
    ) -> None:
        super().__init__()
        self.parts = nn.ModuleDict(
            ({} if encoder is None else {"encoder": encoder}) | dict(modules)
        )
        self._raw, self._bf16, self._random = raw, bf16, random

    def see(self, rows: Rows) -> Seen:
        """What the networks take of rows."""
        if self._raw:
            return rows
        return self("encoder", rows) if "encoder" in self.parts else rows.vector

    def forward(self, name: str, *inputs: Seen) -> Tensor:
        """What one of them says, float32."""
        if self._random and self.training != torch.is_grad_enabled():
            self.train(torch.is_grad_enabled())
        if not self._bf16:  # even a context that does nothing costs more than a small layer
            output: Tensor = self.parts[name](*inputs)
            return output
        device = next(self.parameters()).device.type
        with torch.autocast(device, torch.bfloat16):
            output = self.parts[name](*inputs)
        return output.float()

    def numbers(self, name: str) -> nn.Parameter:
        """Numbers kept beside the networks."""
        return cast(Numbers, self.parts[name]).values

    def keep(self, names: Collection[str]) -> None:
        """Drop all but these."""
        for name in [name for name in self.parts if name not in names]:
            del self.parts[name]

    def named_tensors(self) -> Iterator[tuple[str, str, Tensor]]:
        """Part, name and tensor of all parameters and floating-point buffers, part by part."""
        for part, module in self.parts.items():
            for name, tensor in tensors(module):
                yield part, f"{part}.{name}", tensor


def best_choice(values: Tensor, mask: Tensor | None) -> Tensor:
    """The allowed choice of largest value in each row ``[N]``."""
    return (values if mask is None else values.masked_fill(~mask, FORBIDDEN)).argmax(1)


def pick(values: Tensor, choice: Tensor) -> Tensor:
    """What belongs to each row's choice: of ``[N, A, ...]``, ``[N, ...]``."""
    return values[torch.arange(len(values), device=values.device), choice]


def width(shape: OwnShape) -> int:
    """Features that a user's module puts out; by one that is thrown away, as it may keep things."""
    inputs = [sample(shape, 2, 0), *([torch.zeros(2, shape.actions)] if shape.actions else [])]
    with torch.no_grad():
        return int(make(shape, 0)(*inputs).shape[1])


def _wide(layer: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """A layer in float32 whatever is around it."""
    if not torch.is_autocast_enabled(x.device.type):
        return layer(x)
    with torch.autocast(x.device.type, enabled=False):
        return layer(x.float())
