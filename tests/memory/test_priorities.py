from __future__ import annotations

import math
import random
import subprocess
import sys

import numpy as np
import pytest

from fast_core.errors import SegmentError
from fast_core.memory import PriorityTree, beta_at, importance_weights


def new_tree(
    leaves: int, alpha: float = 1.0, epsilon: float = 0.0, *, filled: bool = True
) -> PriorityTree:
    tree = PriorityTree(leaves, alpha, epsilon, np.random.SeedSequence(7))
    if filled:
        tree.insert(range(leaves), [0] * leaves)
    return tree


def put(tree: PriorityTree, errors: list[float]) -> None:
    assert tree.update(range(len(errors)), [0] * len(errors), errors) == len(errors)


@pytest.mark.parametrize(
    ("alpha", "beta", "probability", "weight"),
    [
        (1.0, 1.0, [0.1, 0.2, 0.3, 0.4], [1, 0.5, 1 / 3, 0.25]),
        (0.6, 0.4, [0.14823, 0.22467, 0.28655, 0.34054], [1, 0.84675, 0.76823, 0.71698]),
    ],
)
def test_probabilities_and_weights_are_those_of_the_paper(
    alpha: float, beta: float, probability: list[float], weight: list[float]
) -> None:
    """RB-06."""
    tree = new_tree(4, alpha)
    put(tree, [1, 2, 3, 4])
    found = tree.priorities() / tree.total
    assert found.tolist() == pytest.approx(probability, abs=5e-6)
    assert importance_weights(found, beta).tolist() == pytest.approx(weight, abs=5e-6)
    leaf, drawn = tree.sample(1000)
    assert drawn.tolist() == found[leaf].tolist()


def test_draws_follow_the_probabilities() -> None:
    """Chi-squared against the exact probabilities, over several levels of the tree."""
    rng = np.random.default_rng(3)
    count, draws = 600, 600_000
    tree = new_tree(count)
    errors = rng.random(count) ** 4
    errors[rng.random(count) < 0.2] = 0.0
    put(tree, errors.tolist())
    leaf, _ = tree.sample(draws)
    seen = np.bincount(leaf, minlength=count)
    assert seen[errors == 0].sum() == 0
    expected = draws * errors / errors.sum()
    kept = expected > 5
    chi = float(((seen - expected)[kept] ** 2 / expected[kept]).sum())
    freedom = kept.sum() - 1
    assert abs(chi - freedom) < 5 * math.sqrt(2 * freedom)


def test_tree_does_not_drift() -> None:
    """RB-02: sums are computed from their parts, so errors of rounding do not stay."""
    tree, rng = new_tree(4096), np.random.default_rng(0)
    zeros = np.zeros(1000, np.int64)
    for _ in range(200):
        errors = np.where(rng.random(1000) < 0.001, 1e6, rng.random(1000))
        tree.update(rng.integers(0, 4096, 1000), zeros, errors)
    put(tree, [1e-3] * 4096)
    assert tree.total == pytest.approx(4.096, abs=1e-9)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, -1.0, 1e300])
def test_errors_that_are_no_priority_are_refused_and_counted(bad: float) -> None:
    """RB-03."""
    tree = new_tree(4)
    put(tree, [1, 2, 3, 4])
    assert tree.update([1, 2, 3], [0, 0, 0], [9, bad, 8]) == 2
    assert tree.priorities().tolist() == [1, 9, 3, 8]
    assert tree.total == 21
    assert (tree.statistics().refused_value, tree.statistics().refused_stale) == (1, 0)
    leaf, probability = tree.sample(100)
    assert set(leaf.tolist()) <= {0, 1, 2, 3} and np.isfinite(probability).all()


def test_alpha_is_applied_once() -> None:
    """RB-04: to updates and to what new rows get from them."""
    tree = new_tree(3, alpha=0.5, filled=False)
    tree.insert([0], [0])
    put(tree, [16])
    assert tree.priorities().tolist() == [4, 0, 0]
    tree.insert([1], [0])
    assert tree.priorities().tolist() == [4, 4, 0]


def test_epsilon_is_added_before_the_power() -> None:
    tree = new_tree(1, alpha=0.5, epsilon=0.25)
    put(tree, [0])
    assert tree.priorities().tolist() == [0.5]


def test_new_rows_get_the_greatest_priority_of_the_living() -> None:
    """RB-05."""
    tree = new_tree(20, alpha=0.6, filled=False)
    tree.insert(range(4), [0] * 4)
    assert tree.priorities()[:5].tolist() == [1, 1, 1, 1, 0]
    put(tree, [1e6, 2, 1, 0.5])
    tree.insert([4], [0])
    assert tree.priorities()[4] == pytest.approx(1e6**0.6)
    tree.evict([0, 4])
    tree.insert([5], [0])
    assert tree.priorities()[5] == pytest.approx(2**0.6)


def test_evicting_one_leaves_the_others() -> None:
    """RB-08."""
    tree = new_tree(10)
    put(tree, [float(k + 1) for k in range(10)])
    tree.evict([3])
    assert len(tree) == 9
    assert tree.priorities().tolist() == [1, 2, 3, 0, 5, 6, 7, 8, 9, 10]
    assert tree.total == 51
    tree.evict([3])
    assert len(tree) == 9


def test_update_of_a_row_that_left_its_leaf_is_refused_and_counted() -> None:
    tree = new_tree(4)
    tree.insert([1], [1])
    tree.evict([2])
    assert tree.update([0, 1, 1, 2], [0, 0, 1, 0], [5, 6, 7, 8]) == 2
    assert tree.priorities().tolist() == [5, 7, 0, 1]
    assert tree.statistics().refused_stale == 2


def test_row_of_priority_zero_is_not_drawn_and_comes_back() -> None:
    tree = new_tree(3)
    put(tree, [0, 1, 0])
    assert set(tree.sample(1000)[0].tolist()) == {1}
    put(tree, [1, 0, 0])
    assert set(tree.sample(1000)[0].tolist()) == {0}
    assert len(tree) == 3


@pytest.mark.parametrize("leaves", [1, 2, 15, 16, 17, 256, 257, 5000])
def test_only_leaves_above_zero_are_drawn_whatever_their_place(leaves: int) -> None:
    rng = random.Random(leaves)
    for _ in range(20):
        tree = new_tree(leaves, filled=False)
        some = rng.sample(range(leaves), min(leaves, 3))
        tree.insert(some, [0] * len(some))
        scale = 10.0 ** rng.uniform(-300, 280)
        tree.update(some, [0] * len(some), [scale * (1 + 1e-16 * k) for k in range(len(some))])
        leaf, probability = tree.sample(200)
        assert set(leaf.tolist()) <= set(some)
        assert (probability > 0).all() and (probability <= 1).all()


def test_priorities_that_rounding_swallows_never_lead_out_of_range() -> None:
    tree = new_tree(64)
    put(tree, [1.0, *[1e-17] * 62, 1.0])
    leaf, _ = tree.sample(100_000)
    assert leaf.min() >= 0 and leaf.max() <= 63
    put(tree, [5e-324] * 64)
    leaf, probability = tree.sample(10_000)
    assert leaf.max() <= 63 and (probability > 0).all()


def test_empty_tree_draws_nothing() -> None:
    tree = new_tree(4, filled=False)
    with pytest.raises(SegmentError, match="nothing to draw"):
        tree.sample(1)


@pytest.mark.parametrize("call", ["insert", "update", "evict"])
@pytest.mark.parametrize("leaf", [-1, 4])
def test_leaves_that_are_not_there_are_refused(call: str, leaf: int) -> None:
    tree = new_tree(4)
    arguments = {"insert": ([0],), "update": ([0], [1.0]), "evict": ()}[call]
    with pytest.raises(IndexError, match=f"leaf {leaf} asked of 4"):
        getattr(tree, call)([leaf], *arguments)
    assert tree.total == 4


def test_arrays_of_unequal_length_are_refused() -> None:
    tree = new_tree(4)
    with pytest.raises(SegmentError, match="one length"):
        tree.update([0, 1], [0, 0], [1.0])


@pytest.mark.parametrize(("leaves", "alpha"), [(0, 1.0), (4, -1.0), (4, math.nan), (1 << 41, 1.0)])
def test_trees_that_make_no_sense_are_refused(leaves: int, alpha: float) -> None:
    with pytest.raises(SegmentError):
        PriorityTree(leaves, alpha, 0.0, np.random.SeedSequence(0))


def test_restored_tree_goes_on_exactly() -> None:
    tree = new_tree(300, alpha=0.6, epsilon=0.1)
    put(tree, np.random.default_rng(0).random(300).tolist())
    tree.evict([7, 250])
    tree.update([7, 0], [0, 0], [1.0, math.nan])
    tree.sample(17)
    other = PriorityTree(300, 0.6, 0.1, np.random.SeedSequence(99))
    other.load(tree.state())
    assert other.statistics() == tree.statistics()
    assert [a.tolist() for a in other.sample(50)] == [a.tolist() for a in tree.sample(50)]
    tree.insert([7], [1])
    other.insert([7], [1])
    assert other.priorities().tolist() == tree.priorities().tolist()


def test_damaged_state_is_refused() -> None:
    tree = new_tree(4)
    state = tree.state()
    with pytest.raises(SegmentError, match="damaged at leaf 2"):
        tree.load({**state, "priorities": np.array([1, 1, math.nan, 1])})
    with pytest.raises(SegmentError, match="exactly 32 bytes; got 40"):
        tree.load({**state, "priorities": np.ones(5)})
    assert tree.total == 4


def test_trees_of_different_seeds_draw_differently_and_of_one_alike() -> None:
    first, again = new_tree(1000), new_tree(1000)
    other = PriorityTree(1000, 1.0, 0.0, np.random.SeedSequence(8))
    other.insert(range(1000), [0] * 1000)
    drawn = [tree.sample(20)[0].tolist() for tree in (first, again, other)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_beta_goes_from_its_start_to_one() -> None:
    assert [beta_at(0.4, p) for p in (-1, 0, 0.5, 1, 2)] == pytest.approx([0.4, 0.4, 0.7, 1, 1])


GROWTH = """
import os
from pathlib import Path

import numpy as np

from fast_core.memory import PriorityTree


def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


before = resident()
tree = PriorityTree(4_000_000, 0.6, 0.1, np.random.SeedSequence(1))
made = resident() - before
state = tree.state()
before = resident()
tree.load(state)
print(made, resident() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_tree_takes_the_memory_it_says_also_when_it_was_loaded() -> None:
    """In a process of its own: what others have freed in this one would be taken first."""
    done = subprocess.run(
        [sys.executable, "-c", GROWTH], capture_output=True, text=True, check=True, timeout=60
    )
    made, loaded = map(int, done.stdout.split())
    assert 0.95 < made / PriorityTree.nbytes(4_000_000) < 1.05
    assert loaded < made / 8


@pytest.mark.parametrize(("leaves", "nbytes"), [(1, 132), (256, 3584), (257, 4228)])
def test_memory_of_small_trees(leaves: int, nbytes: int) -> None:
    """8 bytes in steps of 16 leaves, 4 for the owner of each, 16 for each node in steps of 16."""
    assert PriorityTree.nbytes(leaves) == nbytes
