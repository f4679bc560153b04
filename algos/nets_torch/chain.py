"""Whether a user's module is a chain of layers whose gradients are written by hand.

`torch.fx` runs ``forward`` with stand-ins for tensors and records what is done with them. What
depends on their values, or goes another way than from layer to layer, is no chain: autograd knows
better. Whoever believes in a chain also compares its numbers (`replay.chain_vectors`).
"""

from __future__ import annotations

import io
import pickle
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from itertools import product
from threading import get_ident
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx, nn
from torch.fx.node import map_arg

from fast_core.algos.nets.activations import Activation
from fast_core.algos.nets.layer_norm import EPSILON
from fast_core.algos.nets_torch.activations import FUNCTIONS

# What may be between linear layers, as classes, functions and methods of torch are called; what
# it is with its arguments is tried.
SPELLED = {name.replace("_", "") for name in FUNCTIONS}
SPELLED |= {"identity", "flatten", "float", "contiguous", "cat", "concat", "concatenate", "hstack"}
FAR_AND_NEAR = torch.tensor([-1e4, -1e-4, 1e-4, 1e4])
PROBE = torch.cat([torch.linspace(-30.0, 30.0, 601), FAR_AND_NEAR])[:, None]
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


class NotAChain(Exception):
    """The module is none, or not surely; says why."""


@dataclass(frozen=True)
class Chain:
    """Hidden layers, one after the other.

    Attributes:
        layers: What the module calls the parameters of each layer: weight and bias, and scale and
            shift if it is normalised.
        activation: What follows each of them.
        hidden_sizes: Their widths.
    """

    layers: tuple[tuple[str, ...], ...]
    activation: Activation
    hidden_sizes: tuple[int, ...]


def find_chain(module: nn.Module, *, actions: bool) -> Chain:
    """Look at a module.

    Args:
        module: A user's; its mode is train or eval afterwards, whichever.
        actions: Whether it is called with actions, too.

    Raises:
        NotAChain: It is none, or not surely.
    """
    if any(getattr(each, hooks) for each in module.modules() for hooks in HOOKS) or any(
        parameter._backward_hooks for parameter in module.parameters()
    ):
        raise NotAChain("it has hooks")
    if any("forward" in vars(each) for each in module.modules() if each is not module):
        raise NotAChain("one of its layers has a forward of its own")
    before, found = _kept(module), set()
    for training, differentiated in product((True, False), repeat=2):
        reader = _Reader(module.train(training), actions=actions)
        with torch.set_grad_enabled(differentiated):
            found.add(reader.chain())
        if not all(parameter.requires_grad for parameter in module.parameters()):
            raise NotAChain("some of its parameters are frozen")
    if len(found) > 1 or _kept(module) != before:
        raise NotAChain("forward is not the same each time")
    (chain,) = found
    used = sorted(name for layer in chain.layers for name in layer)
    if used != sorted(name for name, _ in module.named_parameters()) or list(module.buffers()):
        raise NotAChain("some of its parameters or buffers are shared, or not used")
    return chain


def _kept(module: nn.Module) -> list[object]:
    """What ``forward`` may change beside what it returns: attributes, globals, random numbers."""
    known = vars(nn.Module()).keys()
    values: list[object] = [random.getstate(), np.random.get_state()]  # noqa: NPY002 - a user draws
    versions = [parameter._version for parameter in module.parameters()]
    for each in module.modules():
        values += [value for name, value in vars(each).items() if name not in known]
    for kind in dict.fromkeys(kind for each in module.modules() for kind in type(each).__mro__):
        if not kind.__module__.startswith(("torch.", "builtins")):
            values += _of_class(kind)
    return [*versions, *map(_snapshot, values)]


def _of_class(kind: type) -> Iterator[object]:
    """What a user's class keeps, and the globals that its methods name."""
    for name, value in vars(kind).items():
        if isinstance(value, FunctionType):
            around = value.__globals__
            named = [around[each] for each in value.__code__.co_names if each in around]
            yield from (each for each in named if not isinstance(each, ModuleType | type))
        elif not name.startswith("__"):
            yield value


def _snapshot(value: object) -> object:
    """Something equal for as long as ``value`` stays as it is."""
    try:
        return pickle.dumps(value)
    except Exception:  # functions without a name, and what else can't be pickled
        return repr(value)


@contextmanager
def _unseen() -> Iterator[None]:
    """Refuse what a user would see: lines, and the prompt of a debugger."""
    hook = sys.breakpointhook
    sys.breakpointhook = _stop
    try:
        with redirect_stdout(_Refused()):
            yield
    finally:
        sys.breakpointhook = hook


class _Refused(io.StringIO):
    """Standard output while one thread may not write to it."""

    def __init__(self) -> None:
        super().__init__()
        self._thread, self._others = get_ident(), sys.stdout

    def write(self, text: str) -> int:
        if get_ident() == self._thread:
            raise NotAChain("forward prints")
        return self._others.write(text)


def _stop(*_: object, **__: object) -> None:
    raise NotAChain("forward has a breakpoint")


class _Called(nn.Module):
    """A module as somebody calls it: `torch.fx` asks for each input by name."""

    def __init__(self, own: nn.Module) -> None:
        super().__init__()
        self.own = own


class _ByPolicy(_Called):
    def forward(self, obs: Tensor) -> object:
        return self.own(obs)


class _ByCritic(_Called):
    def forward(self, obs: Tensor, action: Tensor) -> object:
        return self.own(obs, action)


class _Reader:
    """Goes along the layers of what was recorded."""

    def __init__(self, module: nn.Module, *, actions: bool) -> None:
        self._root = _ByCritic(module) if actions else _ByPolicy(module)
        self._stream: list[fx.Node] = []  # what the next layer takes
        self._layers: list[list[str]] = []
        self._sizes: list[int] = []
        self._activations: list[Activation] = []

    def chain(self) -> Chain:
        for node in self._record().nodes:
            if node.op == "placeholder":
                self._stream.append(node)
            elif node.op == "output":
                self._expect(
                    list(node.args) == self._stream, "what it returns is not its last layer"
                )
            else:
                self._layer(node)
        kinds = {len(layer) for layer in self._layers}
        self._expect(len(self._activations) == len(self._layers) > 0, "it ends without activation")
        self._expect(len(set(self._activations)) == len(kinds) == 1, "its layers differ in kind")
        layers = tuple(tuple(layer) for layer in self._layers)
        return Chain(layers, self._activations[0], tuple(self._sizes))

    def _record(self) -> fx.Graph:
        try:
            with torch.random.fork_rng(devices=[]), _unseen():
                dice = torch.get_rng_state()
                graph = fx.Tracer().trace(self._root)
                self._expect(torch.equal(torch.get_rng_state(), dice), "forward draws numbers")
                return graph
        except NotAChain:
            raise
        except Exception as error:  # of a user's code, which may raise whatever it likes
            raise NotAChain(f"torch.fx can't follow it: {type(error).__name__}: {error}") from error

    def _layer(self, node: fx.Node) -> None:
        """Take what follows the layers so far."""
        inputs = node.all_input_nodes
        one = len(inputs) == 1 and inputs[0] in self._stream
        self._expect(one or inputs == self._stream, f"{node.name} is beside the chain")
        module = self._root.get_submodule(str(node.target)) if node.op == "call_module" else None
        inside = len(self._activations) < len(self._layers)  # a layer without activation so far
        if type(module) is nn.Linear:
            self._expect(not inside, "a linear layer has no activation behind it")
            self._expect(len(self._stream) == 1, "it does not begin with observations and actions")
            self._expect(module.bias is not None, f"{node.name} has no bias")
            given = self._sizes[-1:] or [module.in_features]
            self._expect(given == [module.in_features], f"{node.name} is of another width")
            self._layers.append(self._names(node))
            self._sizes.append(module.out_features)
        elif type(module) is nn.LayerNorm:
            self._expect(inside and len(self._layers[-1]) == 2, f"{node.name} is elsewhere")
            usual = (module.eps, module.normalized_shape) == (EPSILON, (self._sizes[-1],))
            learns = len(list(module.parameters())) == 2
            self._expect(usual and learns, f"{node.name} is unusual")
            self._layers[-1] += self._names(node)
        elif (found := self._tried(node, module)) is not None:
            self._expect(inside, f"{node.name} follows no linear layer")
            self._activations.append(found)
        kept = [] if inputs == self._stream else self._stream
        self._stream = [node if each is inputs[0] else each for each in kept] or [node]

    def _tried(self, node: fx.Node, module: nn.Module | None) -> Activation | None:
        """Which activation it is, None if it changes nothing but puts the inputs side by side.

        Raises:
            NotAChain: It is something else.
        """
        target = node.target if module is None else type(module)
        name = target if isinstance(target, str) else getattr(target, "__name__", "")
        if name.lower().replace("_", "") in SPELLED and node.op != "get_attr":
            given = {each: PROBE + index for index, each in enumerate(node.all_input_nodes)}
            made = self._called(node, module, given)
            if _same(made, torch.cat(list(given.values()), 1)):
                return None
            for activation, function in FUNCTIONS.items():
                if _same(made, function(PROBE)):
                    return activation
        raise NotAChain(f"{node.name} is none of its layers")

    def _called(
        self, node: fx.Node, module: nn.Module | None, given: dict[fx.Node, Tensor]
    ) -> object:
        """What it makes of these inputs; None if it raises."""
        copies: Any = map_arg((node.args, node.kwargs), lambda each: given[each].clone())
        arguments, named = copies
        call: Any = node.target if module is None else module
        if isinstance(call, str):
            call, arguments = getattr(arguments[0], call), arguments[1:]
        try:
            with torch.no_grad():
                return call(*arguments, **named)
        except Exception:  # other sizes than it is for
            return None

    def _names(self, node: fx.Node) -> list[str]:
        """What the user's module calls the layer's parameters; those it lacks are missed later."""
        own = str(node.target).removeprefix("own").removeprefix(".")
        return [f"{own}.{kind}" if own else kind for kind in ("weight", "bias")]

    def _expect(self, so: bool, otherwise: str) -> None:
        if not so:
            raise NotAChain(otherwise)


def _same(made: object, tensor: Tensor) -> bool:
    return isinstance(made, Tensor) and torch.equal(made, tensor)
