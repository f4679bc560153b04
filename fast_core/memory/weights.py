"""Weights on their way from the optimizer to the policies and to the evaluator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from fast_core.errors import SegmentError
from fast_core.memory import _native
from fast_core.memory.header import HEADER_BYTES, Planned, align

if TYPE_CHECKING:
    from typing_extensions import Buffer

NOTHING = -1


class WeightBoard(_native.WeightBoard):
    """The newest weights, published by one optimizer and read by anybody at any time.

    ``publish(version, payload)`` takes a contiguous buffer of exactly ``payload_bytes``;
    versions start at 0 and only grow. ``read_into(target, newer_than=-1)`` copies the newest
    weights if their version is above ``newer_than`` and returns that version; otherwise it
    returns ``newer_than`` and leaves the target alone. ``version()`` is -1 before the first
    publication.

    Concurrency:
        The owning optimizer writes the three rotating copies and the counter, whose release
        store publishes. Publishing waits for nobody. Reading is lock-free: a reader that was
        lapped (two publications while it copied) reads again. A writer killed at
        any point leaves the last complete version; a dead reader leaves nothing.

    Raises:
        SegmentError: The region holds no board of this build; a buffer has the wrong size; a
            version does not grow; a reader was lapped a thousand times, and the target is torn.
    """

    __slots__ = ()

    @staticmethod
    def nbytes(payload_bytes: int) -> int:
        """Bytes of the region: three copies and two cache lines."""
        return _native.weights_nbytes(payload_bytes)

    @classmethod
    def create(cls, memory: memoryview, payload_bytes: int) -> Self:
        """Makes a board without weights in ``memory`` and attaches to it."""
        _native.weights_create(memory, payload_bytes)
        return cls(memory)

    @classmethod
    def attach(cls, memory: memoryview, payload_bytes: int) -> Self:
        """Attaches to the board in ``memory``; SegmentError if it holds another payload size."""
        board = cls(memory)
        if board.payload_bytes != payload_bytes:
            raise SegmentError(
                f"the weight board holds payloads of {board.payload_bytes} bytes; this node has "
                f"{payload_bytes}. All nodes of a run must build the same policy"
            )
        return board

    def published(self) -> int:
        """The newest version, -1 before the first."""
        return self.version()


# Places of the evaluation slot's words; writer and reader on cache lines of their own.
_COMMITTED, _VERSION, _ENV_STEPS, _RELEASED = 8, 9, 10, 16
_EVALUATION_HEADER_BYTES = 3 * HEADER_BYTES


class EvaluationSlot(Planned):
    """One snapshot of the weights, kept still until it was evaluated.

    Concurrency:
        The owning optimizer writes payload, version and steps, then ``committed`` with release.
        The evaluator reads ``committed`` with acquire, copies, and when it is through writes
        ``released``; until then ``write`` is refused. A writer killed before the commit leaves
        the slot free; an evaluator that dies leaves the snapshot, and its successor evaluates it,
        after ``hold_again`` where the dead one had released it and nobody was told.
    """

    what = "evaluation slot"

    def __init__(self, memory: memoryview, payload_bytes: int) -> None:
        """Use ``create`` or ``attach``."""
        self.payload_bytes = payload_bytes
        self._words = _native.Words(memory[:_EVALUATION_HEADER_BYTES])
        self._payload = memory[_EVALUATION_HEADER_BYTES:][:payload_bytes]

    @staticmethod
    def nbytes(payload_bytes: int) -> int:
        """Bytes of the region."""
        return _EVALUATION_HEADER_BYTES + align(payload_bytes)

    @staticmethod
    def words_nbytes(payload_bytes: int) -> int:
        """The words of both sides: it is free."""
        return _EVALUATION_HEADER_BYTES - HEADER_BYTES

    def held(self) -> int | None:
        """Version of the snapshot that waits or is being evaluated, None when the slot is free."""
        # Acquire: pairs with the release store of committed in write.
        committed = self._words.load(_COMMITTED)
        # Acquire: pairs with the release store of released in release.
        if committed == self._words.load(_RELEASED):
            return None
        return self._words.load(_VERSION)

    published = held

    def write(self, version: int, env_steps: int, payload: Buffer) -> None:
        """Puts a snapshot into the free slot.

        Raises:
            SegmentError: The last snapshot is not released, or ``payload`` has another size.
        """
        held = self.held()
        if held is not None:
            raise SegmentError(
                f"asked to write snapshot {version}; the evaluation slot still holds {held}. "
                "Write after Evaluated"
            )
        _native.copy(self._payload, payload)
        self._words.store(_VERSION, version)
        self._words.store(_ENV_STEPS, env_steps)
        # Release: pairs with the acquire load of committed in held.
        self._words.store(_COMMITTED, self._words.load(_COMMITTED) + 1)

    def read_into(self, target: Buffer) -> tuple[int, int]:
        """Copies the snapshot and returns its version and env steps.

        Raises:
            SegmentError: The slot is free, or ``target`` has another size.
        """
        version = self.held()
        if version is None:
            raise SegmentError("the evaluation slot holds no snapshot; read after Snapshot")
        _native.copy(target, self._payload)
        return version, self._words.load(_ENV_STEPS)

    def hold_again(self) -> None:
        """Take a release back. Only while nothing may be written: before `Evaluated` was sent."""
        committed = self._words.load(_COMMITTED)
        if committed:
            # Release: pairs with the acquire load of released in held.
            self._words.store(_RELEASED, committed - 1)

    def release(self, version: int) -> None:
        """Frees the slot; the reader calls it when the evaluation is over.

        Raises:
            SegmentError: The slot does not hold ``version``.
        """
        held = self.held()
        if held != version:
            raise SegmentError(
                f"asked to release snapshot {version!r}; the evaluation slot holds {held!r}"
            )
        # Release: pairs with the acquire load of released in held.
        self._words.store(_RELEASED, self._words.load(_RELEASED) + 1)
