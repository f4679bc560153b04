"""A policy as a torch module and as the graph that torch.export makes of it."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from io import StringIO

import numpy as np
import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from fast_core.algorithm import Array
from fast_core.algorithm.spec import EnvironmentSpec
from fast_core.config import AlgorithmConfig
from fast_core.errors import ExportError
from fast_core.policy.export.samples import Sample
from fast_core.system.text import error_text

TALKATIVE = ("torch.onnx", "torch.export", "torch._subclasses", "torch.fx", "onnxscript", "onnx_ir")


@contextmanager
def quiet() -> Iterator[None]:
    """Keep warnings and remarks of exporters, which nobody can act on, from the terminal."""
    loggers = [logging.getLogger(name) for name in TALKATIVE]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        for logger in loggers:
            logger.setLevel(logging.CRITICAL)
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)


def make_module(
    config: AlgorithmConfig, environment: EnvironmentSpec, parameters: Sequence[Array]
) -> nn.Module:
    """The policy as its algorithm makes it.

    Raises:
        ExportError: The algorithm makes none.
    """
    module = config.policy_module(environment, parameters)
    if not isinstance(module, nn.Module):
        got = "" if module is None else f"; its policy_module returned {module!r}"
        raise ExportError(
            f"algorithm {config.name!r} doesn't say how its policies are computed in torch, which "
            f"every export needs{got}. Write policy_module(environment, parameters) in "
            f"{type(config).__name__}: it returns a torch.nn.Module from observations to actions "
            '(docs/adding-an-algorithm.md, "To be exported").'
        )
    return module.eval()


def tensors(inputs: Sequence[Array]) -> tuple[Tensor, ...]:
    """Inputs of a module, in memory of their own."""
    return tuple(torch.from_numpy(np.array(each)) for each in inputs)


def arrays(outputs: Tensor | Sequence[Tensor]) -> list[Array]:
    """Outputs of a module."""
    given = [outputs] if isinstance(outputs, Tensor) else outputs
    return [each.detach().numpy() for each in given]


class _Positional(nn.Module):
    """A module whose inputs have no names, whatever its own calls them."""

    def __init__(self, policy: nn.Module) -> None:
        super().__init__()
        self.policy = policy

    def forward(self, *inputs: Tensor) -> Tensor | tuple[Tensor, ...]:
        made: Tensor | tuple[Tensor, ...] = self.policy(*inputs)
        return made


def make_program(module: nn.Module, sample: Sample, *, dynamic: bool = True) -> ExportedProgram:
    """The graph of a module; the number of rows is free, or else that of ``sample``.

    Raises:
        ExportError: torch.export can't follow the module.
    """
    batch = Dim("batch", min=1)
    shapes = (tuple({0: batch} for _ in sample.inputs),) if dynamic else None
    try:
        # Of what it can't follow it also prints the graph so far, and only to sys.stderr.
        with quiet(), redirect_stderr(StringIO()):
            given = tensors(sample.inputs)
            program = torch.export.export(_Positional(module), given, dynamic_shapes=shapes)
    # A foreign tool chain over a user's code, which fails in many ways.
    except Exception as error:
        raise ExportError(
            f"torch.export can't follow the policy: {first_line(error)}. Its forward may not "
            "depend on the values of tensors, nor on the number of rows."
        ) from error
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)  # lines of files of this machine
    return program


def first_line(error: BaseException) -> str:
    """What went wrong, of a message of many lines."""
    lines = [line.strip() for line in error_text(error).splitlines() if line.strip()]
    return lines[0].rstrip(".") if lines else type(error).__name__
