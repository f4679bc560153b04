"""A policy as a C header: everything in one file, for controllers and real-time programs."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from fast_core import __version__
from fast_core.algorithm import Array
from fast_core.errors import ExportError
from fast_core.export.c_code import Translation, loops_into
from fast_core.export.interface import Interface, Port
from fast_core.export.program import make_program, quiet
from fast_core.export.samples import Answer, Sample

COMPILERS = ("cc", "gcc", "clang")
WIDTH = 92


class _Flat(nn.Module):
    """A policy over one float array of all numbers of an observation, and a state."""

    def __init__(self, policy: nn.Module, interface: Interface) -> None:
        super().__init__()
        self.policy = policy
        self._ports = [port for port in interface.inputs if port.name.startswith("observation")]

    def forward(self, obs: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        parts, begin = [], 0
        for port in self._ports:
            size = _size(port)
            part = obs[:, begin : begin + size].reshape(1, *port.shape)
            parts.append(part.to(getattr(torch, port.dtype)))
            begin += size
        made = self.policy(*parts, *state)
        return made if isinstance(made, tuple) else (made,)


def write_header(module: nn.Module, interface: Interface, example: Sample, stem: str) -> str:
    """The text of the header; its names begin with ``stem``.

    Raises:
        UnknownInC: The policy computes something that isn't written in C here.
    """
    name = identifier(stem)
    flat = Sample(example.obs, None, tuple(flattened(interface, example.rows(0, 1).inputs)))
    program = make_program(_Flat(module, interface), flat, dynamic=False)
    with quiet():
        program = program.run_decompositions()
        code = Translation(program, ["obs", "state"], f"{name}_data")
    number = number_type(interface)
    body = [
        f"for (int i = 0; i < {name.upper()}_OBSERVATION; ++i)",
        "    if (!(obs[i] - obs[i] == 0.0f))",
        f"        return 1; {'/* NaN or infinity */'}",
        *code.statements,
        *loops_into("action", code.outputs[0], number),
    ]
    if interface.state_size:
        body += loops_into("state", code.outputs[1], "float")
    body.append("return 0;")
    parameters = ["const float *obs", *(["float *state"] if interface.state_size else [])]
    parameters.append(f"{number} *action")
    guard = f"FASTLOOP_{name.upper()}_H"
    sizes = {
        "OBSERVATION": sum(map(_size, interface.inputs)) - interface.state_size,
        "ACTION": _size(interface.outputs[0]),
        **({"STATE": interface.state_size} if interface.state_size else {}),
    }
    parts = [
        _comment(interface, name),
        f"#ifndef {guard}\n#define {guard}\n\n#include <math.h>",
        "\n".join(f"#define {name.upper()}_{size} {value}" for size, value in sizes.items()),
        "\n".join(code.constants),
        f"static inline int {name}_act({', '.join(parameters)})\n{{\n"
        + "\n".join(f"    {line}" for line in body)
        + "\n}",
        f"#endif /* {guard} */",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def identifier(stem: str) -> str:
    """What names in C begin with, for a file of this name."""
    name = re.sub(r"\W", "_", stem, flags=re.ASCII)
    return f"policy_{name}" if not name or name[0].isdigit() or name[0] == "_" else name


def number_type(interface: Interface) -> str:
    """The C type of an element of an action."""
    return "float" if interface.environment.action.kind == "box" else "int"


def flattened(interface: Interface, inputs: Sequence[Array]) -> list[Array]:
    """One float array ``[B, N]`` of all parts of observations, and the state after it."""
    count = len(inputs) - bool(interface.state_size)
    columns = [each.reshape(len(each), -1).astype(np.float32) for each in inputs[:count]]
    return [np.concatenate(columns, axis=1), *inputs[count:]]


def _size(port: Port) -> int:
    return int(np.prod(port.shape, dtype=int))


def _comment(interface: Interface, name: str) -> str:
    """What the header says of itself, in order: how to call it, what goes in, what comes out."""
    upper, number = name.upper(), number_type(interface)
    lines = [
        f"{name}_act: the policy that {interface.algorithm} of FastLoop {__version__} learned in "
        f"{interface.environment.id}.",
        "",
        f"int {name}_act(const float obs[{upper}_OBSERVATION]"
        + (f", float state[{upper}_STATE]" if interface.state_size else "")
        + f", {number} action[{upper}_ACTION])",
        "",
        "returns 0 and writes the action; returns 1 and writes nothing if an observation is NaN or "
        "infinite. It keeps nothing between calls, allocates nothing and calls nothing but "
        "functions of math.h, so several threads may call it. C99 or later, or C++.",
        "",
    ]
    if interface.state_size:
        lines += [
            "state is what the policy remembers: zeros where an episode begins, then the same "
            "array again.",
            "",
        ]
    place = 0
    for port in interface.inputs:
        if port.name != "state":
            lines.append(_line("obs", place, port))
            place += _size(port)
    lines.append(_line("action", 0, interface.outputs[0]))
    if len(interface.inputs) > 1 or len(interface.inputs[0].shape) > 1:
        lines.append("Arrays lie in C order, the last axis first.")
    text = "\n".join(
        textwrap.fill(line, WIDTH, initial_indent=" * ", subsequent_indent=" * ") or " *"
        for line in lines
    ).replace("*/", "* /")
    return f"/*\n{text}\n */"


def _line(array: str, place: int, port: Port) -> str:
    last = place + _size(port) - 1
    where = f"{place}" if last == place else f"{place}..{last}"
    shape = f" {list(port.shape)}" if len(port.shape) > 1 else ""
    return f"{array}[{where}]: {port.name}{shape}, {port.meaning}"


# --- trying it -----------------------------------------------------------------------------------


def find_compiler() -> str | None:
    """The C compiler of this machine, ``$CC`` first; None without one."""
    wanted = os.environ.get("CC", "").split()
    return next(filter(None, map(shutil.which, (*wanted[:1], *COMPILERS))), None)


def open_header(path: Path, interface: Interface, compiler: str) -> Answer:
    """Compile a header, beside it, and return what it answers.

    Raises:
        ExportError: The compiler refuses it.
    """
    name, size = identifier(path.stem), interface.state_size
    number = number_type(interface)
    state_parameter, state_argument = ("float *state, ", "state, ") if size else ("", "")
    source, library = path.with_suffix(".try.c"), path.with_suffix(".try.so")
    source.write_text(
        f'#include "{path.name}"\n'
        f"int try_it(const float *obs, {state_parameter}{number} *action)\n"
        f"{{ return {name}_act(obs, {state_argument}action); }}\n",
        "utf-8",
    )
    flags = ["-std=c99", "-O1", "-fPIC", "-shared"]
    command = [compiler, *flags, "-o", os.fspath(library), os.fspath(source), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ExportError(
            f"{compiler} refuses the header ({done.stderr.strip().splitlines()[0]}). Nothing was "
            "written. Please report it."
        )
    act = ctypes.CDLL(os.fspath(library)).try_it
    port = interface.outputs[0]
    dtype = np.float32 if number == "float" else np.int32

    def answer(inputs: Sequence[Array]) -> Sequence[Array]:
        obs, *states = flattened(interface, inputs)
        action = np.zeros((len(obs), _size(port)), dtype)
        after = [np.array(each) for each in states]
        for row in range(len(obs)):
            pointers = [each[row].ctypes.data_as(ctypes.c_void_p) for each in (obs, *after, action)]
            if act(*pointers):
                raise ExportError(f"{name}_act refused a finite observation")
        return [cast("Array", action.reshape(-1, *port.shape).astype(port.dtype)), *after]

    return answer
