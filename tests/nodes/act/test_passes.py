"""Recorded forward passes, given again when their groups ask and their weights are there."""

from __future__ import annotations

from pathlib import Path

from fast_core.nodes.act.passes import FollowedPasses
from fast_core.run.schedule import Pass, ScheduleWriter, read_share


class Group:
    def __init__(self) -> None:
        self.asking = False

    def asks(self) -> bool:
        return self.asking


def test_pass_waits_for_all_of_its_groups_and_for_its_weights() -> None:
    groups = [Group() for _ in range(3)]
    followed = FollowedPasses([Pass(0, (2, 0)), Pass(4, (1,))])
    groups[1].asking = groups[2].asking = True
    assert list(followed.batches(groups, 0)) == []
    groups[0].asking = True
    assert list(followed.batches(groups, 4)) == []
    assert list(followed.batches(groups, 0)) == [[groups[2], groups[0]]]
    assert list(followed.batches(groups, 0)) == []
    assert list(followed.batches(groups, 4)) == [[groups[1]]]
    assert list(followed.batches(groups, 4)) == []


def test_passes_are_written_and_read(tmp_path: Path) -> None:
    passes, said = [Pass(0, (2, 0)), Pass(4, (1,))], list[str]()
    writer = ScheduleWriter(tmp_path / "passes", said.append)
    for each in passes:
        writer.write(each, 0.0)
    writer.close()
    assert read_share(tmp_path / "passes", Pass) == passes and not said
