"""The two ends of the batch slots, without anybody who draws or learns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from fast_core.algorithm import ReplayBatch
from fast_core.errors import ConfigError
from fast_core.nodes.replay import batch_slots
from fast_core.nodes.replay.batch_slots import BatchChain, BatchSlots, FilledSlots
from tests.nodes.replay_stage import BATCH, replay_config
from tests.nodes.stage import Stage


@dataclass
class Ends:
    """Both ends of one optimizer's slots, two of them."""

    stage: Stage
    filled: FilledSlots
    batches: BatchSlots

    def fill(self, value: float, *, drawn: bool = True) -> None:
        """Publish a batch whose rewards are all ``value``, with 100 times as many env steps."""
        arrays = self.filled.next
        arrays.obs[...] = value
        arrays.reward[...] = value
        arrays.row[...] = int(value)
        self.filled.fill()
        self.filled.publish(drawn=drawn, env_steps=int(100 * value))

    def next(self) -> ReplayBatch:
        """The batch that the optimizer has."""
        batch = self.batches.next()
        assert batch is not None
        return batch

    def answer(self, errors: np.ndarray | None = None) -> None:
        """Take that batch and finish it."""
        self.next()
        self.batches.finish(errors)


@pytest.fixture
def ends(tmp_path: Path) -> Iterator[Ends]:
    stage = Stage(tmp_path, replay_config())
    yield Ends(
        stage, FilledSlots(stage.plan, stage.memory, 0), BatchSlots(stage.plan, stage.memory, 0)
    )


def test_batch_is_there_when_it_is_published_and_not_before(ends: Ends) -> None:
    assert ends.batches.next() is None
    ends.filled.next.reward[...] = 7
    assert ends.batches.next() is None
    ends.fill(1)
    batch = ends.next()
    assert batch.reward.tolist() == [1.0] * BATCH
    assert (batch.env_steps, batch.progress) == (100, 0.1)
    assert batch.obs.shape == (BATCH, 4)


def test_batch_is_the_same_and_no_copy_until_it_is_finished(ends: Ends) -> None:
    ends.fill(1)
    ends.fill(2)
    batch = ends.batches.next()
    assert ends.batches.next() is batch
    assert batch is not None
    assert np.shares_memory(batch.reward, ends.stage.memory.batch(0, 0)["reward"])
    ends.batches.finish(None)
    after = ends.next()
    assert after.reward[0] == 2


def test_place_is_free_when_its_batch_was_answered(ends: Ends) -> None:
    free = []
    for value in (1, 2):
        free.append(ends.filled.free)
        ends.fill(value)
    assert free == [True, True]
    assert (ends.filled.free, ends.filled.idle) == (False, False)
    for number in range(1, 6):
        batch = ends.next()
        assert batch.reward[0] == number
        ends.batches.finish(None)
        assert ends.filled.free
        ends.fill(number + 2)
    ends.answer()
    assert not ends.filled.idle, "one is still open"
    ends.answer()
    assert ends.filled.idle


def test_errors_come_back_with_the_rows_they_are_of(ends: Ends) -> None:
    ends.fill(3)
    ends.batches.next()
    errors = np.arange(BATCH, dtype=np.float32)
    ends.batches.finish(errors)
    result = ends.filled.result(1)
    assert result is not None
    assert result.error.tolist() == errors.tolist()
    assert result.row.tolist() == [3] * BATCH


def test_answer_without_errors_is_none(ends: Ends) -> None:
    ends.fill(1)
    ends.answer()
    assert ends.filled.result(1) is None


def test_batch_that_could_not_be_drawn_has_no_rows(ends: Ends) -> None:
    ends.fill(1, drawn=False)
    batch = ends.next()
    assert [len(batch.reward), len(batch.obs), len(batch.weight)] == [0, 0, 0]
    ends.batches.finish(None)
    assert ends.filled.result(1) is None
    ends.fill(2)
    after = ends.next()
    assert len(after.reward) == BATCH


@pytest.mark.parametrize("shape", [(), (BATCH + 1,), (1,), (BATCH, 1)])
def test_errors_of_another_shape_are_refused(ends: Ends, shape: tuple[int, ...]) -> None:
    ends.fill(1)
    ends.batches.next()
    with pytest.raises(ConfigError, match=rf"`priority` of shape \({BATCH},\)"):
        ends.batches.finish(np.zeros(shape, np.float32))


def answer(ends: Ends, errors: list[bool]) -> None:
    for number, given in enumerate(errors, start=1):
        ends.fill(number)
        assert ends.batches.next() is not None
        ends.batches.finish(np.ones(BATCH, np.float32) if given else None)


def test_algorithm_that_never_says_how_wrong_it_was_is_refused_where_draws_go_by_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_slots, "UNSAID_LIMIT", 3)
    for number, (prioritized, errors, refused) in enumerate(
        [
            (True, [False, False, False], True),
            (True, [False, True, False, False, False], False),
            (False, [False] * 5, False),
        ]
    ):
        stage = Stage(tmp_path / str(number), replay_config(replay={"prioritized": prioritized}))
        slots = FilledSlots(stage.plan, stage.memory, 0)
        ends = Ends(stage, slots, BatchSlots(stage.plan, stage.memory, 0))
        if refused:
            with pytest.raises(ConfigError, match=r"replay\.prioritized needs .* for 3 batches"):
                answer(ends, errors)
        else:
            answer(ends, errors)


def test_each_side_rings_the_other(ends: Ends) -> None:
    memory = ends.stage.memory
    optimizer, replay = memory.doorbell("optimizer-0"), memory.doorbell("replay-0")
    before = optimizer.value(), replay.value()
    ends.fill(1)
    assert (optimizer.value(), replay.value()) == (before[0] + 1, before[1])
    ends.answer()
    assert replay.value() == before[1] + 1


def test_chain_depends_on_every_batch_and_goes_on(ends: Ends) -> None:
    def chained(values: list[float], chain: BatchChain) -> str:
        for value in values:
            ends.fill(value)
            chain.add(ends.stage.memory.batch(0, (ends.filled.filled - 1) % 2))
            ends.answer()
        return chain.value

    whole = chained([1, 2], BatchChain())
    first = chained([1], BatchChain())
    assert chained([2], BatchChain(first)) == whole
    assert len({whole, first, chained([2, 1], BatchChain()), chained([1, 1], BatchChain())}) == 4


def test_batches_are_added_to_the_chain_once_when_taken(ends: Ends) -> None:
    chain = BatchChain()
    batches = BatchSlots(ends.stage.plan, ends.stage.memory, 0, chain)
    ends.fill(1)
    assert chain.value == ""
    batches.next()
    value = chain.value
    batches.next()
    batches.finish(None)
    assert chain.value == value != ""


def test_batch_after_the_next_is_announced_once_if_it_is_drawn_and_given_later(ends: Ends) -> None:
    announced: list[ReplayBatch] = []
    ends.batches.announce = announced.append
    ends.fill(1)
    assert ends.batches.next() is not None
    ends.fill(2)
    assert ends.batches.next() is not None
    assert announced == [], "it was not there when the first was given"
    ends.batches.finish(None)
    second = ends.batches.next()
    ends.fill(3)
    ends.batches.finish(None)
    ends.fill(4)
    third = ends.batches.next()
    assert third is not None and second is not None
    (fourth,) = announced
    assert (third.reward[0], fourth.reward[0]) == (3, 4)
    ends.batches.finish(None)
    assert ends.batches.next() is fourth


def test_batch_without_rows_is_not_announced(ends: Ends) -> None:
    announced: list[ReplayBatch] = []
    ends.batches.announce = announced.append
    ends.fill(1)
    ends.fill(2, drawn=False)
    ends.batches.next()
    assert announced == []
    ends.batches.finish(None)
    batch = ends.next()
    assert len(batch.reward) == 0
