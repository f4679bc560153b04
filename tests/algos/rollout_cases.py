"""Small environments for learners from rollouts, learners in them, and what policies collect."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from fast_core.algorithm import Algorithm, LearnerSetup, PolicySetup, RolloutBatch
from fast_core.algorithm.spec import EnvironmentSpec, SpaceSpec
from fast_core.algos.rollouts.config import ActorCriticConfig
from fast_core.testing.samples import rollouts


def box(size: int, low: float = -math.inf, high: float = math.inf) -> SpaceSpec:
    return SpaceSpec("box", (size,), "float32", low=(low,) * size, high=(high,) * size)


def make_environment(
    *, actions: int = 2, continuous: bool = False, observation: SpaceSpec | None = None
) -> EnvironmentSpec:
    discrete = SpaceSpec("discrete", (), "int64", n=actions)
    action = box(actions, -1.0, 1.0) if continuous else discrete
    return EnvironmentSpec("Test-v0", observation or box(3), action)


def make_learner(
    config: ActorCriticConfig, environment: EnvironmentSpec, *, seed: int = 0, rows: int = 64
) -> Any:
    setup = LearnerSetup(seed=seed, shards=2, envs_per_shard=4, steps=rows // 8)
    return config.make_algorithm(environment, setup)


def make_batch(
    config: ActorCriticConfig,
    environment: EnvironmentSpec,
    learner: Algorithm,
    *,
    steps: int = 8,
    shards: tuple[int, ...] = (0, 1),
    envs: int = 4,
    seed: int = 0,
    progress: float = 0.0,
) -> RolloutBatch:
    policy = config.make_policy(environment, PolicySetup(config.policy_backend(environment)))
    policy.load(learner.policy_parameters())
    batch = rollouts(config, environment, policy, LearnerSetup(0, len(shards), envs, steps), seed)
    return replace(batch, env_steps=0, progress=progress, version=0)


def begun(
    config: ActorCriticConfig, environment: EnvironmentSpec | None = None
) -> tuple[Any, RolloutBatch]:
    """A learner, and the first rows of its own policy."""
    environment = environment or make_environment()
    learner = make_learner(config, environment)
    return learner, make_batch(config, environment, learner)
