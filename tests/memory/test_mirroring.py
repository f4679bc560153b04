"""What is published in one segment appears in the mirror of another, and nothing else."""

from __future__ import annotations

import mmap
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fast_core.memory import (
    Carrier,
    EvaluationSlot,
    KeptPriorities,
    ReplayLog,
    Ring,
    RolloutStore,
    WeightBoard,
    carrier_of,
)
from tests.memory.kinds import CASES, COLUMNS, LOGGED, NBYTES, append, read_store, write_store

TRAVEL = [name for name, case in CASES.items() if carrier_of(case.kind) is not None]


def region(kind: Any, shape: tuple[Any, ...]) -> memoryview:
    return memoryview(mmap.mmap(-1, kind.nbytes(*shape)))


def pair(kind: Any, *shape: Any) -> tuple[Any, Any, Carrier[Any]]:
    """A structure, its mirror, and who carries from one to the other."""
    source, mirror = (kind.create(region(kind, shape), *shape) for _ in range(2))
    carrier = carrier_of(kind)
    assert carrier is not None
    return source, mirror, carrier(source)


def carry(carrier: Carrier[Any], mirror: Any) -> list[bytes]:
    news = list(carrier.news())
    for each in news:
        carrier.take(mirror, each)
    return news


def test_every_kind_travels_but_those_that_are_nobody_elses() -> None:
    assert set(CASES) - set(TRAVEL) == {"doorbell", "priorities", "side columns"}
    assert carrier_of(KeptPriorities) is None


@pytest.mark.parametrize("name", TRAVEL)
def test_readers_of_the_mirror_see_what_those_of_the_structure_do(name: str) -> None:
    case = CASES[name]
    assert case.write is not None and case.read is not None
    source, mirror, carrier = pair(case.kind, *case.shape)
    other = case.kind.create(region(case.kind, case.shape), *case.shape)
    for number in (1, 2, 3):
        case.write(source, number)
        case.write(other, number)  # since carrying takes what readers take
        carry(carrier, mirror)
        assert mirror.published() == other.published()
        if case.kind is EvaluationSlot:
            other.release(number)
            mirror.release(number)
        elif case.kind is not Ring:
            assert case.read(mirror) == case.read(other)
    if case.kind is Ring:
        assert case.read(mirror) == case.read(other)
    assert carry(carrier, mirror) == [], "each thing is told once"


@pytest.mark.parametrize("name", sorted({*TRAVEL} - {"ring"}))
def test_news_that_comes_twice_changes_nothing(name: str) -> None:
    case = CASES[name]
    assert case.write is not None and case.read is not None
    source, mirror, carrier = pair(case.kind, *case.shape)
    case.write(source, 1)
    news = carry(carrier, mirror)
    before = mirror.published(), case.read(mirror)
    assert news
    for each in news:
        carrier.take(mirror, each)
    assert (mirror.published(), case.read(mirror)) == before


def test_open_rollout_stays_where_it_is() -> None:
    source, mirror, carrier = pair(RolloutStore, COLUMNS, 4, 3, 2)
    source.slot(0).open(1)
    source.slot(0)["obs"][...] = 5.0
    assert carry(carrier, mirror) == []
    write_store(source, 2)
    assert len(carry(carrier, mirror)) == 1
    assert mirror.published() == (0, 2, 0, 0)
    assert read_store(mirror) == read_store(source)
    source.slot(1).open(3)
    assert carry(carrier, mirror) == [], "what it held is trained on there"


def test_rollout_that_is_collected_anew_travels_again() -> None:
    """The number of one that was lost is given out again; its incarnation tells them apart."""
    source, mirror, carrier = pair(RolloutStore, COLUMNS, 1, 3, 2)
    for incarnation in (1, 2):
        slot = source.slot(0)
        slot.open(1)
        slot["obs"][...] = incarnation
        slot["action"][...] = 0
        slot.commit(1, incarnation)
        carry(carrier, mirror)
        assert (mirror.slot(0).incarnation, mirror.slot(0)["obs"].max()) == (incarnation,) * 2


def test_only_the_newest_weights_travel() -> None:
    source, mirror, carrier = pair(WeightBoard, NBYTES)
    for version in range(5):
        source.publish(version, bytes([version]) * NBYTES)
    assert len(carry(carrier, mirror)) == 1
    assert mirror.version() == 4


def test_carrier_frees_the_snapshot_that_it_has_told() -> None:
    source, mirror, carrier = pair(EvaluationSlot, NBYTES)
    source.write(3, 30, bytes(NBYTES))
    carry(carrier, mirror)
    assert (source.held(), mirror.held()) == (None, 3)


def test_rows_come_no_faster_than_a_reader_of_the_mirror_can_notice() -> None:
    """Between two commits a writer of a log touches two rows at most; draws rest on that."""
    source, mirror, carrier = pair(ReplayLog, LOGGED, 40, 2)
    for number in range(15):
        append(source, number)
    steps, stride = [], source.native.stride

    class Counting:
        committed = mirror.native.committed

        def restore(self, env: int, first: int, rows: bytes) -> None:
            steps.append(len(rows) // stride)
            mirror.native.restore(env, first, rows)

    Counting.stride = stride  # type: ignore[attr-defined]
    counting = SimpleNamespace(native=Counting())
    news = carry(carrier, counting)
    assert max(steps) == 2 and sum(steps) == sum(source.published())
    assert mirror.published() == source.published()
    steps.clear()
    for each in news:
        carrier.take(counting, each)
    assert steps == [], "what is there is not written once more, which would take it back first"


def test_rows_that_were_overwritten_before_they_were_told_are_passed_over() -> None:
    source, mirror, carrier = pair(ReplayLog, LOGGED, 40, 2)
    for number in range(200):
        append(source, number)
    native = source.native

    class Lapped:
        """The log as it stood, to who has looked at it and not read yet."""

        stride, read, capacity = native.stride, native.read, native.capacity

        def spans(self) -> list[tuple[int, int]]:
            return [(0, commit) for _, commit in native.spans()]

    carrier.structure = SimpleNamespace(native=Lapped())
    carry(carrier, mirror)
    assert mirror.published() == source.published()
    first, commit = mirror.native.spans()[0]
    assert commit - first == 40


@pytest.mark.parametrize("behind", [3, 30, 300])
def test_log_that_runs_ahead_of_its_carrier_is_as_whole_there_as_here(behind: int) -> None:
    shape = (LOGGED, 40, 2)
    source, mirror, carrier = pair(ReplayLog, *shape)
    rng = np.random.default_rng(behind)
    for row in range(1, 601):
        append(source, int(rng.integers(0, 2)))
        if row % behind == 0:
            carry(carrier, mirror)
            assert mirror.published() == source.published()
            for env, (first, commit) in enumerate(source.native.spans()):
                held = max(first, mirror.native.spans()[env][0])
                assert commit - held >= min(40, commit), "what can be drawn is there"
                here, there = (bytearray((commit - held) * source.native.stride) for _ in "ab")
                source.native.read(env, held, here)
                mirror.native.read(env, held, there)
                assert here == there
