"""A trained policy out of a run directory, ready to act in this process."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import numpy as np

from fast_core.algorithm import Policy
from fast_core.config import RunConfig
from fast_core.envs.probe import probe
from fast_core.errors import CheckpointError
from fast_core.launcher.checkpoints.store import check, complete_names
from fast_core.launcher.prepare import make_plan
from fast_core.launcher.run import load_run_config
from fast_core.monitor.run_directory import RunDirectory
from fast_core.nodes.act.policy_file import PolicyFile, best_policy_path, read_policy
from fast_core.nodes.contract import make_policy
from fast_core.nodes.learn.learner_file import load
from fast_core.nodes.learn.learning import LEARNER_FILE
from fast_core.run.parameters import ParameterPack
from fast_core.run.plan import RunPlan
from fast_core.system import threads

BEST, NEWEST = "best", "newest"


@dataclass(frozen=True)
class Trained:
    """A policy and where it comes from.

    Attributes:
        run: The run's directory.
        plan: The run's plan, without a checkpoint to continue from.
        policy: Acts on rows of ``plan.environment``.
        file: Its parameters and the version they are of.
        source: ``best``, ``newest`` or the name of a checkpoint.
    """

    run: RunDirectory
    plan: RunPlan
    policy: Policy
    file: PolicyFile
    source: str

    @property
    def config(self) -> RunConfig:
        """The run's configuration."""
        return self.plan.config


def load_trained(path: Path, checkpoint: str | None) -> Trained:
    """Load a policy of the run at ``path``, on the CPU and with the threads of a node.

    Args:
        path: Run directory, or the folder of a name's runs.
        checkpoint: ``best``, ``best-NAME`` (in one of ``evaluation.environments``), ``newest`` or a
            name under ``checkpoints``; None takes the best one if there is any.

    Raises:
        FastLoopError: The run has no such policy, or its environment can't be made.
    """
    for name, value in threads.ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    run = RunDirectory.open(path)
    config = load_run_config(run, [])
    environment = probe(config.environment, config.seed)
    plan = make_plan(config, environment, str(run.path), None, None)
    # As in a node, so that the recorded mean comes out again.
    threads.set_threads(threads.default_threads())
    found, source = _choose(plan, run, checkpoint)
    pack = ParameterPack(plan.blueprint.policy_fields(environment))
    if len(found.parameters) != pack.nbytes:
        raise CheckpointError(
            f"the policy of {run.path} has {len(found.parameters)} bytes, its configuration wants "
            f"{pack.nbytes}; was config.yaml edited?"
        )
    policy = make_policy(plan, plan.policy_setup())
    policy.load(pack.views(np.frombuffer(found.parameters, np.float32)))
    return Trained(run, plan, policy, found, source)


def _choose(plan: RunPlan, run: RunDirectory, checkpoint: str | None) -> tuple[PolicyFile, str]:
    """The parameters to play, and which they are."""
    best = best_policy_path(run.path)
    elsewhere = {f"{BEST}-{name}": name for name in plan.config.evaluation.environments}
    if checkpoint in elsewhere:
        return read_policy(best_policy_path(run.path, elsewhere[checkpoint])), checkpoint
    if checkpoint == BEST or (checkpoint is None and best.exists()):
        if not best.exists():
            raise CheckpointError(
                f"run {str(run.path)!r} keeps no best policy: none was evaluated, or "
                f"checkpoint.best is false. {_offer(run)}"
            )
        return read_policy(best), BEST
    if checkpoint is None or checkpoint == NEWEST:
        return _newest(plan, run), NEWEST
    name = Path(checkpoint).name  # a path is as good
    if name not in complete_names(run.checkpoints):
        raise CheckpointError(f"run {str(run.path)!r} has no checkpoint {name!r}. {_offer(run)}")
    return _read(plan, run, name), name


def _offer(run: RunDirectory) -> str:
    names = complete_names(run.checkpoints)
    if best_policy_path(run.path).exists():
        names.append(BEST)
    others = load_run_config(run, []).evaluation.environments
    names += [f"{BEST}-{name}" for name in others if best_policy_path(run.path, name).exists()]
    return f"It has {', '.join(names)}." if names else "It has none at all yet."


def _newest(plan: RunPlan, run: RunDirectory) -> PolicyFile:
    """The policy of the newest whole checkpoint; nothing is renamed, the run may be training."""
    for name in reversed(complete_names(run.checkpoints)):
        try:
            return _read(plan, run, name)
        except CheckpointError:
            continue
    raise CheckpointError(
        f"run {str(run.path)!r} has neither an evaluated policy nor a whole checkpoint yet"
    )


def _read(plan: RunPlan, run: RunDirectory, name: str) -> PolicyFile:
    """The policy of one checkpoint.

    Raises:
        CheckpointError: It is damaged.
    """
    manifest = check(run.checkpoints / name, only=(LEARNER_FILE,))
    state = load(run.checkpoints / name / LEARNER_FILE)["algorithm"]
    setup = replace(plan.learner_setup, device="cpu", compile=False)  # whatever it trained on
    learner = plan.blueprint.make_algorithm(plan.environment, setup)
    learner.load_state_dict(cast("dict[str, object]", state))
    pack = ParameterPack(plan.blueprint.policy_fields(plan.environment))
    flat = pack.empty()
    pack.pack(learner.policy_parameters(), flat)
    nan = float("nan")
    return PolicyFile(manifest.version, manifest.env_steps, nan, nan, flat.tobytes())
