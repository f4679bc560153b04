"""Bytes of headers changed at random: attaching refuses or works, and never crashes."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fast_core.errors import SegmentError
from fast_core.memory import (
    Doorbell,
    EvaluationSlot,
    Ring,
    RolloutStore,
    Segment,
    Trace,
    WeightBoard,
)
from fast_core.spec import FieldSpec

FIELDS = (FieldSpec("obs", (2,), "float32", "T+1"),)
CHANGES = st.lists(st.tuples(st.integers(0, 511), st.integers(0, 255)), min_size=1, max_size=12)
WORDS = st.lists(
    st.tuples(
        st.integers(0, 63),
        st.sampled_from([0, 1, 2**31, 2**32, 2**40, 2**61, 2**62, 2**63, 2**64 - 1]),
    ),
    max_size=3,
)


def use_ring(memory: memoryview) -> None:
    ring = Ring.attach(memory)
    assert len(ring) <= ring.capacity
    for _ in range(3):
        # The record size was checked against the region, so this is bounded by it.
        ring.try_push(bytes(ring.record_bytes))
        ring.try_pop()
        if ring.try_peek() is not None:
            ring.release()


def use_board(memory: memoryview) -> None:
    board = WeightBoard.attach(memory, 64)
    board.read_into(bytearray(64))
    with contextlib.suppress(SegmentError):
        board.publish(5, bytes(64))


def use_slot(memory: memoryview) -> None:
    slot = EvaluationSlot.attach(memory, 64)
    if slot.held() is not None:
        slot.read_into(bytearray(64))


STRUCTURES: dict[str, tuple[Callable[[memoryview], object], Callable[[memoryview], object]]] = {
    "ring": (lambda memory: Ring.create(memory, 4, 16), use_ring),
    "doorbell": (Doorbell.create, lambda memory: Doorbell.attach(memory).ring()),
    "weight board": (lambda memory: WeightBoard.create(memory, 64), use_board),
    "evaluation slot": (lambda memory: EvaluationSlot.create(memory, 64), use_slot),
    "rollout store": (
        lambda memory: RolloutStore.create(memory, FIELDS, 2, 3, 1),
        lambda memory: RolloutStore.attach(memory, FIELDS, 2, 3, 1).slot(0).committed(),
    ),
    "trace": (
        lambda memory: Trace.create(memory, 2),
        lambda memory: Trace.attach(memory, 2).words.tolist(),
    ),
}


@pytest.mark.parametrize("structure", STRUCTURES)
@given(changes=CHANGES, words=WORDS)
@settings(max_examples=50, deadline=None, database=None)
def test_damaged_bytes_are_refused_or_harmless(
    structure: str, changes: list[tuple[int, int]], words: list[tuple[int, int]]
) -> None:
    create, use = STRUCTURES[structure]
    with Segment.create(1024, backing="memfd") as segment:
        create(segment.buffer)
        for word, value in words:
            segment.buffer[word * 8 : word * 8 + 8] = value.to_bytes(8, "little")
        for offset, value in changes:
            segment.buffer[offset] = value
        with contextlib.suppress(SegmentError):
            use(segment.buffer)


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("word", [0, 1])
def test_damaged_magic_or_version_is_refused(structure: str, word: int) -> None:
    create, use = STRUCTURES[structure]
    with Segment.create(1024, backing="memfd") as segment:
        create(segment.buffer)
        segment.buffer[word * 8] ^= 0x40
        with pytest.raises(SegmentError):
            use(segment.buffer)


def test_import_without_the_compiled_core_names_the_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in [name for name in sys.modules if name.startswith("fast_core.memory")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "fast_core.memory._native", None)
    with pytest.raises(ImportError, match=r"python setup.py build_ext --inplace"):
        importlib.import_module("fast_core.memory")
