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


class KeptPriorities:
    """The leaves of a `PriorityTree`, and whose they are; sums are nowhere but in the tree.

    Concurrency: the replay node alone reads and writes. After a death there may be some of the
    changes that it was making; made once more from where it had begun, all of them lead to the
    leaves that it would have come to (`sum_tree.hpp`).
    """

    def __init__(self, memory: memoryview, leaves: int) -> None:
        """Use ``create`` or ``attach``."""
        priorities, owners = _sizes(leaves)
        after = HEADER_BYTES + align(priorities)
        self._priorities = memory[HEADER_BYTES : HEADER_BYTES + priorities]
        self._owners = memory[after : after + owners]

    @staticmethod
    def nbytes(leaves: int) -> int:
        """Bytes of the region."""
        return HEADER_BYTES + sum(map(align, _sizes(leaves)))

    @classmethod
    def create(cls, memory: memoryview, leaves: int) -> Self:
        """Make leaves without rows in ``memory``, which is zero."""
        check_room(memory, cls.nbytes(leaves), "kept priorities")
        write_header(memory, "kept priorities", leaves)
        return cls(memory, leaves)

    @classmethod
    def attach(cls, memory: memoryview, leaves: int) -> Self:
        """Attach to the leaves in ``memory``."""
        check_header(memory, "kept priorities", leaves)
        check_room(memory, cls.nbytes(leaves), "kept priorities")
        return cls(memory, leaves)

    def published(self) -> None:
        """Nothing: what they belong to is said elsewhere."""

    def take(self, tree: PriorityTree) -> None:
        """Let ``tree`` go on with these leaves."""
        tree.share(self._priorities, self._owners)


def _sizes(leaves: int) -> tuple[int, int]:
    return 8 * _FAN * -(-leaves // _FAN), 4 * leaves
