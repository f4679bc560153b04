"""A replay memory in a few lines, and a loop that trains with it: for tests only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

from fast_core.algorithm import PolicySetup, ReplayBatch
from fast_core.algorithm.spec import EnvironmentSpec, SpaceSpec


def environment_spec(env: gymnasium.Env[Any, Any], name: str) -> EnvironmentSpec:
    """What FastLoop says of an environment with boxes of observations."""
    observation, action = env.observation_space, env.action_space
    if isinstance(action, gymnasium.spaces.Discrete):
        choices = SpaceSpec("discrete", (), "int64", n=int(action.n))
        return EnvironmentSpec(name, _box(observation), choices)
    return EnvironmentSpec(name, _box(observation), _box(action))


def _box(space: Any) -> SpaceSpec:
    low, high = (tuple(map(float, bound.ravel())) for bound in (space.low, space.high))
    return SpaceSpec("box", space.shape, str(space.dtype), low=low, high=high)


class SimpleReplay:
    """Transitions of one environment, drawn evenly, with n-step windows."""

    def __init__(self, capacity: int, gamma: float, n_step: int, seed: int) -> None:
        self._rows: list[tuple[Any, ...]] = []
        self._capacity, self._gamma, self._n = capacity, gamma, n_step
        self._rng = np.random.default_rng(seed)

    def add(self, obs, action, reward, next_obs, terminated, truncated) -> None:
        self._rows.append((obs, action, reward, next_obs, terminated, truncated))
        assert len(self._rows) <= self._capacity, "tests stay below the capacity"

    def draw(self, rows: int, env_steps: int, progress: float) -> ReplayBatch:
        last = len(self._rows) - self._n
        picked = [self._window(start) for start in self._rng.integers(0, last + 1, rows)]
        obs, action, reward, discount, next_obs = (np.stack(c) for c in zip(*picked, strict=True))
        return ReplayBatch(
            obs=obs,
            action=action,
            reward=reward.astype(np.float32),
            discount=discount.astype(np.float32),
            next_obs=next_obs,
            weight=np.ones(rows, np.float32),
            env_steps=env_steps,
            progress=progress,
        )

    def _window(self, start: int) -> tuple[Any, ...]:
        total, discount = 0.0, 1.0
        for row in self._rows[start : start + self._n]:
            _, _, reward, next_obs, terminated, truncated = row
            total += discount * reward
            discount *= self._gamma
            if terminated or truncated:
                break
        obs, action = self._rows[start][:2]
        return obs, action, total, 0.0 if terminated else discount, next_obs


def train(
    config: Any,
    name: str,
    *,
    steps: int,
    warmup: int,
    seed: int = 0,
    until: Callable[[list[float]], bool] = lambda returns: False,
    every: int = 1000,
    make_learner: Callable[..., Any] | None = None,
    setup: Any = None,
    make: Callable[[str], gymnasium.Env[Any, Any]] = gymnasium.make,
    update_every: int = 1,
) -> list[float]:
    """Train with one update per so many steps; mean returns of ten episodes, now and then."""
    env = make(name)
    spec = environment_spec(env, name)
    learner = config.make_algorithm(spec, setup)
    policy = config.make_policy(spec, PolicySetup(config.policy_backend(spec)))
    replay = SimpleReplay(steps, config.gamma, config.n_step, seed)
    noise_spec = config.noise(spec)
    rng = np.random.default_rng(seed + 1)
    draw = rng.random if noise_spec.kind == "uniform" else rng.standard_normal
    scores: list[float] = []
    obs, _ = env.reset(seed=seed)
    for step in range(1, steps + 1):
        policy.load(learner.policy_parameters())
        noise = draw((1, *noise_spec.shape), np.float32)
        action = policy.act(obs[None], noise=noise, explore=True).action.copy()
        taken = policy.environment_action(action)[0]
        next_obs, reward, terminated, truncated, _ = env.step(taken)
        replay.add(obs, action[0], reward, next_obs, terminated, truncated)
        obs = env.reset()[0] if terminated or truncated else next_obs
        if step > warmup and step % update_every == 0:
            learner.update(replay.draw(config.batch_size, step, step / steps))
        if step % every == 0:
            policy.load(learner.policy_parameters())
            scores.append(evaluate(policy, noise_spec, make(name)))
            if until(scores):
                break
    env.close()
    return scores


def evaluate(
    policy: Any, noise_spec: Any, env: gymnasium.Env[Any, Any], episodes: int = 10
) -> float:
    """Mean return of the policy without exploration, always from the same starts."""
    total = 0.0
    noise = np.zeros((1, *noise_spec.shape), np.float32)
    for episode in range(episodes):
        obs, _ = env.reset(seed=1000 + episode)
        over = False
        while not over:
            action = policy.act(obs[None], noise=noise, explore=False).action
            obs, reward, terminated, truncated, _ = env.step(policy.environment_action(action)[0])
            total += float(reward)
            over = terminated or truncated
    env.close()
    return total / episodes
