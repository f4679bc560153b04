"""How structures travel to where they can't be shared: what is published here appears there too.

Whoever carries news is one more reader here and the one writer of the mirror there, and does
nothing that those could not do: so a mirror's readers see what they would see here, later. What is
not published never travels, and a carrier that dies leaves the mirror as any writer does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Generic, TypeVar

import msgspec
import numpy as np

from fast_core.memory.mailbox import Mailbox
from fast_core.memory.replay_log import ReplayLog
from fast_core.memory.ring import Ring
from fast_core.memory.rollout import OPEN, RolloutStore
from fast_core.memory.shared import Shared
from fast_core.memory.stats import Trace
from fast_core.memory.weights import NOTHING, EvaluationSlot, WeightBoard
from fast_core.system.decoding import MsgpackDecoder

S = TypeVar("S", bound=Shared)
# Most rows of an environment that a writer of logs has open, and the bytes of one piece of news.
_OPEN_ROWS, _PIECE_BYTES = 2, 1 << 18
_encode = msgspec.msgpack.Encoder().encode
_board = MsgpackDecoder[tuple[int, bytes]](tuple[int, bytes])
_slot_or_rows = MsgpackDecoder[tuple[int, int, bytes]](tuple[int, int, bytes])
_rollout = MsgpackDecoder[tuple[int, int, int, list[bytes]]](tuple[int, int, int, list[bytes]])
_mail = MsgpackDecoder[tuple[int, list[int], list[bytes]]](tuple[int, list[int], list[bytes]])


class Carrier(ABC, Generic[S]):
    """Knows what of a structure was told already. `take` is told of it at the mirror."""

    def __init__(self, structure: S) -> None:
        self.structure = structure

    @abstractmethod
    def news(self) -> Iterator[bytes]:
        """What was published since; to be taken whole, and by its mirror in this order."""

    @staticmethod
    @abstractmethod
    def take(mirror: S, data: bytes) -> None:
        """Publish one piece of news in the mirror, unless it was there before."""


class _Board(Carrier[WeightBoard]):
    """The newest version: those between are nobody's concern."""

    _told = NOTHING

    def news(self) -> Iterator[bytes]:
        if self.structure.version() > self._told:
            payload = bytearray(self.structure.payload_bytes)
            self._told = self.structure.read_into(payload, self._told)
            yield _encode((self._told, payload))

    @staticmethod
    def take(mirror: WeightBoard, data: bytes) -> None:
        version, payload = _board.decode(data)
        if version > mirror.version():
            mirror.publish(version, payload)


class _Slot(Carrier[EvaluationSlot]):
    """The snapshot. Who carries it is its reader here, and releases it."""

    def news(self) -> Iterator[bytes]:
        if self.structure.held() is not None:
            payload = bytearray(self.structure.payload_bytes)
            version, env_steps = self.structure.read_into(payload)
            self.structure.release(version)
            yield _encode((version, env_steps, payload))

    @staticmethod
    def take(mirror: EvaluationSlot, data: bytes) -> None:
        version, env_steps, payload = _slot_or_rows.decode(data)
        if mirror.held() != version:
            mirror.write(version, env_steps, payload)


class _Rollouts(Carrier[RolloutStore]):
    """Whole rollouts, each once; a slot that was never used has none."""

    def __init__(self, structure: RolloutStore) -> None:
        super().__init__(structure)
        self._told = [(OPEN, 0)] * len(structure)

    def news(self) -> Iterator[bytes]:
        for index, told in enumerate(self._told):
            slot = self.structure.slot(index)
            known = (slot.committed(), slot.incarnation)
            if known[0] != OPEN and known != told:
                self._told[index] = known
                yield _encode((index, *known, [slot[field].tobytes() for field in slot]))

    @staticmethod
    def take(mirror: RolloutStore, data: bytes) -> None:
        index, rollout_id, incarnation, columns = _rollout.decode(data)
        slot = mirror.slot(index)
        if (slot.committed(), slot.incarnation) == (rollout_id, incarnation):
            return
        slot.open(rollout_id)
        for array, column in zip(slot.values(), columns, strict=True):
            array[...] = np.frombuffer(column, array.dtype).reshape(array.shape)
        slot.commit(rollout_id, incarnation)


class _Log(Carrier[ReplayLog]):
    """Rows as they lie, those of each environment in their order.

    Rows that were overwritten before they were told are missing in the mirror, as they are here.
    """

    def __init__(self, structure: ReplayLog) -> None:
        super().__init__(structure)
        self._told = [0] * structure.envs

    def news(self) -> Iterator[bytes]:
        log = self.structure.native
        most = min(log.capacity, max(1, _PIECE_BYTES // log.stride))
        for env, (oldest, commit) in enumerate(log.spans()):
            first = max(self._told[env], oldest)
            while first < commit:
                rows = bytearray(min(most, commit - first) * log.stride)
                if (whole := log.read(env, first, rows)) > first:
                    first = min(whole, commit)
                    continue
                yield _encode((env, first, rows))
                first += len(rows) // log.stride
            self._told[env] = max(self._told[env], commit)

    @staticmethod
    def take(mirror: ReplayLog, data: bytes) -> None:
        env, first, rows = _slot_or_rows.decode(data)
        log = mirror.native
        there = log.committed()[env]
        step = _OPEN_ROWS * log.stride  # so many may be open at once, or readers would not notice
        begin = max(0, there - first) * log.stride
        for offset in range(begin, len(rows), step):
            log.restore(env, first + offset // log.stride, rows[offset : offset + step])


class _Mail(Carrier[Mailbox[Any]]):
    """What was said last."""

    _told = 0

    def news(self) -> Iterator[bytes]:
        if (number := self.structure.number()) != self._told:
            self._told = number
            columns = [self.structure[field].tobytes() for field in self.structure]
            yield _encode((number, [int(word) for word in self.structure.words], columns))

    @staticmethod
    def take(mirror: Mailbox[Any], data: bytes) -> None:
        number, words, columns = _mail.decode(data)
        for array, column in zip(mirror.values(), columns, strict=True):
            array[...] = np.frombuffer(column, array.dtype).reshape(array.shape)
        mirror.publish(number, tuple(words))


class _Words(Carrier[Trace]):
    """All words, if one has changed."""

    _told = b""

    def news(self) -> Iterator[bytes]:
        if (words := self.structure.words.tobytes()) != self._told:
            self._told = words
            yield words

    @staticmethod
    def take(mirror: Trace, data: bytes) -> None:
        for place, word in enumerate(memoryview(data).cast("q")):  # one by one, so that none tears
            mirror.words[place] = word


class _Records(Carrier[Ring]):
    """Records, which are taken here. What does not fit there is lost, as for any producer."""

    def news(self) -> Iterator[bytes]:
        if records := [self.structure.pop(timeout_s=0) for _ in range(len(self.structure))]:
            yield b"".join(records)

    @staticmethod
    def take(mirror: Ring, data: bytes) -> None:
        size = mirror.record_bytes
        for begin in range(0, len(data), size):
            mirror.try_push(data[begin : begin + size])


_CARRIERS: dict[type[Shared], type[Carrier[Any]]] = {
    WeightBoard: _Board,
    EvaluationSlot: _Slot,
    RolloutStore: _Rollouts,
    ReplayLog: _Log,
    Mailbox: _Mail,
    Trace: _Words,
    Ring: _Records,
}


def carrier_of(kind: type[Shared]) -> type[Carrier[Any]] | None:
    """How structures of a kind travel, None for those that stay where they are."""
    return _CARRIERS.get(kind)
