"""Trying a batch of environments once before anything is built on it."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import numpy as np

from fast_core.algorithm.spec import EnvironmentSpec
from fast_core.config import EnvironmentConfig
from fast_core.envs.making import check_attributes, describe_env, make_env
from fast_core.envs.masks import random_action
from fast_core.envs.playing.evaluation import evaluated
from fast_core.envs.stepping.vector_batch import VectorBatch
from fast_core.envs.trying import Before
from fast_core.envs.trying.short_look import ShortLook
from fast_core.errors import ConfigError
from fast_core.system.seeding import Role, stream

_ENVS = 2
_STEPS = 30


def probe_batch(
    config: EnvironmentConfig, seed: int, number: int, before: Before
) -> EnvironmentSpec:
    """As `probe`, for environments that are stepped together.

    They can only be repeatable where every episode is seeded.

    Raises:
        ConfigError: The environments of an evaluation are others.
        EnvironmentFailed: One raised or gave what its spaces do not declare.
    """
    with _batch(config, seed, number, before) as batch:
        look = ShortLook(batch.spec)
        digest = _play(batch, seed, before, look)
        spec = msgspec.structs.replace(batch.spec, cast=batch.cast, blurred=look.blurred())
        if (alone := evaluated(config)).one_by_one:
            _check_evaluated(config, alone, spec, before)
        # only a reset shows whether each episode can be seeded
        state = batch.state() if batch.seeded else None
    repeatable = state is not None and _repeats(config, seed, number, before, digest, state)
    return msgspec.structs.replace(spec, repeatable=repeatable)


def _repeats(
    config: EnvironmentConfig, seed: int, number: int, before: Before, digest: bytes, state: bytes
) -> bool:
    """Whether a fresh batch gives the same, and it and another come back to where it left off.

    One that has played shows what is seeded once, and a fresh one what is never forgotten.
    """
    for plays in (True, False):
        with _batch(config, seed, number, before) as batch:
            _disturb()
            if plays and _play(batch, seed, before) != digest:
                return False
            row = batch.spec.row
            before("call")
            if batch.restore(state, np.zeros((_ENVS, *row.shape), row.row_dtype)):
                return False
    return True


def _disturb() -> None:
    """Let the global generators give other numbers to environments that draw from them."""
    np.random.random()  # noqa: NPY002, it is the legacy generator that must move on
    random.random()


@contextmanager
def _batch(
    config: EnvironmentConfig, seed: int, number: int, before: Before
) -> Iterator[VectorBatch]:
    before("make")
    batch = VectorBatch(config, seed=seed, shard=0, envs=_ENVS, role=Role.PROBE, number=number)
    try:
        yield batch
    finally:
        before("call")
        batch.close()


def _play(batch: VectorBatch, seed: int, before: Before, look: ShortLook | None = None) -> bytes:
    spec, generator = batch.spec, stream(seed, Role.PROBE, 0)
    obs = np.zeros((_ENVS, *spec.row.shape), spec.row.row_dtype)
    columns: dict[str, Any] = {
        "next_obs": obs,
        "reward": np.zeros(_ENVS, np.float32),
        "terminated": np.zeros(_ENVS, np.bool_),
        "truncated": np.zeros(_ENVS, np.bool_),
        "final_obs": np.zeros_like(obs),
    }
    digest = hashlib.sha256()
    before("call")
    batch.reset(obs)
    for _ in range(_STEPS):
        masks = [None] * _ENVS if spec.action_mask is None else list(obs[spec.action_mask])
        actions = np.array([random_action(spec.action, generator, mask) for mask in masks])
        before("call")
        batch.step(actions, **columns)
        if look is not None:
            look.keep_rows(obs, columns["reward"])
        for part in columns.values():
            digest.update(part.tobytes())
    return digest.digest()


def _check_evaluated(
    config: EnvironmentConfig, alone: EnvironmentConfig, spec: EnvironmentSpec, before: Before
) -> None:
    """Evaluations play in scalar environments, which must have the same spaces."""
    before("make")
    env = make_env(alone)
    try:
        check_attributes(env, config)
        scalar = describe_env(env, config)
    finally:
        before("call")
        env.close()
    if (scalar.observation, scalar.action) != (spec.observation, spec.action):
        raise ConfigError(
            f"the vectorised form of {config.id!r} (environment.backend {config.backend}) has "
            f"other spaces than its scalar form, in which policies are evaluated: observations "
            f"{spec.observation!r} and actions {spec.action!r}, against {scalar.observation!r} "
            f"and {scalar.action!r}. Use environment.backend: gymnasium"
        )
