"""Every random stream of a run, derived from the run's seed by what it is for.

A stream is named by a `Role` and a key (shard, environment, episode, ...), never by a process,
an order of arrival or a sum such as ``seed + rank``: runs with seeds 0 and 1 share nothing, and
results do not depend on which node executes which shard. The derivation is NumPy's
`SeedSequence` with ``(role, *key)`` as spawn key; NumPy promises that its output, and that of
PCG64, never change.
"""

from __future__ import annotations

import contextlib
import ctypes
import enum
import json
import os
import random
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from fast_core.system.decoding import from_json

_BLOCK = 256
_SEED_MASK = 0x7FFF_FFFF
_LIBC = ctypes.CDLL(None)
_LIBC.initstate.restype = _LIBC.setstate.restype = ctypes.c_void_p
_LIBC.setstate.argtypes = (ctypes.c_void_p,)
_LIBC.seed48.restype = ctypes.POINTER(ctypes.c_ushort * 3)
_C_STATES: list[ctypes.Array[ctypes.c_char]] = []  # never freed: C may still point to one


class Role(enum.IntEnum):
    """What a stream is for.

    The numbers are part of every run: they are never changed or used again, new roles are added.
    """

    ENVIRONMENT_EPISODE = 1
    ENVIRONMENT_CONSTRUCTOR = 2
    ENVIRONMENT_SPACE = 3
    ACTION_NOISE = 4
    LEARNER = 5
    EVALUATION = 6
    DELAY = 7
    PROBE = 8
    REPLAY = 9
    PRIORITY = 10
    FRESH_EVALUATION = 11
    HOST = 12


def sequence(seed: int, role: Role, *key: int) -> np.random.SeedSequence:
    """Seed sequence of one purpose.

    Args:
        seed: Seed of the run, at least 0 and below 2**128.
        role: What it is for.
        key: Shard, environment and so on; each at least 0 and below 2**32.

    Raises:
        ValueError: The seed or a key is out of range. (A larger one would spill into the next
            word and could equal another key.)
    """
    if not 0 <= seed < 1 << 128:
        raise ValueError(f"a run's seed must be from 0 to 2**128 - 1; got {seed!r}")
    if any(not 0 <= word < 1 << 32 for word in key):
        raise ValueError(f"key words of {role.name} must be from 0 to 2**32 - 1; got {key!r}")
    return np.random.SeedSequence(seed, spawn_key=(int(role), *key))


def stream(seed: int, role: Role, *key: int) -> np.random.Generator:
    """Random generator of one purpose; see `sequence` for the arguments."""
    return np.random.Generator(np.random.PCG64(sequence(seed, role, *key)))


def draw_seed(seed: int, role: Role, *key: int) -> int:
    """One seed of 31 bits for code that is not ours, which often takes no more."""
    return int(sequence(seed, role, *key).generate_state(1)[0]) & _SEED_MASK


def save_stream(generator: np.random.Generator) -> bytes:
    """State of a generator made by `stream`; `load_stream` continues it exactly."""
    return json.dumps(generator.bit_generator.state).encode()


def load_stream(state: bytes) -> np.random.Generator:
    """Generator that continues where `save_stream` was called."""
    bits = np.random.PCG64(0)
    bits.state = from_json(state)
    return np.random.Generator(bits)


class EpisodeSeeds:
    """Seed of each episode of one environment: ``seeds[k]`` is that of episode ``k``.

    Seeds have 31 bits, the most that every simulator takes. They come in blocks of 256 that
    are derived by block number, so any episode can be asked for first.
    """

    def __init__(self, seed: int, role: Role, shard: int, env: int) -> None:
        self._seed = seed
        self._role = role
        self._key = (shard, env)
        self._number = -1
        self._block: list[int] = []

    def __getitem__(self, episode: int) -> int:
        number, place = divmod(episode, _BLOCK)
        if number != self._number:
            words = sequence(self._seed, self._role, *self._key, number).generate_state(_BLOCK)
            self._block = (words & _SEED_MASK).tolist()
            self._number = number
        return self._block[place]


def seed_global_generators(seed: int, *key: int) -> None:
    """Seed the global generators of Python, NumPy and C before an environment is constructed.

    A constructor can draw (a map, say) before anything passes it a seed, and can only take
    global generators for that. ``key`` is role, shard, environment and incarnation: the same
    run constructs the same environments, a restarted shard (a higher incarnation) other ones.
    The generators are left seeded, for simulators whose steps draw from them. Forked nodes would
    otherwise all begin with the state of the server they were forked from.
    """
    words = sequence(seed, Role.ENVIRONMENT_CONSTRUCTOR, *key).generate_state(3)
    random.seed(int(words[0]))
    np.random.seed(int(words[1]))  # noqa: NPY002, it is the legacy generator that needs a seed
    for seeder in (_LIBC.srand, _LIBC.srandom, _LIBC.srand48):  # the first two are often one
        seeder(int(words[2]))


class _Children:
    """Seeds the processes that are forked while `children_seeded` says so."""

    def __init__(self) -> None:
        self.seed: Callable[[int], None] | None = None
        self.forked = 0

    def count(self) -> None:
        self.forked += 1

    def begin(self) -> None:
        seed, self.seed = self.seed, None
        if seed is not None:
            seed(self.forked)


_CHILDREN = _Children()
os.register_at_fork(before=_CHILDREN.count, after_in_child=_CHILDREN.begin)


@contextlib.contextmanager
def children_seeded(seed: int, *key: int) -> Iterator[None]:
    """Seed the global generators of each process that is forked meanwhile, by its number.

    Workers that a library steps environments in, as Gymnasium's `AsyncVectorEnv`, all begin with
    their parent's otherwise, and with a state of Python's own that no seed makes. Those that it
    spawns are new interpreters, which nothing of this reaches.
    """
    _CHILDREN.seed, _CHILDREN.forked = partial(seed_global_generators, seed, *key), 0
    try:
        yield
    finally:
        _CHILDREN.seed = None


@contextlib.contextmanager
def generators_kept() -> Iterator[None]:
    """Give the global generators back as they were: they are a program's own."""
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002 - the global one
    words = _C_STATES.pop() if _C_STATES else ctypes.create_string_buffer(128)
    c = _LIBC.initstate(1, words, len(words))  # which C draws from meanwhile
    c48 = list(_LIBC.seed48((ctypes.c_ushort * 3)()).contents)
    try:
        yield
    finally:
        _LIBC.setstate(c)
        _C_STATES.append(words)
        _LIBC.seed48((ctypes.c_ushort * 3)(*c48))
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002
