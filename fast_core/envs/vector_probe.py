"""Trying a batch of environments once before anything is built on it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import msgspec
import numpy as np

from fast_core.config import EnvironmentConfig
from fast_core.envs.evaluation import evaluated
from fast_core.envs.making import describe_env, make_env
from fast_core.envs.masks import random_action
from fast_core.envs.vector_batch import VectorBatch
from fast_core.errors import ConfigError
from fast_core.seeding import Role, stream
from fast_core.spec import EnvironmentSpec

_ENVS = 2
_STEPS = 30


def probe_batch(
    config: EnvironmentConfig, seed: int, before: Callable[[], None]
) -> EnvironmentSpec:
    """As `probe`, for environments that are stepped together.

    They can only be repeatable where every episode is seeded.

    Raises:
        ConfigError: The environments of an evaluation are others.
        EnvironmentFailed: One raised or gave what its spaces do not declare.
    """
    spec, digest = _try(config, seed, before)
    if config.backend == "gymnasium_vector":
        _check_evaluated(config, spec)
    if not spec.repeatable:
        return spec
    _, again = _try(config, seed, before)
    return msgspec.structs.replace(spec, repeatable=digest == again)


def _try(
    config: EnvironmentConfig, seed: int, before: Callable[[], None]
) -> tuple[EnvironmentSpec, bytes]:
    """Make a batch and play; returns what it is like and a digest of all that it gave."""
    batch = VectorBatch(config, seed=seed, shard=0, envs=_ENVS, role=Role.PROBE)
    try:
        digest = _play(batch, seed, before)
        # only a reset shows whether each episode can be seeded
        return msgspec.structs.replace(batch.spec, repeatable=batch.seeded), digest
    finally:
        before()
        batch.close()


def _play(batch: VectorBatch, seed: int, before: Callable[[], None]) -> bytes:
    spec, generator = batch.spec, stream(seed, Role.PROBE, 0)
    obs = np.zeros((_ENVS, *spec.row.shape), spec.row.row_dtype)
    final = np.zeros_like(obs)
    reward = np.zeros(_ENVS, np.float32)
    terminated, truncated = np.zeros((2, _ENVS), np.bool_)
    digest = hashlib.sha256()
    before()
    batch.reset(obs)
    for _ in range(_STEPS):
        masks = [None] * _ENVS if spec.action_mask is None else list(obs[spec.action_mask])
        actions = np.array([random_action(spec.action, generator, mask) for mask in masks])
        before()
        batch.step(
            actions,
            next_obs=obs,
            reward=reward,
            terminated=terminated,
            truncated=truncated,
            final_obs=final,
        )
        for part in (obs, reward, terminated, truncated, final):
            digest.update(part.tobytes())
    return digest.digest()


def _check_evaluated(config: EnvironmentConfig, spec: EnvironmentSpec) -> None:
    """Evaluations play in scalar environments, which must have the same spaces."""
    env = make_env(evaluated(config))
    try:
        scalar = describe_env(env, config).spec
    finally:
        env.close()
    if (scalar.observation, scalar.action) != (spec.observation, spec.action):
        raise ConfigError(
            f"the vectorised form of {config.id!r} (environment.backend gymnasium_vector) has "
            f"other spaces than its scalar form, in which policies are evaluated: observations "
            f"{spec.observation!r} and actions {spec.action!r}, against {scalar.observation!r} "
            f"and {scalar.action!r}. Use environment.backend: gymnasium"
        )
