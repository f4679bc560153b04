"""What an element of an operation's result is in C, where one of each operand makes it."""

from __future__ import annotations

import torch
from torch.fx import Node

TYPES = {
    torch.float32: "float",
    torch.float64: "double",
    torch.float16: "float",  # C99 has no half; what is one is one in float too
    torch.int64: "long long",
    torch.int32: "int",
    torch.int16: "short",
    torch.int8: "signed char",
    torch.uint8: "unsigned char",
    torch.uint16: "unsigned short",
    torch.uint32: "unsigned int",
    torch.uint64: "unsigned long long",
    torch.bool: "unsigned char",
}
# Of C's library, in double; with the suffix f in float.
FUNCTIONS = (
    *("tanh", "exp", "log", "log1p", "log2", "expm1", "sqrt", "sin", "cos", "tan", "asin", "acos"),
    *("atan", "sinh", "cosh", "asinh", "acosh", "atanh", "erf", "floor", "ceil", "trunc"),
    *("fabs", "rint", "pow"),
)
# What each element is, by one element x, y, z of each operand.
FORMULAS = {name: f"{name}({{x}})" for name in FUNCTIONS if name != "pow"} | {
    "abs": "fabs({x})",
    "round": "rint({x})",
    "mul": "{x} * {y}",
    "eq": "{x} == {y}",
    "ne": "{x} != {y}",
    "lt": "{x} < {y}",
    "le": "{x} <= {y}",
    "gt": "{x} > {y}",
    "ge": "{x} >= {y}",
    "logical_and": "{x} && {y}",
    "logical_or": "{x} || {y}",
    "logical_not": "!{x}",
    "bitwise_and": "{x} & {y}",
    "bitwise_or": "{x} | {y}",
    "sigmoid": "1 / (1 + exp(-{x}))",
    "relu": "{x} > 0 ? {x} : 0",
    "neg": "-{x}",
    "rsqrt": "1 / sqrt({x})",
    "reciprocal": "1.0 / {x}",
    "sign": "({x} > 0) - ({x} < 0)",
    "maximum": "{x} > {y} ? {x} : {y}",
    "minimum": "{x} < {y} ? {x} : {y}",
    "pow": "pow({x}, {y})",
    "where": "{x} ? {y} : {z}",
    "hardtanh": "{x} < {y} ? {y} : {x} > {z} ? {z} : {x}",
    "leaky_relu": "{x} > 0 ? {x} : {x} * {y}",
    "elu": "{x} > 0 ? {z} * {x} : {z} * {y} * expm1({w} * {x})",
    "gelu": "0.5 * {x} * (1 + erf({x} * 0.70710678118654752))",
    "_to_copy": "{x}",
    "clone": "{x}",
}
DEFAULTS = {"hardtanh": (-1.0, 1.0), "leaky_relu": (0.01,), "elu": (1.0, 1.0, 1.0)}
GELU_TANH = "0.5 * {x} * (1 + tanh(0.79788456080286536 * ({x} + 0.044715 * {x} * {x} * {x})))"


def formula(name: str, arguments: list[object], node: Node) -> str | None:
    """What each element is, where it depends on one element of each operand alone."""
    kwargs = node.kwargs
    if name in ("add", "sub"):
        sign, factor = "+" if name == "add" else "-", kwargs.get("alpha", 1)
        return f"{{x}} {sign} {{y}}" if factor == 1 else f"{{x}} {sign} {factor} * {{y}}"
    if name == "div":
        kind = TYPES.get(node.meta["val"].dtype)
        return f"({kind}){{x}} / {{y}}" if kwargs.get("rounding_mode") is None else None
    if name == "bitwise_not":
        return "!{x}" if node.meta["val"].dtype == torch.bool else "~{x}"
    if name == "gelu" and kwargs.get("approximate", "none") == "tanh":
        return GELU_TANH
    if name == "clamp":
        _, low, high = [*arguments, None, None][:3]
        clipped = "{x}" if low is None else "{x} < {y} ? {y} : {x}"
        top = "{y}" if low is None else "{z}"
        return clipped if high is None else f"{{x}} > {top} ? {top} : {clipped}"
    if name == "round" and kwargs:  # to decimals
        return None
    return FORMULAS.get(name)
