"""Trying an environment once before anything is built on it."""

from __future__ import annotations

import hashlib
import struct
import time
from typing import Literal

import msgspec

from fast_core.algorithm.spec import EnvironmentSpec
from fast_core.config import EnvironmentConfig
from fast_core.envs.instance import Instance
from fast_core.envs.making import check_gymnasium
from fast_core.envs.masks import random_action
from fast_core.envs.trying import Before
from fast_core.envs.trying.short_look import ShortLook
from fast_core.errors import ConfigError, EnvironmentFailed
from fast_core.system.seeding import Role, draw_seed, stream

_STEPS = 30


class MakingTime:
    """A `Before` that notes how long an environment takes to be made and reset.

    Attributes:
        longest_s: Of those that were made.
    """

    def __init__(self, before: Before) -> None:
        """Calls ``before`` too."""
        self.longest_s = 0.0
        self._before = before
        self._begun_s, self._calls = 0.0, 0

    def __call__(self, what: Literal["make", "call"]) -> None:
        """See `probe`."""
        now_s = time.monotonic()
        self._calls += 1
        if what == "make":
            self._begun_s, self._calls = now_s, 0
        elif self._calls <= 2:  # the first is that of the reset, or of the close of one unused
            self.longest_s = max(self.longest_s, now_s - self._begun_s)
        self._before(what)


def probe(
    config: EnvironmentConfig, seed: int, *, number: int = 0, before: Before = lambda _: None
) -> EnvironmentSpec:
    """Describe the configured environment, after a reset and some steps that really worked.

    It is repeatable if the same seed and actions give the same observations, rewards and ends
    twice in one environment, and in another one made in the same way.

    Args:
        config: Which environment.
        seed: Seed of the run.
        number: What it is to have as `Place.number`.
        before: Called with "make" before an environment is made, with "call" before each reset,
            step and close, to limit how long it may take.

    Raises:
        ConfigError: It can't be made, its spaces are not supported, it raises, or what it
            returns is not what its spaces declare; the cause is chained.
    """
    check_gymnasium()
    try:
        if not config.one_by_one:
            # here, because it imports what only these backends need
            from fast_core.envs.trying.vector_probe import probe_batch

            return probe_batch(config, seed, number, before)
        before("make")
        first = probed(config, seed, number)
        look = ShortLook(first.spec)
        first.step = look.watching(first.step)
        try:
            digests = {_play(first, seed, before), _play(first, seed, before)}
        finally:
            before("call")
            first.close()
        before("make")
        second = probed(config, seed, number)
        try:
            digests.add(_play(second, seed, before))
        finally:
            before("call")
            second.close()
    except EnvironmentFailed as error:
        raise ConfigError(
            f"environment.id {config.id!r} does not work with these environment.kwargs, "
            f"wrappers and reset_options: {error}"
        ) from error
    return msgspec.structs.replace(
        first.spec, repeatable=len(digests) == 1, cast=first.cast, blurred=look.blurred()
    )


def probed(config: EnvironmentConfig, seed: int, number: int) -> Instance:
    """The environment, to be tried."""
    return Instance(
        config, seed=seed, role=Role.PROBE, shard=0, index=0, incarnation=1, number=number
    )


def _play(instance: Instance, seed: int, before: Before) -> bytes:
    """Digest of all that some random actions give, over as many episodes as they last."""
    obs, space = instance.observations(1), instance.spec.action
    generator = stream(seed, Role.PROBE, 0)
    digest = hashlib.sha256()
    episode, number, episode_seed = -1, 0, 0
    ended = True
    for _ in range(_STEPS):
        if ended:
            episode, number = episode + 1, 0
            episode_seed = draw_seed(seed, Role.PROBE, 1, episode)
            before("call")
            start = None if episode else b""  # a game that the last play left open does not go on
            instance.reset(obs.rows[0], episode=episode, seed=episode_seed, start=start)
            digest.update(obs.array.tobytes())
        number += 1
        mask = None
        if obs.masks is not None:
            if not obs.masks.open(0):
                raise instance.failure(number - 1, obs.masks.cause(0), episode, episode_seed)
            mask = obs.masks.array[0]
        before("call")
        result = instance.checked_step(
            obs.rows[0],
            random_action(space, generator, mask)[()],  # a scalar where its shape is ()
            number=number,
            episode=episode,
            seed=episode_seed,
        )
        digest.update(obs.array.tobytes() + struct.pack("d??", *result))
        ended = result[1] or result[2]
    return digest.digest()
