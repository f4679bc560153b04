"""A policy on disk: one file that says itself what it is, read without running code.

It is MessagePack, as the other files of a run are, and any reader of that opens it: a map of
``fastloop_policy`` (the version of this format), ``sha256`` and ``policy``, which is what the
digest is of. Not safetensors: that would be one more library to install beside the network, and
its header holds text alone, while what describes a policy is nested.

Until FastLoop wrote this format, the best policy of a run was its bare parameters (`BareFile`);
they mean something beside the run's configuration only.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from fast_core.algorithm import Array, Backend, Precision
from fast_core.algorithm.spec import EnvironmentSpec, FieldSpec
from fast_core.config import RunConfig, Section
from fast_core.errors import CheckpointError
from fast_core.policy.file_checks import check_environment
from fast_core.system.decoding import check_levels, from_msgpack
from fast_core.system.durable import write_durably
from fast_core.system.installed import VERSION
from fast_core.system.regular_file import open_regular, read_large

FORMAT = 1
_BEGINNING = b"\x83\xaffastloop_policy"  # of every file of ours, a map of three


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """Where a policy comes from.

    Attributes:
        run: Name of the run and of its folder, ``name/time_seed``.
        source: ``best``, ``newest`` or the name of a checkpoint.
        version: Committed optimizer steps of its parameters.
        env_steps: Environment steps trained on when they were published.
        mean_return: Mean return of an evaluation of exactly these parameters, NaN without one.
        std_return: Standard deviation of its returns.
        fastloop: Version of FastLoop that wrote it.
    """

    run: str = ""
    source: str = ""
    version: int
    env_steps: int
    mean_return: float = math.nan
    std_return: float = math.nan
    fastloop: str = VERSION


class Parameter(msgspec.Struct, frozen=True):
    """One array of numbers of a policy.

    Attributes:
        name: As the algorithm's ``policy_fields`` calls it.
        shape: Its shape.
        dtype: ``float32``.
        data: The numbers in C order, little-endian.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    data: bytes

    @property
    def array(self) -> Array:
        """Its numbers; read-only."""
        return np.frombuffer(self.data, np.dtype(self.dtype).newbyteorder("<")).reshape(self.shape)


class PolicyFile(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that acting takes.

    Attributes:
        algorithm: Its configuration, as a run's ``algorithm`` has it; the name is in it.
        environment: What is observed and what acts: spaces, stacked frames, the action mask.
        parameters: What the network is made of, normalisation included.
        state_size: Numbers that it remembers from row to row, 0 without memory.
        backend: The library that it acted with in its run.
        precision: Of its forward pass.
        played: A run's ``environment``: what was trained in, to be played again.
        origin: Where it comes from.
    """

    algorithm: dict[str, Any]
    environment: EnvironmentSpec
    parameters: tuple[Parameter, ...]
    state_size: int = 0
    backend: Backend = "numpy"
    precision: Precision = "fp32"
    played: dict[str, Any] = {}
    origin: Origin

    def arrays(self) -> list[Array]:
        """The parameters; read-only."""
        return [each.array for each in self.parameters]


class BareFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What runs wrote before: parameters, as one vector, of one version."""

    version: int
    env_steps: int
    mean_return: float
    std_return: float
    parameters: bytes

    def origin(self, run: str = "") -> Origin:
        """Where it comes from."""
        return Origin(
            run=run,
            source=BEST,
            version=self.version,
            env_steps=self.env_steps,
            mean_return=self.mean_return,
            std_return=self.std_return,
            fastloop="",
        )


class _Format(msgspec.Struct):
    fastloop_policy: int


class _Envelope(msgspec.Struct):
    fastloop_policy: int
    sha256: bytes
    policy: msgspec.Raw


def describe(
    config: RunConfig, environment: EnvironmentSpec, parameters: Sequence[Array], origin: Origin
) -> PolicyFile:
    """The policy of a run.

    Args:
        config: The run's, resolved.
        environment: What it acts in.
        parameters: As the algorithm's ``policy_fields`` says.
        origin: Where it comes from.
    """
    fields: Sequence[FieldSpec] = config.algorithm.policy_fields(environment)
    backend, played = config.policy.backend, config.environment
    if played.pickled is not None:  # by its name alone: it is in the run, and stays there
        played = msgspec.structs.replace(played, pickled=Path(played.pickled).name)
    return PolicyFile(
        algorithm=plain(config.algorithm),
        environment=environment,
        parameters=tuple(
            Parameter(field.name, field.shape, "float32", array.astype("<f4").tobytes())
            for field, array in zip(fields, parameters, strict=True)
        ),
        state_size=config.algorithm.state_size(environment),
        backend=config.algorithm.policy_backend(environment) if backend == "auto" else backend,
        precision=config.policy.precision,
        played=plain(played),
        origin=origin,
    )


def plain(section: Section) -> dict[str, Any]:
    """Keys and values as they come back from a file; what no file can hold, by its name."""
    plain: dict[str, Any] = from_msgpack(msgspec.msgpack.encode(section, enc_hook=str))
    return plain


def write_policy(path: Path, policy: PolicyFile) -> None:
    """Write it whole and flushed to disk, or leave what was there.

    Raises:
        OSError: The disk is full, say.
    """
    inner = msgspec.msgpack.encode(policy, enc_hook=str)
    envelope = _Envelope(FORMAT, hashlib.sha256(inner).digest(), msgspec.Raw(inner))
    write_durably(path, msgspec.msgpack.encode(envelope))


def is_policy(path: Path) -> bool:
    """Whether a file begins as those that `write_policy` writes."""
    with open_regular(path) as file:
        return file.read(len(_BEGINNING)) == _BEGINNING


def read_origin(path: Path) -> Origin:
    """Where a policy comes from, whichever format it has; see `read_policy`."""
    found = read_policy(path)
    return found.origin if isinstance(found, PolicyFile) else found.origin()


def read_policy(path: Path) -> PolicyFile | BareFile:
    """Read what `write_policy` wrote, or a FastLoop of before.

    Raises:
        CheckpointError: It is missing, damaged, something else, or of a newer FastLoop.
    """
    try:
        data = read_large(path)
    except OSError as error:
        raise CheckpointError(f"can't read the policy in {path}: {error.strerror}") from error
    if not data.startswith(_BEGINNING):
        return _read_bare(path, data)
    try:
        written = from_msgpack(data, _Format).fastloop_policy
    except msgspec.MsgspecError as error:
        raise _damaged(path, f"{len(data)} bytes that end or go on where they must not") from error
    if written > FORMAT:
        raise CheckpointError(
            f"the policy in {path} has format {written}, this FastLoop ({VERSION}) reads up to "
            f"{FORMAT}. Load it with the FastLoop that wrote it, or a newer one."
        )
    if written < 1:
        raise _damaged(path, f"its format is {written}")
    try:
        envelope = from_msgpack(data, _Envelope)
        inner = memoryview(envelope.policy)
        if hashlib.sha256(inner).digest() != envelope.sha256:
            raise _damaged(path, "its contents differ from their SHA-256")
        policy = from_msgpack(inner, PolicyFile)
        check_levels((policy.algorithm, policy.played))
        return _whole(path, policy)
    except msgspec.MsgspecError as error:
        raise _damaged(path, str(error)) from error


def _whole(path: Path, policy: PolicyFile) -> PolicyFile:
    for each in policy.parameters:
        fits = min(each.shape, default=0) >= 0 and len(each.data) == 4 * math.prod(each.shape)
        if each.dtype != "float32" or not fits:
            what = f"{each.name!r} of shape {each.shape} and {each.dtype}"
            raise _damaged(path, f"{what} has {len(each.data)} bytes")
    try:
        check_environment(policy.environment)
    except ValueError as error:
        raise _damaged(path, str(error)) from error
    return policy


def _read_bare(path: Path, data: bytes) -> BareFile:
    try:
        return from_msgpack(data, BareFile)
    except msgspec.MsgspecError as error:
        what = "it is empty" if not data else f"it begins with {data[:8]!r}"
        raise CheckpointError(
            f"can't read the policy in {path}: it is no policy of FastLoop, or damaged; {what}. "
            "Name a file that load_policy(...).save wrote, a run or one of its checkpoints."
        ) from error


def _damaged(path: Path, how: str) -> CheckpointError:
    return CheckpointError(
        f"can't read the policy in {path}: the file is damaged ({how}). Copy it again from where "
        "it came from."
    )


# --- the best one of a run ------------------------------------------------------------------------

BEST = "best"


def best_name(environment: str | None = None) -> str:
    """What the best policy is called; that in one of ``evaluation.environments``."""
    return BEST if environment is None else f"{BEST}-{environment}"


def best_policy_path(run_directory: str | Path, environment: str | None = None) -> Path:
    """Where the best evaluated policy of a run lies; that in one of ``evaluation.environments``."""
    name = "best-policy" if environment is None else f"best-policy-{environment}"
    return Path(run_directory) / "checkpoints" / f"{name}.msgpack"


class BestPolicy:
    """Keeps the policy with the highest evaluated mean return, across resumed runs too."""

    def __init__(self, path: Path) -> None:
        """``path`` may hold the best policy of an earlier part of the run."""
        self._path = path
        self._best = read_origin(path).mean_return if path.exists() else float("-inf")
        self._unwritten: PolicyFile | None = None

    def offer(self, policy: PolicyFile) -> bool:
        """Keep ``policy``, if nothing better was evaluated, for `write`; True when it is kept."""
        if not policy.origin.mean_return >= self._best:
            return False
        self._best, self._unwritten = policy.origin.mean_return, policy
        return True

    def write(self) -> None:
        """Write the best policy unless it is written.

        Raises:
            OSError: The disk is full, say; to be tried again.
        """
        if self._unwritten is not None:
            write_policy(self._path, self._unwritten)
            self._unwritten = None
