"""Small environments for learners from rollouts, learners in them, and what policies collect."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from fast_core.algorithm import Algorithm, LearnerSetup, Policy, PolicySetup, RolloutBatch
from fast_core.algorithm.spec import EnvironmentSpec, SpaceSpec
from fast_core.algos.rollouts.config import ActorCriticConfig
from fast_core.algos.rollouts.merged import FrameRoom, merge
from fast_core.testing.samples import noise_of, rollouts


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


def policy_of(
    config: ActorCriticConfig, environment: EnvironmentSpec, learner: Algorithm
) -> Policy:
    policy = config.make_policy(environment, PolicySetup(config.policy_backend(environment)))
    policy.load(learner.policy_parameters())
    return policy


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
    policy, setup = (
        policy_of(config, environment, learner),
        LearnerSetup(0, len(shards), envs, steps),
    )
    batch = rollouts(config, environment, policy, setup, seed)
    return replace(batch, env_steps=0, progress=progress, version=0)


def paid(
    config: ActorCriticConfig,
    environment: EnvironmentSpec,
    learner: Algorithm,
    obs: Any,
    reward_of: Callable[[Any, Any], Any],
    seed: int = 0,
) -> RolloutBatch:
    """A round of episodes of one step each, in which the learner's policy acted on ``obs``."""
    steps, envs = len(obs) - 1, obs.shape[1]
    batch = make_batch(config, environment, learner, steps=steps, shards=(0,), envs=envs)
    first, rows = batch.rollouts[0], steps * envs
    noise = noise_of(config, environment, rows, np.random.default_rng((seed, 1)))
    seen = obs[:-1].reshape(rows, *obs.shape[2:])
    output = policy_of(config, environment, learner).act(seen, noise=noise, explore=True)
    action, always = output.action.reshape(first.action.shape), np.ones((steps, envs), np.bool_)
    played = replace(
        first,
        obs=obs,
        action=action,
        behaviour_log_prob=output.behaviour_log_prob.reshape(steps, envs),
        reward=np.asarray(reward_of(obs[:-1], action), np.float32),
        terminated=always,
        truncated=~always,
    )
    return replace(batch, rollouts=(played,))


def begun(
    config: ActorCriticConfig, environment: EnvironmentSpec | None = None
) -> tuple[Any, RolloutBatch]:
    """A learner, and the first rows of its own policy."""
    environment = environment or make_environment()
    learner = make_learner(config, environment)
    return learner, make_batch(config, environment, learner)


def moved(learner: Any, seed: int = 7, by: float = 0.5) -> Any:
    """The learner with other parameters."""
    state, rng = learner.state_dict(), np.random.default_rng(seed)
    for array in state["parameters"].values():
        array += rng.normal(0.0, by, array.shape)
    learner.load_state_dict(state)
    return learner


def parameters(learner: Algorithm) -> Any:
    """All of them, one after another."""
    state: Any = learner.state_dict()
    return np.concatenate([np.ravel(each) for each in state["parameters"].values()])


def columns_of(learner: Any, batch: RolloutBatch) -> tuple[Any, Any]:
    """A ticket's rows side by side, and the columns that the next update would train on."""
    seen = learner._statistics.as_networks_see(merge(batch, learner._encoder, FrameRoom()))
    learner._core.observe(seen)
    return seen, learner._columns(seen)
