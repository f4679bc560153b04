"""Gradients that come as they come: each is one step, the bound is kept, nothing is lost."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fast_core.memory import StatsColumn
from fast_core.nodes.learn.async_steps import Worker
from fast_core.nodes.learn.digest import digest
from fast_core.run.mail import Base, Gradient
from tests.forms import slow_but
from tests.nodes.replicas import Replicas, batches, plan_for, rows


def make(folder: Path, name: str, count: int, **changes: Any) -> Replicas:
    return Replicas(plan_for(folder, name, count, "async", **changes))


def feed(made: Replicas, name: str, count: int) -> None:
    """So many batches for each."""
    for rank, given in enumerate(made.given):
        given.waiting.extend(batches(name, count, seed=rank))


def staleness(made: Replicas) -> list[float]:
    return [r.metrics["gradient_staleness"] for r in made.reports[0] if r.updates]


class Board:
    """The board of networks, as a worker sees it that is slow between any two of its looks."""

    def __init__(self, board: Any, meanwhile: Callable[[], None]) -> None:
        self._board, self._meanwhile = board, meanwhile

    def version(self) -> int:
        """The newest, some time ago."""
        found: int = self._board.version()
        self._meanwhile()
        return found

    def read_into(self, target: Any, *, newer_than: int) -> int:
        """The newest networks, some time ago."""
        self._meanwhile()
        found: int = self._board.read_into(target, newer_than=newer_than)
        self._meanwhile()
        return found


class Meanwhile:
    """Lets other optimizers act while one is computing: they have processes of their own."""

    def __init__(self, made: Replicas, rng: random.Random) -> None:
        self._made, self._rng, self._busy = made, rng, set[int]()
        self._computing = self.most = 0
        for rank, learner in enumerate(made.learners):
            self._wrap(rank, learner)

    def _wrap(self, rank: int, learner: Any) -> None:
        original = learner.gradient

        def gradient(batch: Any, **options: Any) -> Any:
            self._computing += 1
            self.most = max(self.most, self._computing)
            found = original(batch, **options)
            self.some()
            self._computing -= 1
            return found

        learner.gradient = gradient
        if rank:
            self._made.steppers[rank]._board = Board(self._made.memory.networks(), self.some)

    def some(self) -> None:
        """A few of their actions."""
        for _ in range(self._rng.choice([0, 1, 3, 12])):
            self.act()

    def act(self) -> None:
        idle = [rank for rank in range(len(self._made.steppers)) if rank not in self._busy]
        if not idle:
            return
        rank = self._rng.choice(idle)
        self._busy.add(rank)
        self._made.advance(rank)
        self._busy.discard(rank)


@pytest.mark.parametrize("seed", slow_but([0], range(4)))
@pytest.mark.parametrize("count", [2, 3, 4])
@pytest.mark.parametrize("limit", [None, 0, 1, 2, 5])
def test_bound_holds_and_every_batch_is_one_step(tmp_path: Path, count, limit, seed) -> None:
    """In any order of events, with others acting while one computes."""
    made = make(tmp_path, "td3", count, max_gradient_staleness=limit)
    rng = random.Random(100 * seed + count)
    meanwhile = Meanwhile(made, rng)
    numbers = [rng.randrange(15, 30) for _ in range(count)]
    empty = 0
    for rank, number in enumerate(numbers):
        for batch in batches("td3", number, seed=rank):
            if rng.random() < 0.1:
                batch, empty = rows(batch, slice(0)), empty + 1
            made.given[rank].waiting.append(batch)
    for _ in range(20_000):
        meanwhile.act()
        if not any(g.waiting for g in made.given) and not any(s.pending for s in made.steppers):
            break
    assert len(made.reports[0]) == sum(numbers), "who waits for whom?"
    assert all(not reports for reports in made.reports[1:])
    assert made.learners[0].updates == sum(numbers) - empty
    found = staleness(made)
    bound = count - 1 if limit is None else limit
    assert max(found) <= bound
    assert min(2, bound + 1) <= meanwhile.most <= min(count, bound + 1)
    assert max(found) > 0 or bound == 0, "nothing was stale, so nothing was tested"
    words = made.memory.stats("optimizer-0").words
    assert words[StatsColumn.STALENESS_SUM] == sum(found)
    assert words[StatsColumn.STALENESS_MAX] == max(found)


def test_without_staleness_it_is_one_optimizer_with_the_same_batches(tmp_path: Path) -> None:
    """Limit 0: bit for bit a learner alone that takes the steps in the order they were applied."""
    made = make(tmp_path, "td3", 3, max_gradient_staleness=0, smoothing_noise=0.0, policy_delay=1)
    order: list[Any] = []
    for rank, learner in enumerate(made.learners):
        original = learner.gradient

        def gradient(batch: Any, *, _original=original, **options: Any) -> Any:
            order.append(rows(batch, slice(None)))
            return _original(batch, **options)

        learner.gradient = gradient
        made.given[rank].waiting.extend(batches("td3", 4, seed=rank))
    made.drain()
    assert staleness(made) == [0.0] * 12 and len(order) == 12
    alone = made.plan.blueprint.make_algorithm(made.plan.environment, made.plan.learner_setup)
    for batch in order:
        alone.update(batch)
    assert digest(alone.shared_state()) == digest(made.learners[0].shared_state())


def test_nobody_is_left_out_where_few_may_begin(tmp_path: Path) -> None:
    made = make(tmp_path, "td3", 4, max_gradient_staleness=0)
    feed(made, "td3", 30)
    while len(made.reports[0]) < 60:
        assert sum(made.advance(rank) for rank in range(4)) > 0
    left = [len(given.waiting) for given in made.given]
    assert max(left) - min(left) <= 2


def test_stale_gradients_count_less(tmp_path: Path) -> None:
    """Scale 1 / max(1, g) of the step size, with g counted from the parameters it was made at."""
    made = make(tmp_path, "td3", 3, max_gradient_staleness=4)
    applied: list[tuple[float, int]] = []
    original = made.learners[0].apply

    def apply(gradient: Any, *, scale: float = 1.0) -> Any:
        applied.append((scale, made.learners[0].updates))
        return original(gradient, scale=scale)

    made.learners[0].apply = apply
    for rank in (1, 2):
        made.given[rank].waiting.extend(batches("td3", 1, seed=rank))
        made.advance(rank)  # at step 0
    made.given[0].waiting.extend(batches("td3", 1))
    assert made.advance(0) is True and made.steppers[0].pending, "its own turn comes first"
    while made.advance(0):
        pass
    assert applied == [(1.0, 0), (1.0, 1), (0.5, 2)]
    assert staleness(made) == [0.0, 1.0, 2.0]


def test_gradient_waits_unchanged_while_others_are_applied(tmp_path: Path) -> None:
    """The learner's own vector is used for theirs meanwhile."""
    changes = {"smoothing_noise": 0.0, "policy_delay": 1}
    made = make(tmp_path, "td3", 2, max_gradient_staleness=1, **changes)
    own, other = batches("td3", 2)
    alone = made.plan.blueprint.make_algorithm(made.plan.environment, made.plan.learner_setup)
    vectors = [alone.gradient(batch).copy() for batch in (other, own)]
    for vector in vectors:  # of staleness 0 and 1, so both whole
        alone.apply(vector)
    made.given[1].waiting.append(other)
    made.given[0].waiting.append(own)
    made.advance(1)
    made.drain()
    assert staleness(made) == [0.0, 1.0]
    assert digest(alone.shared_state()) == digest(made.learners[0].shared_state())


def test_owner_waits_before_it_is_too_late_for_all_of_the_slow_ones(tmp_path: Path) -> None:
    """Two compute at step 0 with limit 3: the last of them may be applied at step 3 at most."""
    made = make(tmp_path, "td3", 4)
    vector = made.learners[1].gradient(batches("td3", 1)[0]).copy()
    slow = (1, 2)
    for rank in slow:
        made.memory.base(rank).publish(1, Base(0))
    made.given[0].waiting.extend(batches("td3", 6))
    made.drain()
    assert staleness(made) == [0.0, 0.0] and made.steppers[0].pending, "its third one waits"
    for rank in slow:
        box = made.memory.gradient(rank)
        box["gradient"][0, : len(vector)] = vector
        box.publish(1, Gradient(len(vector)))
    made.drain()
    assert staleness(made)[2:4] == [2.0, 3.0]
    assert len(made.reports[0]) == 8 and not made.steppers[0].pending


@pytest.mark.parametrize("name", ["td3", "dsact"])
def test_worker_never_sees_networks_of_two_versions(tmp_path: Path, name) -> None:
    made = make(tmp_path, name, 3)
    owner, known = made.learners[0], {}
    seen: list[int] = []

    def note() -> None:
        known[owner.updates] = [vector.copy() for vector in owner.networks()]

    for learner in made.learners[1:]:
        original = learner.adopt

        def adopt(parameters: Any, targets: Any, updates: int, _original=original) -> None:
            np.testing.assert_array_equal(parameters, known[updates][0])
            np.testing.assert_array_equal(targets, known[updates][1])
            seen.append(updates)
            _original(parameters, targets, updates)

        learner.adopt = adopt
    note()
    feed(made, name, 10)
    while any(g.waiting for g in made.given) or any(s.pending for s in made.steppers):
        for rank in range(3):
            made.advance(rank)
            note()
    assert len(set(seen)) > 5


@pytest.mark.parametrize("count", [2, 4])
def test_delayed_policy_gets_its_share_in_lock_step(tmp_path: Path, count) -> None:
    """All begin at an even number of steps, yet every second gradient has the policy's part."""
    made = make(tmp_path, "td3", count, policy_delay=2)
    feed(made, "td3", 12)
    made.drain()
    steps = made.learners[0].state_dict()["optimizer_steps"]
    assert steps["critics"] == 12 * count
    assert steps["policy"] == 6 * count


def test_gradient_that_is_not_finite_is_skipped_and_its_rows_keep_their_priorities(
    tmp_path: Path,
) -> None:
    made = make(tmp_path, "dqn", 2)
    good, bad = batches("dqn", 2)
    bad = replace(bad, reward=np.full(12, np.inf, np.float32))
    made.given[1].waiting.extend([bad, good])
    made.drain()
    assert [(r.updates, r.skipped) for r in made.reports[0]] == [(0, 1), (1, 0)]
    assert made.given[1].priorities[0] is None
    assert made.given[1].priorities[1].shape == (12,)


def test_worker_waits_for_the_first_networks(tmp_path: Path) -> None:
    made = make(tmp_path, "td3", 2)
    given = made.given[1]
    given.waiting.extend(batches("td3", 1))
    worker = Worker(made.plan, made.memory, 1, made.learners[1], given)

    class Nothing:
        def version(self) -> int:
            return -1

    worker._board = Nothing()  # type: ignore[assignment]
    assert worker.advance() is None
    assert len(given.waiting) == 1 and not worker.pending


def test_worker_hands_one_gradient_in_at_a_time(tmp_path: Path) -> None:
    """It would overwrite what the owner is about to apply."""
    made = make(tmp_path, "td3", 2)
    made.given[1].waiting.extend(batches("td3", 2))
    assert made.advance(1) and made.steppers[1].pending
    assert not made.advance(1) and len(made.given[1].waiting) == 1
    assert made.advance(0) and len(made.reports[0]) == 1
    assert made.advance(1) and not made.steppers[1].pending
    assert made.advance(1) and not made.given[1].waiting


def test_state_says_what_is_due_next(tmp_path: Path) -> None:
    made = make(tmp_path, "td3", 2)
    feed(made, "td3", 3)
    made.drain()
    (tmp_path / "next").mkdir()
    resumed = Replicas(plan_for(tmp_path / "next", "td3", 2, "async"), made.states())
    assert [s.state() for s in resumed.steppers] == [s.state() for s in made.steppers]
    assert resumed.memory.networks().version() == 6
    for rank in range(2):
        resumed.given[rank].waiting.extend(batches("td3", 1, seed=5 + rank))
    resumed.drain()
    assert resumed.learners[0].updates == 8
    resumed.close()


@pytest.mark.parametrize("count", [2, 3])
def test_asking_to_begin_shows_as_something_done(tmp_path: Path, count: int) -> None:
    """One thread that runs all in turn takes a round in which nobody did anything for the end."""
    made = make(tmp_path, "td3", count, max_gradient_staleness=0)
    made.given[-1].waiting.extend(batches("td3", 3))  # the others have nothing
    made.drain()
    assert len(made.reports[0]) == 3
    assert not any(stepper.pending for stepper in made.steppers)
