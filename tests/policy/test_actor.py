"""The random numbers of a policy that explores while it is evaluated."""

from __future__ import annotations

import numpy as np
import pytest

from fast_core.algorithm import NoiseSpec
from fast_core.policy.actor import EpisodeNoise

STEPS = 3


def noise_by_episode(envs: int, episodes: int, kind: str, seed: int = 4) -> list[np.ndarray]:
    """What each episode of 3 steps sees when ``envs`` are played side by side."""
    spec = NoiseSpec(kind, (2,))  # type: ignore[arg-type]
    source = EpisodeNoise(spec, seed, envs)
    rows = np.zeros((envs, 2), np.float32)
    found = []
    for _ in range(episodes // envs):
        steps = []
        for step in range(STEPS):
            source.draw_into(rows, np.full(envs, step == 0))
            steps.append(rows.copy())
        found += list(np.stack(steps, axis=1))
    return found


@pytest.mark.parametrize("kind", ["uniform", "normal"])
def test_episode_has_the_same_noise_however_many_are_played_beside_it(kind: str) -> None:
    alone, pairs, four = (noise_by_episode(envs, 8, kind) for envs in (1, 2, 4))
    np.testing.assert_array_equal(alone, pairs)
    np.testing.assert_array_equal(alone, four)


def test_no_two_numbers_are_shared_by_episodes_steps_or_seeds() -> None:
    both = [noise_by_episode(2, 8, "uniform", seed) for seed in (4, 5)]
    assert len(np.unique(both)) == 2 * 8 * STEPS * 2


def test_noise_is_of_the_kind_that_the_policy_wants() -> None:
    uniform = np.stack(noise_by_episode(1, 400, "uniform"))
    assert uniform.min() >= 0 and uniform.max() < 1
    normal = np.stack(noise_by_episode(1, 400, "normal"))
    assert abs(normal.mean()) < 0.1 and abs(normal.std() - 1) < 0.1


def test_row_without_an_episode_draws_nothing() -> None:
    source = EpisodeNoise(NoiseSpec("uniform", (1,)), 0, 2)
    rows = np.full((2, 1), 7.0, np.float32)
    source.draw_into(rows, np.array([False, True]))
    assert rows[0] == 7.0 and rows[1] != 7.0
