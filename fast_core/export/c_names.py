"""How an exported policy is called in C."""

from __future__ import annotations

import math
import re

from fast_core.export.interface import STATE, Interface


def identifier(stem: str) -> str:
    """What names in C begin with, for a file of this name."""
    name = re.sub(r"\W", "_", stem, flags=re.ASCII)
    return name if name[:1].isalpha() else f"policy_{name}"


def number_type(interface: Interface) -> str:
    """The type of an element of an action."""
    return "float" if interface.environment.action.kind == "box" else "int"


def sizes(interface: Interface) -> dict[str, int]:
    """Elements of each array by its name, in the order of the function's arguments."""
    numbers = [math.prod(port.shape) for port in interface.inputs if port.name != STATE]
    state = {STATE: interface.state_size} if interface.state_size else {}
    return {"obs": sum(numbers), **state, "action": math.prod(interface.outputs[0].shape)}


def signature(interface: Interface, name: str, counts: dict[str, str] | None = None) -> str:
    """The function as C declares it, with its arrays' sizes or with ``counts`` in their place."""
    types = {"obs": "const float", STATE: "float", "action": number_type(interface)}
    arrays = [
        f"{types[array]} {array}[{size if counts is None else counts[array]}]"
        for array, size in sizes(interface).items()
    ]
    return f"int {name}_act({', '.join(arrays)})"
