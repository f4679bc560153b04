"""Writing a policy to a file, and trying the file before anybody else does."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from fast_core.algorithm import Array
from fast_core.algorithm.spec import EnvironmentSpec
from fast_core.config import AlgorithmConfig
from fast_core.errors import ConfigError, ExportError
from fast_core.policy.export.c_names import identifier, signature
from fast_core.policy.export.interface import Interface, make_interface
from fast_core.policy.export.samples import TOLERANCE, Reference, draw
from fast_core.system.surroundings import expanded

if TYPE_CHECKING:
    from fast_core.policy.export.formats import Format, Job

SUFFIXES = {
    ".onnx": "ONNX",
    ".pt2": "torch.export",
    ".ts": "TorchScript",
    ".h": "a plain-C header",
}
ROWS = 32  # that a file is tried on; the first of them alone too


@dataclass(frozen=True)
class Exported:
    """A file that was written.

    Attributes:
        path: Where it is.
        interface: What goes in and comes out.
        difference: The greatest difference from the policy that was found, in halves of an
            action's range or relative; None where the file could not be tried.
    """

    path: Path
    interface: Interface
    difference: float | None

    @property
    def summary(self) -> str:
        """What goes in, what comes out, and how it was tried."""
        if self.path.suffix == ".h":
            what = signature(self.interface, identifier(self.path.stem))
        else:
            ports = self.interface.inputs, self.interface.outputs
            what = " -> ".join(", ".join(map(str, each)) for each in ports)
        if self.difference is None:
            return f"{what}; not tried, as there is no C compiler here"
        found = f"of at most {self.difference:.1e}" if self.difference else "none"
        return f"{what}; differences from the policy: {found}"


def export(
    config: AlgorithmConfig,
    environment: EnvironmentSpec,
    parameters: Sequence[Array],
    path: str | os.PathLike[str],
) -> Path:
    """Write a policy to a file that acts without FastLoop: `write`, less its report."""
    return write(config, environment, parameters, path).path


def write(
    config: AlgorithmConfig,
    environment: EnvironmentSpec,
    parameters: Sequence[Array],
    path: str | os.PathLike[str],
    tell: Callable[[str], None] = lambda _: None,
) -> Exported:
    """Write a policy to a file that acts without FastLoop, and try it.

    The file is the whole deterministic policy, from what the environment gives to what it takes:
    normalisation, network, memory, masks, the likeliest action and its mapping to the action
    space. It appears under its name, in place of one that is there, once its answers to random
    observations were those of the policy; until then, and if it fails, nothing changes there.

    Args:
        config: The policy's algorithm.
        environment: What it acts in.
        parameters: As ``config.policy_fields(environment)`` says, what `Policy.load` takes.
        path: ``.onnx``, ``.pt2`` (torch.export), ``.ts`` (TorchScript) or ``.h`` (plain C).
        tell: Called with what is done next, in words.

    Raises:
        ConfigError: ``path`` has another suffix or can't be there.
        ExportError: The algorithm makes no module, the format can't express it, a library is
            missing, or the file doesn't say what the policy says.
    """
    path = check_target(path)
    if find_spec("torch") is None:
        raise ExportError(
            f"a {path.suffix} file is made with torch, which is not installed. Run "
            "`pip install torch`; a policy itself acts without."
        )
    tell("loading torch")  # which takes a second or two
    from fast_core.policy.export.formats import FORMATS, Job, UnknownOperation
    from fast_core.policy.export.program import make_module

    module = make_module(config, environment, parameters)
    origins = getattr(module, "observation_origins", {})
    interface = replace(make_interface(config, environment), origins=origins)
    job = Job(module, interface, draw(interface, 2))
    reference = Reference(config, environment, parameters)
    try:
        with TemporaryDirectory(prefix=".export-", dir=path.parent) as folder:
            made = Path(folder) / path.name
            try:
                tell(f"writing {path.name}, and asking it what it answers")
                difference = _written(FORMATS[path.suffix], job, reference, made)
            except UnknownOperation as error:
                tell("looking for a format that can be written")
                others = [
                    suffix
                    for suffix, format in FORMATS.items()
                    if suffix != path.suffix and _works(format, job, reference, made, suffix)
                ]
                what = f"What can: {', '.join(others)}." if others else "No format can."
                raise ExportError(
                    f"{path.name} can't be written: {error}, which this policy computes. {what}"
                ) from error
            os.replace(made, path)
    except OSError as error:
        raise ExportError(
            f"can't write {str(path)!r}: {error.strerror}. Name a file in a folder that can be "
            "written."
        ) from error
    return Exported(path, interface, difference)


def check_target(path: str | os.PathLike[str]) -> Path:
    """The place of a file to be written, before anything else is done.

    Raises:
        ConfigError: Its suffix says no format, or it can't be there.
    """
    path = expanded(path, "the exported file")
    if path.suffix not in SUFFIXES:
        known = ", ".join(f"{suffix} ({title})" for suffix, title in SUFFIXES.items())
        raise ConfigError(
            f"the suffix of an exported policy says its format: {known}; got {str(path)!r}"
        )
    if path.is_dir():
        raise ConfigError(f"{str(path)!r} is a folder; name a file")
    if not path.parent.is_dir():
        raise ConfigError(f"there is no folder {str(path.parent)!r} to write {path.name!r} to")
    return path


def _written(format: Format, job: Job, reference: Reference, path: Path) -> float | None:
    """Write a file and try it."""
    format.write(job, path)
    sample = draw(job.interface, ROWS, seed=1)
    parts = sample.rows(0, 1), sample
    try:
        answer = format.open(path, job.interface)
        if answer is None:
            return None
        given = [list(answer(part.inputs)) for part in parts]
    except (ExportError, OSError):
        raise
    # Foreign libraries, which fail in many ways.
    except Exception as error:
        raise ExportError(
            f"the {format.title} file was written, but what runs such files here can't run it: "
            f"{type(error).__name__}: {str(error).partition(chr(10))[0]}. It is not kept."
        ) from error
    greatest = max(
        reference.difference(part, each) for part, each in zip(parts, given, strict=True)
    )
    if greatest > TOLERANCE:
        raise ExportError(
            f"the {format.title} file doesn't do what the policy does: its answers to {ROWS} "
            f"random observations differ by up to {greatest:.2g}, where {TOLERANCE:g} is allowed. "
            f"Nothing was written. {_ADVICE}"
        )
    return greatest


_ADVICE = (
    "The forward of a network of your own may not depend on the values of tensors, nor be random; "
    "compare a policy_module of your own with act and environment_action of your policy. If "
    "neither is, please report it."
)


def _works(format: Format, job: Job, reference: Reference, path: Path, suffix: str) -> bool:
    try:
        _written(format, job, reference, path.with_suffix(suffix))
    except ExportError:
        return False
    return True
