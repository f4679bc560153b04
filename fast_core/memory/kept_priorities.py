"""Priorities in shared memory, so that they outlive the process that draws by them."""

from __future__ import annotations

from typing import Self

from fast_core.memory.header import (
    HEADER_BYTES,
    align,
    check_header,
    check_room,
    write_header,
)
from fast_core.memory.priorities import PriorityTree

_FAN = 16  # leaves of a node: their array is filled up to whole nodes
_HEAD_BYTES, _ENTRY_BYTES = 64, 24  # of the record of changes


class KeptPriorities:
    """The leaves of a `PriorityTree`, and what those were that were changed since the last moment.

    A moment has a number, which its writer publishes elsewhere, together with all else that belongs
    to it. Sums follow from the leaves, so they are nowhere but in the tree.

    Concurrency: the replay node alone reads and writes. What a leaf was is noted, and counted,
    before the leaf is changed, so after a death at any instruction `take` finds the leaves of the
    last moment whose number was published.
    """

    def __init__(self, memory: memoryview, leaves: int, entries: int) -> None:
        """Use ``create`` or ``attach``."""
        priorities, owners, undo = _sizes(leaves, entries)
        after = HEADER_BYTES + align(priorities)
        self._priorities = memory[HEADER_BYTES : HEADER_BYTES + priorities]
        self._owners = memory[after : after + owners]
        begin = after + align(owners)
        self._undo = memory[begin : begin + undo]

    @staticmethod
    def nbytes(leaves: int, entries: int) -> int:
        """Bytes of the region; ``entries`` may change between two moments."""
        return HEADER_BYTES + sum(map(align, _sizes(leaves, entries)))

    @classmethod
    def create(cls, memory: memoryview, leaves: int, entries: int) -> Self:
        """Make leaves without rows in ``memory``, which is zero."""
        check_room(memory, cls.nbytes(leaves, entries), "kept priorities")
        write_header(memory, "kept priorities", (leaves, entries))
        return cls(memory, leaves, entries)

    @classmethod
    def attach(cls, memory: memoryview, leaves: int, entries: int) -> Self:
        """Attach to the leaves in ``memory``."""
        check_header(memory, "kept priorities", (leaves, entries))
        return cls(memory, leaves, entries)

    def published(self) -> None:
        """Nothing: what belongs together is said elsewhere."""

    def take(self, tree: PriorityTree, number: int) -> None:
        """Let ``tree`` go on with the leaves as they were at the moment ``number``.

        Raises:
            SegmentError: More had changed since than there is room to note.
        """
        tree.share(self._priorities, self._owners, self._undo, number)


def _sizes(leaves: int, entries: int) -> tuple[int, int, int]:
    undo = align(_HEAD_BYTES + _ENTRY_BYTES * entries)
    return 8 * _FAN * -(-leaves // _FAN), 4 * leaves, undo
