"""The table of structures, and the page that shows it."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

from fast_core.config import (
    DashboardConfig,
    ExtraNodeConfig,
    NodesConfig,
    PolicyConfig,
    RestartsConfig,
    SupervisionConfig,
)
from fast_core.errors import SegmentError
from fast_core.memory import Ring, WeightBoard
from fast_core.run.mail import Drawn
from fast_core.run.memory import RunMemory
from fast_core.run.plan import RunPlan
from fast_core.run.structures import SPAN, insights, structures
from tests.closing import until_the_end
from tests.nodes.replay_stage import SayingConfig
from tests.nodes.stage import make_config, make_run_plan
from tests.run.test_memory import replay_plan

PAGE = Path(__file__).parents[2] / "docs" / "memory.md"
FAMILY, KIND, _, WRITER, LEFT = range(5)


def plans(folder: Path) -> list[RunPlan]:
    """Runs that have every structure between them."""
    watched = NodesConfig(extra=(ExtraNodeConfig(node="tests.process.viewing:Viewer"),))
    asking = make_config(policy=PolicyConfig(placement="node", groups=2))
    return [
        make_run_plan(folder),
        make_run_plan(folder, asking),
        replay_plan(folder, 2, "allreduce"),
        replay_plan(folder, 2, "async"),
        keeping_plan(folder),
        watched_plan(folder),
        make_run_plan(folder, make_config(dashboard=DashboardConfig(enabled=True), nodes=watched)),
    ]


def watched_plan(folder: Path) -> RunPlan:
    """A run with what viewers may add."""
    plan = make_run_plan(folder)
    board = insights(plan)
    assert board is not None, "PPO's values are the learner's"
    return replace(plan, own=(board,))


def keeping_plan(folder: Path) -> RunPlan:
    """A run whose replay outlives its node."""
    plan = replay_plan(folder, 2, "allreduce")
    changes = {
        "supervision": SupervisionConfig(restarts=RestartsConfig(replay=1)),
        "replay": msgspec.structs.replace(plan.config.replay, prioritized=True),
        "algorithm": SayingConfig(),
    }
    return replace(plan, config=msgspec.structs.replace(plan.config, **changes))


def rows_of_the_page() -> dict[str, list[str]]:
    """Cells of the table of structures, by family."""
    lines = re.findall(r"^\| (`[a-z]+(?:/[A-Z.]+)?` \| `\w+` \| .*) \|$", PAGE.read_text(), re.M)
    cells = [line.split(" | ") for line in lines]
    return {row[FAMILY].strip("`").partition("/")[0]: row for row in cells}


def test_page_shows_the_table(tmp_path: Path) -> None:
    page, seen = rows_of_the_page(), set()
    for plan in plans(tmp_path):
        for row in structures(plan):
            seen.add(row.family)
            cells = page[row.family]
            assert cells[KIND] == f"`{row.kind.__name__}`"
            assert cells[LEFT] == row.left_by_death, row.name
            assert re.match(says(cells[WRITER]), row.writer), (row.name, row.writer, cells)
            assert all(other in cells[WRITER] for other in row.lent)
    assert seen == page.keys()


def says(cell: str) -> str:
    """The pattern of the writers that a cell names; capital letters stand for any name or rank."""
    writers = re.findall(r"(?:^|, or )(`[^`]+`|[^,;`]+)", cell)
    assert writers
    return "|".join(re.sub(r"[A-Z]", r"[\\w-]+", each.strip("`")) + "$" for each in writers)


def test_everything_is_created_from_its_row_and_nothing_published(tmp_path: Path) -> None:
    for plan in plans(tmp_path):
        memory = until_the_end(RunMemory.create(plan))
        for row in structures(plan):
            said = memory.at(row.kind, row.name).published()
            assert said in (None, 0, -1) or not any(said), row  # type: ignore[arg-type]


def test_structure_is_not_taken_for_another_kind(tmp_path: Path) -> None:
    plan = make_run_plan(tmp_path)
    memory = until_the_end(RunMemory.create(plan))
    kinds = {row.kind for row in structures(plan)}
    for row in structures(plan):
        for kind in kinds - {row.kind}:
            with pytest.raises(SegmentError, match=f"is a {row.kind.__name__}"):
                memory.at(kind, row.name)
    with pytest.raises(SegmentError, match=r"no structure 'weight'\. Did you mean 'weights'"):
        memory.at(WeightBoard, "weight")


def test_what_was_published_is_said_by_whoever_attaches(tmp_path: Path) -> None:
    plan = replay_plan(tmp_path, 2)
    memory = until_the_end(RunMemory.create(plan))
    other = until_the_end(RunMemory.attach(plan, memory.segment.fd))
    memory.spans("env-0").try_push(bytes(SPAN.size))
    memory.weights().publish(7, memory.parameters.empty().data)
    memory.batch(1, 2).publish(5, Drawn(1, 1))
    names = ("spans/env-0", "weights", "batches/1.2", "batches/1.1")
    table = {row.name: row.kind for row in structures(plan)}
    assert [other.at(table[name], name).published() for name in names] == [1, 7, 5, 0]


def test_ring_of_other_numbers_is_not_attached_to() -> None:
    region = memoryview(np.zeros(Ring.nbytes(4, 8) + 64, np.uint8))
    region = region[-np.frombuffer(region, np.uint8).ctypes.data % 64 :]
    Ring.create(region, 4, 8)
    assert Ring.attach(region, 4, 8).capacity == 4
    with pytest.raises(SegmentError, match=r"holds 4 records of 8 bytes; this node has \(4, 16\)"):
        Ring.attach(region, 4, 16)


@pytest.mark.parametrize("kind", ["rollout_fields", "replay_columns", "request_fields"])
def test_fields_of_shards_are_worked_out_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """There may be thousands of shards, and every process makes the table."""
    asking = make_config(policy=PolicyConfig(placement="node", groups=2))
    plan = keeping_plan(tmp_path) if kind == "replay_columns" else make_run_plan(tmp_path, asking)
    module, calls = "fast_core.run.structures", list[RunPlan]()
    worked_out = getattr(sys.modules[module], kind)

    def noted(plan: RunPlan) -> object:
        calls.append(plan)
        return worked_out(plan)

    monkeypatch.setattr(f"{module}.{kind}", noted)
    assert len([*structures(plan)]) > plan.config.rollout.shards > 1
    assert len(calls) == 1
