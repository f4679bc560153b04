"""A whole deterministic policy as one torch module: what is exported.

It begins with what an environment gives and ends with what it takes. Networks are those that
train and act; what policies do in NumPy around them, because torch's calls cost more on few
numbers, stands here in torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fast_core.algorithm.spec import EnvironmentSpec, SpaceSpec
from fast_core.algos.nets.action_map import ActionMap
from fast_core.algos.nets.distributions import FORBIDDEN
from fast_core.algos.nets.images import ImageShape
from fast_core.algos.nets.networks import F32
from fast_core.algos.nets.normalizer import Scaling
from fast_core.algos.nets.observations import joined, own_type
from fast_core.algos.nets_torch.networks import Rows

Output = Tensor | tuple[Tensor, Tensor]


@dataclass(frozen=True)
class ActionMode:
    """The most likely action by a network's output ``[B, out]``.

    Attributes:
        size: Outputs that it is read from.
        first: How many stand before them.
        choices: Choices of each dimension, of which the first of greatest output is taken; empty
            for numbers.
        squashed: Whether numbers go through tanh.
    """

    size: int
    first: int = 0
    choices: tuple[int, ...] = ()
    squashed: bool = False

    def __call__(self, output: Tensor, mask: Tensor | None) -> Tensor:
        """Stored actions ``[B, D]``; ``mask [B, size]`` says which choices are allowed."""
        output = output[:, self.first : self.first + self.size]
        if not self.choices:
            return torch.tanh(output) if self.squashed else output
        if mask is not None:
            output = output.masked_fill(~mask, FORBIDDEN)
        if len(set(self.choices)) == 1:
            return output.reshape(-1, len(self.choices), self.choices[0]).argmax(2)
        parts = torch.split(output, list(self.choices), 1)
        return torch.stack([part.argmax(1) for part in parts], 1)


class Leaves(nn.Module):
    """A pass over named parameters as a module that owns a copy of them.

    Args:
        leaves: The parameters.
        run: Maps them and `Rows` to outputs; with memory to outputs and the state after them.
        modules: Those that ``run`` calls besides.
    """

    def __init__(
        self,
        leaves: Mapping[str, Tensor],
        run: Callable[[dict[str, Tensor], Rows], Output],
        modules: Sequence[nn.Module] = (),
    ) -> None:
        super().__init__()
        self._run = run
        self.own = nn.ModuleList(modules)
        self._names = {name: name.replace(".", "_") for name in leaves}
        for name, leaf in leaves.items():
            self.register_buffer(self._names[name], leaf.clone())

    def forward(self, rows: Rows) -> Output:
        """What the pass puts out for these rows."""
        leaves = {name: cast(Tensor, getattr(self, own)) for name, own in self._names.items()}
        return self._run(leaves, rows)


class PolicyModule(nn.Module):
    """See `fast_core.algorithm.Blueprint.policy_module`.

    Args:
        environment: What the policy acts in.
        images: The parts of an observation that go through convolutions.
        network: Maps `Rows` to outputs ``[B, out]``; with memory, rows have a state and the state
            after them is put out too.
        mode: What the outputs stand for.
        stretch: Whether boxes are stored as [-1, 1], see `ActionMap`.
        scaling: How numbers are normalised, None where they are not.
    """

    def __init__(
        self,
        environment: EnvironmentSpec,
        images: tuple[ImageShape, ...],
        network: nn.Module,
        mode: ActionMode,
        *,
        stretch: bool = False,
        scaling: Scaling | None = None,
    ) -> None:
        super().__init__()
        self.network = network
        self.parts = _Parts(environment, images, None if scaling is None else scaling.origin)
        self.action = _EnvironmentAction(ActionMap(environment.action, stretch=stretch))
        self._mode = mode
        self._limit = None if scaling is None else scaling.limit
        if scaling is not None:
            self.register_buffer("mean", _tensor(scaling.mean))
            self.register_buffer("inverse_std", _tensor(scaling.inverse_std))

    @property
    def observation_origins(self) -> dict[int, NDArray[np.generic]]:
        """See `fast_core.algorithm.Blueprint.policy_module`."""
        return self.parts.origins

    def forward(self, *inputs: Tensor) -> Output:
        """Actions for the parts of observations; with memory for them and a state."""
        rows: Rows = self.parts(inputs)
        if self._limit is not None:
            mean, inverse_std = cast(Tensor, self.mean), cast(Tensor, self.inverse_std)
            vector = ((rows.vector - mean) * inverse_std).clamp(-self._limit, self._limit)
            rows = rows._replace(vector=vector)
        output: Output = self.network(rows)
        if isinstance(output, tuple):
            output, state = output
            return self.action(self._mode(output, rows.mask)), state
        action: Tensor = self.action(self._mode(output, rows.mask))
        return action


class _Parts(nn.Module):
    """`nets.observations.ObservationEncoder` in torch."""

    def __init__(
        self, environment: EnvironmentSpec, images: tuple[ImageShape, ...], origin: F32 | None
    ) -> None:
        super().__init__()
        space = environment.observation
        leaves = space.parts if space.kind == "composite" else ((None, space),)
        places = {name: place for place, (name, _) in enumerate(leaves)}
        self._count = len(leaves)
        mask = environment.action_mask
        self._mask = None if mask is None else places[mask]
        self._images = [(places[image.part], image.stack) for image in images]
        taken = {place for place, _ in self._images} | {self._mask}
        numbers = [(place, leaf) for place, (_, leaf) in enumerate(leaves) if place not in taken]
        self._places = [place for place, leaf in numbers if leaf.size]
        self._numbers = nn.ModuleList()
        self.origins: dict[int, NDArray[np.generic]] = {}
        at = 0
        for place, leaf in [(place, leaf) for place, leaf in numbers if leaf.size]:
            part = _Numbers(leaf, None if origin is None else origin[:, at:])
            self._numbers.append(part)
            at += part.outputs
            if part.far:
                self.origins[place] = cast(Tensor, part.origin).numpy().reshape(leaf.shape)

    def forward(self, inputs: tuple[Tensor, ...]) -> Rows:
        """Take observations apart; what follows their parts is a state."""
        columns = [
            encode(inputs[place]) for place, encode in zip(self._places, self._numbers, strict=True)
        ]
        images = tuple(
            inputs[place] if stack > 1 else inputs[place].unsqueeze(1)
            for place, stack in self._images
        )
        if len(columns) == 1:
            vector: Tensor = columns[0]
        elif columns:
            vector = torch.cat(columns, 1)
        else:
            vector = images[0].flatten(1)[:, :0].to(torch.float32)
        mask = None
        if self._mask is not None:
            given = inputs[self._mask]
            mask = (given if given.dtype == torch.bool else given != 0).flatten(1)
        return Rows(vector, images, mask, *inputs[self._count :])


class _Numbers(nn.Module):
    """The numbers of one part: as they are, or a one for each choice.

    Args:
        space: The part.
        origin: What they are counted from, ``[2, ...]`` from their place on; None: 0.

    Attributes:
        outputs: How many numbers it gives.
        far: Whether they are counted from elsewhere than 0.
    """

    def __init__(self, space: SpaceSpec, origin: F32 | None) -> None:
        super().__init__()
        self._size, self._choices, self.outputs = space.size, space.kind != "box", space.size
        own, self.far = own_type(space), False
        if own is not None and origin is not None and origin[:, : space.size].any():
            self.far = True
            exact = joined(origin[:, : space.size], own)
            # Torch computes without a sign in few places; a difference is the same with one.
            self.register_buffer("origin", _tensor(exact if own.kind == "f" else exact.view("i8")))
        if self._choices:
            discrete = space.kind == "discrete"
            counts = (space.n,) if discrete else space.counts
            starts = (space.start,) if discrete else space.starts or (0,) * len(counts)
            # Of each output, which dimension it looks at and which choice it stands for.
            dimension = np.repeat(np.arange(len(counts)), counts)
            pairs = zip(starts, counts, strict=True)
            choice = np.concatenate([start + np.arange(count) for start, count in pairs])
            self.outputs = len(choice)
            self.register_buffer("dimension", _tensor(dimension))
            self.register_buffer("choice", _tensor(choice))

    def forward(self, part: Tensor) -> Tensor:
        """``[B, ...]`` to ``[B, in]`` float32."""
        flat = part.reshape(-1, self._size)
        if self.far:
            origin = cast(Tensor, self.origin)
            flat = flat.to(origin.dtype) - origin
        if not self._choices:
            return flat.to(torch.float32)
        dimension, choice = cast(Tensor, self.dimension), cast(Tensor, self.choice)
        return (flat.to(torch.int64).index_select(1, dimension) == choice).to(torch.float32)


class _EnvironmentAction(nn.Module):
    """`ActionMap` in torch."""

    def __init__(self, action_map: ActionMap) -> None:
        super().__init__()
        space = action_map.space
        self._shape = space.shape
        self._dtype = _dtype(space)
        self._box = space.kind == "box"
        self._stretched = action_map.half is not None
        self._clipped = self._box and bool(np.isfinite(space.bounds).any())
        if self._clipped:
            self.register_buffer("low", _tensor(action_map.low))
            self.register_buffer("high", _tensor(action_map.high))
        if self._stretched:
            self.register_buffer("half_width", _tensor(action_map.half))
            self.register_buffer("middle", _tensor(action_map.middle))
        if not self._box:
            starts = action_map.starts if space.kind == "multi_discrete" else [space.start]
            self.register_buffer("starts", _tensor(np.array(starts, np.int64)))

    def forward(self, action: Tensor) -> Tensor:
        """Map stored actions ``[B, D]`` to what the environment takes."""
        if not self._box:
            action = action + cast(Tensor, self.starts)
        action = action.reshape(-1, *self._shape)
        if self._stretched:
            action = action * cast(Tensor, self.half_width) + cast(Tensor, self.middle)
        action = action.to(self._dtype)
        if self._clipped:
            action = torch.maximum(action, cast(Tensor, self.low))
            action = torch.minimum(action, cast(Tensor, self.high))
        return action


def _tensor(array: NDArray[np.generic] | None) -> Tensor:
    """A copy; of nothing that an export could find changed."""
    return torch.from_numpy(np.array(array))


def _dtype(space: SpaceSpec) -> torch.dtype:
    dtype: torch.dtype = getattr(torch, space.dtype)
    return dtype
