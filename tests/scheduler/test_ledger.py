import pytest

from fast_core.scheduler.ledger import Ledger, Rollout, RolloutState, balanced_blocks
from tests.scheduler.simulation import rollout_ready


def assigned(shards: int, slots: int) -> Ledger:
    ledger = Ledger(slots, [0] * shards, [0] * shards)
    for shard in range(shards):
        ledger.assign(shard, "env0")
    return ledger


def start(ledger: Ledger) -> Rollout:
    return ledger.start(0, 0, 0)


def train(ledger: Ledger, rollout: Rollout) -> None:
    rollout.place = RolloutState.TRAINING
    ledger.release([rollout])


@pytest.mark.parametrize(
    ("shards", "nodes", "sizes"),
    [(4, 2, [2, 2]), (5, 2, [2, 3]), (2, 3, [0, 1, 1]), (7, 3, [2, 2, 3]), (1, 1, [1])],
)
def test_blocks_are_contiguous_and_balanced(shards: int, nodes: int, sizes: list[int]) -> None:
    blocks = balanced_blocks(shards, nodes)
    assert [len(block) for block in blocks] == sizes
    assert [shard for block in blocks for shard in block] == list(range(shards))


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
