"""What a replay node that takes over must know, in shared memory, changed as one.

Between two moments the node changes leaves of the priorities, random streams and counters. A moment
is a whole picture of all but the leaves, written into the one of two mailboxes that holds the older
picture and published by its number. So the node may be killed at any instruction, and its successor
finds a moment. Of the changes of leaves since then some may be there: it makes all of them once
more, from the same beginning, which leads to the same leaves (`KeptPriorities`).

A moment is taken twice for a step. Once when the priorities that are due are applied: only after
that is the place of their batch filled again. And once when the new batch is whole, before it is
published: a successor publishes what was not, and draws what was not drawn, from the same streams.
"""

from __future__ import annotations

from typing import NamedTuple

from fast_core.memory import PriorityTree, ReplayReader
from fast_core.run.mail import Moment
from fast_core.run.memory import RunMemory
from fast_core.run.structures import MOMENTS


class GrantedSteps(NamedTuple):
    """How far the steps are that tickets grant.

    Attributes:
        ticket: The last ticket of which steps were drawn.
        left: How many of its steps are not.
    """

    ticket: int = -1
    left: int = 0


class GroupState(NamedTuple):
    """How far a group of optimizers is.

    Attributes:
        filled: Steps drawn for it in this part of the run.
        applied: Those of them whose priorities are applied.
        carried: Answers of the part before that are not applied.
        drawn: Whether the last one had anything to draw.
        env_steps: Environment steps when it was drawn.
    """

    filled: int = 0
    applied: int = 0
    carried: int = 0
    drawn: bool = False
    env_steps: int = 0


class Moments:
    """The node's end of what outlives it.

    Concurrency: the replay node alone reads and writes all of it.
    """

    def __init__(self, memory: RunMemory, reader: ReplayReader, tree: PriorityTree | None) -> None:
        """Attach; with priorities ``tree`` goes on with those of the last moment."""
        self._boxes = [memory.moment(k) for k in range(MOMENTS)]
        self._reader, self._tree = reader, tree
        self._before = (0, 0, 0)  # what the readers of earlier lives had counted
        if tree is not None:
            memory.kept_priorities().take(tree)

    @property
    def number(self) -> int:
        """Number of the last moment, 0 before the first."""
        return max(box.number() for box in self._boxes)

    @property
    def counted(self) -> tuple[int, int, int]:
        """Windows drawn, rejected and lapped, by earlier lives too."""
        before, own = self._before, self._reader.counters()
        return before[0] + own[0], before[1] + own[1], before[2] + own[2]

    def take(self, place: GrantedSteps, groups: list[GroupState]) -> None:
        """Make this a moment."""
        number = self.number + 1
        box = self._boxes[number % MOMENTS]
        reader, tree = self._reader, self._tree
        reader.positions(box["positions"][0])
        box["streams"][0, 0] = reader.stream()
        box["counters"][0, :3] = self.counted
        if tree is not None:
            box["streams"][0, 1] = tree.stream()
            box["counters"][0, 3:] = tree.refused()
        box["groups"][0] = groups
        box.publish(number, Moment(*place))

    def restore(self) -> tuple[GrantedSteps, list[GroupState]]:
        """Go on from the last moment; there must be one."""
        box = self._boxes[self.number % MOMENTS]
        reader, tree = self._reader, self._tree
        streams, counters = box["streams"][0].tolist(), box["counters"][0].tolist()
        reader.load({"positions": box["positions"][0], "stream": streams[0]})
        self._before = (counters[0], counters[1], counters[2])
        if tree is not None:
            stream = streams[1]
            tree.resume((counters[3], counters[4]), (stream[0], stream[1], stream[2]))
        groups = [
            GroupState(filled, applied, carried, bool(drawn), env_steps)
            for filled, applied, carried, drawn, env_steps in box["groups"][0].tolist()
        ]
        return GrantedSteps(*box.words), groups
