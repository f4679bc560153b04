from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

import pytest

from fast_core.algorithm import (
    Algorithm,
    LearnerSetup,
    PolicySetup,
    RolloutBatch,
)
from fast_core.algorithm.spec import EnvironmentSpec, SpaceSpec
from fast_core.algos.ppo.config import PPOConfig
from fast_core.testing.samples import rollouts

MakeEnvironment = Callable[..., EnvironmentSpec]


class MakeBatch(Protocol):
    def __call__(
        self,
        config: PPOConfig,
        environment: EnvironmentSpec,
        learner: Algorithm,
        *,
        steps: int = 8,
        shards: tuple[int, ...] = (0, 1),
        envs: int = 4,
        seed: int = 0,
        progress: float = 0.0,
    ) -> RolloutBatch: ...


def box(size: int, low: float = -math.inf, high: float = math.inf) -> SpaceSpec:
    return SpaceSpec("box", (size,), "float32", low=(low,) * size, high=(high,) * size)


@pytest.fixture
def make_environment() -> MakeEnvironment:
    def make(
        *, actions: int = 2, continuous: bool = False, observation: SpaceSpec | None = None
    ) -> EnvironmentSpec:
        discrete = SpaceSpec("discrete", (), "int64", n=actions)
        return EnvironmentSpec(
            id="Test-v0",
            observation=observation or box(3),
            action=box(actions, -1.0, 1.0) if continuous else discrete,
        )

    return make


@pytest.fixture
def make_batch() -> MakeBatch:
    def make(config, environment, learner, *, steps=8, shards=(0, 1), envs=4, seed=0, progress=0.0):
        policy = config.make_policy(environment, PolicySetup(config.policy_backend(environment)))
        policy.load(learner.policy_parameters())
        setup = LearnerSetup(0, len(shards), envs, steps)
        batch = rollouts(config, environment, policy, setup, seed)
        return replace(batch, env_steps=0, progress=progress, version=0)

    return make


@pytest.fixture
def make_learner():
    def make(config: PPOConfig, environment: EnvironmentSpec, *, seed: int = 0, rows: int = 64):
        setup = LearnerSetup(seed=seed, shards=2, envs_per_shard=4, steps=rows // 8)
        return config.make_algorithm(environment, setup)

    return make
