"""Trying an environment once before anything is built on it."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Sequence

import msgspec
import numpy as np

from fast_core.config import EnvironmentConfig
from fast_core.envs.instance import Instance
from fast_core.envs.rows import Observations
from fast_core.errors import ConfigError, EnvironmentFailed
from fast_core.seeding import Role, draw_seed, stream
from fast_core.spec import EnvironmentSpec, SpaceSpec

_STEPS = 30


def probe(
    config: EnvironmentConfig, seed: int, *, before: Callable[[], None] = lambda: None
) -> EnvironmentSpec:
    """Describe the configured environment, after a reset and some steps that really worked.

    It is repeatable if the same seed and actions give the same observations, rewards and ends
    twice in one environment, and in another one made in the same way.

    Args:
        config: Which environment.
        seed: Seed of the run.
        before: Called before each reset, step and close, to limit how long one may take.

    Raises:
        ConfigError: It can't be made, its spaces are not supported, it raises, or what it
            returns is not what its spaces declare; the cause is chained.
    """
    try:
        first = _make(config, seed)
        try:
            actions = _random_actions(first.spec.action, seed)
            digests = {_play(first, actions, seed, before), _play(first, actions, seed, before)}
        finally:
            before()
            first.close()
        second = _make(config, seed)
        try:
            digests.add(_play(second, actions, seed, before))
        finally:
            before()
            second.close()
    except EnvironmentFailed as error:
        raise ConfigError(
            f"environment.id {config.id!r} does not work with these environment.kwargs and "
            f"reset_options: {error}"
        ) from error
    return msgspec.structs.replace(first.spec, repeatable=len(digests) == 1)


def _make(config: EnvironmentConfig, seed: int) -> Instance:
    return Instance(config, seed=seed, role=Role.PROBE, shard=0, index=0, incarnation=1)


def _random_actions(space: SpaceSpec, seed: int) -> Sequence[object]:
    """Actions of ``space``; unbounded ones are drawn from a standard normal distribution."""
    generator = stream(seed, Role.PROBE, 0)
    if space.kind == "discrete":
        return list(generator.integers(space.start, space.start + space.n, _STEPS, space.dtype))
    low, high = np.array(space.low), np.array(space.high)
    low, high = np.where(np.isfinite(low), low, -1.0), np.where(np.isfinite(high), high, 1.0)
    values = generator.uniform(np.minimum(low, high), np.maximum(low, high), (_STEPS, space.size))
    return list(values.astype(space.dtype).reshape(_STEPS, *space.shape))


def _play(
    instance: Instance, actions: Sequence[object], seed: int, before: Callable[[], None]
) -> bytes:
    """Digest of all that ``actions`` give, over as many episodes as they last."""
    obs = Observations(1, instance.spec.observation)
    row = obs.rows[0]
    digest = hashlib.sha256()
    episode, number, episode_seed = -1, 0, 0
    ended = True
    for action in actions:
        if ended:
            episode, number = episode + 1, 0
            episode_seed = draw_seed(seed, Role.PROBE, 1, episode)
            before()
            instance.reset(row, episode=episode, seed=episode_seed)
            digest.update(obs.array.tobytes())
        number += 1
        before()
        result = instance.checked_step(
            row, action, number=number, episode=episode, seed=episode_seed
        )
        digest.update(obs.array.tobytes() + struct.pack("d??", *result))
        ended = result[1] or result[2]
    return digest.digest()
