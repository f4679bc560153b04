"""Finding a policy: in a file, a checkpoint or a run."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import msgspec
import numpy as np

from fast_core.algorithm import Array
from fast_core.algorithm.parameters import ParameterPack
from fast_core.algorithm.spec import EnvironmentSpec
from fast_core.config import RunConfig, schema
from fast_core.config.algorithms import algorithm_config_type
from fast_core.errors import CheckpointError, ConfigError
from fast_core.monitor.checkpoint_files import LEARNER_FILE, MANIFEST, check, complete_names
from fast_core.monitor.run_directory import RunDirectory, listing
from fast_core.policy.file import (
    BEST,
    BareFile,
    Origin,
    PolicyFile,
    best_name,
    best_policy_path,
    describe,
    read_policy,
)
from fast_core.policy.file_checks import check_code, code_of_algorithm
from fast_core.policy.policy import Nonfinite, Policy
from fast_core.system.seeding import generators_kept
from fast_core.system.state_file import MADE_UP, load
from fast_core.system.surroundings import expanded, variables_kept
from fast_core.system.text import error_text

NEWEST = "newest"
_ALONE = ("evaluation.environments={}", "evaluation.score_on=null")


def load_policy(
    source: str | os.PathLike[str],
    device: str = "cpu",
    *,
    checkpoint: str | None = None,
    seed: int = 0,
    nonfinite: Nonfinite = "fail",
    modules: Sequence[str] = (),
    simulations: int | None = None,
) -> Policy:
    """Load a trained policy, ready to act in this process.

    A file, and the best policy of a run, need neither the simulator nor a process, and torch only
    where the network computes in it. What a FastLoop of before wrote, and checkpoints, are read
    through the run's configuration; a checkpoint's learner may need torch.

    Args:
        source: A file that `Policy.save` wrote; a run's directory, or ``<directory>/<name>`` for
            its newest run; or one of its checkpoints.
        device: Torch device.
        checkpoint: Which policy of a run: ``best``, ``best-NAME`` (in one of
            ``evaluation.environments``), ``newest`` or a name under ``checkpoints``; None takes the
            best one (that in ``evaluation.score_on``) if there is any, else the newest.
        seed: Of actions with ``deterministic=False``.
        nonfinite: What the policy does with NaN and infinity in observations: ``fail`` raises,
            ``act`` acts on what the network makes of them; see `Policy.__call__`.
        modules: Modules of others that a file may import, with all that lies below them: those of
            an algorithm or network of one's own. What a run names is imported in any case.
        simulations: Of each search, where it plans (muzero); None: as many as its run had.

    Raises:
        CheckpointError: There is no such policy, or it is damaged.
        ConfigError: There is no such run or file, or nothing is searched.
        PolicyError: It can't compute on this device.
    """
    if not isinstance(source, str | os.PathLike):
        raise ConfigError(
            f"load_policy takes the path of a run, a checkpoint or a file; got {source!r}."
        )
    path = expanded(os.fspath(source), "the policy").absolute()
    run: Path | None
    if path.is_dir():
        file, run, where = _of_folder(path, checkpoint)
    elif checkpoint is not None:
        raise ConfigError(f"checkpoint={checkpoint!r} needs a run's directory; {path} is none")
    else:
        file, run, where = _of_file(path)
        named = code_of_algorithm(file.algorithm)
        check_code(f"the policy {where}", named, modules, CheckpointError)
    if simulations is not None:
        file = _searching(file, where, simulations)
    return Policy(
        file, where=where, device=device, seed=seed, nonfinite=nonfinite, run=run, modules=modules
    )


def _searching(file: PolicyFile, where: str, simulations: int) -> PolicyFile:
    """The same with so many simulations of each search."""
    algorithm = file.algorithm
    if "simulations" not in algorithm:
        raise ConfigError(
            f"simulations={simulations!r} is for policies that search, as muzero's do; the policy "
            f"{where} is of {algorithm['name']!r}. Leave it out."
        )
    fields = msgspec.structs.fields(algorithm_config_type(str(algorithm["name"])))
    kind = next(field.type for field in fields if field.name == "simulations")
    try:
        msgspec.convert(simulations, kind)
    except msgspec.ValidationError as error:
        wanted = schema.describe(msgspec.inspect.type_info(kind))
        raise ConfigError(f"simulations must be {wanted}; got {simulations!r}") from error
    return msgspec.structs.replace(file, algorithm={**algorithm, "simulations": simulations})


def _of_file(path: Path) -> tuple[PolicyFile, Path | None, str]:
    if not path.exists():
        folder = path.parent
        near = f"; {str(folder)!r} holds {listing(folder)}" if folder.is_dir() else ""
        raise ConfigError(
            f"no run and no policy at {str(path)!r}: no such file or folder{near}. Name a run's "
            "directory, one of its checkpoints, or a file that load_policy(...).save wrote."
        )
    found = read_policy(path)
    if isinstance(found, PolicyFile):
        return found, None, f"in {path}"
    run = path.parent.parent
    if not (run / "config.yaml").is_file():
        raise CheckpointError(
            f"the policy in {path} was written by a FastLoop of before: it is bare parameters, "
            "which only the configuration of their run explains. Load it in the folder of its run "
            "and save it anew: load_policy(RUN).save(FILE)."
        )
    return _explained(found, RunDirectory(run)), run, f"in {path}"


def _of_folder(path: Path, checkpoint: str | None) -> tuple[PolicyFile, Path, str]:
    if (path / MANIFEST).is_file() and not (path / "config.yaml").is_file():
        if checkpoint is not None:
            raise ConfigError(f"checkpoint={checkpoint!r} needs a run's directory; {path} is none")
        path, checkpoint = path.parent.parent, path.name
    run = RunDirectory.open(path, lambda run: _lacks(run, checkpoint))
    run.look_where_it_began()
    file = _chosen(run, checkpoint)
    return file, run.path, f"of {run.path}"


def _lacks(run: RunDirectory, checkpoint: str | None) -> str:
    """What a run lacks whose policy is asked for; see `RunDirectory.open`."""
    bests, names = _bests(run), complete_names(run.checkpoints)
    if checkpoint in (None, NEWEST):
        found = bool(names) or (checkpoint is None and BEST in bests)
    else:
        found = Path(str(checkpoint)).name in {*bests, *names}
    if found:
        return ""
    # here, because it imports YAML, which a policy file does without
    from fast_core.monitor.run_state import standing

    return f"no policy{'' if checkpoint is None else f' {checkpoint!r}'} ({standing(run)})"


def _chosen(run: RunDirectory, checkpoint: str | None) -> PolicyFile:
    bests = _bests(run)
    if checkpoint == BEST and not bests:
        raise CheckpointError(
            f"run {str(run.path)!r} keeps no best policy: none was evaluated, or "
            f"checkpoint.best is false. {_offer(run)}"
        )
    if best := bests.get(_best_of_all(run, bests) if checkpoint is None else checkpoint):
        found = read_policy(best)
        return found if isinstance(found, PolicyFile) else _explained(found, run)
    if checkpoint is None or checkpoint == NEWEST:
        return _newest(run)
    name = Path(str(checkpoint)).name  # a path is as good
    if name not in complete_names(run.checkpoints):
        raise CheckpointError(f"run {str(run.path)!r} has no checkpoint {name!r}. {_offer(run)}")
    return _of_checkpoint(run, name, name)


def _best_of_all(run: RunDirectory, bests: Collection[str]) -> str:
    """The name of the best policy, in the environment that the run's score is about."""
    if len(bests) > 1:
        # here, because it imports YAML, which a policy file does without
        from fast_core.config import file as config_file
        from fast_core.config import yaml_text

        tree = yaml_text.parse(config_file.read_text(run.config), str(run.config)).tree
        evaluation = tree.get("evaluation")
        score_on = evaluation.get("score_on") if isinstance(evaluation, dict) else None
        if (name := best_name(score_on)) in bests:
            return name
    return BEST


def _bests(run: RunDirectory) -> dict[str, Path]:
    """The best policy, and the best in each of ``evaluation.environments``, by their names."""
    main = best_policy_path(run.path)
    return {
        path.stem.replace(main.stem, BEST): path
        for path in sorted(main.parent.glob(f"{main.stem}*{main.suffix}"))
    }


def _offer(run: RunDirectory) -> str:
    names = [*complete_names(run.checkpoints), *_bests(run)]
    return f"It has {', '.join(names)}." if names else "It has none at all yet."


def _newest(run: RunDirectory) -> PolicyFile:
    """The policy of the newest whole checkpoint; nothing is renamed, the run may be training."""
    for name in reversed(complete_names(run.checkpoints)):
        try:
            return _of_checkpoint(run, name, NEWEST)
        except CheckpointError:
            continue
    raise CheckpointError(
        f"run {str(run.path)!r} has neither an evaluated policy nor a whole checkpoint yet"
    )


def _of_checkpoint(run: RunDirectory, name: str, source: str) -> PolicyFile:
    """The policy that a checkpoint's learner acts by.

    Raises:
        CheckpointError: It is damaged.
    """
    manifest = check(run.checkpoints / name, only=(LEARNER_FILE,))
    state = load(run.checkpoints / name / LEARNER_FILE)
    config = run_config(run.path)
    environment = _environment(run, config)
    setup = replace(config.learner_setup, device="cpu", compile=False)  # whatever it trained on
    learner = config.algorithm.make_algorithm(environment, setup)
    try:
        learner.load_state_dict(cast("dict[str, object]", state["algorithm"]))
    except MADE_UP as error:
        raise CheckpointError(
            f"the learner's state in checkpoint {name} of {run.path} is none of its algorithm "
            f"({error_text(error)})"
        ) from error
    pack = ParameterPack(config.algorithm.policy_fields(environment))
    flat = pack.empty()
    pack.pack(learner.policy_parameters(), flat)
    origin = Origin(
        run=_name(run, config),
        source=source,
        version=manifest.version,
        env_steps=manifest.env_steps,
    )
    return describe(config, environment, pack.views(flat), origin)


def _explained(bare: BareFile, run: RunDirectory) -> PolicyFile:
    """Bare parameters with what their run says of them."""
    config = run_config(run.path)
    environment = _environment(run, config)
    pack = ParameterPack(config.algorithm.policy_fields(environment))
    if len(bare.parameters) != pack.nbytes:
        raise CheckpointError(
            f"the policy of {run.path} has {len(bare.parameters)} bytes, its configuration wants "
            f"{pack.nbytes}; was config.yaml edited?"
        )
    flat: Array = np.frombuffer(bare.parameters, np.float32)
    return describe(config, environment, pack.views(flat), bare.origin(_name(run, config)))


def run_config(run: Path, overrides: list[str] | None = None, *, others: bool = False) -> RunConfig:
    """The resolved configuration of the run in a directory, with overrides.

    Without ``evaluation.environments``, unless the ``others`` are asked for: what is played in is
    ``environment`` as the overrides have it, which those need not fit.
    """
    # here, because it imports YAML, which a policy file does without
    from fast_core.config import file as config_file

    found = RunDirectory(run)
    found.look_where_it_began()
    changes = [*(() if others else _ALONE), *(overrides or [])]
    return config_file.load(found.config, changes, algorithm_config_type, resolved=True)


def _environment(run: RunDirectory, config: RunConfig) -> EnvironmentSpec:
    """What the run's best policy says of its environment; without one it is tried."""
    with contextlib.suppress(CheckpointError):  # none, or a damaged one
        found = read_policy(best_policy_path(run.path))
        if isinstance(found, PolicyFile):
            return found.environment
    # here, because it imports Gymnasium, which a policy file does without
    from fast_core.envs.place import VARIABLES
    from fast_core.envs.trying.probe import probe

    with generators_kept(), variables_kept(VARIABLES):  # making an environment changes them
        return config.algorithm.examine(probe(config.environment, config.seed))


def _name(run: RunDirectory, config: RunConfig) -> str:
    return f"{config.name}/{run.path.name}"
