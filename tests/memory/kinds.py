"""Every kind of structure, with how one of them is written and read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from fast_core.algorithm.spec import Column, FieldSpec, SpaceSpec
from fast_core.memory import (
    STATS_WORDS,
    Doorbell,
    EvaluationSlot,
    KeptPriorities,
    Mailbox,
    ReplayLog,
    Ring,
    RolloutStore,
    SideColumns,
    Trace,
    WeightBoard,
    replay_fields,
)

NBYTES = 100
MAIL = (FieldSpec("obs", (3,), "float32", "rollout"), FieldSpec("flag", (), "bool", "rollout"))
COLUMNS = (FieldSpec("obs", (2,), "float32", "T+1"), FieldSpec("action", (), "int64"))
SAID = (Column("said", (3,), "float32", writer="learner"),)
LOGGED = replay_fields(SpaceSpec("box", (2,), "float64"), FieldSpec("action", (), "int64"))


class Said(NamedTuple):
    incarnation: int
    flag: bool


class Case(NamedTuple):
    """A kind, its shape, and how one of them is written and read."""

    kind: Any
    shape: tuple[Any, ...]
    write: Callable[[Any, int], object] | None = None
    read: Callable[[Any], object] | None = None
    keeps: bool = True


def push(ring: Ring, number: int) -> None:
    place = ring.try_claim()
    assert place is not None
    place[:4] = bytes([number]) * 4
    place[4:] = bytes([number]) * 4
    ring.commit()


def pop_all(ring: Ring) -> list[bytes]:
    return list(iter(ring.try_pop, None))


def read_board(board: WeightBoard) -> tuple[int, bytes]:
    target = bytearray(NBYTES)
    return board.read_into(target), bytes(target)


def write_slot(slot: EvaluationSlot, number: int) -> None:
    if slot.held() is None:
        slot.write(number, 10 * number, bytes([number]) * NBYTES)


def read_slot(slot: EvaluationSlot) -> object:
    target = bytearray(NBYTES)
    return slot.held() is not None and (slot.read_into(target), bytes(target))


def write_box(box: Mailbox[Said], number: int) -> None:
    box["obs"][...] = number
    box["flag"][...] = True
    box.publish(number, Said(number, True))


def read_box(box: Mailbox[Said]) -> object:
    rows = [box[name].tolist() for name in box]
    return box.number() and (box.number(), box.words, rows)


def write_store(store: RolloutStore, number: int) -> None:
    slot = store.slot(number - 1)
    slot.open(number)
    slot["obs"][...] = number
    slot["action"][...] = number
    slot.commit(number, 7)


def read_store(store: RolloutStore) -> object:
    whole = [store.slot(k) for k in range(len(store)) if store.slot(k).committed()]
    return [(slot.incarnation, [slot[name].tolist() for name in slot]) for slot in whole]


def append(log: ReplayLog, number: int) -> None:
    obs, flags = np.full((2, 2), float(number)), np.array([number % 2 == 0, False])
    log.append(obs, np.full(2, number), np.full(2, number, np.float32), flags, ~flags, obs)


def rows_of(log: ReplayLog) -> object:
    found = []
    for env, (first, commit) in enumerate(log.native.spans()):
        rows = bytearray(min(max(commit - first, 0), 10) * log.native.stride)  # damaged: any
        found.append((log.native.read(env, first, rows), bytes(rows)))
    return found


def say(side: SideColumns, number: int) -> None:
    log, row = np.array([0, 1], np.int32), np.array([number, 10 + number])
    side.write(log, row, number, {"said": np.full((2, 3), number, np.float32)})


def said(side: SideColumns) -> object:
    return {name: array.tolist() for name, array in side.arrays.items()}


CASES = {
    "ring": Case(Ring, (4, 8), push, pop_all),
    "doorbell": Case(Doorbell, (), lambda bell, _: bell.ring(), lambda bell: bell.value()),
    "weight board": Case(
        WeightBoard,
        (NBYTES,),
        lambda board, number: board.publish(number, bytes([number]) * NBYTES),
        read_board,
    ),
    "evaluation slot": Case(EvaluationSlot, (NBYTES,), write_slot, read_slot),
    "mailbox": Case(Mailbox, (Said, MAIL, 5), write_box, read_box, keeps=False),
    "rollouts": Case(RolloutStore, (COLUMNS, 4, 3, 2), write_store, read_store),
    "replay log": Case(ReplayLog, (LOGGED, 10, 2), append, rows_of),
    "trace": Case(
        Trace,
        (STATS_WORDS,),
        lambda trace, number: trace.words.__setitem__(3, number),
        lambda trace: trace.words.tolist(),
    ),
    "priorities": Case(KeptPriorities, (48,)),
    "side columns": Case(SideColumns, (SAID, 2, 10), say, said),
}
