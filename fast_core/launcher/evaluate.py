"""Playing a trained policy: what `fastloop eval` does, in this process, without torch if it can."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import numpy as np

from fast_core.envs.episodes import EpisodeRunner
from fast_core.envs.probe import probe
from fast_core.errors import CheckpointError
from fast_core.launcher.checkpoints import check, complete_names
from fast_core.launcher.prepare import make_plan
from fast_core.launcher.run import load_run_config
from fast_core.monitor.run_directory import RunDirectory
from fast_core.nodes.actor import Actor
from fast_core.nodes.learner_file import load
from fast_core.nodes.optimizer import LEARNER_FILE
from fast_core.nodes.policy_file import PolicyFile, best_policy_path, read_policy
from fast_core.plan import RunPlan
from fast_core.run_memory import ParameterPack
from fast_core.threads import default_threads, set_threads


def evaluate_run(path: Path, episodes: int | None) -> int:
    """Play a run's best evaluated policy, or its newest, and print the result as one JSON object.

    Without exploration, on the episodes that the run's own evaluations used, so the first
    ``evaluation.episodes`` of them repeat the mean that is on record.

    Raises:
        FastLoopError: The run has neither, or its environment can't be made.
    """
    run = RunDirectory.open(path)
    config = load_run_config(run, [])
    environment = probe(config.environment, config.seed)
    plan = make_plan(config, environment, str(run.path), None, None)
    set_threads(default_threads())  # as in a node, so that the recorded mean comes out again
    saved, source = _policy(plan, run)
    policy = plan.blueprint.make_policy(environment, plan.policy_setup())
    pack = ParameterPack(plan.blueprint.policy_fields(environment))
    policy.load(pack.views(np.frombuffer(saved.parameters, np.float32)))
    count, envs = episodes or config.evaluation.episodes, config.evaluation.envs
    actor = Actor(plan, policy, envs)
    runner = EpisodeRunner(
        config.environment,
        episodes=count,
        envs=envs,
        seed=config.seed,
        max_episode_steps=config.evaluation.max_episode_steps,
    )
    try:
        while runner.step(actor):
            pass
    finally:
        runner.close()
    result = {
        "run": str(run.path),
        "policy": source,
        "episodes": count,
        "return_mean": float(np.mean(runner.returns)),
        "return_std": float(np.std(runner.returns)),
        "return_min": float(np.min(runner.returns)),
        "return_max": float(np.max(runner.returns)),
        "length_mean": float(np.mean(runner.lengths)),
        "episodes_cut": runner.cut,
        "version": saved.version,
        "env_steps": saved.env_steps,
    }
    print(json.dumps(result))
    return 0


def _policy(plan: RunPlan, run: RunDirectory) -> tuple[PolicyFile, str]:
    """The parameters to play and which they are: ``best`` or ``newest``."""
    path = best_policy_path(run.path)
    if path.exists():
        found, source = read_policy(path), "best"
    else:
        found, source = _newest(plan, run), "newest"
    expected = ParameterPack(plan.blueprint.policy_fields(plan.environment)).nbytes
    if len(found.parameters) != expected:
        raise CheckpointError(
            f"the policy of {run.path} has {len(found.parameters)} bytes, its configuration wants "
            f"{expected}; was config.yaml edited?"
        )
    return found, source


def _newest(plan: RunPlan, run: RunDirectory) -> PolicyFile:
    """The policy of the newest whole checkpoint; nothing is renamed, the run may be training."""
    for name in reversed(complete_names(run.checkpoints)):
        try:
            manifest = check(run.checkpoints / name)
            state = load(run.checkpoints / name / LEARNER_FILE)["algorithm"]
        except CheckpointError:
            continue
        learner = plan.blueprint.make_algorithm(plan.environment, plan.learner_setup)
        learner.load_state_dict(cast("dict[str, object]", state))
        pack = ParameterPack(plan.blueprint.policy_fields(plan.environment))
        flat = pack.empty()
        pack.pack(learner.policy_parameters(), flat)
        nan = float("nan")
        return PolicyFile(manifest.version, manifest.env_steps, nan, nan, flat.tobytes())
    raise CheckpointError(
        f"run {str(run.path)!r} has neither an evaluated policy nor a whole checkpoint yet"
    )
