"""What a new run begins with in place of first values (``policy.from``), as one file of its own.

The file is written when the run is launched and stays in its directory, so that the run can be
resumed from its first moment, and run again, whatever becomes of what it was taken from.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from fast_core.algorithm import ORIGIN
from fast_core.algorithm.spec import EnvironmentSpec, differences
from fast_core.config import AlgorithmConfig
from fast_core.errors import CheckpointError, ConfigError
from fast_core.monitor.checkpoint_files import LEARNER_FILE, MANIFEST, check, complete_names
from fast_core.monitor.run_directory import RunDirectory
from fast_core.policy.file import Parameter, PolicyFile, best_policy_path, plain, read_policy
from fast_core.system.decoding import check_levels, from_msgpack
from fast_core.system.durable import write_durably
from fast_core.system.regular_file import read_large
from fast_core.system.surroundings import expanded

# Keys that say what a network is; what is left open (null, auto) its parameters say.
_NETWORK = (
    "network",
    "network_kwargs",
    "hidden_sizes",
    "activation",
    "layer_norm",
    "shared_torso",
    "recurrent",
    "recurrent_size",
    "normalize_observations",
    "normalize_actions",
)
_OPEN = (None, "auto")


class FirstValues(msgspec.Struct, frozen=True, kw_only=True):
    """What was learned elsewhere.

    Attributes:
        source: The checkpoint or file that it is from.
        version: Optimizer steps behind it.
        env_steps: Environment steps that it was trained on.
        algorithm: Configuration of the algorithm that learned it.
        environment: What that acted in, None where a checkpoint does not say.
        learner: The learner's file of a checkpoint; empty where there is only a policy.
        parameters: Those of a policy.
    """

    source: str
    version: int
    env_steps: int
    algorithm: dict[str, Any]
    environment: EnvironmentSpec | None = None
    learner: bytes = b""
    parameters: tuple[Parameter, ...] = ()


class _Saved(msgspec.Struct):
    """The part of a learner's file that says where it learned."""

    environment: EnvironmentSpec | None = None


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """What ``policy.loaded`` says: where the file lies, its digest, and what it is of.

    Attributes:
        begins_from: The ``policy.from`` that it stands for.
        file: The run's own copy.
        sha256: Of that file, as text.
        source: See `FirstValues`.
        version: See `FirstValues`.
        env_steps: See `FirstValues`.
    """

    begins_from: str = msgspec.field(name="from")
    file: str
    sha256: str
    source: str
    version: int
    env_steps: int


def take_start(named: str, recorded: dict[str, Any] | None, file: Path) -> Loaded:
    """Write what ``policy.from`` names into a file of the run.

    Args:
        named: The ``policy.from``.
        recorded: The `Loaded` of a run that began with the same, whose file is taken then.
        file: The file.

    Raises:
        FastLoopError: There is no such thing, it is damaged, or can't be written.
    """
    if recorded is None:
        start = find_start(named)
        data = msgspec.msgpack.encode(start)
    else:
        start, data = read_start(recorded)
    try:
        write_durably(file, data)
    except OSError as error:
        raise ConfigError(
            f"policy.from {named!r} can't be copied into the run: {error.strerror or error}."
        ) from error
    return Loaded(
        begins_from=named,
        file=str(file),
        sha256=hashlib.sha256(data).hexdigest(),
        source=start.source,
        version=start.version,
        env_steps=start.env_steps,
    )


def find_start(named: str) -> FirstValues:
    """Read what ``policy.from`` names.

    Raises:
        FastLoopError: There is no such thing, or it is damaged.
    """
    path = expanded(named, "policy.from").absolute()
    if path.is_dir():
        return _of_folder(path)
    if not path.exists():
        raise ConfigError(
            f"policy.from {named!r}: there is no such file or folder. Name a run's directory, one "
            "of its checkpoints, or a policy's file."
        )
    found = read_policy(path)
    if not isinstance(found, PolicyFile):
        raise ConfigError(
            f"policy.from {named!r} is bare parameters of a FastLoop of before. Name its run, or "
            "save it anew: load_policy(RUN).save(FILE)."
        )
    return _of_policy(found, str(path))


def _of_policy(policy: PolicyFile, source: str) -> FirstValues:
    return FirstValues(
        source=source,
        version=policy.origin.version,
        env_steps=policy.origin.env_steps,
        algorithm=policy.algorithm,
        environment=policy.environment,
        parameters=policy.parameters,
    )


def _of_folder(path: Path) -> FirstValues:
    """All networks of a run's newest whole checkpoint; without one its best policy."""
    only = None
    if (path / MANIFEST).is_file() and not (path / "config.yaml").is_file():
        path, only = path.parent.parent, path.name
    run = RunDirectory.open(path)
    names = complete_names(run.checkpoints) if only is None else [only]
    for name in reversed(names):
        folder = run.checkpoints / name
        try:
            manifest = check(folder, only=(LEARNER_FILE,))
        except CheckpointError:
            if only is not None:
                raise
            continue
        learner = read_large(folder / LEARNER_FILE)
        return FirstValues(
            source=str(folder),
            version=manifest.version,
            env_steps=manifest.env_steps,
            algorithm=_algorithm(run),
            environment=_environment(learner, run),
            learner=learner,
        )
    best = _best(run)
    if best is None:
        raise CheckpointError(
            f"policy.from: run {str(run.path)!r} has neither a whole checkpoint nor an evaluated "
            "policy to begin from."
        )
    return _of_policy(best, str(best_policy_path(run.path)))


def _algorithm(run: RunDirectory) -> dict[str, Any]:
    """The algorithm's configuration as it stands there: nothing that it names is imported."""
    # here, because it imports YAML, which nodes do without
    from fast_core.config import file as config_file
    from fast_core.config import yaml_text

    tree = yaml_text.parse(config_file.read_text(run.config), str(run.config)).tree
    found = tree.get("algorithm")
    return found if isinstance(found, dict) else {}


def _environment(learner: bytes, run: RunDirectory) -> EnvironmentSpec | None:
    """What a learner's file says, or where a FastLoop of before wrote it, the best policy's."""
    with contextlib.suppress(msgspec.MsgspecError):
        if (found := from_msgpack(learner, _Saved).environment) is not None:
            return found
    best = _best(run)
    return None if best is None else best.environment


def _best(run: RunDirectory) -> PolicyFile | None:
    with contextlib.suppress(CheckpointError):  # none, or a damaged one
        found = read_policy(best_policy_path(run.path))
        return found if isinstance(found, PolicyFile) else None
    return None


def read_start(recorded: dict[str, Any]) -> tuple[FirstValues, bytes]:
    """What a run was launched with, and the bytes of its file; ``recorded`` is a `Loaded`.

    Raises:
        CheckpointError: It is not there, or another one.
    """
    try:
        loaded = msgspec.convert(recorded, Loaded)
    except msgspec.ValidationError as error:
        raise CheckpointError(
            f"policy.loaded is not what FastLoop writes there: {error}. Leave it out."
        ) from error
    try:
        data = read_large(Path(loaded.file))
    except OSError as error:
        raise CheckpointError(
            f"the networks that this run begins from can't be read: {loaded.file}: "
            f"{error.strerror}. They were in its directory when it was launched."
        ) from error
    if hashlib.sha256(data).hexdigest() != loaded.sha256:
        raise CheckpointError(
            f"{loaded.file} is not what the run was launched with: its SHA-256 is another. Copy "
            "the run's directory again from where it came from."
        )
    try:
        start = from_msgpack(data, FirstValues)
        check_levels(start.algorithm)
    except msgspec.MsgspecError as error:
        raise CheckpointError(f"{loaded.file} is damaged: {error}") from error
    return start, data


def check_start(
    start: FirstValues, algorithm: AlgorithmConfig, environment: EnvironmentSpec
) -> None:
    """Check that spaces and policies are equal.

    Raises:
        ConfigError: They are not; it names what differs.
    """
    found = [] if start.environment is None else [differences(start.environment, environment)]
    learned, own = {**algorithm.came_later, **start.algorithm}, plain(algorithm)
    for key in _NETWORK:
        there, here = learned.get(key), own.get(key)
        if there not in _OPEN and here not in _OPEN and there != here:
            found.append(f"algorithm.{key} {there!r}, not {here!r}")
    if not start.learner:
        fields = {field.name: field.shape for field in algorithm.policy_fields(environment)}
        given = {each.name: each.shape for each in start.parameters}
        if (ORIGIN in given) != (ORIGIN in fields):
            found.append(f"algorithm.center_observations {ORIGIN in given}, not {ORIGIN in fields}")
        found.append(other_shapes(given, fields))
    if said := "; ".join(filter(None, found)):
        raise ConfigError(differing(start, said))


def differing(start: FirstValues, said: str) -> str:
    """What keeps a run from beginning from ``start``, and what to do."""
    return (
        f"policy.from takes what was learned with equal spaces and an equal network; "
        f"{start.source!r} has {said}. Give this run the same, or leave policy.from out."
    )


def other_shapes(there: Mapping[str, tuple[int, ...]], here: Mapping[str, tuple[int, ...]]) -> str:
    """In which arrays, by their names, two networks differ; empty if in none."""
    return "; ".join(
        f"parameter {name!r} of shape {there.get(name, 'none')}, not {here.get(name, 'none')}"
        for name in {**there, **here}
        if there.get(name) != here.get(name)
    )
