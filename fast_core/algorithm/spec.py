"""What arrays look like: fields, spaces and environments, free of torch and gymnasium."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable, Sequence
from typing import Literal, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

Axes = Literal["T", "T+1", "rollout"]
SpaceKind = Literal["box", "discrete", "multi_discrete", "composite"]
Writer = Literal["environment", "policy", "learner"]
Fold = Literal["first", "sum", "entry"]


def as_dtype(text: str) -> np.dtype[np.generic]:
    """The dtype that ``text`` names: a NumPy name, or the fields of a composite row.

    A composite row is a list of ``(name, dtype, shape)`` as text, laid out with C's alignment.
    """
    if text.startswith("["):
        fields: list[tuple[str, str, tuple[int, ...]]] = ast.literal_eval(text)
        return np.dtype(fields, align=True)
    return np.dtype(text)


class FieldSpec(msgspec.Struct, frozen=True):
    """One named column of a rollout.

    Attributes:
        name: Field name, for instance ``"reward"``.
        shape: Shape of one row, without the leading ``[T, B]`` axes.
        dtype: Stored exactly as declared; `as_dtype` reads it.
        axes: ``"T"`` for one row per step, ``"T+1"`` where the row after the last step is
            needed too (observations: the last row is what the bootstrap value is taken of),
            ``"rollout"`` for one row per environment and rollout.
        unit: Unit of the values, empty when they have none.
        history: Rows before the first step that are kept too (frames that a stack reaches back
            to); the array begins with them.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    axes: Axes = "T"
    unit: str = ""
    history: int = 0

    @property
    def row_nbytes(self) -> int:
        """Bytes of one row of one environment."""
        return math.prod(self.shape) * as_dtype(self.dtype).itemsize

    def array_shape(self, steps: int, envs: int) -> tuple[int, ...]:
        """Shape of the whole column: ``[T, B, ...]``, ``[T + 1, B, ...]`` or ``[B, ...]``.

        ``history`` adds to the first axis.
        """
        if self.axes == "rollout":
            return (envs, *self.shape)
        rows = steps + 1 if self.axes == "T+1" else steps
        return (self.history + rows, envs, *self.shape)


class Column(FieldSpec, frozen=True, kw_only=True):
    """A column of experience: what is kept of every step, and who writes it.

    Attributes:
        writer: ``"environment"``: the info of each step has it, by this name. ``"policy"``: it is
            answered with each action, in `ActionOutput.extra`. ``"learner"``: it is said of the
            rows of a batch that was drawn, in `UpdateReport.extra`, and there when they are drawn
            again; only from replay.
        fold: What a window of several steps has of it: ``"first"``, that of its first step, or
            ``"sum"``, the discounted sum, as of rewards. A sequence has that of every row, but of
            ``"entry"`` only that of its first.
        logged: Whether the logs of a replay keep it, beside rollouts.
    """

    writer: Writer = "environment"
    fold: Fold = "first"
    logged: bool = True


def written_by(writer: Writer, columns: Iterable[Column]) -> tuple[Column, ...]:
    """Those of ``columns`` that one of them writes."""
    return tuple(column for column in columns if column.writer == writer)


class SpaceSpec(msgspec.Struct, frozen=True):
    """A space of observations or actions.

    A composite space (Gymnasium's Dict and Tuple, nested ones too) is flat: its parts are the
    leaves in their order, named by their path (``"camera"``, ``"arm/joints"``, ``"0"``), and one
    row is one record of a structured NumPy array, so ``rows["camera"]`` is ``[B, H, W, C]``.

    Attributes:
        kind: ``"box"`` (real vector or array), ``"discrete"`` (``n`` choices from ``start``),
            ``"multi_discrete"`` (several choices at once) or ``"composite"``.
        shape: Shape of one element; ``()`` for discrete and composite.
        dtype: Dtype of one element; `as_dtype` reads it.
        n: Number of choices of a discrete space, 0 otherwise.
        start: First choice of a discrete space.
        low: Lower bounds of a box, flattened, infinite where unbounded; one number where all
            are equal.
        high: Upper bounds of a box, in the same way.
        counts: Choices of each dimension of a multi-discrete space, flattened.
        starts: First choice of each dimension of a multi-discrete space, flattened.
        parts: Name and space of each leaf of a composite space; none is composite itself.
    """

    kind: SpaceKind
    shape: tuple[int, ...]
    dtype: str
    n: int = 0
    start: int = 0
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    counts: tuple[int, ...] = ()
    starts: tuple[int, ...] = ()
    parts: tuple[tuple[str, SpaceSpec], ...] = ()

    @classmethod
    def composite(cls, parts: Sequence[tuple[str, SpaceSpec]]) -> Self:
        """A space made of named leaves."""
        fields = [(name, space.dtype, space.shape) for name, space in parts]
        return cls(kind="composite", shape=(), dtype=repr(fields), parts=tuple(parts))

    @property
    def size(self) -> int:
        """Number of elements of one flattened value, over all parts."""
        if self.kind == "composite":
            return sum(space.size for _, space in self.parts)
        return math.prod(self.shape)

    @property
    def row_dtype(self) -> np.dtype[np.generic]:
        """What ``numpy.zeros((B, *shape), row_dtype)`` holds one value per row of."""
        return as_dtype(self.dtype)

    @property
    def bounds(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Lower and upper bounds of a box, in its shape."""
        return self._shaped(self.low), self._shaped(self.high)

    @property
    def choices(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """First and last choice of each dimension of a discrete or multi-discrete space."""
        multiple = self.kind == "multi_discrete"
        starts = self.starts or (0,) * self.size if multiple else (self.start,)
        first = np.array(starts, np.int64).reshape(self.shape)
        counts = np.array(self.counts if multiple else (self.n,), np.int64).reshape(self.shape)
        return first, first + (counts - 1)

    def _shaped(self, bound: tuple[float, ...]) -> NDArray[np.float64]:
        values = np.asarray(bound)
        return np.broadcast_to(values.reshape(() if values.size == 1 else self.shape), self.shape)


class Branch(msgspec.Struct, frozen=True):
    """A Dict or Tuple space inside an observation.

    Attributes:
        name: Its path, empty for the whole observation.
        keys: Keys of its parts, or their indices.
        parts: Names of its leaves, or further branches.
        named: Whether it is a Dict.
    """

    name: str
    keys: tuple[str | int, ...]
    parts: tuple[Branch | str, ...]
    named: bool


Tree = Branch | str


class ModuleSpec(msgspec.Struct, frozen=True):
    """A torch module, as far as those must know it who don't import torch.

    Attributes:
        name: What it is to its algorithm.
        outputs: Numbers that it makes of one row.
        fields: Its parameters, and its buffers of floating-point numbers.
        products: Multiplications of one row's forward pass.
        random: Whether it computes something else while it learns, as dropout does.
        acts: Whether policies need it.
        target: Whether a target network follows it.
        statistic: Whether its gradient is what a batch says of itself, which no step follows.
        judges: Whether insights need it, to judge what was done.
        scores: How many of its outputs, the first ones, are the policy's scores of its choices; 0
            where a head gives them.
    """

    name: str
    outputs: int
    fields: tuple[FieldSpec, ...]
    products: int = 0
    random: bool = False
    acts: bool = True
    target: bool = False
    statistic: bool = False
    judges: bool = False
    scores: int = 0

    @property
    def only_judges(self) -> bool:
        """Whether insights need it and policies don't."""
        return self.judges and not self.acts


REWARD = "the reward"


class Blur(msgspec.Struct, frozen=True):
    """A number that is so far from 0 that what differs in it is hard to see.

    Attributes:
        what: `REWARD`, or which number of the observation; that float32 rounds more coarsely than
            it differed in a few steps.
        dtype: What it is declared as.
        mean: Of it.
        deviation: Of it.
        step: Between neighbours of float32 there.
    """

    what: str
    dtype: str
    mean: float
    deviation: float
    step: float


class EnvironmentSpec(msgspec.Struct, frozen=True):
    """What a run needs to know of its environment before any node exists.

    Attributes:
        id: Registered name.
        observation: What a policy sees of one environment.
        action: Action space.
        max_episode_steps: Time limit in environment steps, or None. A step in which the action is
            repeated (``environment.frame_skip``, ``environment.atari``) counts once, as
            everywhere in a run.
        repeatable: Whether ``reset(seed)`` and the same actions gave the same observations
            twice when it was probed; exact resume needs it.
        frames: How many successive observations a policy sees stacked: ``observation`` has the
            shape ``(frames, *row.shape)`` then, the newest last. 1: they are not stacked.
        action_mask: The part of a composite observation that says which actions are allowed
            (non-zero: allowed; ``[n]``, or all dimensions of a multi-discrete action one after
            the other), None where every action always is.
        cast: What of its observations is cast to what their space declares ("float64 for
            float32"), mostly nothing.
        blurred: What of its observations float32 can't tell apart, and its reward if that is far
            from 0, as far as a few steps showed; mostly nothing.
        tree: Where the leaves of a composite observation lie in what the environment returns,
            empty where it is none; see `fast_core.envs.records.rows_of`.
        one_per_process: Whether a process can have one of it only, as its
            ``metadata["one_per_process"]`` says.
        modules: The algorithm's torch modules for these observations, where only a process that
            imports torch can tell what they are (`Blueprint.examine`).
        action_names: What its choices are called, or the dimensions of several at once, where it
            says so; empty otherwise.
    """

    id: str
    observation: SpaceSpec
    action: SpaceSpec
    max_episode_steps: int | None = None
    repeatable: bool = True
    frames: int = 1
    action_mask: str | None = None
    cast: str = ""
    blurred: tuple[Blur, ...] = ()
    tree: Tree = ""
    one_per_process: bool = False
    modules: tuple[ModuleSpec, ...] = ()
    action_names: tuple[str, ...] = ()

    @property
    def row(self) -> SpaceSpec:
        """What an environment returns and a rollout stores: one frame where they are stacked."""
        if self.frames == 1:
            return self.observation
        space = self.observation
        low, high = (
            bound if len(bound) == 1 else bound[: len(bound) // self.frames]
            for bound in (space.low, space.high)
        )
        return msgspec.structs.replace(space, shape=space.shape[1:], low=low, high=high)


def differences(found: EnvironmentSpec, spec: EnvironmentSpec) -> str:
    """What keeps a policy for ``spec`` from acting in ``found``, in words; empty if nothing does.

    The bounds of observations may differ: no policy asks for them. Actions are scaled to theirs.
    """
    given, needed = _forms(found), _forms(spec)
    differing = [what for what in needed if given[what] != needed[what]]
    return " and ".join(f"{what} {given[what]}, not {needed[what]}" for what in differing)


def _forms(spec: EnvironmentSpec) -> dict[str, str]:
    """What a policy depends on, in words."""
    mask = "none" if spec.action_mask is None else repr(spec.action_mask)
    return {
        "observations": _form(spec.observation, bounded=False),
        "actions": _form(spec.action, bounded=True),
        "action_mask": mask,
    }


def _form(space: SpaceSpec, *, bounded: bool) -> str:
    shape = f"{list(space.shape)} of {space.dtype}"
    match space.kind:
        case "composite":
            parts = (f"{name}: {_form(part, bounded=bounded)}" for name, part in space.parts)
            return f"composite ({', '.join(parts)})"
        case "discrete":
            return f"discrete {space.start} to {space.start + space.n - 1}"
        case "multi_discrete":
            return f"multi_discrete {shape} with {list(space.counts)} from {list(space.starts)}"
    return f"box {shape}" + (
        f" from {_bound(space.low)} to {_bound(space.high)}" if bounded else ""
    )


def _bound(values: tuple[float, ...]) -> str:
    return f"{values[0]:g}" if len(values) == 1 else f"[{', '.join(f'{v:g}' for v in values)}]"
