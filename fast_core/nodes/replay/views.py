"""How much of the replay each draw looked at: recorded, or followed when a run is done again.

What a draw gives depends on the steps before, which timing can't change, and on how far the env
nodes had got with each log: that is all there is to know of it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fast_core.errors import FastLoopError
from fast_core.memory import ReplayLog, ReplayReader
from fast_core.nodes.node import NodeContext
from fast_core.run.schedule import (
    END,
    ScheduleWriter,
    View,
    batches_in,
    followed,
    read_share,
    recording,
)


def make_views(
    context: NodeContext, reader: ReplayReader, logs: Sequence[ReplayLog]
) -> RecordedViews | FollowedViews | None:
    """Those of a run that is recorded or follows a record, None for others."""
    plan, name = context.plan, context.name
    if (share := followed(plan, name)) is not None:
        return FollowedViews(share, reader, logs)
    writer = recording(plan, name, context.log.warning)
    return None if writer is None else RecordedViews(writer, reader, logs)


class RecordedViews:
    """Writes down where a draw looked at more than the one before."""

    def __init__(
        self, writer: ScheduleWriter, reader: ReplayReader, logs: Sequence[ReplayLog]
    ) -> None:
        self._writer, self._reader = writer, reader
        self._batches = self._group = 0
        self._before, self._now = _no_rows(logs), _no_rows(logs)

    def may_draw(self, group: int) -> bool:
        """Whether the next batch can be drawn now for this group; a record changes nothing."""
        return True

    def drawn(self, group: int, now_s: float) -> None:
        """Write it down if there was more to look at, or it was for others than the last one."""
        if not self._reader.looked_at(self._now):
            self._writer.give_up("the env nodes overtook a draw, which is not recorded")
        more = (self._now - self._before).tolist() if (self._now != self._before).any() else ()
        if more or group != self._group:
            self._writer.write(View(self._batches, tuple(more), group), now_s)
            self._before, self._now, self._group = self._now, self._before, group
        self._batches += 1

    def close(self) -> None:
        """Write down how many there were."""
        self._writer.write(View(self._batches, (), END), 0.0)
        self._writer.close()


class FollowedViews:
    """Lets each draw look at what it looked at when it was recorded.

    Env nodes may be ahead of that by what the scheduler lets them collect while nothing is drawn;
    so much is kept whole beyond what can be drawn (`fast_core.run.structures.rows_per_burst`).
    """

    def __init__(self, path: Path, reader: ReplayReader, logs: Sequence[ReplayLog]) -> None:
        self._path, self._reader, self._logs = path, reader, logs
        views = read_share(path, View)
        self._left, self._end = deque(views), batches_in(views)
        self._batches = self._group = 0
        self._rows = _no_rows(logs)
        self._look()

    def _look(self) -> None:
        if not self._left or self._left[0].first != self._batches:
            return
        view = self._left.popleft()
        self._group = view.group
        if view.more:
            self._rows += np.array(view.more, np.uint64)
            self._reader.look_at(self._rows)

    def may_draw(self, group: int) -> bool:
        """Whether it was for this group, and all that it looked at is there by now.

        Never beyond the record, which may end before that of the scheduler.
        """
        if group != self._group or self._batches == self._end:
            return False
        there = np.concatenate([log.native.committed() for log in self._logs])
        return bool((there >= self._rows).all())

    def drawn(self, group: int, now_s: float) -> None:
        """Go on to the next one.

        Raises:
            FastLoopError: It was another one.
        """
        if not self._reader.looked_at(_no_rows(self._logs)):
            raise FastLoopError("rows of the replay were overwritten before they were drawn again")
        self._batches += 1
        self._look()

    def close(self) -> None:
        """Nothing is held."""


def _no_rows(logs: Sequence[ReplayLog]) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    return np.zeros(sum(log.envs for log in logs), np.uint64)
