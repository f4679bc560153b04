from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

import numpy as np
import pytest

from fast_core.algorithm import (
    Algorithm,
    LearnerSetup,
    Policy,
    PolicySetup,
    RolloutBatch,
    ShardRollout,
)
from fast_core.algos.ppo.config import PPOConfig
from fast_core.spec import EnvironmentSpec, SpaceSpec

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


def draw_noise(
    config: PPOConfig, environment: EnvironmentSpec, rows: int, rng: np.random.Generator
) -> np.ndarray:
    spec = config.noise(environment)
    shape = (rows, *spec.shape)
    noise = rng.random(shape) if spec.kind == "uniform" else rng.normal(size=shape)
    return noise.astype(np.float32)


def draw_obs(environment: EnvironmentSpec, shape: tuple[int, ...], rng) -> np.ndarray:
    return draw_rows(environment.observation, shape, rng)


def draw_rows(space: SpaceSpec, shape: tuple[int, ...], rng) -> np.ndarray:
    if space.kind == "composite":
        rows = np.zeros(shape, space.row_dtype)
        for name, part in space.parts:
            rows[name] = draw_rows(part, shape, rng)
        return rows
    if space.kind == "multi_discrete":
        return rng.integers(0, space.counts, (*shape, *space.shape)).astype(space.dtype)
    if space.kind == "discrete":
        return rng.integers(space.start, space.start + space.n, shape).astype(space.dtype)
    if space.dtype == "uint8":
        return rng.integers(0, 256, (*shape, *space.shape), dtype=np.uint8)
    return rng.normal(1.0, 2.0, (*shape, *space.shape)).astype(space.dtype)


def collect(
    config: PPOConfig,
    environment: EnvironmentSpec,
    policy: Policy,
    *,
    shard: int,
    steps: int,
    envs: int,
    rng: np.random.Generator,
) -> ShardRollout:
    """Act on random observations, with random rewards and ends of episodes."""
    obs = draw_obs(environment, (steps + 1, envs), rng)
    field = config.action_field(environment)
    action = np.empty((steps, envs, *field.shape), field.dtype)
    log_prob = np.empty((steps, envs), np.float32)
    for t in range(steps):
        noise = draw_noise(config, environment, envs, rng)
        action[t], log_prob[t] = policy.act(obs[t], noise=noise, explore=True)[:2]
    return ShardRollout(
        shard=shard,
        rollout_id=0,
        policy_version=np.zeros((steps, envs), np.int64),
        obs=obs,
        action=action,
        behaviour_log_prob=log_prob,
        reward=rng.normal(size=(steps, envs)).astype(np.float32),
        terminated=rng.random((steps, envs)) < 0.1,
        truncated=rng.random((steps, envs)) < 0.1,
        final_obs=draw_obs(environment, (steps, envs), rng),
    )


@pytest.fixture
def make_batch() -> MakeBatch:
    def make(config, environment, learner, *, steps=8, shards=(0, 1), envs=4, seed=0, progress=0.0):
        rng = np.random.default_rng(seed)
        policy = config.make_policy(environment, PolicySetup(config.policy_backend(environment)))
        policy.load(learner.policy_parameters())
        rollouts = [
            collect(config, environment, policy, shard=s, steps=steps, envs=envs, rng=rng)
            for s in shards
        ]
        return RolloutBatch(tuple(rollouts), env_steps=0, progress=progress)

    return make


@pytest.fixture
def make_learner():
    def make(config: PPOConfig, environment: EnvironmentSpec, *, seed: int = 0, rows: int = 64):
        setup = LearnerSetup(seed=seed, shards=2, envs_per_shard=4, steps=rows // 8)
        return config.make_algorithm(environment, setup)

    return make
