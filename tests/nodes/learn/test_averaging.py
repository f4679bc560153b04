"""Replicas that average: equal bit for bit, whatever the order, and caught when they are not."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fast_core.errors import ReplicasDiffer
from fast_core.nodes.learn.averaging import Averaging, SharedExchange
from fast_core.nodes.learn.digest import digest
from tests.nodes.replicas import Replicas, batches, plan_for, rows, shares


def make(folder: Path, name: str, count: int, states: Any = (), **changes: Any) -> Replicas:
    return Replicas(plan_for(folder, name, count, **changes), states)


def hashes(made: Replicas) -> list[str]:
    return [digest(learner.shared_state()) for learner in made.learners]


def train(made: Replicas, steps: int, *, seed: int = 0) -> None:
    for batch in batches(made.plan.config.algorithm.name, steps, seed):
        made.give(shares(batch, made.plan.optimizers))
        made.drain()


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("name", ["td3", "dsact", "dqn"])
def test_replicas_are_equal_at_every_one_of_52_versions(tmp_path: Path, name, count) -> None:
    made = make(tmp_path, name, count, digests=True)
    seen = set()
    for batch in batches(name, 52):
        made.give(shares(batch, count))
        made.drain()
        assert len(set(hashes(made))) == 1
        seen.add(hashes(made)[0])
    assert len(seen) == 52, "every step changes something"
    assert made.learners[0].updates == 52
    noise = {learner.state_dict()["random_state"] for learner in made.learners}
    assert len(noise) == count, "each has its own"


def test_replicas_in_torch_are_equal(tmp_path: Path) -> None:
    made = make(tmp_path, "sac", 2, backend="torch", digests=True)
    train(made, 6)
    assert hashes(made)[0] == hashes(made)[1]


@pytest.mark.parametrize("name", ["td3", "dqn"])
@pytest.mark.parametrize("count", [2, 3])
def test_average_of_shares_is_the_step_of_the_whole_batch(tmp_path: Path, name, count) -> None:
    """Without noise of their own the replicas are one optimizer, up to rounding."""
    quiet = {"smoothing_noise": 0.0} if name == "td3" else {}
    (tmp_path / "alone").mkdir()
    alone, made = (
        make(tmp_path / "alone", name, 1, **quiet),
        make(tmp_path, name, count, **quiet),
    )
    for batch in batches(name, 8):
        alone.give([batch])
        made.give(shares(batch, count))
    alone.drain()
    made.drain()
    start = alone.plan.blueprint.make_algorithm(alone.plan.environment, alone.plan.learner_setup)
    before, _ = start.networks()
    for ours, theirs in zip(made.learners[0].networks(), alone.learners[0].networks(), strict=True):
        moved = np.abs(theirs - before).max()
        assert moved > 1e-5
        np.testing.assert_allclose(ours, theirs, atol=0.01 * moved)
    priorities = [np.concatenate(p) for p in zip(*(g.priorities for g in made.given), strict=True)]
    np.testing.assert_allclose(priorities, alone.given[0].priorities, rtol=1e-3, atol=1e-4)


def test_mean_is_summed_in_the_order_of_ranks_whoever_comes_first(tmp_path: Path) -> None:
    made = make(tmp_path, "dqn", 3)
    exchanges = [SharedExchange(made.plan, made.memory, rank) for rank in range(3)]
    vectors = [np.array(v, np.float32) for v in ([1e8, 1.0], [-1e8, 2.0], [3.0, 3.0])]
    for rank in (2, 0, 1):
        exchanges[rank].offer(1, vectors[rank], b"")
        assert (exchanges[rank].collect() is None) == (rank != 1), "the last one comes third"
    for exchange in exchanges:
        averaged = exchange.collect()
        assert averaged is not None and averaged.gradient is not None
        np.testing.assert_array_equal(averaged.gradient, np.array([1.0, 2.0], np.float32))


@pytest.mark.parametrize("seed", range(6))
def test_any_order_of_events_gives_the_same_bits(tmp_path: Path, seed) -> None:
    """A replica may be a whole step behind, and its vector is not overwritten meanwhile."""
    (tmp_path / "even").mkdir()
    even, made = make(tmp_path / "even", "td3", 3), make(tmp_path, "td3", 3)
    given = [shares(batch, 3) for batch in batches("td3", 10)]
    for parts in given:
        even.give(parts)
        made.give(parts)
    even.drain()
    rng = random.Random(seed)
    speed = [rng.random() ** 3 for _ in range(3)]
    while any(g.waiting for g in made.given):
        made.advance(rng.choices(range(3), speed)[0])
    assert hashes(made) == hashes(even)
    assert [len(r) for r in made.reports] == [10, 10, 10]


def test_step_waits_for_the_last_share(tmp_path: Path) -> None:
    made = make(tmp_path, "td3", 2)
    parts = shares(batches("td3", 1)[0], 2)
    made.given[0].waiting.append(parts[0])
    bells = [made.memory.doorbell(name).value() for name in made.plan.names.optimizers]
    assert made.advance(0) and made.steppers[0].pending
    assert not made.advance(0) and made.reports[0] == []
    rung = [made.memory.doorbell(name).value() for name in made.plan.names.optimizers]
    assert (rung[0], rung[1]) == (bells[0], bells[1] + 1), "the other one is told"
    made.given[1].waiting.append(parts[1])
    made.drain()
    assert [len(reports) for reports in made.reports] == [1, 1]
    assert not any(stepper.pending for stepper in made.steppers)


# --- decisions are common ------------------------------------------------------------------------


def test_share_that_could_not_be_drawn_skips_the_step_everywhere(tmp_path: Path) -> None:
    made = make(tmp_path, "td3", 2, digests=True)
    train(made, 1)
    before = hashes(made)
    first, second = shares(batches("td3", 1, seed=1)[0], 2)
    made.give([first, rows(second, slice(0))])
    made.drain()
    for reports, given in zip(made.reports, made.given, strict=True):
        assert (reports[-1].updates, reports[-1].skipped) == (0, 1)
        assert given.priorities[-1] is None
    assert hashes(made) == before
    train(made, 2, seed=2)
    assert hashes(made)[0] == hashes(made)[1] != before[0]


@pytest.mark.parametrize("name", ["td3", "dqn", "dsact"])
@pytest.mark.parametrize("rank", [0, 1])
def test_share_that_is_not_finite_skips_the_step_everywhere(tmp_path: Path, name, rank) -> None:
    """DQN's loss is linear in large errors: an infinite one leaves a finite gradient."""
    made = make(tmp_path, name, 2, digests=True)
    train(made, 1)
    before = made.learners[0].updates
    parts = shares(batches(name, 1, seed=1)[0], 2)
    reward = parts[rank].reward.copy()
    reward[2] = np.inf
    parts[rank] = replace(parts[rank], reward=reward)
    made.give(parts)
    made.drain()
    for reports, given in zip(made.reports, made.given, strict=True):
        assert (reports[-1].updates, reports[-1].skipped) == (0, 1)
        assert reports[-1].metrics["nonfinite_updates"] == 1.0
        assert given.priorities[-1] is None
    assert made.learners[0].updates == made.learners[1].updates == before
    assert hashes(made)[0] == hashes(made)[1]
    train(made, 2, seed=2)
    assert made.learners[0].updates == before + 2


# --- proven equal --------------------------------------------------------------------------------


def perturb(learner: Any, kind: str) -> None:
    """Flip the last bit of one number."""
    state = learner.state_dict()
    vector = state[kind]
    if isinstance(vector, dict):
        vector = next(iter(vector.values())).reshape(-1)
    vector.view(np.uint32)[1] ^= 1
    learner.load_state_dict(state)


@pytest.mark.parametrize("kind", ["parameters", "targets", "first_moment", "second_moment"])
def test_one_bit_that_differs_ends_the_run(tmp_path: Path, kind) -> None:
    made = make(tmp_path, "dsact", 3, digests=True)
    train(made, 4)
    perturb(made.learners[2], kind)
    expected = hashes(made)
    assert expected[0] == expected[1] != expected[2]
    with pytest.raises(ReplicasDiffer) as caught:
        train(made, 1, seed=1)
    text = str(caught.value)
    assert "before step 5" in text and "after 4 committed" in text
    assert f"optimizer-0 has the hash {expected[0]}" in text
    assert f"optimizer-2 {expected[2]}" in text


def test_replicas_are_compared_at_the_first_step_and_then_now_and_then(tmp_path: Path) -> None:
    made = make(tmp_path, "td3", 2)
    for rank, stepper in enumerate(made.steppers):
        exchange = SharedExchange(made.plan, made.memory, rank)
        made.steppers[rank] = Averaging(
            made.learners[rank], made.given[rank], exchange, check_every=4
        )
        stepper.close()
    train(made, 1)
    perturb(made.learners[1], "parameters")
    train(made, 3, seed=1)
    with pytest.raises(ReplicasDiffer, match="before step 5 of this part"):
        train(made, 1, seed=2)


def test_replicas_that_begin_unequal_are_refused_at_once(tmp_path: Path) -> None:
    """For instance restored from the files of different checkpoints."""
    made = make(tmp_path, "td3", 2)
    perturb(made.learners[1], "parameters")
    with pytest.raises(ReplicasDiffer, match="before step 1 of this part"):
        train(made, 1)


def test_vectors_of_different_lengths_are_refused(tmp_path: Path) -> None:
    made = make(tmp_path, "dqn", 2)
    exchanges = [SharedExchange(made.plan, made.memory, rank) for rank in range(2)]
    exchanges[0].offer(1, np.ones(3, np.float32), b"")
    exchanges[1].offer(1, np.ones(4, np.float32), b"")
    with pytest.raises(ReplicasDiffer, match=r"one length at step 1; got \[3, 4\]"):
        exchanges[0].collect()


# --- resume --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["td3", "dsact"])
def test_resumed_replicas_equal_ones_that_never_stopped(tmp_path: Path, name) -> None:
    """Each rank's file holds its own noise; with a delay of 2, in the middle of a period."""
    for folder in ("whole", "first", "second"):
        (tmp_path / folder).mkdir()
    given = [shares(batch, 2) for batch in batches(name, 10)]
    whole, first = make(tmp_path / "whole", name, 2), make(tmp_path / "first", name, 2)
    for parts in given:
        whole.give(parts)
    for parts in given[:5]:
        first.give(parts)
    whole.drain()
    first.drain()
    assert not any(stepper.pending for stepper in first.steppers)
    second = make(tmp_path / "second", name, 2, first.states())
    for parts in given[5:]:
        second.give(parts)
    second.drain()
    for ours, theirs in zip(second.learners, whole.learners, strict=True):
        assert digest(ours.state_dict()) == digest(theirs.state_dict())
