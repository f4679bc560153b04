from __future__ import annotations

import numpy as np
import pytest

from fast_core.errors import SegmentError
from fast_core.memory import EvaluationSlot, WeightBoard
from tests.memory.conftest import Memory

NBYTES = 100


def new_board(memory: Memory) -> tuple[WeightBoard, WeightBoard]:
    region = memory(WeightBoard.nbytes(NBYTES))
    return WeightBoard.create(region, NBYTES), WeightBoard.attach(region, NBYTES)


def payload(value: int) -> np.ndarray:
    return np.full(NBYTES // 4, value, np.float32)


def test_nothing_is_read_before_the_first_publication(memory: Memory) -> None:
    _, reader = new_board(memory)
    target = payload(9)
    assert reader.version() == -1
    assert reader.read_into(target) == -1
    assert target.tolist() == payload(9).tolist()


def test_reader_gets_the_newest_of_many_versions(memory: Memory) -> None:
    writer, reader = new_board(memory)
    target = payload(0)
    for version in (0, 1, 2, 3, 7, 100):
        writer.publish(version, payload(version))
        assert reader.version() == version
        assert reader.read_into(target) == version
        assert target.tolist() == payload(version).tolist()


def test_read_leaves_the_target_alone_when_nothing_is_newer(memory: Memory) -> None:
    writer, reader = new_board(memory)
    writer.publish(4, payload(4))
    target = payload(1)
    assert reader.read_into(target, newer_than=4) == 4
    assert reader.read_into(target, newer_than=6) == 6
    assert target.tolist() == payload(1).tolist()
    assert reader.read_into(target, newer_than=3) == 4
    assert target.tolist() == payload(4).tolist()


@pytest.mark.parametrize("version", [-1, 2, 3])
def test_versions_that_do_not_grow_are_refused(memory: Memory, version: int) -> None:
    writer, reader = new_board(memory)
    writer.publish(3, payload(3))
    with pytest.raises(SegmentError, match=f"got {version} after 3"):
        writer.publish(version, payload(0))
    assert reader.version() == 3


def test_payload_of_another_size_is_refused(memory: Memory) -> None:
    writer, reader = new_board(memory)
    with pytest.raises(SegmentError, match="exactly 100 bytes; got 99"):
        writer.publish(0, bytes(99))
    with pytest.raises(SegmentError, match="exactly 100 bytes; got 104"):
        reader.read_into(bytearray(104))
    assert writer.version() == -1


def test_published_weights_share_no_storage_with_the_payload(memory: Memory) -> None:
    """WGT-02: what was published stays, whatever the online parameters do afterwards."""
    writer, reader = new_board(memory)
    online, target = payload(1), payload(0)
    writer.publish(1, online)
    online[:] = 50
    assert reader.read_into(target) == 1
    assert target.tolist() == payload(1).tolist()
    online[:] = 60
    assert target.tolist() == payload(1).tolist()


def new_slot(memory: Memory) -> tuple[EvaluationSlot, EvaluationSlot]:
    region = memory(EvaluationSlot.nbytes(NBYTES))
    return EvaluationSlot.create(region, NBYTES), EvaluationSlot.attach(region, NBYTES)


def test_slot_is_not_reused_until_released(memory: Memory) -> None:
    optimizer, evaluator = new_slot(memory)
    optimizer.write(1, 10, payload(1))
    with pytest.raises(SegmentError, match="write snapshot 2; the evaluation slot still holds 1"):
        optimizer.write(2, 20, payload(2))
    target = payload(0)
    assert evaluator.read_into(target) == (1, 10)
    evaluator.release(1)
    assert optimizer.held() is None
    optimizer.write(2, 20, payload(2))
    assert evaluator.read_into(target) == (2, 20)
    assert optimizer.published() == 2


def test_misuse_of_the_slot_is_refused(memory: Memory) -> None:
    optimizer, evaluator = new_slot(memory)
    with pytest.raises(SegmentError, match="holds no snapshot"):
        evaluator.read_into(payload(0))
    with pytest.raises(SegmentError, match="release snapshot 1; the evaluation slot holds None"):
        evaluator.release(1)
    with pytest.raises(SegmentError, match="got 8 and 100 bytes"):
        optimizer.write(1, 1, bytes(8))
    assert evaluator.held() is None
    optimizer.write(1, 1, payload(0))
    with pytest.raises(SegmentError, match="release snapshot 2; the evaluation slot holds 1"):
        evaluator.release(2)
