"""The file formats: how each is written, and read again to see that it says the same."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import nn

from fast_core.algorithm import Array
from fast_core.errors import ExportError
from fast_core.policy.export.c_code import UnknownInC
from fast_core.policy.export.header import find_compiler, open_header, write_header
from fast_core.policy.export.interface import Interface
from fast_core.policy.export.program import arrays, first_line, make_program, quiet, tensors
from fast_core.policy.export.samples import Answer, Sample
from fast_core.system.extras import to_install

METADATA = "fastloop"  # under which files hold `Interface.metadata`
PT2_METADATA = f"{METADATA}.json"
OPSET = 18
IR_VERSION = 8  # the oldest that has this opset; what exporters write is refused by old runtimes
OLDEST_FOR_ONNX = (2, 6)  # before, the exporter was another one, which names nothing
OPERATION = re.compile(r"OpOverload\(op='([\w.:]+)'")


class UnknownOperation(ExportError):
    """A format has no word for something that the policy computes."""


@dataclass(frozen=True)
class Job:
    """What is to be written.

    Attributes:
        module: The policy.
        interface: Its inputs and outputs.
        example: A few rows.
    """

    module: nn.Module
    interface: Interface
    example: Sample


@dataclass(frozen=True)
class Format:
    """A file format.

    Attributes:
        title: A few words.
        write: Writes a file.
        open: Reads one as something that answers; None where that can't be had here.
    """

    title: str
    write: Callable[[Job, Path], None]
    open: Callable[[Path, Interface], Answer | None]


def _write_onnx(job: Job, path: Path) -> None:
    _need_onnx()
    program = make_program(job.module, job.example)
    try:
        with quiet():
            made = torch.onnx.export(
                program,
                dynamo=True,
                input_names=[port.name for port in job.interface.inputs],
                output_names=[port.name for port in job.interface.outputs],
                opset_version=OPSET,
                verbose=False,
            )
    # A foreign tool chain over a user's code, which fails in many ways.
    except Exception as error:
        raise _unknown(error, "ONNX") from error
    assert made is not None, "the new exporter returns what it made"
    from onnxscript import ir

    model = made.model
    model.ir_version = IR_VERSION
    model.metadata_props[METADATA] = job.interface.metadata()
    values = [value for node in model.graph for value in node.outputs]
    values += [*model.graph.inputs, *model.graph.initializers.values()]
    for each in (model.graph, *model.graph, *values):
        each.metadata_props.clear()  # what the exporter saw: of use to nobody, and of IR version 10
    for value in (*model.graph.inputs, *model.graph.outputs):
        assert value.shape is not None, "torch.export knows every shape"
        value.shape = ir.Shape(["batch", *list(value.shape)[1:]])
    with quiet():
        made.save(path, external_data=False)


def _open_onnx(path: Path, interface: Interface) -> Answer:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        os.fspath(path), options, providers=["CPUExecutionProvider"]
    )
    names = [port.name for port in interface.inputs]

    def answer(inputs: Sequence[Array]) -> Sequence[Array]:
        given: list[Array] = session.run(None, dict(zip(names, inputs, strict=True)))
        return given

    return answer


def _need_onnx() -> None:
    missing = [name for name in ("onnx", "onnxscript", "onnxruntime") if find_spec(name) is None]
    if missing:
        raise ExportError(
            f"a .onnx file needs what is not installed ({', '.join(missing)}): "
            f"run {to_install('onnx')}. .pt2 and .ts need nothing more."
        )
    release = tuple(int(part) for part in torch.__version__.split(".")[:2])
    if release < OLDEST_FOR_ONNX:
        raise ExportError(
            f"a .onnx file needs torch {'.'.join(map(str, OLDEST_FOR_ONNX))} or newer; here is "
            f"{torch.__version__}. Update it, or write .pt2 or .ts."
        )


def _unknown(error: BaseException, language: str) -> ExportError:
    """The same in a sentence, with the operation that is not known, if that is it."""
    cause: BaseException | None = error
    while cause is not None:
        if found := OPERATION.search(str(cause)):
            return UnknownOperation(f"{language} has no operation {found[1]!r}")
        cause = cause.__cause__ or cause.__context__
    return ExportError(f"{language} can't express the policy: {first_line(error)}")


def _write_pt2(job: Job, path: Path) -> None:
    program = make_program(job.module, job.example)
    with quiet():
        torch.export.save(program, path, extra_files={PT2_METADATA: job.interface.metadata()})


def _open_pt2(path: Path, interface: Interface) -> Answer:
    with quiet():
        return _answers(torch.export.load(path).module())


def _answers(module: nn.Module) -> Answer:
    def answer(inputs: Sequence[Array]) -> Sequence[Array]:
        with quiet():
            return arrays(module(*tensors(inputs)))

    return answer


def _write_ts(job: Job, path: Path) -> None:
    try:
        with quiet():
            traced = torch.jit.trace(  # type: ignore[no-untyped-call]
                job.module, tensors(job.example.inputs), check_trace=False
            )
            files = {PT2_METADATA: job.interface.metadata()}
            torch.jit.save(traced, path, _extra_files=files)
    # A foreign tool chain over a user's code, which fails in many ways.
    except Exception as error:
        raise ExportError(f"torch.jit can't trace the policy: {first_line(error)}") from error


def _open_ts(path: Path, interface: Interface) -> Answer:
    with quiet():
        return _answers(torch.jit.load(path))  # type: ignore[no-untyped-call]


def _write_h(job: Job, path: Path) -> None:
    try:
        text = write_header(job.module, job.interface, job.example, path.stem)
    except UnknownInC as error:
        raise UnknownOperation(f"plain C has no operation {str(error)!r} here") from error
    path.write_text(text, "utf-8")


def _open_h(path: Path, interface: Interface) -> Answer | None:
    compiler = find_compiler()
    return None if compiler is None else open_header(path, interface, compiler)


FORMATS = {
    ".onnx": Format("ONNX", _write_onnx, _open_onnx),
    ".pt2": Format("torch.export", _write_pt2, _open_pt2),
    ".ts": Format("TorchScript", _write_ts, _open_ts),
    ".h": Format("plain C", _write_h, _open_h),
}
