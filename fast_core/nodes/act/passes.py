"""Which groups shared each forward pass, and with which weights: recorded, or followed."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Protocol, TypeVar

from fast_core.nodes.node import NodeContext
from fast_core.run.schedule import Pass, ScheduleWriter, followed, read_passes, recording


class Asking(Protocol):
    """A group of environments as its policy node sees it."""

    def asks(self) -> bool:
        """Whether it waits for actions."""
        ...


A = TypeVar("A", bound=Asking)


class RecordedPasses:
    """Writes down every pass."""

    def __init__(self, writer: ScheduleWriter) -> None:
        self._writer = writer

    @classmethod
    def of(cls, context: NodeContext) -> RecordedPasses | None:
        """Those of a node whose run is recorded, None for others."""
        writer = recording(context.plan, context.name, context.log.warning)
        return None if writer is None else cls(writer)

    def acted(self, version: int, groups: Sequence[int]) -> None:
        """Weights of ``version`` acted for these groups, in this order."""
        self._writer.write(Pass(version, tuple(groups)), time.monotonic())

    def close(self) -> None:
        """Write the rest. May be called twice."""
        self._writer.close()


class FollowedPasses:
    """Gives the passes that were recorded, each when its groups ask and its weights are there."""

    def __init__(self, passes: Sequence[Pass]) -> None:
        self._left = deque(passes)

    @classmethod
    def of(cls, context: NodeContext) -> FollowedPasses | None:
        """Those of a node whose run follows a record, None for others."""
        share = followed(context.plan, context.name)
        return None if share is None else cls(read_passes(share))

    def batches(self, groups: Sequence[A], published: int) -> Iterator[list[A]]:
        """Who shares the next passes while the version ``published`` is the newest."""
        while self._left and self._left[0].version == published:
            batch = [groups[index] for index in self._left[0].groups]
            if not all(group.asks() for group in batch):
                return
            self._left.popleft()
            yield batch
