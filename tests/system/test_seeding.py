from __future__ import annotations

import ctypes
import itertools
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fast_core.system.seeding import (
    EpisodeSeeds,
    Role,
    draw_seed,
    generators_kept,
    load_stream,
    save_stream,
    seed_global_generators,
    sequence,
    stream,
)

keys = st.lists(st.integers(0, 2**32 - 1), max_size=4).map(tuple)


def test_a_stream_is_numpys_spawned_sequence() -> None:
    expected = np.random.default_rng(np.random.SeedSequence(7, spawn_key=(4, 2, 5)))
    assert (stream(7, Role.ACTION_NOISE, 2, 5).random(8) == expected.random(8)).all()


def test_streams_keep_their_values_for_ever() -> None:
    """A resumed run derives its streams again: changing these breaks every checkpoint."""
    assert stream(0, Role.LEARNER, 1).integers(2**31) == 1289791809
    assert draw_seed(0, Role.PROBE, 3) == 116918736
    assert stream(0, Role.REPLAY).integers(2**31) == 1475987760
    assert stream(0, Role.PRIORITY).integers(2**31) == 162766338
    seeds = EpisodeSeeds(0, Role.ENVIRONMENT_EPISODE, 1, 2)
    assert [seeds[0], seeds[1], seeds[300]] == [1402382656, 790609387, 370851194]


def test_runs_ranks_and_purposes_never_share_a_seed() -> None:
    roles = (Role.ENVIRONMENT_EPISODE, Role.ACTION_NOISE, Role.EVALUATION)
    seeds = {
        draw_seed(seed, role, rank)
        for seed, rank, role in itertools.product(range(10), range(64), roles)
    }
    episodes = {
        EpisodeSeeds(seed, role, rank, 0)[0]
        for seed, rank, role in itertools.product(range(10), range(64), roles)
    }
    assert len(seeds) == len(episodes) == 1920


@given(st.lists(st.tuples(st.sampled_from(Role), keys), min_size=2, max_size=6, unique=True))
def test_different_keys_give_different_streams(names: list[tuple[Role, tuple[int, ...]]]) -> None:
    first = {tuple(sequence(0, role, *key).generate_state(4)) for role, key in names}
    assert len(first) == len(names)


@pytest.mark.parametrize("key", [(-1,), (0, 2**32)])
def test_a_key_word_that_would_spill_into_the_next_is_refused(key: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="key words of DELAY"):
        stream(0, Role.DELAY, *key)


@pytest.mark.parametrize("seed", [-1, 2**128])
def test_a_run_seed_out_of_range_is_refused(seed: int) -> None:
    with pytest.raises(ValueError, match="run's seed"):
        stream(seed, Role.DELAY)


@given(st.lists(st.integers(0, 2000), min_size=1, max_size=30))
def test_any_episode_can_be_asked_for_in_any_order(episodes: list[int]) -> None:
    seeds = EpisodeSeeds(3, Role.ENVIRONMENT_EPISODE, 1, 2)
    for episode in episodes:
        block = sequence(3, Role.ENVIRONMENT_EPISODE, 1, 2, episode // 256).generate_state(256)
        assert seeds[episode] == int(block[episode % 256]) % 2**31


def test_episode_seeds_fit_31_bits_and_rarely_repeat() -> None:
    seeds = EpisodeSeeds(0, Role.ENVIRONMENT_EPISODE, 0, 0)
    drawn = [seeds[episode] for episode in range(5000)]
    assert all(0 <= seed < 2**31 for seed in drawn)
    assert len(set(drawn)) >= 4999
    assert max(drawn) > 2**30


@given(st.integers(0, 50))
def test_a_saved_stream_continues_exactly(drawn: int) -> None:
    generator = stream(5, Role.ACTION_NOISE, 1)
    generator.standard_normal(drawn)
    generator.integers(10, dtype=np.uint32)  # leaves half a word behind
    again = load_stream(save_stream(generator))
    assert (
        again.integers(10, size=9, dtype=np.uint32)
        == generator.integers(10, size=9, dtype=np.uint32)
    ).all()
    assert (again.random(9) == generator.random(9)).all()


def test_global_generators_depend_on_every_part_of_the_key() -> None:
    drawn = set()
    for seed, key in [(0, (1, 0, 0, 1)), (1, (1, 0, 0, 1)), (0, (1, 0, 0, 2)), (0, (1, 0, 1, 1))]:
        for _ in range(3):  # the same each time
            seed_global_generators(seed, *key)
            drawn.add((random.random(), np.random.random()))  # noqa: NPY002
    assert len(drawn) == 4


@pytest.mark.parametrize("draw", ["rand", "random", "lrand48"])
def test_generators_of_c_depend_on_the_key_and_a_program_keeps_its_own(draw: str) -> None:
    libc = ctypes.CDLL(None)

    def several() -> tuple[int, ...]:
        return tuple(libc[draw]() for _ in range(3))

    drawn = set()
    for shard in (0, 1, 0, 1):
        seed_global_generators(0, 1, shard, 0, 1)
        drawn.add(several())
    assert len(drawn) == 2
    seed_global_generators(0, 1, 0, 0, 1)
    libc[draw]()
    for _ in range(2):
        with generators_kept():
            seed_global_generators(0, 1, 1, 0, 1)
            first = libc[draw]()
            with generators_kept():
                seed_global_generators(0, 1, 0, 0, 1)
                assert several() in drawn
            assert (first, libc[draw](), libc[draw]()) in drawn
    assert (libc[draw](), libc[draw]()) in [each[1:] for each in drawn]
