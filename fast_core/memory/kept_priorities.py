"""Priorities in shared memory, so that they outlive the process that draws by them."""

from __future__ import annotations

from fast_core.memory.header import HEADER_BYTES, Planned, align
from fast_core.memory.priorities import PriorityTree

_FAN = 16  # leaves of a node: their array is filled up to whole nodes


class KeptPriorities(Planned):
    """The leaves of a `PriorityTree`, and whose they are; sums are nowhere but in the tree.

    Concurrency: the replay node alone reads and writes. After a death there may be some of the
    changes that it was making; made once more from where it had begun, all of them lead to the
    leaves that it would have come to (`sum_tree.hpp`).
    """

    what = "kept priorities"

    def __init__(self, memory: memoryview, leaves: int) -> None:
        """Use ``create``, in memory that is zero, or ``attach``."""
        priorities, owners = _sizes(leaves)
        after = HEADER_BYTES + align(priorities)
        self._priorities = memory[HEADER_BYTES : HEADER_BYTES + priorities]
        self._owners = memory[after : after + owners]

    @staticmethod
    def nbytes(leaves: int) -> int:
        """Bytes of the region."""
        return HEADER_BYTES + sum(map(align, _sizes(leaves)))

    def take(self, tree: PriorityTree) -> None:
        """Let ``tree`` go on with these leaves."""
        tree.share(self._priorities, self._owners)


def _sizes(leaves: int) -> tuple[int, int]:
    return 8 * _FAN * -(-leaves // _FAN), 4 * leaves
