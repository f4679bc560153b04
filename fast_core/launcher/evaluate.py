"""Playing a trained policy: what `fastloop eval` does, in this process, without torch if it can."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from fast_core.envs.episodes import EpisodeRunner
from fast_core.envs.probe import probe
from fast_core.errors import CheckpointError
from fast_core.launcher.prepare import make_plan
from fast_core.launcher.run import load_run_config
from fast_core.monitor.run_directory import RunDirectory
from fast_core.nodes.policy_file import best_policy_path, read_policy
from fast_core.run_memory import ParameterPack


def evaluate_run(path: Path, episodes: int | None) -> int:
    """Play the best evaluated policy of a run and print the result as one JSON object.

    Without exploration, on the episodes that the run's own evaluations used, so the first
    ``evaluation.episodes`` of them repeat the mean that is on record.

    Raises:
        FastLoopError: The run has no evaluated policy, or its environment can't be made.
    """
    run = RunDirectory.open(path)
    config = load_run_config(run, [])
    saved = best_policy_path(run.path)
    if not saved.exists():
        raise CheckpointError(
            f"run {str(run.path)!r} has no evaluated policy yet; it is written after the first "
            "evaluation (evaluation.every_env_steps, checkpoint.best)"
        )
    policy_file = read_policy(saved)
    environment = probe(config.environment, config.seed)
    plan = make_plan(config, environment, str(run.path), None, None)
    pack = ParameterPack(plan.blueprint.policy_fields(environment))
    if len(policy_file.parameters) != pack.nbytes:
        raise CheckpointError(
            f"the policy in {saved} has {len(policy_file.parameters)} bytes, the configuration "
            f"of the run wants {pack.nbytes}; was config.yaml edited?"
        )
    policy = plan.blueprint.make_policy(environment, plan.backend)
    policy.load(pack.views(np.frombuffer(policy_file.parameters, np.float32)))
    count, envs = episodes or config.evaluation.episodes, config.evaluation.envs
    noise = np.zeros((envs, *plan.blueprint.noise(environment).shape), np.float32)
    runner = EpisodeRunner(config.environment, episodes=count, envs=envs, seed=config.seed)
    try:
        while runner.step(
            lambda obs: policy.environment_action(
                policy.act(obs, noise=noise, explore=False).action
            )
        ):
            pass
    finally:
        runner.close()
    result = {
        "run": str(run.path),
        "episodes": count,
        "return_mean": float(np.mean(runner.returns)),
        "return_std": float(np.std(runner.returns)),
        "return_min": float(np.min(runner.returns)),
        "return_max": float(np.max(runner.returns)),
        "length_mean": float(np.mean(runner.lengths)),
        "version": policy_file.version,
        "env_steps": policy_file.env_steps,
    }
    print(json.dumps(result))
    return 0
