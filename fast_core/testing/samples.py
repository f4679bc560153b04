"""Small environments and what comes of them: observations, noise, rollouts, replay batches."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fast_core.algorithm import (
    Array,
    LearnerSetup,
    Policy,
    ReplayBatch,
    RolloutBatch,
    SequenceBatch,
    ShardRollout,
    Window,
)
from fast_core.algorithm.spec import EnvironmentSpec, SpaceSpec
from fast_core.config import AlgorithmConfig

Shape = tuple[int, ...]
_FAR = 2**31  # integers without bounds are drawn up to here
NUMBERS = SpaceSpec("box", (5,), "float32", low=(-np.inf,), high=(np.inf,))
CHOICES = SpaceSpec("discrete", (), "int64", n=3, start=2)
ALLOWED = SpaceSpec("box", (3,), "bool", low=(0.0,), high=(1.0,))
SMALL = (
    EnvironmentSpec("choices", NUMBERS, CHOICES),
    EnvironmentSpec(
        "a box", NUMBERS, SpaceSpec("box", (2,), "float32", low=(-1.0, -2.0), high=(3.0, 2.0))
    ),
    EnvironmentSpec(
        "masked choices",
        SpaceSpec.composite((("seen", NUMBERS), ("allowed", ALLOWED))),
        CHOICES,
        action_mask="allowed",
    ),
)


def draw(
    environment: EnvironmentSpec, space: SpaceSpec, shape: Shape, rng: np.random.Generator
) -> Array:
    """Random values of ``space``, which is what the environment shows or a part of that."""
    if space.kind == "composite":
        rows = np.zeros(shape, space.row_dtype)
        for name, part in space.parts:
            masks = name == environment.action_mask
            rows[name] = (
                _mask(environment, shape, rng) if masks else draw(environment, part, shape, rng)
            )
        return rows
    whole = (*shape, *space.shape)
    if space.kind == "box":
        low, high = space.bounds
        if space.row_dtype.kind in "biu":
            ends = np.clip(low, -_FAR, _FAR).min(), np.clip(high, -_FAR, _FAR).max()
            kind: Any = space.row_dtype
            drawn = rng.integers(int(ends[0]), int(ends[1]), whole, kind, endpoint=True)
            return np.clip(drawn, low, high).astype(kind)
        return np.clip(rng.normal(0.0, 1.0, whole), low, high).astype(space.row_dtype)
    first, last = space.choices
    return rng.integers(first, last, whole, endpoint=True).astype(space.row_dtype)


def _mask(environment: EnvironmentSpec, shape: Shape, rng: np.random.Generator) -> Array:
    """Masks that allow at least one choice of each dimension."""
    parts = []
    first, last = environment.action.choices
    for count in (last - first + 1).ravel():
        allowed = rng.random((*shape, int(count))) < 0.5
        np.put_along_axis(allowed, rng.integers(0, count, (*shape, 1)), True, -1)
        parts.append(allowed)
    return np.concatenate(parts, -1)


def noise_of(
    config: AlgorithmConfig, environment: EnvironmentSpec, rows: int, rng: np.random.Generator
) -> Array:
    """What a policy is given for ``rows`` rows."""
    spec = config.noise(environment)
    shape = rows, *spec.shape
    fill = rng.random if spec.kind == "uniform" else rng.standard_normal
    return fill(shape, np.float32)


def rollouts(
    config: AlgorithmConfig,
    environment: EnvironmentSpec,
    policy: Policy,
    setup: LearnerSetup,
    number: int,
) -> RolloutBatch:
    """A ticket of random observations, rewards and ends in which ``policy`` acted, as version 0."""
    samples = _Samples(config, environment, np.random.default_rng(number))
    made = [_rollout(samples, policy, setup, shard) for shard in range(setup.shards)]
    return RolloutBatch(tuple(made), number * setup.rows, number / 10, version=number)


class _Samples(NamedTuple):
    """Draws columns of what an algorithm learns from."""

    config: AlgorithmConfig
    environment: EnvironmentSpec
    rng: np.random.Generator

    def obs(self, *shape: int) -> Array:
        """What policies see."""
        return draw(self.environment, self.environment.observation, shape, self.rng)

    def taken(self, *shape: int) -> Array:
        """Actions as they are stored, boxes within [-1, 1]."""
        field, action = self.config.action_field(self.environment), self.environment.action
        if action.kind == "box":
            return self.rng.uniform(-1, 1, (*shape, *field.shape)).astype(field.dtype)
        first, last = action.choices
        return self.rng.integers(0, last - first, (*shape, *field.shape), endpoint=True)

    def extra(self, *shape: int) -> dict[str, Array]:
        """The columns that the algorithm declares; what policies write comes over it."""
        return {
            column.name: self.rng.integers(0, 2, (*shape, *column.shape)).astype(column.dtype)
            for column in self.config.columns(self.environment)
        }


def _rollout(samples: _Samples, policy: Policy, setup: LearnerSetup, shard: int) -> ShardRollout:
    config, environment, rng = samples
    steps, envs = setup.steps, setup.envs_per_shard
    space, before = environment.row, environment.frames - 1
    frames = draw(environment, space, (before + steps + 1, envs), rng)
    field = config.action_field(environment)
    ended, size = rng.random((2, steps, envs)) < 0.1, config.state_size(environment)
    state = rng.normal(0.0, 0.5, (envs, size)).astype(np.float32) if size else None
    rollout = ShardRollout(
        shard=shard,
        rollout_id=1,
        policy_version=np.zeros((steps, envs), np.int64),
        obs=frames[before:],
        action=np.zeros((steps, envs, *field.shape), field.dtype),
        behaviour_log_prob=np.zeros((steps, envs), np.float32),
        reward=rng.normal(size=(steps, envs)).astype(np.float32),
        terminated=ended[0],
        truncated=ended[1],
        final_obs=draw(environment, space, (steps, envs), rng),
        state=state,
        frames=frames if before else None,
        frame_age=rng.integers(0, before, (steps + 1, envs), np.uint8, True) if before else None,
        quarantined=np.zeros((steps, envs), np.bool_),
        extra=samples.extra(steps, envs),
    )
    for t in range(steps):
        seen = rollout.take_obs(np.full(envs, t), np.arange(envs))
        output = policy.act(
            seen, noise=noise_of(config, environment, envs, rng), explore=True, state=state
        )
        rollout.action[t], rollout.behaviour_log_prob[t] = output[:2]
        for name, array in output.extra.items():
            rollout.extra[name][t] = array
        if output.state is not None:
            state = np.where((ended[0] | ended[1])[t][:, None], np.float32(0), output.state)
    return rollout


def replayed(
    config: AlgorithmConfig, environment: EnvironmentSpec, rows: int, number: int
) -> ReplayBatch | SequenceBatch:
    """Random transitions, or sequences where the algorithm draws those."""
    rng, window = np.random.default_rng(number), config.replay().sequence
    samples = _Samples(config, environment, rng)
    if window is not None:
        return _sequences(samples, window, rows, number)
    says = any(column.writer == "learner" for column in config.columns(environment))
    return ReplayBatch(
        obs=samples.obs(rows),
        action=samples.taken(rows),
        reward=rng.normal(size=rows).astype(np.float32),
        discount=np.where(rng.random(rows) < 0.3, 0.0, 0.97).astype(np.float32),
        next_obs=samples.obs(rows),
        weight=rng.uniform(0.2, 1.0, rows).astype(np.float32),
        env_steps=100 + number,
        progress=number / 10,
        extra=samples.extra(rows),
        written=rng.integers(-1, number + 1, rows) if says else None,
    )


def _sequences(samples: _Samples, window: Window, rows: int, number: int) -> SequenceBatch:
    """The first is whole; others begin later, or end earlier."""
    rng = samples.rng
    length, steps = window.length, np.arange(window.length + 1)
    begin = rng.integers(0, window.before + 1, rows)
    last = rng.integers(window.before, length, rows)
    begin[0], last[0] = 0, length - 1
    seen = (steps >= begin[:, None]) & (steps <= last[:, None] + 1)
    mask = seen[:, :-1] & (steps[:-1] <= last[:, None])
    ended = (steps[:-1] == last[:, None]) & (last < length - 1)[:, None]
    over, shape = rng.random((rows, 1)) < 0.5, (rows, length)
    columns = {
        "action": samples.taken(*shape),
        "reward": rng.normal(size=shape).astype(np.float32),
        **samples.extra(*shape),
    }
    obs = samples.obs(rows, length + 1)
    obs[~seen] = np.zeros((), obs.dtype)
    state, size = None, samples.config.state_size(samples.environment)
    if size and samples.config.replay().keeps_state:
        state = rng.normal(0.0, 0.5, (rows, size)).astype(np.float32)
        state[begin > 0] = 0.0
    declared = samples.config.columns(samples.environment)
    says = any(column.writer == "learner" for column in declared)
    entered = {column.name for column in declared if column.fold == "entry"}
    for name, values in columns.items():
        if name in entered:
            columns[name] = values[:, 0].copy()
        else:
            values[~mask] = 0
    return SequenceBatch(
        obs=obs,
        action=columns.pop("action"),
        reward=columns.pop("reward"),
        terminated=ended & over,
        truncated=ended & ~over,
        mask=mask,
        weight=rng.uniform(0.2, 1.0, rows).astype(np.float32),
        env_steps=100 + number,
        progress=number / 10,
        state=state,
        extra=columns,
        written=np.where(mask, rng.integers(-1, number + 1, shape), -1) if says else None,
    )


def arrays_of(batch: RolloutBatch | ReplayBatch | SequenceBatch) -> list[bytes]:
    """Every array of a batch, to see that it stays as it is."""
    parts: tuple[ShardRollout | ReplayBatch | SequenceBatch, ...] = (
        batch.rollouts if isinstance(batch, RolloutBatch) else (batch,)
    )
    found = [each for part in parts for each in (*vars(part).values(), *part.extra.values())]
    return [value.tobytes() for value in found if isinstance(value, np.ndarray)]
