"""Targets, worked out one row after the other in float64."""

from dataclasses import replace

import numpy as np
import pytest

from fast_core.algos.muzero.targets import find_targets
from tests.algos.muzero.cases import make_config, make_sequences

GAMMA = 0.9


def by_hand(batch, row, k, n, values, *, players=1):
    """The value after ``k`` steps, with ``values`` of what is observed; None: there is none.

    Schrittwieser et al. 2020, equation 2, and the pseudocode's `make_target`. With two players
    rewards are those of who acts, and values those of who is to act: what is the other's counts
    against who acts at ``k``.
    """
    length = int(batch.mask[row].sum())
    terminated = bool(batch.terminated[row].any())
    if k >= length:
        return 0.0 if terminated else None
    total, player = 0.0, k % players
    for t in range(k, k + n):
        sign = 1 if t % players == player else -1
        total += sign * GAMMA ** (t - k) * float(batch.reward[row, t])
        if t + 1 == length and terminated:
            return total
        if t + 1 == length:
            break
    sign = 1 if (t + 1) % players == player else -1
    return total + sign * GAMMA ** (t + 1 - k) * values[row, t + 1]


@pytest.mark.parametrize(("unroll", "n_step"), [(1, 1), (3, 2), (5, 5), (2, 9), (7, 1)])
@pytest.mark.parametrize("bootstrap", ["network", "search"])
@pytest.mark.parametrize("players", [1, 2])
def test_values_are_those_of_the_papers_formula(unroll, n_step, bootstrap, players):
    config = make_config(unroll=unroll, n_step=n_step, gamma=GAMMA, bootstrap=bootstrap)
    batch = make_sequences(config, rows=200)
    values = np.random.default_rng(1).normal(size=batch.obs.shape[:2])
    found = find_targets(batch, unroll, n_step, GAMMA if players == 1 else -GAMMA)
    later = np.take_along_axis(values, found.later, 1)
    got = found.reward_sum + found.factor * later
    kinds = set()
    for row in range(200):
        for k in range(unroll + 1):
            wanted = by_hand(batch, row, k, n_step, values, players=players)
            assert found.known[row, k] == (wanted is not None)
            assert found.played[row, k] == (k < batch.mask[row].sum())
            kinds.add((wanted is None, bool(found.played[row, k]), bool(found.factor[row, k])))
            if wanted is not None:
                assert got[row, k] == pytest.approx(wanted, rel=1e-5, abs=1e-6)
    assert kinds >= {(False, True, True), (False, True, False), (False, False, False)}


def test_a_truncated_end_is_worth_its_final_observation_and_a_terminated_one_nothing():
    config = make_config(unroll=3, n_step=4)
    batch = make_sequences(config, rows=2)
    length, rows = 2, batch.mask.shape[1]
    mask = np.tile(np.arange(rows) < length, (2, 1))
    last = np.zeros((2, rows), np.bool_)
    last[:, length - 1] = True
    over = np.array([[True], [False]])
    reward = np.where(mask, np.float32(1), np.float32(0))
    batch = replace(batch, mask=mask, terminated=last & over, truncated=last & ~over, reward=reward)
    found = find_targets(batch, 3, 4, 0.5)
    assert found.reward_sum.tolist() == [[1.5, 1, 0, 0]] * 2
    assert found.factor.tolist() == [[0, 0, 0, 0], [0.25, 0.5, 0, 0]]
    assert found.later[1, :2].tolist() == [2, 2], "what was seen last"
    assert found.known.tolist() == [[True] * 4, [True, True, False, False]]
