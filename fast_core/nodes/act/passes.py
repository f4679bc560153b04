"""Which groups shared each forward pass, and with which weights: followed as it was recorded."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Protocol, TypeVar

from fast_core.nodes.node import NodeContext
from fast_core.run.schedule import Pass, followed, read_share


class Asking(Protocol):
    """A group of environments as its policy node sees it."""

    def asks(self) -> bool:
        """Whether it waits for actions."""
        ...


A = TypeVar("A", bound=Asking)


class FollowedPasses:
    """Gives the passes that were recorded, each when its groups ask and its weights are there."""

    def __init__(self, passes: Sequence[Pass]) -> None:
        self._left = deque(passes)

    @classmethod
    def of(cls, context: NodeContext) -> FollowedPasses | None:
        """Those of a node whose run follows a record, None for others."""
        share = followed(context.plan, context.name)
        return None if share is None else cls(read_share(share, Pass))

    def batches(self, groups: Sequence[A], published: int) -> Iterator[list[A]]:
        """Who shares the next passes while the version ``published`` is the newest."""
        while self._left and self._left[0].version == published:
            batch = [groups[index] for index in self._left[0].groups]
            if not all(group.asks() for group in batch):
                return
            self._left.popleft()
            yield batch
