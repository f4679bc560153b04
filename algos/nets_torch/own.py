"""A user's own network: how it is made, called and looked at before a run begins.

The contract is small: a `torch.nn.Module` whose constructor takes the observation, and whose
``forward`` takes a batch of them and returns ``[B, features]`` float32.
"""

from __future__ import annotations

import inspect
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from fast_core.algorithm.spec import FieldSpec, ModuleSpec
from fast_core.algos.nets.own_shape import KEY, OwnShape, Part
from fast_core.errors import ConfigError
from fast_core.system.importing import named

Inputs = Tensor | dict[str, Tensor]
SCORES = "scores_choices"  # what a class says that scores choices itself
FIRST_ROWS, OTHER_ROWS = 2, 3  # of the batches that a module is tried with


class OwnModule:
    """A user's module, called with encoded rows.

    It learns where gradients are computed and only there: `nn.Module.train` follows that.

    Args:
        shape: Which one, and what it is called with.
        device: Where it is.
        seed: Of its first values.

    Attributes:
        module: The user's.
        tensors: Its parameters and floating-point buffers by name.
    """

    def __init__(
        self, shape: OwnShape, device: torch.device | str = "cpu", *, seed: int = 0
    ) -> None:
        self._shape = shape
        self.module = make(shape, seed).to(device)
        self.module.eval()
        self.tensors = dict(tensors(self.module))

    def __call__(self, vector: Tensor, images: Sequence[Tensor]) -> Tensor:
        """What the module makes of encoded rows, ``[B, features]``.

        Args:
            vector: ``[B, in]``, numbers.
            images: ``[B, stack, ...]`` uint8 of each image.
        """
        training = torch.is_grad_enabled()
        if self.module.training != training:
            self.module.train(training)
        features: Tensor = self.module(as_module_takes(self._shape, vector, images))
        return features

    def bind(self, leaves: dict[str, Tensor], prefix: str) -> None:
        """Let the module's tensors be those of ``leaves``, in memory and gradients, and vice versa.

        The objects stay the module's: what it shares, or refers to elsewhere, stays so.
        """
        bind(self.module, leaves, prefix)

    def fill(self, values: dict[str, Tensor], prefix: str = "") -> None:
        """Copy values into the module's tensors."""
        with torch.no_grad():
            for name, tensor in self.tensors.items():
                tensor.copy_(values[prefix + name])


def as_module_takes(shape: OwnShape, vector: Tensor, images: Sequence[Tensor]) -> Inputs:
    """Encoded rows as a user's module takes them; views."""
    if shape.observation.kind != "composite":
        return _part(shape.parts[0], vector, images)
    return {part.name: _part(part, vector, images) for part in shape.parts}


def _part(part: Part, vector: Tensor, images: Sequence[Tensor]) -> Tensor:
    if part.place is None:
        return images[part.image][:, 0] if part.single else images[part.image]
    rows = vector if part.place == slice(0, vector.shape[1]) else vector[:, part.place]
    return rows if len(part.space.shape) == 1 else rows.reshape(-1, *part.space.shape)


def takes_actions(shape: OwnShape) -> bool:
    """Whether a module's constructor asks how many numbers an action has."""
    return _takes(shape, "actions")


def scores(shape: OwnShape) -> int:
    """How many choices a module scores itself; 0 if it does not.

    Raises:
        ConfigError: Its constructor takes `choices`, and nothing says whether those are meant.
    """
    return shape.choices if _scores_choices(shape) else 0


def _scores_choices(shape: OwnShape) -> bool:
    """Whether a module says that it scores choices, whose number its constructor takes."""
    kind = _kind(shape)
    said = getattr(kind, SCORES, None)
    if said and not _takes(shape, "choices"):
        raise ConfigError(
            f"{KEY} {shape.path!r} has {SCORES} = {said!r}, so its constructor must take "
            "`choices`, how many there are, and algorithm.network_kwargs leave it out."
        )
    if said is None and shape.choices and _takes(shape, "choices"):
        raise ConfigError(
            f"the constructor of {KEY} {shape.path!r} takes `choices`. If these are the choices of "
            f"an action, which forward scores itself, write {SCORES} = True into the class; if "
            f"they are something else, {SCORES} = False, or give algorithm.network_kwargs.choices."
        )
    return bool(said)


def _takes(shape: OwnShape, name: str) -> bool:
    """Whether a module's constructor asks for what is not among the user's arguments."""
    try:
        asked = inspect.signature(_kind(shape)).parameters
    except ValueError:  # of a class written in C
        return False
    return name in asked and name not in shape.kwargs


def _kind(shape: OwnShape) -> Callable[..., object]:
    kind = named(shape.path, KEY)
    if not callable(kind):
        raise ConfigError(f"{KEY} {shape.path!r} must name a torch.nn.Module; got {kind!r}.")
    return kind


def make(shape: OwnShape, seed: int) -> nn.Module:
    """Construct a user's module; the same seed gives the same bits.

    Raises:
        ConfigError: It can't be constructed, or is no module.
    """
    kind = _kind(shape)
    given = {"actions": shape.actions} if _takes(shape, "actions") else {}
    given |= {"choices": shape.choices} if _scores_choices(shape) else {}
    with torch.random.fork_rng(devices=[]), torch.enable_grad(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Lazy modules are a new feature")
        torch.manual_seed(seed)
        try:
            module = kind(shape.observation, **given, **shape.kwargs)
        except Exception as error:
            _raised(shape, error, "its constructor, called with the observation and "
                    f"algorithm.network_kwargs ({', '.join(shape.kwargs) or 'none'}),")  # fmt: skip
        if not isinstance(module, nn.Module):
            raise ConfigError(
                f"{KEY} {shape.path!r} must make a torch.nn.Module; got {type(module).__name__}. "
                "Let the class inherit from torch.nn.Module, and call super().__init__() first."
            )
        lazy = any(
            nn.parameter.is_lazy(tensor) for tensor in (*module.parameters(), *module.buffers())
        )
        if lazy:  # they draw their first values when they see the first batch
            module.eval()
            with torch.no_grad():
                _called(shape, module, FIRST_ROWS)
    return module


def sample(shape: OwnShape, rows: int, seed: int) -> Inputs:
    """A batch that looks like observations."""
    generator = torch.Generator().manual_seed(seed)

    def draw(dtype: str, dimensions: tuple[int, ...]) -> Tensor:
        size = (rows, *dimensions)
        if dtype == "uint8":
            return torch.randint(0, 256, size, generator=generator, dtype=torch.uint8)
        return torch.randn(size, generator=generator)

    if shape.observation.kind == "composite":
        return {name: draw(space.dtype, space.shape) for name, space in shape.observation.parts}
    return draw(shape.observation.dtype, shape.observation.shape)


def examine(shape: OwnShape, name: str) -> ModuleSpec:
    """Try a module: forward, backward, twice with equal values; tell what it is.

    Raises:
        ConfigError: It is not what an algorithm needs; says what to do.
    """
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        return _Trial(shape).spec(name)


class _Trial:
    """One look at a module."""

    def __init__(self, shape: OwnShape) -> None:
        self._shape = shape
        self._module = make(shape, 0).eval()
        self._what = f"{KEY} {shape.path!r}"

    def spec(self, name: str) -> ModuleSpec:
        self._has_forward()
        outputs, products = self._forward()
        fields = tuple(self._fields())
        random = self._learns()
        self._repeats()
        return ModuleSpec(name, outputs, fields, products, random, scores=scores(self._shape))

    def _has_forward(self) -> None:
        if type(self._module).forward is nn.Module.forward:
            raise ConfigError(
                f"{self._what} must have a method forward(self, obs) that returns [B, features]; "
                f"{type(self._module).__name__} has none."
            )

    def _forward(self) -> tuple[int, int]:
        """Features, and products of one row."""
        widths = []
        for rows in (FIRST_ROWS, OTHER_ROWS):
            with torch.no_grad(), FlopCounterMode(display=False) as counter:
                features = _called(self._shape, self._module, rows)
            if not isinstance(features, Tensor):
                self._refuse_output(rows, f"a {type(features).__name__}")
            if features.dim() != 2 or len(features) != rows or not features.shape[1]:
                self._refuse_output(rows, f"a tensor of shape {tuple(features.shape)}")
            if features.dtype != torch.float32:
                self._refuse_output(rows, f"one of {features.dtype}")
            widths.append(features.shape[1])
        if widths[0] != widths[1]:
            raise ConfigError(
                f"{self._what}: forward must return as many features whatever the batch; got "
                f"{widths[0]} for {FIRST_ROWS} rows and {widths[1]} for {OTHER_ROWS}."
            )
        if widths[0] <= scores(self._shape):
            raise ConfigError(
                f"{self._what} scores choices, so forward must return their scores and features "
                f"for the value behind them, [B, {self._shape.choices} + features]; got "
                f"{widths[0]} numbers. Use torch.cat([scores, features], 1)."
            )
        return widths[0], counter.get_total_flops() // (2 * OTHER_ROWS)

    def _refuse_output(self, rows: int, got: str) -> NoReturn:
        raise ConfigError(
            f"{self._what}: forward must return [B, features] float32, for a batch of {rows} rows "
            f"({rows}, features); got {got}. End it with .flatten(1), and .float() if need be."
        )

    def _fields(self) -> Iterator[FieldSpec]:
        for name, tensor in tensors(self._module):
            if tensor.dtype != torch.float32 or tensor.device.type != "cpu":
                raise ConfigError(
                    f"{self._what}: parameters and buffers must be made as float32 on the CPU; "
                    f"{name} is {tensor.dtype} on {tensor.device}. Leave dtype and device out: "
                    "nodes.optimizer.precision and device say how and where it computes."
                )
            yield FieldSpec(name, tuple(tensor.shape), "float32")

    def _learns(self) -> bool:
        """Go forward and back as an update does; whether that is another pass than in eval mode.

        Draws are seen by the generator: noise may be multiplied with a zero that is learned.
        """
        before = {name: buffer.clone() for name, buffer in self._module.named_buffers()}
        acting, dice = _called(self._shape, self._module, OTHER_ROWS), torch.get_rng_state()
        self._module.train()
        first = _called(self._shape, self._module, OTHER_ROWS)
        self._module.eval()
        changed = [n for n, b in self._module.named_buffers() if not torch.equal(b, before[n])]
        if changed:
            raise ConfigError(
                f"{self._what}: forward changes the buffer {changed[0]} while it learns, as the "
                "running statistics of BatchNorm do. Policies act with what travels between two "
                "updates and optimizers average gradients alone, so there is no one value of it. "
                "Use LayerNorm or GroupNorm, or BatchNorm with track_running_stats=False."
            )
        learned = [p for p in self._module.parameters() if p.requires_grad]
        if learned and not first.requires_grad:
            raise ConfigError(
                f"{self._what}: no gradient comes back through forward. Look for torch.no_grad, "
                ".detach() or .numpy() in it, or for parameters that it does not use."
            )
        if learned:
            try:
                first.sum().backward()
            except Exception as error:
                _raised(self._shape, error, "the backward pass")
            for p in learned:
                p.grad = None
        return not (torch.equal(first, acting) and torch.equal(torch.get_rng_state(), dice))

    def _repeats(self) -> None:
        """Whether a second one is the same once it has the first one's parameters and buffers."""
        other = make(self._shape, 1).eval()
        values, others = dict(tensors(self._module)), dict(tensors(other))
        if {n: t.shape for n, t in values.items()} != {n: t.shape for n, t in others.items()}:
            raise ConfigError(f"{self._what}: two of it must have parameters of equal shapes.")
        with torch.no_grad():
            for name, tensor in others.items():
                tensor.copy_(values[name])
            mine, theirs = (_called(self._shape, m, OTHER_ROWS) for m in (self._module, other))
        same = torch.equal(mine, theirs)
        if not same:
            raise ConfigError(
                f"{self._what}: two of it with equal parameters and buffers give different "
                "features in eval mode, so that policies would not act as the learner thinks. Keep "
                "random numbers that are drawn once in self.register_buffer(name, tensor), as "
                "floating-point numbers, and draw those of every pass only if self.training."
            )


def _called(shape: OwnShape, module: nn.Module, rows: int) -> Any:
    """Call it with a batch that looks like one of a run."""
    inputs = _inputs(shape, rows)
    given = _tensors(inputs)
    try:
        features = module(*inputs)
    except Exception as error:
        forms = " and ".join(_form(each) for each in inputs)
        _raised(shape, error, f"forward, called with {forms},")
    if not all(map(torch.equal, given, _tensors(_inputs(shape, rows)))):
        raise ConfigError(
            f"{KEY} {shape.path!r}: forward changes the observations that it is called with in "
            "place, which other passes read too. Begin with obs = obs.clone(), or use the "
            "operations without '_' at their end."
        )
    return features


def _inputs(shape: OwnShape, rows: int) -> list[Inputs]:
    actions = [torch.zeros(rows, shape.actions)] if shape.actions else []
    return [sample(shape, rows, 0), *actions]


def _tensors(inputs: list[Inputs]) -> list[Tensor]:
    return [t for each in inputs for t in (each.values() if isinstance(each, dict) else [each])]


def _raised(shape: OwnShape, error: Exception, what: str) -> NoReturn:
    """Report what a user's code raised."""
    raise ConfigError(
        f"the network raised:\n{own_traceback(error)}{KEY} {shape.path!r}: {what} raised "
        f"{type(error).__name__}: {error}"
    ) from error


def own_traceback(error: Exception) -> str:
    """What was raised and where, without how torch and FastLoop came there."""
    folders = (str(Path(torch.__file__).parent), str(Path(__file__).resolve().parents[1]))
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if not str(Path(f.filename).resolve()).startswith(folders)]
    head = ["Traceback (most recent call last):\n", *traceback.format_list(own)] if own else []
    return "".join([*head, *traceback.format_exception_only(error)])


def _form(inputs: Inputs) -> str:
    if isinstance(inputs, dict):
        return "{" + ", ".join(f"{name!r}: {_form(part)}" for name, part in inputs.items()) + "}"
    return f"{str(inputs.dtype).removeprefix('torch.')} {tuple(inputs.shape)}"


def bind(module: nn.Module, leaves: dict[str, Tensor], prefix: str) -> None:
    """Let a module's tensors lie where those of ``leaves`` do, and take their place."""
    for name, tensor in tensors(module):
        leaf = leaves[prefix + name]
        tensor.data = leaf.detach()
        tensor.grad = leaf.grad if tensor.requires_grad else None
        leaves[prefix + name] = tensor


def tensors(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Parameters, shared ones once, then buffers of floating-point numbers."""
    yield from module.named_parameters()
    yield from ((name, b) for name, b in module.named_buffers() if b.is_floating_point())


@contextmanager
def dice(device: torch.device, *entropy: int) -> Iterator[None]:
    """Let what draws random numbers inside draw those of ``entropy``, and nobody notice."""
    seed = np.random.SeedSequence(entropy).generate_state(1, np.uint64)
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(int(seed[0]))
        yield


def first_values(shape: OwnShape, seed: int) -> dict[str, Tensor]:
    """What the module begins with, by name."""
    return {name: tensor.detach() for name, tensor in tensors(make(shape, seed))}
