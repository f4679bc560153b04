"""What draws looked at, written down and followed again."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fast_core.nodes.replay.views import FollowedViews, RecordedViews
from fast_core.run.schedule import END, ScheduleWriter, View, read_share


class Native:
    def __init__(self) -> None:
        self.rows = [0, 0]

    def committed(self) -> list[int]:
        return self.rows


class Log:
    """Two environments that have written so many rows."""

    envs = 2

    def __init__(self) -> None:
        self.native = Native()


class Reader:
    """Looks at all there is, or at most as much as it is told."""

    def __init__(self, log: Log) -> None:
        self._log, self.most, self.undisturbed = log, [1 << 60] * 2, True

    def looked_at(self, target: np.ndarray) -> bool:
        target[:] = np.minimum(self._log.native.rows, self.most)
        return self.undisturbed

    def look_at(self, most: np.ndarray) -> None:
        self.most = most.tolist()


def recorded(path: Path, *views: tuple[int, int], disturbed: int | None = None) -> list[str]:
    said: list[str] = []
    log = Log()
    reader = Reader(log)
    writing = RecordedViews(ScheduleWriter(path, said.append), reader, [log])  # type: ignore
    for number, rows in enumerate(views):
        log.native.rows = list(rows)
        reader.undisturbed = number != disturbed
        writing.drawn(0, 0.0)
    writing.close()
    return said


def test_only_draws_that_looked_at_more_are_written(tmp_path: Path) -> None:
    assert recorded(tmp_path / "views", (3, 2), (3, 2), (4, 2), (4, 2), (4, 5)) == []
    assert read_share(tmp_path / "views", View) == [
        View(0, (3, 2)),
        View(2, (1, 0)),
        View(4, (0, 3)),
        View(5, (), END),
    ]


def test_draw_waits_for_what_it_looked_at_and_sees_no_more(tmp_path: Path) -> None:
    recorded(tmp_path / "views", (3, 2), (3, 2), (4, 5))
    log = Log()
    reader = Reader(log)
    following = FollowedViews(tmp_path / "views", reader, [log])  # type: ignore[arg-type,list-item]
    log.native.rows = [9, 1]
    assert not following.may_draw(0)
    log.native.rows = [9, 2]
    for _ in range(2):
        assert following.may_draw(0)
        assert reader.most == [3, 2]
        following.drawn(0, 0.0)
    assert not following.may_draw(0)
    log.native.rows = [9, 5]
    assert following.may_draw(0)
    assert reader.most == [4, 5]
    following.drawn(0, 0.0)
    assert not following.may_draw(0)  # the record ends


def test_draws_are_for_whom_they_were(tmp_path: Path) -> None:
    log = Log()
    log.native.rows = [4, 4]
    reader = Reader(log)
    writing = RecordedViews(ScheduleWriter(tmp_path / "views", print), reader, [log])  # type: ignore
    for group in (0, 1, 1, 0):
        writing.drawn(group, 0.0)
    writing.close()
    following = FollowedViews(tmp_path / "views", reader, [log])  # type: ignore[arg-type,list-item]
    for group in (0, 1, 1, 0):
        assert following.may_draw(group)
        assert not following.may_draw(1 - group)
        following.drawn(group, 0.0)


def test_record_ends_before_a_draw_that_was_overtaken(tmp_path: Path) -> None:
    said = recorded(tmp_path / "views", (3, 2), (4, 2), (4, 3), disturbed=1)
    assert len(said) == 1
    assert "overtook a draw" in said[0]
    log = Log()
    log.native.rows = [9, 9]
    following = FollowedViews(tmp_path / "views", Reader(log), [log])  # type: ignore[arg-type,list-item]
    following.drawn(0, 0.0)
    assert not following.may_draw(0)
