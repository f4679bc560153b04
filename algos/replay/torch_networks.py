"""The networks of an algorithm that learns from replay as torch modules, built in one place.

`Networks` holds them by name. What all of them take is what `Networks.see` makes of rows: the
numbers of an observation; the features that convolutions or a user's module make of it; or, where
a user's module is every network itself, the rows as they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import TypeVar, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from fast_core.algos.nets.distributions import FORBIDDEN
from fast_core.algos.nets.encoder_shape import EncoderShape
from fast_core.algos.nets.layer_norm import EPSILON
from fast_core.algos.nets.mlp import MlpShape
from fast_core.algos.nets.networks import first_gain
from fast_core.algos.nets.own_shape import OwnShape
from fast_core.algos.nets_torch.activations import IN_PLACE
from fast_core.algos.nets_torch.images import convolve
from fast_core.algos.nets_torch.networks import Rows
from fast_core.algos.nets_torch.own import as_module_takes, make, sample, tensors
from fast_core.algos.replay.torch_memory import Picked, RecurrentLayer, Sequences

Seen = Tensor | Rows
Output = TypeVar("Output", Tensor, list[Tensor])
STREAMS_SCALE = math.sqrt(0.5)


class Linear(nn.Module):
    """A layer of ``M`` networks.

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

    def forward(self, *x: Tensor) -> list[Tensor]:
        """What each member makes of its ``[B, in]``: ``[B, out]``."""
        if len(x) == 1:
            # What is squeezed goes back as a view; an index would fill a tensor with zeros first.
            return [functional.linear(x[0], self.weight.squeeze(0), self.bias.squeeze(0))]
        each = zip(x, self.weight.unbind(), self.bias.unbind(), strict=True)
        return [functional.linear(*one) for one in each]

    def together(self, *x: Tensor) -> Tensor:
        """What all make of the same inputs ``[B, in]``, or of their parts: ``[B, M, out]``."""
        weights = torch.split(self.weight.flatten(0, 1), [part.shape[1] for part in x], 1)
        product = functional.linear(x[0], weights[0], self.bias.flatten())
        for part, weight in zip(x[1:], weights[1:], strict=True):
            product = torch.addmm(product, part, weight.t())
        return product.view(len(product), *self.bias.shape)

    def batched(self, x: Tensor) -> Tensor:
        """``[M or 1, B, in]`` to ``[M, B, out]``, as a device likes it; slower on the CPU."""
        inputs = x.expand(len(self.weight), -1, -1)
        return torch.baddbmm(self.bias[:, None], inputs, self.weight.transpose(1, 2))

    def normalised(self, x: Sequence[Tensor]) -> list[Tensor]:
        """What each put out, normalised if it is."""
        if self.scale is None or self.shift is None:
            return list(x)
        each = zip(x, self.scale.unbind(), self.shift.unbind(), strict=True)
        return [
            (functional.layer_norm(y.float(), y.shape[-1:], eps=EPSILON) * scale + shift).to(
                y.dtype
            )
            for y, scale, shift in each
        ]


class Mlp(nn.ModuleList):
    """``M`` networks of one shape: ``[B, in]`` to ``[M, B, out]``; the last layer is float32."""

    def __init__(self, shape: MlpShape) -> None:
        hidden = len(shape.hidden_sizes)
        super().__init__(
            Linear(shape.members, a, b, layer_norm=shape.layer_norm and index < hidden)
            for index, (a, b) in enumerate(shape.layers)
        )
        self._activation, self._members = IN_PLACE[shape.activation], shape.members

    def forward(self, *x: Tensor) -> Tensor:
        """The outputs of all members, for inputs or their parts ``[B, ...]``.

        In parts a gradient that is asked of one alone costs nothing for the others.
        """
        *hidden, last = [cast(Linear, layer) for layer in self]
        if self._members > 1 and x[0].device.type != "cpu":
            return self._at_once(hidden, last, _joined(x))
        each: Sequence[Tensor] = [_joined(x)] * self._members
        if hidden:
            each = self._first(hidden[0], x)
        for layer in hidden[1:]:
            each = self._follows(layer, layer(*each))
        outputs: list[Tensor] = _wide(last, *each)
        return torch.stack(outputs) if self._members > 1 else outputs[0][None]

    def _first(self, layer: Linear, x: tuple[Tensor, ...]) -> Sequence[Tensor]:
        """What the first layer puts out."""
        # The number of rows is asked last: an export of a policy, which is one, is for any number.
        one = self._members == 1 or layer.scale is not None
        if one or layer.weight.shape[-1] <= len(x[0]):
            return self._follows(layer, layer(*[_joined(x)] * self._members))
        # Weights that are larger than what they put out are used as they lie, all at once: their
        # gradients would be joined otherwise, which costs as much as they are large.
        return self._activation(layer.together(*x)).unbind(1)

    def _follows(self, layer: Linear, products: Sequence[Tensor]) -> Sequence[Tensor]:
        return [self._activation(one) for one in layer.normalised(products)]

    def _at_once(self, hidden: Sequence[Linear], last: Linear, x: Tensor) -> Tensor:
        x = x[None]
        for layer in hidden:
            x = layer.batched(x)
            if layer.scale is not None:
                x = torch.stack(layer.normalised(x.unbind()))
            x = self._activation(x)
        outputs: Tensor = _wide(last.batched, x)
        return outputs


class Perceptron(nn.Module):
    """An MLP that sees."""

    def __init__(self, shape: MlpShape) -> None:
        super().__init__()
        self.layers = Mlp(shape)

    def forward(self, seen: Seen) -> Tensor:
        """``[B, out]``."""
        outputs: Tensor = self.layers(seen)
        return outputs[0]


class Streams(Perceptron):
    """Two networks of one shape, of which one says a value and the other advantages.

    Of what the first puts out, one number has a meaning.

    Source: Wang et al. 2015, arXiv:1511.06581, section 4.2.
    """

    def forward(self, seen: Seen) -> Tensor:
        """The value, then the advantages: ``[B, 1 + A]``."""
        assert isinstance(seen, Tensor), "both streams lie on convolutions"
        if seen.requires_grad:  # what both send into them is scaled
            seen.register_hook(_less)  # type: ignore[no-untyped-call]
        value, advantage = self.layers(seen).unbind()
        return torch.cat([value[:, :1], advantage], 1)


def _less(gradient: Tensor) -> Tensor:
    return gradient * STREAMS_SCALE


class Critics(nn.Module):
    """MLPs that see and take an action."""

    def __init__(self, shape: MlpShape) -> None:
        super().__init__()
        self.layers = Mlp(shape)

    def forward(self, seen: Seen, action: Tensor) -> Tensor:
        """``[M, B, out]``."""
        assert isinstance(seen, Tensor), "there is one encoder under all networks"
        # In parts for a policy that follows the action; weights that learn are better whole.
        apart = action.requires_grad and not seen.requires_grad
        outputs: Tensor = self.layers(*[seen, action] if apart else [torch.cat([seen, action], 1)])
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
        outputs: list[Tensor] = _wide(self.head, self.own(inputs, *action))
        return outputs[0]


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
                nn.init.orthogonal_(tensor, first_gain(p.name))
            self.register_parameter(name, nn.Parameter(tensor))

    def forward(self, rows: Rows) -> Tensor:
        """What the convolutions put out, then the numbers ``[B, out]``."""
        leaves: dict[str, Tensor] = {
            name: self.get_parameter(own) for name, own in self._names.items()
        }
        bf16 = torch.is_autocast_enabled(rows.vector.device.type)
        return see(self._shape, leaves, rows, bf16=bf16)


def see(
    shape: EncoderShape,
    leaves: dict[str, Tensor],
    rows: Rows,
    *,
    bf16: bool,
    scaled: bool = False,
) -> Tensor:
    """What the convolutions of all images put out, then the numbers: ``[B, size]`` float32.

    Args:
        shape: Of the convolutions.
        leaves: Their parameters, named ``encoder.…``.
        rows: Observations.
        bf16: Whether they compute in bfloat16.
        scaled: Whether the first layer's weights already contain the factor 1/255.
    """
    precision = torch.autocast(rows.vector.device.type, torch.bfloat16) if bf16 else nullcontext()
    with precision:
        parts = [
            convolve(leaves, f"encoder.image{i}", shape.cnn, image, x, bf16=bf16, scaled=scaled)
            for i, (image, x) in enumerate(zip(shape.images, rows.images, strict=True))
        ]
    parts = [part.float() for part in parts]
    if shape.inputs:
        parts.append(rows.vector)
    return parts[0] if len(parts) == 1 else torch.cat(parts, 1)


class Networks(nn.Module):
    """All networks of an algorithm.

    Args:
        encoder: What lies under all of them; None: nothing does.
        modules: They themselves.
        memory: What lies between.
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
        memory: RecurrentLayer | None = None,
        raw: bool = False,
        bf16: bool = False,
        random: bool = False,
    ) -> None:
        super().__init__()
        below = {"encoder": encoder, "memory": memory}
        there = {name: module for name, module in below.items() if module is not None}
        self.parts = nn.ModuleDict(there | dict(modules))
        self._raw, self._bf16, self._random = raw, bf16, random

    def see(self, rows: Rows | Picked) -> Seen:
        """What the networks take of rows."""
        if isinstance(rows, Picked):
            return self._unrolled(rows.sequences).index_select(0, rows.at)
        return rows if self._raw else self._features(rows)

    def _features(self, rows: Rows) -> Tensor:
        return self("encoder", rows) if "encoder" in self.parts else rows.vector

    def _unrolled(self, sequences: Sequences) -> Tensor:
        """What leaves the memory at each row; once for all who ask, whether or not they learn."""
        if self not in sequences.unrolled:
            memory = cast(RecurrentLayer, self.parts["memory"])
            state, keep = sequences.state, sequences.keep
            before, envs = len(sequences.before.vector) // len(state), len(state)
            if before:
                with torch.no_grad():
                    features = self._features(sequences.before).view(before, envs, -1)
                    state = memory.after(features, state, keep[:before])
            with torch.enable_grad():
                features = self._features(sequences.rows).view(len(keep) - before, envs, -1)
                outputs: Tensor = memory(features, state, keep[before:]).flatten(0, 1)
            sequences.unrolled[self] = outputs
        return sequences.unrolled[self]

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

    def tensors(self) -> dict[str, list[Tensor]]:
        """The tensors of each part, in the order in which its parameters lie in a vector."""
        found: dict[str, list[Tensor]] = {}
        for part, _, tensor in self.named_tensors():
            found.setdefault(part, []).append(tensor)
        return found


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


def _joined(x: tuple[Tensor, ...]) -> Tensor:
    return x[0] if len(x) == 1 else torch.cat(x, 1)


def _wide(layer: Callable[..., Output], *x: Tensor) -> Output:
    """A layer in float32 whatever is around it."""
    device = x[0].device.type
    if not torch.is_autocast_enabled(device):
        return layer(*x)
    with torch.autocast(device, enabled=False):
        return layer(*(one.float() for one in x))
