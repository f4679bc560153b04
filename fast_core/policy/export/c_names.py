"""How an exported policy is called in C."""

from __future__ import annotations

import math
import re

import numpy as np

from fast_core.algorithm.spec import SpaceSpec
from fast_core.errors import ExportError
from fast_core.policy.export.interface import STATE, Interface

# Beyond them a whole number may be rounded to another one.
_FLOAT_EXACT, _DOUBLE_EXACT, _INT_END = 1 << 24, 1 << 53, 1 << 31
DTYPES = {"float": np.float32, "double": np.float64, "int": np.int32, "long long": np.int64}


def identifier(stem: str) -> str:
    """What names in C begin with, for a file of this name."""
    name = re.sub(r"\W", "_", stem, flags=re.ASCII)
    return name if name[:1].isalpha() else f"policy_{name}"


def number_type(interface: Interface) -> str:
    """The type of an element of an action: of choices one that has all of them."""
    action = interface.environment.action
    if action.kind == "box":
        return "float"
    return "int" if _greatest(action) < _INT_END else "long long"


def observation_type(interface: Interface) -> str:
    """The type of an element of an observation: one that has all its whole numbers.

    It is a double too where the policy tells numbers apart that are one and the same float.

    Raises:
        ExportError: Neither has them.
    """
    space = interface.environment.observation
    leaves = [leaf for _, leaf in space.parts] or [space]
    if any(leaf.kind != "box" and _greatest(leaf) > _DOUBLE_EXACT for leaf in leaves):
        raise ExportError(
            "a .h file takes observations as double, which is exact up to 2^53, and choices of "
            f"{interface.environment.id!r} go beyond that. Let them begin at 0 in a wrapper, or "
            "write .onnx, .pt2 or .ts."
        )
    told_apart = any(origin.dtype.kind == "f" for origin in interface.origins.values())
    exact = max(map(_greatest, leaves)) <= _FLOAT_EXACT and not told_apart
    return "float" if exact else "double"


def _greatest(space: SpaceSpec) -> float:
    """Magnitude of the largest whole number that a space has."""
    if space.kind == "box":
        whole = np.dtype(space.dtype).kind in "iu"
        return max(map(abs, (*space.low, *space.high)), default=0) if whole else 0
    counts = space.counts or (space.n,)
    starts = space.starts or (space.start,) * len(counts)
    return max(max(-start, start + count - 1) for start, count in zip(starts, counts, strict=True))


def sizes(interface: Interface) -> dict[str, int]:
    """Elements of each array by its name, in the order of the function's arguments."""
    numbers = [math.prod(port.shape) for port in interface.inputs if port.name != STATE]
    state = {STATE: interface.state_size} if interface.state_size else {}
    return {"obs": sum(numbers), **state, "action": math.prod(interface.outputs[0].shape)}


def signature(interface: Interface, name: str, counts: dict[str, str] | None = None) -> str:
    """The function as C declares it, with its arrays' sizes or with ``counts`` in their place."""
    types = {
        "obs": f"const {observation_type(interface)}",
        STATE: "float",
        "action": number_type(interface),
    }
    arrays = [
        f"{types[array]} {array}[{size if counts is None else counts[array]}]"
        for array, size in sizes(interface).items()
    ]
    return f"int {name}_act({', '.join(arrays)})"
