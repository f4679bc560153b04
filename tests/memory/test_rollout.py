from __future__ import annotations

import numpy as np
import pytest

from fast_core.algorithm.spec import FieldSpec
from fast_core.errors import SegmentError
from fast_core.memory import RolloutStore
from tests.memory.conftest import Memory

FIELDS = (
    FieldSpec("obs", (3,), "float32", "T+1"),
    FieldSpec("action", (), "int64"),
    FieldSpec("terminated", (), "bool"),
    FieldSpec("image", (2, 3), "uint8"),
)
SLOTS, STEPS, ENVS = 3, 5, 2


def new_store(memory: Memory) -> tuple[RolloutStore, RolloutStore]:
    plan = (FIELDS, SLOTS, STEPS, ENVS)
    region = memory(RolloutStore.nbytes(*plan))
    return RolloutStore.create(region, *plan), RolloutStore.attach(region, *plan)


def test_fields_have_their_declared_shapes_and_types(memory: Memory) -> None:
    store, _ = new_store(memory)
    slot = store.slot(1)
    assert {name: (array.shape, array.dtype.name) for name, array in slot.items()} == {
        "obs": ((6, 2, 3), "float32"),
        "action": ((5, 2), "int64"),
        "terminated": ((5, 2), "bool"),
        "image": ((5, 2, 2, 3), "uint8"),
    }
    assert store.column("obs").shape == (3, 6, 2, 3)


def test_no_byte_of_a_slot_belongs_to_another_field_or_slot(memory: Memory) -> None:
    store, reader = new_store(memory)
    value = 0
    for k in range(SLOTS):
        for array in store.slot(k).values():
            value += 1
            array[...] = value
    value = 0
    for k in range(SLOTS):
        for name, array in reader.slot(k).items():
            value += 1
            assert (array == np.full(array.shape, value).astype(array.dtype)).all(), (k, name)


def test_columns_begin_on_cache_lines(memory: Memory) -> None:
    store, _ = new_store(memory)
    addresses = [store.column(field.name).ctypes.data for field in FIELDS]
    assert [address % 64 for address in addresses] == [0] * len(FIELDS)


def test_rollout_is_committed_only_between_commit_and_the_next_open(memory: Memory) -> None:
    store, reader = new_store(memory)
    writing, reading = store.slot(2), reader.slot(2)
    assert reading.committed() == 0
    writing.open(7)
    assert reading.committed() == 0
    writing["action"][:] = 4
    writing.commit(7, 2)
    assert (reading.committed(), reading.incarnation) == (7, 2)
    assert (reading["action"] == 4).all()
    assert reader.published() == (0, 0, 7)
    writing.open(8)
    assert reading.committed() == 0


def test_rollout_id_below_one_is_refused(memory: Memory) -> None:
    store, _ = new_store(memory)
    with pytest.raises(SegmentError, match="start at 1, slot 0 got 0"):
        store.slot(0).open(0)
    with pytest.raises(SegmentError, match="got -3"):
        store.slot(0).commit(-3, 1)


@pytest.mark.parametrize("index", [-1, 3])
def test_slot_outside_the_store_is_refused(memory: Memory, index: int) -> None:
    store, _ = new_store(memory)
    with pytest.raises(SegmentError, match=r"store has 0\.\.2"):
        store.slot(index)


@pytest.mark.parametrize(
    "plan",
    [
        ((), 1, 1, 1),
        (FIELDS, 0, 1, 1),
        (FIELDS, 1, 0, 1),
        (FIELDS, 1, 1, 0),
        ((FIELDS[0], FIELDS[0]), 1, 1, 1),
    ],
)
def test_plan_without_sense_is_refused(plan: tuple[tuple[FieldSpec, ...], int, int, int]) -> None:
    with pytest.raises(SegmentError):
        RolloutStore.nbytes(*plan)


def test_view_of_a_slot_outlives_store_and_segment(memory: Memory) -> None:
    store, _ = new_store(memory)
    view = store.slot(0)["action"]
    view[:] = 11
    del store
    assert (view == 11).all()
