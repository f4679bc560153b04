import pytest

from fast_core.messages import RolloutReady
from fast_core.scheduler.ledger import Ledger, Place, Rollout, balanced_blocks
from tests.scheduler.simulation import rollout_ready


def assigned(shards: int, slots: int) -> Ledger:
    ledger = Ledger(slots, [0] * shards, [0] * shards)
    for shard in range(shards):
        ledger.assign(shard, "env0")
    return ledger


def start(ledger: Ledger) -> Rollout:
    return ledger.start(0, 0, 0)


def train(ledger: Ledger, rollout: Rollout) -> None:
    rollout.place = Place.TRAINING
    ledger.release([rollout])


@pytest.mark.parametrize(
    ("shards", "nodes", "sizes"),
    [(4, 2, [2, 2]), (5, 2, [2, 3]), (2, 3, [0, 1, 1]), (7, 3, [2, 2, 3]), (1, 1, [1])],
)
def test_blocks_are_contiguous_and_balanced(shards: int, nodes: int, sizes: list[int]) -> None:
    blocks = balanced_blocks(shards, nodes)
    assert [len(block) for block in blocks] == sizes
    assert [shard for block in blocks for shard in block] == list(range(shards))


def test_assignment_raises_the_incarnation() -> None:
    ledger = Ledger(1, [3, 0], [7, 0])
    assert ledger.assign(0, "env0").incarnation == 4
    assert ledger.assign(1, "env0").incarnation == 1
    assert ledger.assign(1, "env1").incarnation == 2
    assert ledger.owners == ["env0", "env1"]


def test_unassigned_shard_gets_no_work() -> None:
    ledger = Ledger(1, [0, 0], [0, 0])
    ledger.assign(1, "env0")
    assert start(ledger).order.shard == 1
    assert not ledger.has_idle()


def test_idle_shards_are_served_least_started_first_then_by_index() -> None:
    ledger = Ledger(2, [0, 0, 0], [2, 1, 1])
    for shard in range(3):
        ledger.assign(shard, "env0")
    first = [start(ledger) for _ in range(3)]
    assert [rollout.order.shard for rollout in first] == [1, 2, 0]
    for rollout in first:
        ledger.complete(rollout_ready("env0", rollout.order, 0))
    assert [start(ledger).order.shard for _ in range(3)] == [1, 2, 0]


def test_rollout_ids_count_within_the_shard() -> None:
    ledger = assigned(1, 1)
    for expected in (1, 2, 3):
        rollout = start(ledger)
        assert rollout.order.rollout_id == expected
        ledger.complete(rollout_ready("env0", rollout.order, 0))
        train(ledger, rollout)


def test_shard_without_a_free_slot_waits_for_training() -> None:
    ledger = assigned(1, 2)
    first = start(ledger)
    assert not ledger.has_idle(), "a shard runs one rollout at a time"
    ledger.complete(rollout_ready("env0", first.order, 0))
    second = start(ledger)
    assert (first.order.slot, second.order.slot) == (0, 1)
    ledger.complete(rollout_ready("env0", second.order, 0))
    assert not ledger.has_idle(), "both slots hold untrained rollouts"
    train(ledger, first)
    assert start(ledger).order.slot == 0


def test_slot_freed_while_the_shard_runs_makes_it_idle_only_later() -> None:
    ledger = assigned(1, 2)
    first = start(ledger)
    ledger.complete(rollout_ready("env0", first.order, 0))
    second = start(ledger)
    train(ledger, first)
    assert not ledger.has_idle()
    ledger.complete(rollout_ready("env0", second.order, 0))
    assert start(ledger).order.slot == 0
    assert not ledger.has_idle(), "the shard waits once, not twice"


def test_slot_cannot_be_freed_before_training() -> None:
    ledger = assigned(1, 1)
    rollout = start(ledger)
    with pytest.raises(AssertionError):
        ledger.release([rollout])


@pytest.mark.parametrize(
    "change",
    [
        {"node": "env1"},
        {"shard": 1},
        {"shard": 2},
        {"shard": -1},
        {"incarnation": 2},
        {"slot": 1},
        {"rollout_id": 2},
    ],
    ids=str,
)
def test_report_that_matches_nothing_is_not_taken(change: dict[str, object]) -> None:
    ledger = assigned(2, 2)
    order = start(ledger).order
    values: dict[str, object] = {
        "node": "env0",
        "shard": 0,
        "incarnation": 1,
        "slot": 0,
        "rollout_id": 1,
        "ticket": 0,
        "version": 0,
        "episode_returns": (),
        "episode_lengths": (),
    }
    assert order.shard == 0
    assert ledger.complete(RolloutReady(**(values | change))) is None  # type: ignore[arg-type]
    assert ledger.running == 1
    assert ledger.complete(RolloutReady(**values)) is not None  # type: ignore[arg-type]
    assert ledger.complete(RolloutReady(**values)) is None, "doubled"  # type: ignore[arg-type]
    assert ledger.running == 0
