"""What a replay learner's steps change: one flat vector in groups, its gradient, its targets.

The gradient is one vector too, with everything that several optimizers have to average, so that
one collective (or one message) carries an update. Statistics of a batch are averaged the same
way; they are a group whose "parameters" are running averages.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fast_core.algorithm.spec import ModuleSpec
from fast_core.algos.nets.adam import Adam
from fast_core.algos.nets.encoder_shape import EncoderShape
from fast_core.algos.nets.mlp import MlpShape, NumpyMlp
from fast_core.algos.nets.networks import F32, Parameter
from fast_core.algos.nets.normalizer import Scaling
from fast_core.algos.nets.recurrent_shape import MemoryShape

OBSERVATIONS = "observations"  # the group of their statistics
BELOW = ("encoder", "memory")  # groups that lie under all networks and are trained by the critics


@dataclass(frozen=True)
class Group:
    """Parameters that lie together and are stepped together.

    Attributes:
        name: For instance ``"critics"``.
        parameters: In order, without gaps.
        shape: The network that they belong to, None where they are single numbers.
        target: Whether a target network follows it.
        encoder: The convolutions that they belong to, None where there are none.
        memory: The recurrent layer that they belong to, None where there is none.
        statistic: Whether its gradient is what a batch says of itself, which no step follows.
    """

    name: str
    parameters: tuple[Parameter, ...]
    shape: MlpShape | None = None
    target: bool = False
    encoder: EncoderShape | None = None
    memory: MemoryShape | None = None
    statistic: bool = False

    @property
    def place(self) -> slice:
        """Where it lies in the vector."""
        return slice(self.parameters[0].offset, self.parameters[-1].end)


class Layout:
    """Groups one after the other."""

    def __init__(self) -> None:
        self.groups: dict[str, Group] = {}
        self.size = 0

    def add_network(self, name: str, shape: MlpShape, *, target: bool) -> None:
        """Append the parameters of an ensemble."""
        self._add(Group(name, shape.parameters(name, self.size), shape, target))

    def add_module(self, module: ModuleSpec, *, plain: bool) -> None:
        """Append the parameters of a torch module; ``plain`` as `Parameter` has it."""
        parameters, offset = [], self.size
        for field in module.fields:
            parameters.append(Parameter(field.name, field.shape, offset, plain))
            offset = parameters[-1].end
        self._add(
            Group(module.name, tuple(parameters), target=module.target, statistic=module.statistic)
        )

    def add_below(
        self, encoder: EncoderShape | None, memory: MemoryShape | None, *, target: bool
    ) -> None:
        """Append what lies under all networks: convolutions, and a recurrent layer on them."""
        if encoder is not None:
            parameters = encoder.parameters("encoder", self.size)
            self._add(Group("encoder", parameters, target=target, encoder=encoder))
        if memory is not None:
            placed, offset = [], self.size
            for name, shape in memory.parameters:
                placed.append(Parameter(name, shape, offset))
                offset = placed[-1].end
            self._add(Group("memory", tuple(placed), target=target, memory=memory))

    def add_numbers(self, name: str, *shape: int, statistic: bool = False) -> None:
        """Append one array of numbers that belong to no network."""
        self._add(Group(name, (Parameter(name, shape, self.size),), statistic=statistic))

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """All of them, in order."""
        return tuple(p for group in self.groups.values() for p in group.parameters)

    @property
    def targets(self) -> tuple[Group, ...]:
        """The groups that target networks follow."""
        return tuple(group for group in self.groups.values() if group.target)

    def _add(self, group: Group) -> None:
        self.groups[group.name] = group
        self.size = group.parameters[-1].end


@dataclass(frozen=True)
class VectorState:
    """Everything that steps change, on the host.

    Attributes:
        parameters: ``[P]``.
        targets: ``[P]``; only the places of target networks mean something.
        first_moment: ``[P]``, Adam's.
        second_moment: ``[P]``, Adam's.
        steps: Adam's steps of each group.
    """

    parameters: F32
    targets: F32
    first_moment: F32
    second_moment: F32
    steps: dict[str, int]


class Vectors(ABC):
    """Owns parameters, gradient, targets and optimizers, wherever they are.

    A subclass makes them. Arrays that are handed out share memory on the CPU.

    Args:
        layout: Of the vectors.

    Attributes:
        step_scale: What every learning rate is multiplied with.
    """

    _parameters: Any  # the library's own arrays
    _gradient: Any
    _targets: Any
    _adams: Mapping[str, Any]

    def __init__(self, layout: Layout) -> None:
        self._layout, self.step_scale = layout, 1.0

    @abstractmethod
    def _host(self, part: Any) -> F32:
        """A part of a vector on the host."""

    @abstractmethod
    def _ours(self, values: F32) -> Any:
        """What comes from the host, as a vector takes it."""

    def numbers(self, name: str) -> F32:
        """The numbers of a group."""
        return self._host(self._parameters[self._layout.groups[name].place])

    def put_numbers(self, name: str, values: F32) -> None:
        """Replace them."""
        self._parameters[self._layout.groups[name].place] = self._ours(values)

    def gradient(self, name: str) -> F32:
        """The gradient of a group."""
        return self._host(self._gradient[self._layout.groups[name].place])

    def put_gradient(self, name: str, values: F32) -> None:
        """Write the gradient of a group without a network."""
        self._gradient[self._layout.groups[name].place] = self._ours(values)

    def exchange(self, stop: int) -> F32:
        """The gradient up to ``stop``."""
        return self._host(self._gradient[:stop])

    @abstractmethod
    def replace_gradient(self, gradient: F32) -> None:
        """Take the first part of the gradient from elsewhere."""

    @abstractmethod
    def step(self, name: str, learning_rate: float) -> None:
        """One Adam step of a group along its gradient, which may be destroyed."""

    @abstractmethod
    def follow(self, rate: float) -> None:
        """Move every target network by ``rate`` of its distance; 1 copies."""

    def parameters(self) -> F32:
        """All parameters."""
        return self._host(self._parameters)

    def targets(self) -> F32:
        """All parameters of target networks, in the same places."""
        return self._host(self._targets)

    def adopt(self, parameters: F32, targets: F32) -> None:
        """Take parameters and targets from elsewhere; optimizers stay as they are."""
        self._parameters[:], self._targets[:] = self._ours(parameters), self._ours(targets)

    def export_state(self) -> VectorState:
        """Copy everything that changes."""
        first, second = (np.zeros(self._layout.size, np.float32) for _ in range(2))
        for name, adam in self._adams.items():
            place = self._layout.groups[name].place
            first[place], second[place] = adam.moments()
        return VectorState(
            parameters=self.parameters().copy(),
            targets=self.targets().copy(),
            first_moment=first,
            second_moment=second,
            steps={name: adam.steps for name, adam in self._adams.items()},
        )

    def import_state(self, state: VectorState) -> None:
        """Continue from `export_state`, in place."""
        self.adopt(state.parameters, state.targets)
        for name, adam in self._adams.items():
            place = self._layout.groups[name].place
            adam.load(state.first_moment[place], state.second_moment[place], state.steps[name])


class NumpyVectors(Vectors):
    """The vectors in NumPy.

    Args:
        layout: Of the vectors.
        parameters: First values; they are owned from here on.
        epsilon: Adam's denominator offset.
    """

    _parameters: F32
    _gradient: F32
    _targets: F32

    def __init__(self, layout: Layout, parameters: F32, *, epsilon: float) -> None:
        super().__init__(layout)
        self._parameters = parameters
        self._gradient = np.zeros_like(parameters)
        self._targets = parameters.copy()
        self._work: F32 = np.empty_like(parameters)
        self._adams: dict[str, Adam] = {
            name: Adam(parameters[group.place], epsilon=epsilon)
            for name, group in layout.groups.items()
        }

    def _host(self, part: Any) -> F32:
        own: F32 = part
        return own

    def _ours(self, values: F32) -> F32:
        return values

    def network(self, name: str) -> NumpyMlp:
        """The network of a group; its backward pass writes into the gradient."""
        group = self._layout.groups[name]
        assert group.shape is not None, f"{name} is a network"
        return NumpyMlp(group.shape, group.parameters, self._parameters, self._gradient)

    def target_network(self, name: str) -> NumpyMlp:
        """The target network of a group; it has no backward pass."""
        group = self._layout.groups[name]
        assert group.shape is not None and group.target, f"{name} has a target network"
        return NumpyMlp(group.shape, group.parameters, self._targets)

    def scaling(self, limit: float) -> Scaling:
        """How observations are normalised, by the group ``observations``; views."""
        (rows,) = self._layout.groups[OBSERVATIONS].parameters
        mean, inverse_std, *_ = rows.view(self._parameters)
        return Scaling(mean, inverse_std, limit)

    def replace_gradient(self, gradient: F32) -> None:
        """Take the first part of the gradient from elsewhere."""
        if not np.may_share_memory(gradient, self._gradient):
            self._gradient[: len(gradient)] = gradient

    def gradient_norm(self, place: slice) -> float:
        """Length of a part of the gradient; NaN or infinite if any of it is."""
        gradient = self._gradient[place]
        return float(np.sqrt(np.dot(gradient, gradient)))

    def step(self, name: str, learning_rate: float, scale: float = 1.0) -> None:
        """One Adam step of a group; destroys its gradient."""
        self._adams[name].step(self.gradient(name), learning_rate * self.step_scale, scale)

    def follow(self, rate: float) -> None:
        """Move every target network by ``rate`` of its distance."""
        for group in self._layout.targets:
            online, target = self._parameters[group.place], self._targets[group.place]
            if rate == 1.0:
                target[:] = online
                continue
            work = np.subtract(online, target, out=self._work[group.place])
            np.multiply(work, np.float32(rate), out=work)
            np.add(target, work, out=target)


def named(parameters: Sequence[Parameter], flat: F32) -> dict[str, F32]:
    """Views of a flat vector by name."""
    return {p.name: p.view(flat) for p in parameters}
