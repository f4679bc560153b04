"""A policy as a C header: everything in one file, for controllers and real-time programs."""

from __future__ import annotations

import ctypes
import math
import os
import shlex
import shutil
import subprocess
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from fast_core.algorithm import Array
from fast_core.errors import ExportError
from fast_core.policy.export.c_code import INDENT, Translation, copied_into, decomposed
from fast_core.policy.export.c_names import (
    DTYPES,
    identifier,
    number_type,
    observation_type,
    signature,
    sizes,
)
from fast_core.policy.export.interface import STATE, Interface, Port
from fast_core.policy.export.program import make_program, quiet
from fast_core.policy.export.samples import Answer, Sample
from fast_core.system.installed import VERSION

COMPILERS = ("cc", "gcc", "clang")
WIDTH = 92


class _Flat(nn.Module):
    """A policy over one array of all numbers of an observation, and a state."""

    def __init__(self, policy: nn.Module, interface: Interface) -> None:
        super().__init__()
        self.policy = policy
        self._ports = [port for port in interface.inputs if port.name != STATE]

    def forward(self, obs: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        parts, begin = [], 0
        for port in self._ports:
            size = math.prod(port.shape)
            part = obs[:, begin : begin + size].reshape(1, *port.shape)
            parts.append(part.to(getattr(torch, port.dtype)))
            begin += size
        made = self.policy(*parts, *state)
        return made if isinstance(made, tuple) else (made,)


def write_header(module: nn.Module, interface: Interface, example: Sample, stem: str) -> str:
    """The text of the header; its names begin with ``stem``.

    Raises:
        UnknownInC: The policy computes something that isn't written in C here.
        ExportError: As `flattened`.
    """
    name = identifier(stem)
    flat = Sample(example.obs, None, tuple(flattened(interface, example.rows(0, 1).inputs)))
    program = make_program(_Flat(module, interface), flat, dynamic=False)
    with quiet():
        code = Translation(decomposed(program), ["obs", STATE], f"{name}_data")
    counts = {array: f"{name.upper()}_{array.upper()}" for array in sizes(interface)}
    body = [
        f"for (int i = 0; i < {counts['obs']}; ++i)",
        f"{INDENT}if (!(obs[i] - obs[i] == 0.0f))",
        f"{INDENT * 2}return 1; /* NaN or infinity */",
        *code.statements,
        *copied_into("action", code.outputs[0], number_type(interface)),
    ]
    if interface.state_size:
        body += copied_into(STATE, code.outputs[1], "float")
    function = [
        f"static inline {signature(interface, name, counts)}",
        "{",
        *(INDENT + line for line in [*body, "return 0;"]),
        "}",
    ]
    guard = f"FASTLOOP_{name.upper()}_H"
    defines = [f"#define {counts[array]} {size}" for array, size in sizes(interface).items()]
    parts = [
        _comment(interface, name),
        f"#ifndef {guard}\n#define {guard}",
        "#include <math.h>",
        "\n".join(defines),
        "\n".join(code.constants),
        "\n".join(function),
        f"#endif /* {guard} */",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def flattened(interface: Interface, inputs: Sequence[Array]) -> list[Array]:
    """One array ``[B, N]`` of all parts of observations as C takes them, and the state after it.

    Raises:
        ExportError: No type of C has all their numbers.
    """
    count, dtype = len(inputs) - bool(interface.state_size), DTYPES[observation_type(interface)]
    columns = [each.reshape(len(each), -1).astype(dtype) for each in inputs[:count]]
    return [np.concatenate(columns, axis=1), *inputs[count:]]


def _comment(interface: Interface, name: str) -> str:
    """What the header says of itself: how to call it, what goes in, what comes out."""
    lines = [
        f"The policy that {interface.algorithm} of FastLoop {VERSION} learned in "
        f"{interface.environment.id}.",
        "",
        signature(interface, name),
        "",
        "writes the action and returns 0; of an observation with NaN or infinity it returns 1 and "
        "writes nothing. It keeps nothing between calls, allocates nothing and calls nothing but "
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
        if port.name != STATE:
            lines.append(_line("obs", place, port))
            place += math.prod(port.shape)
    lines.append(_line("action", 0, interface.outputs[0]))
    if any(len(port.shape) > 1 for port in (*interface.inputs, *interface.outputs)):
        lines.append("Elements of an array lie in C's order, the last index changing first.")
    text = "\n".join(
        textwrap.fill(line, WIDTH, initial_indent=" * ", subsequent_indent=" * ") or " *"
        for line in lines
    ).replace("*/", "* /")
    return f"/*\n{text}\n */"


def _line(array: str, place: int, port: Port) -> str:
    last = place + math.prod(port.shape) - 1
    where = f"{place}" if last == place else f"{place}..{last}"
    shape = f" {list(port.shape)}" if len(port.shape) > 1 else ""
    return f"{array}[{where}]: {port.name}{shape}, {port.meaning}"


# --- trying it -----------------------------------------------------------------------------------


def find_compiler() -> list[str] | None:
    """The command of this machine's C compiler, ``$CC`` first; None without one."""
    commands = os.environ.get("CC", "").split(), *([name] for name in COMPILERS)
    return next((each for each in commands if each and shutil.which(each[0])), None)


def open_header(path: Path, interface: Interface, compiler: Sequence[str]) -> Answer:
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
        f"int try_it(const {observation_type(interface)} *obs, {state_parameter}{number} *action)\n"
        f"{{ return {name}_act(obs, {state_argument}action); }}\n",
        "utf-8",
    )
    flags = ["-std=c99", "-O1", "-fPIC", "-shared"]
    command = [*compiler, *flags, "-o", os.fspath(library), os.fspath(source), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = (done.stderr.strip() or f"status {done.returncode}").splitlines()
        why = next((line for line in lines if "error" in line), lines[0])
        raise ExportError(
            f"{shlex.join(compiler)} refuses the header ({why}). Nothing was written. Please "
            "report it."
        )
    try:
        act = ctypes.CDLL(os.fspath(library)).try_it
    except OSError as error:
        raise ExportError(
            f"what {shlex.join(compiler)} made of the header can't be tried ({error}). Let CC name "
            "a compiler for this machine, and write to a folder from which programs may run."
        ) from error
    port = interface.outputs[0]

    def answer(inputs: Sequence[Array]) -> Sequence[Array]:
        obs, *states = flattened(interface, inputs)
        action = np.zeros((len(obs), math.prod(port.shape)), DTYPES[number])
        after = [np.array(each) for each in states]
        for row in range(len(obs)):
            pointers = [each[row].ctypes.data_as(ctypes.c_void_p) for each in (obs, *after, action)]
            if act(*pointers):
                raise ExportError(f"{name}_act refused a finite observation")
        return [cast("Array", action.reshape(-1, *port.shape).astype(port.dtype)), *after]

    return answer
