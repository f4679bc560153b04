"""Priorities of rows, as the reader of their log gives, changes and draws by them."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest

from fast_core.errors import SegmentError
from fast_core.memory import PriorityTree, beta_at
from tests.memory.replay_model import Memory, new_log, new_reader, one_step


class Rows:
    """A log of ``count`` windows, its reader and its tree; leaf ``i`` is that of row ``i``."""

    def __init__(
        self, memory: Memory, count: int, alpha: float = 1.0, epsilon: float = 0.0, seed: int = 7
    ) -> None:
        self.log, self.count = new_log(memory, count + 1, 1), count
        for step in range(count + 1):  # the newest has no observation after it
            one_step(self.log, step)
        self.reader = new_reader(self.log)
        self.tree = PriorityTree(self.reader.leaves, alpha, epsilon, np.random.SeedSequence(seed))
        self.reader.sync(self.tree)

    def update(self, rows: list[int], errors: list[float]) -> int:
        logs = np.zeros(len(rows), np.int32)
        return self.reader.update(self.tree, logs, np.array(rows), np.float32(errors))

    def put(self, errors: list[float]) -> None:
        assert self.update(list(range(len(errors))), errors) == len(errors)

    def priorities(self) -> list[float]:
        found: list[float] = self.tree.state()["priorities"][: self.count].tolist()
        return found

    def sample(self, count: int) -> list[int]:
        arrays = self.reader.arrays(count)
        assert self.reader.draw(arrays, self.tree)
        drawn: list[int] = arrays.row.tolist()
        return drawn


Make = Callable[..., Rows]


@pytest.fixture
def rows(memory: Memory) -> Make:
    return lambda *given, **named: Rows(memory, *given, **named)


def test_draws_follow_the_probabilities(rows: Make) -> None:
    """Chi-squared against the exact probabilities, over several levels of the tree."""
    rng = np.random.default_rng(3)
    count, draws = 600, 600_000
    made = rows(count)
    errors = rng.random(count).astype(np.float32) ** 4
    errors[rng.random(count) < 0.2] = 0.0
    made.put(errors.tolist())
    seen = np.bincount(made.sample(draws), minlength=count)
    assert seen[errors == 0].sum() == 0
    expected = draws * errors / errors.sum(dtype=np.float64)
    kept = expected > 5
    chi = float(((seen - expected)[kept] ** 2 / expected[kept]).sum())
    freedom = kept.sum() - 1
    assert abs(chi - freedom) < 5 * math.sqrt(2 * freedom)


def test_tree_does_not_drift(rows: Make) -> None:
    """RB-02: sums are computed from their parts, so errors of rounding do not stay."""
    made, rng = rows(4096), np.random.default_rng(0)
    for _ in range(200):
        errors = np.where(rng.random(1000) < 0.001, 1e6, rng.random(1000))
        made.update(rng.integers(0, 4096, 1000).tolist(), errors.tolist())
    made.put([2.0**-10] * 4096)
    assert made.tree.total == pytest.approx(4.0, abs=1e-9)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, -1.0])
def test_errors_that_are_no_priority_are_refused_and_counted(rows: Make, bad: float) -> None:
    """RB-03."""
    made = rows(4)
    made.put([1, 2, 3, 4])
    assert made.update([1, 2, 3], [9, bad, 8]) == 2
    assert made.priorities() == [1, 9, 3, 8]
    assert made.tree.total == 21
    assert made.tree.refused() == (1, 0)
    assert set(made.sample(100)) <= {0, 1, 2, 3}


def test_alpha_is_applied_once(rows: Make) -> None:
    """RB-04, RB-05: to updates and to what new rows get, the greatest that is left."""
    made = rows(3, alpha=0.5)
    made.put([16, 0.25, 0])
    assert made.priorities() == [4, 0.5, 0]
    one_step(made.log, 4)  # row 0 goes, and the greatest with it
    made.reader.sync(made.tree)
    assert sorted(made.tree.state()["priorities"].tolist()) == [0, 0, 0.5, 0.5]


def test_epsilon_is_added_before_the_power(rows: Make) -> None:
    made = rows(1, alpha=0.5, epsilon=0.25)
    made.put([0])
    assert made.priorities() == [0.5]


def test_row_of_priority_zero_is_not_drawn_and_comes_back(rows: Make) -> None:
    made = rows(3)
    made.put([0, 1, 0])
    assert set(made.sample(1000)) == {1}
    made.put([1, 0, 0])
    assert set(made.sample(1000)) == {0}
    assert len(made.tree) == 3


def test_nothing_is_drawn_where_every_priority_is_zero(rows: Make) -> None:
    made = rows(4)
    made.put([0, 0, 0, 0])
    assert not made.reader.draw(made.reader.arrays(1), made.tree)


@pytest.mark.parametrize(("leaves", "alpha"), [(0, 1.0), (4, -1.0), (4, math.nan), (1 << 41, 1.0)])
def test_trees_that_make_no_sense_are_refused(leaves: int, alpha: float) -> None:
    with pytest.raises(SegmentError):
        PriorityTree(leaves, alpha, 0.0, np.random.SeedSequence(0))


def test_restored_tree_goes_on_exactly(rows: Make) -> None:
    made, again = rows(300, alpha=0.6, epsilon=0.1), rows(300, alpha=0.6, epsilon=0.1, seed=99)
    made.put(np.random.default_rng(0).random(300).tolist())
    made.update([7, 0], [1.0, math.nan])
    made.sample(17)
    again.tree.load(made.tree.state())
    assert again.tree.refused() == made.tree.refused() == (1, 0)
    assert again.sample(50) == made.sample(50)
    assert again.priorities() == made.priorities()


def test_damaged_state_is_refused(rows: Make) -> None:
    tree = rows(3).tree
    state = tree.state()
    with pytest.raises(SegmentError, match="damaged at leaf 2"):
        tree.load({**state, "priorities": np.array([1, 1, math.nan, 0])})
    with pytest.raises(SegmentError, match="exactly 32 bytes; got 40"):
        tree.load({**state, "priorities": np.ones(5)})
    assert tree.total == 3


def test_trees_of_different_seeds_draw_differently_and_of_one_alike(rows: Make) -> None:
    drawn = [rows(1000, seed=seed).sample(20) for seed in (7, 7, 8)]
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


seed = np.random.SeedSequence(1)  # NumPy imports its generators when they are first named
before = resident()
tree = PriorityTree(4_000_000, 0.6, 0.1, seed)
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
