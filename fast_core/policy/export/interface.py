"""What goes into an exported policy and what comes out of it, and how a file says so."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec
import numpy as np
from numpy.typing import NDArray

from fast_core.algorithm.spec import EnvironmentSpec, SpaceSpec
from fast_core.config import AlgorithmConfig
from fast_core.system.installed import VERSION

MOST_BOUNDS = 64  # that are listed one by one
OBSERVATION, ACTION, STATE, NEXT_STATE = "observation", "action", "state", "next_state"


class Port(msgspec.Struct, frozen=True):
    """One array that goes in or out.

    Attributes:
        name: ``observation``, or ``observation/PART`` of a composite one; ``action``; ``state``
            and ``next_state`` of a policy with memory.
        dtype: As NumPy calls it.
        shape: Of one row, without the batch axis.
        meaning: A few words.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    meaning: str

    def __str__(self) -> str:
        sizes = ", ".join(map(str, ("batch", *self.shape)))
        return f"{self.name} {self.dtype} [{sizes}]"


@dataclass(frozen=True)
class Interface:
    """Everything that a user of an exported policy has to know.

    Attributes:
        algorithm: Its name.
        environment: What it acts in.
        inputs: In the order in which they are given.
        outputs: In the order in which they are returned.
        origins: What the policy counts the numbers of an input from before anything else, by its
            place; none where that is 0.
    """

    algorithm: str
    environment: EnvironmentSpec
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    origins: Mapping[int, NDArray[np.generic]] = field(default_factory=dict)

    @property
    def state_size(self) -> int:
        """Numbers that the policy remembers, 0 without memory."""
        return self.inputs[-1].shape[0] if self.inputs[-1].name == STATE else 0

    def metadata(self) -> str:
        """The same as JSON; infinite bounds are null."""
        environment = self.environment
        return msgspec.json.encode(
            {
                "fastloop": VERSION,
                "algorithm": self.algorithm,
                "environment": environment.id,
                "inputs": self.inputs,
                "outputs": self.outputs,
                "observation": environment.observation,
                "action": environment.action,
                "frames": environment.frames,
                "action_mask": environment.action_mask,
            }
        ).decode()


def make_interface(config: AlgorithmConfig, environment: EnvironmentSpec) -> Interface:
    """The interface of a policy of this algorithm in this environment."""
    space, action = environment.observation, environment.action
    leaves = space.parts or ((None, space),)
    inputs = [
        Port(
            OBSERVATION if name is None else f"{OBSERVATION}/{name}",
            leaf.dtype,
            leaf.shape,
            _meaning(environment, name, leaf),
        )
        for name, leaf in leaves
    ]
    outputs = [Port(ACTION, action.dtype, action.shape, _space(action))]
    size = config.state_size(environment)
    if size:
        inputs.append(Port(STATE, "float32", (size,), "zeros where an episode begins"))
        outputs.append(Port(NEXT_STATE, "float32", (size,), "the state of the next step"))
    return Interface(config.name, environment, tuple(inputs), tuple(outputs))


def _meaning(environment: EnvironmentSpec, name: str | None, leaf: SpaceSpec) -> str:
    if name is not None and name == environment.action_mask:
        return "non-zero where a choice is allowed"
    if environment.frames > 1:
        return f"the last {environment.frames} observations, the newest last; {_space(leaf)}"
    return _space(leaf)


def _space(space: SpaceSpec) -> str:
    if space.kind == "discrete":
        return _choice(space.start, space.n)
    if space.kind == "multi_discrete":
        starts = space.starts or (0,) * len(space.counts)
        kinds = [_choice(*pair) for pair in zip(starts, space.counts, strict=True)]
        return kinds[0] if len(set(kinds)) == 1 else ", ".join(kinds)
    if len(space.low) == len(space.high) == 1 or space.size > MOST_BOUNDS:
        return _range(min(space.low), max(space.high))
    low, high = (bound.ravel().tolist() for bound in space.bounds)
    return ", ".join(map(_range, low, high))


def _range(low: float, high: float) -> str:
    return "any number" if low == -math.inf and high == math.inf else f"{low:g} to {high:g}"


def _choice(start: int, count: int) -> str:
    return f"{start} to {start + count - 1}"
