"""A user's modules that are chains of layers, as the hand-written passes see them.

The vectors are those of the torch modules: layout, names, first values, checkpoints and what
policies get stay the user's module. Only who differentiates is another one.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from fast_core.algorithm import LearnerSetup
from fast_core.algos.nets.activations import Activation
from fast_core.algos.nets.mlp import Mlp, MlpShape, NumpyMlp
from fast_core.algos.nets.networks import F32, Parameter, layer_kinds
from fast_core.algos.nets_torch.chain import NotAChain, find_chain
from fast_core.algos.nets_torch.networks import Rows, tensor_view
from fast_core.algos.replay.settings import ReplaySettings
from fast_core.algos.replay.torch_algorithm import torch_learner
from fast_core.algos.replay.torch_networks import Networks, OwnCritics, OwnNetwork
from fast_core.algos.replay.vectors import Layout, NumpyVectors
from fast_core.spec import EnvironmentSpec

ROWS = 3  # that both ways are compared on
LOUD = 1e4  # size of the gradients from which both go back, above what a user's code may clip
TOLERANCE = 1e-5  # of the largest number
TRIES = 3  # a relu's input may be within the rounding of 0
# NumPy goes over what layers put out more often than torch does. What it costs to find gradients
# by hand, for a number that leaves a layer: where all numbers of a pass cost more than AFFORDABLE,
# autograd was faster (TD3, processor time on one thread, 64 to 1024 wide, 64 to 1024 rows).
COSTS: dict[Activation, int] = {
    "relu": 1,
    "tanh": 1,
    "elu": 2,
    "gelu_tanh": 2,
    "sigmoid": 2,
    "softplus": 2,
    "leaky_relu": 3,
    "selu": 3,
    "silu": 3,
    "gelu": 5,
}
LAYER_NORM_COST = 3
AFFORDABLE = 1 << 19
_log = logging.getLogger("fastloop.own_network")


@dataclass(frozen=True)
class Members(Parameter):
    """The same parameter of ``M`` modules that lie one after the other.

    Attributes:
        stride: Numbers from one module to the next.
    """

    stride: int = 0

    def view(self, flat: F32) -> F32:
        """``[M, ...]``, in the memory of a flat vector."""
        members, *shape = self.shape
        size = math.prod(shape)
        first = flat[self.offset : self.offset + size].reshape(shape)
        assert self.offset + (members - 1) * self.stride + size <= len(flat), "it lies in there"
        strides = (self.stride * flat.itemsize, *first.strides)
        return np.lib.stride_tricks.as_strided(first, self.shape, strides)


@dataclass(frozen=True)
class Ensemble:
    """A group whose modules are chains.

    Attributes:
        shape: What they are together.
        parameters: Where they are, in the order that `NumpyMlp` has.
    """

    shape: MlpShape
    parameters: tuple[Parameter, ...]


class ChainVectors(NumpyVectors):
    """The vectors of torch modules in NumPy; implements `Vectors`.

    Args:
        layout: Of the vectors: the torch modules'.
        parameters: First values; they are owned from here on.
        chains: The networks.
        epsilon: Adam's denominator offset.
    """

    def __init__(
        self, layout: Layout, parameters: F32, chains: Mapping[str, Ensemble], *, epsilon: float
    ) -> None:
        super().__init__(layout, parameters, epsilon=epsilon)
        self._chains = chains

    def network(self, name: str) -> NumpyMlp:
        """The network of a group."""
        chain = self._chains[name]
        return NumpyMlp(chain.shape, chain.parameters, self._parameters, self._gradient)

    def inputs_of(self, name: str) -> int:
        """Numbers that the network of a group takes."""
        return self._chains[name].shape.inputs

    def target_network(self, name: str) -> Mlp:
        """The target network of a group."""
        chain = self._chains[name]
        return NumpyMlp(chain.shape, chain.parameters, self._targets)


def are_chains(settings: ReplaySettings, environment: EnvironmentSpec, seed: int) -> bool:
    """Whether a user's modules are chains of layers that are learned faster by hand.

    They are every network itself. Says so in the log.

    The run's ``seed`` makes them, so that all optimizers of a run find the same.
    """
    try:
        vectors, networks, layout = _build(settings, environment, seed)
        if not any(_agree(vectors, networks, layout, trial) for trial in range(TRIES)):
            raise NotAChain("its numbers are not those of its layers")
    except NotAChain as reason:
        _log.info("%s is differentiated by autograd: %s", settings.network, reason)
        return False
    _log.info("%s is differentiated by hand, as a chain of layers", settings.network)
    return True


def chain_vectors(
    settings: ReplaySettings, environment: EnvironmentSpec, setup: LearnerSetup
) -> ChainVectors:
    """The vectors of modules that `are_chains`, with the modules' first values."""
    return _build(settings, environment, setup.seed)[0]


def _build(
    settings: ReplaySettings, environment: EnvironmentSpec, seed: int
) -> tuple[ChainVectors, Networks, Layout]:
    layout = settings.layout(environment)
    networks, flat = torch_learner(settings).first(settings, environment, layout, seed=seed)
    if "encoder" in networks.parts:
        raise NotAChain("it is not every network itself")
    if settings.images(environment):
        raise NotAChain("it sees images")
    chains = {}
    for name in ("critics", "policy"):
        places = {p.name: p for p in layout.groups[name].parameters}
        chains[name] = _ensemble(networks.parts[name], name, places)
        actions = environment.action.size if name == "critics" else 0
        if chains[name].shape.inputs != settings.network_inputs(environment) + actions:
            raise NotAChain("its first layer does not take all that it sees at once")
        if _cost(chains[name].shape, settings.batch_size) > AFFORDABLE:
            raise NotAChain(f"that is faster for {settings.batch_size} rows of its layers")
    vectors = ChainVectors(layout, flat, chains, epsilon=settings.adam_epsilon)
    return vectors, networks, layout


def _cost(shape: MlpShape, rows: int) -> int:
    normalised = LAYER_NORM_COST if shape.layer_norm else 0
    return rows * sum(shape.hidden_sizes) * (COSTS[shape.activation] + normalised)


def _ensemble(part: nn.Module, name: str, places: Mapping[str, Parameter]) -> Ensemble:
    """Critics that lie one after the other, or the policy."""
    critics = isinstance(part, OwnCritics)
    modules = list(part) if isinstance(part, OwnCritics) else [part]
    found = {find_chain(cast(OwnNetwork, each).own, actions=critics) for each in modules}
    if len(found) > 1:
        raise NotAChain("two of it are not the same")
    (chain,) = found
    prefix = f"{name}.0." if critics else f"{name}."
    layers = [[f"own.{each}" for each in layer] for layer in chain.layers]
    layers.append(["head.weight", "head.bias"])
    stride = sum(math.prod(p.shape) for p in places.values()) // len(modules)
    parameters: list[Parameter] = []
    for index, layer in enumerate(layers):
        for kind, each in zip(layer_kinds(layer_norm=len(layer) > 2), layer, strict=True):
            first = places[prefix + each]
            sizes = first.shape[-2:] if kind == "weight" else first.shape[-1:]
            parameters.append(
                Members(f"{index}.{kind}", (len(modules), *sizes), first.offset, stride=stride)
            )
    shape = MlpShape(
        parameters[0].shape[2],
        chain.hidden_sizes,
        parameters[-1].shape[1],
        chain.activation,
        len(modules),
        layer_norm=len(chain.layers[0]) > 2,
    )
    return Ensemble(shape, tuple(parameters))


def _agree(vectors: ChainVectors, networks: Networks, layout: Layout, trial: int) -> bool:
    """Whether outputs and gradients of both ways are equal, at values that are drawn."""
    rng = np.random.default_rng(trial)
    flat = vectors.parameters()
    flat += rng.normal(0.0, 0.1, len(flat)).astype(np.float32)
    places = {p.name: p for p in layout.parameters}
    for _, name, tensor in networks.train().named_tensors():
        tensor.data = tensor_view(torch.from_numpy(flat), places[name])
    inputs, actions = (vectors.inputs_of(name) for name in ("policy", "critics"))
    obs, action = (
        torch.from_numpy(rng.normal(size=(ROWS, size)).astype(np.float32))
        for size in (inputs, actions - inputs)
    )
    action.requires_grad_()
    with np.errstate(all="ignore"):
        return all(
            _network_agrees(vectors, networks, name, obs, given, rng)
            for name, given in (("critics", [action]), ("policy", []))
        )


def _network_agrees(
    vectors: ChainVectors,
    networks: Networks,
    name: str,
    obs: Tensor,
    action: list[Tensor],
    rng: np.random.Generator,
) -> bool:
    """The same for one network, on these rows."""
    try:
        output = networks(name, Rows(obs), *action)
    except Exception as error:  # of a user's code, which may raise whatever it likes
        raise NotAChain(f"it raised {type(error).__name__}: {error}") from error
    wanted = (output if output.dim() == 3 else output[None]).transpose(1, 2)
    delta = rng.normal(0.0, LOUD, tuple(wanted.shape)).astype(np.float32)
    learned = list(networks.parts[name].parameters())
    gradients = torch.autograd.grad(
        wanted, [*learned, *action], torch.from_numpy(delta), materialize_grads=True
    )
    network = vectors.network(name)
    found = network.forward(torch.cat([obs, *action], 1).detach().numpy().T)
    pairs = [(found.copy(), wanted)]
    network.backward(delta.copy(), rows=len(obs))
    weights, actions = gradients[: len(learned)], gradients[len(learned) :]
    pairs.append((vectors.gradient(name), torch.cat([each.flatten() for each in weights])))
    for each in actions:
        pairs.append((network.slope(slice(obs.shape[1], None), len(obs)), each.T))
    return all(_near(mine, theirs.detach().numpy()) for mine, theirs in pairs)


def _near(mine: F32, theirs: F32) -> bool:
    return bool(np.abs(mine - theirs).max() <= TOLERANCE * np.abs(theirs).max())
