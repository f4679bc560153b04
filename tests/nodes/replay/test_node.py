"""The replay node, driven by hand between logs and slots."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

from fast_core.algorithm import ReplaySpec, SequenceBatch, Window
from fast_core.config import CheckpointConfig, RestartsConfig, SupervisionConfig
from fast_core.errors import CheckpointError, ConfigError, FastLoopError
from fast_core.memory import StatsColumn
from fast_core.messages import Noted, Save, Saved
from fast_core.messages.inproc import InprocHub
from fast_core.nodes.replay import node as replay
from fast_core.nodes.replay.node import ReplayNode
from fast_core.run.replay_files import STATE_FILE, ReplaySave
from fast_core.system.state_file import load, save
from tests.nodes.replay_stage import (
    BATCH,
    ENVS,
    SHARDS,
    TICKET,
    ReplayStage,
    SayingOfSequencesConfig,
    SequenceConfig,
    replay_config,
    rows_of,
)

Make = Callable[..., ReplayStage]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    numbers = count()

    def build(restored_from: Path | None = None, **changes: object) -> ReplayStage:
        config = replay_config(**changes)
        return ReplayStage.make(tmp_path / str(next(numbers)), config, restored_from)

    return build


def save_to(stage: ReplayStage, directory: Path, checkpoint: int = 1) -> None:
    directory.mkdir(exist_ok=True)
    stage.stage.hub.send("replay-0", Save(checkpoint, str(directory)))


def resumed(make: Make, stage: ReplayStage, directory: Path, **changes: object) -> ReplayStage:
    """One that goes on from what this one saves there."""
    save_to(stage, directory)
    stage.drain()
    return make(directory, **changes)


def take_all(stage: ReplayStage, error: float | None = None) -> list[list[tuple[int, int]]]:
    """The rows of all batches there are, each answered at once."""
    taken = []
    stage.drain()
    while stage.ends[0].next() is not None:
        taken.append(rows_of(stage))
        stage.answer(error)
        stage.drain()
    return taken


def take_empty(stage: ReplayStage) -> int:
    """How many batches without rows there are; each is answered."""
    taken = 0
    stage.drain()
    while (batch := stage.ends[0].next()) is not None:
        assert not len(batch.reward)
        stage.answer()
        stage.drain()
        taken += 1
    return taken


class NothingToDraw:
    """A reader of logs without a valid window."""

    def draw(self, *_: object) -> bool:
        """Not one."""
        return False


def test_as_many_batches_are_drawn_as_were_granted(make: Make) -> None:
    stage = make()
    stage.collect()
    stage.grant(0, 0)
    assert take_all(stage) == []
    for ticket, granted in enumerate((3, 1, 5), start=1):
        stage.grant(ticket, granted)
        assert len(take_all(stage)) == granted


def test_batches_are_drawn_ahead_as_far_as_there_are_places(make: Make) -> None:
    stage = make(replay={"slots": 3})
    stage.collect()
    stage.grant(0, 10)
    stage.drain()
    assert stage.node.context.stats.words[StatsColumn.BATCHES] == 3
    stage.answer()
    stage.drain()
    assert stage.node.context.stats.words[StatsColumn.BATCHES] == 4


def test_drawn_windows_are_those_of_the_logs(make: Make) -> None:
    stage = make()
    stage.collect(10)
    stage.grant(0, 4)
    stage.drain()
    seen = set()
    while (batch := stage.ends[0].next()) is not None:
        for k, (log, row) in enumerate(rows_of(stage)):
            assert batch.obs[k].tolist() == [log, row, row, row]
            assert batch.next_obs[k].tolist() == [log, row + 1, row + 1, row + 1]
            assert batch.reward[k] == row
            seen.add((log, row))
        stage.answer()
        stage.drain()
    assert {log for log, _ in seen} == set(range(SHARDS * ENVS))
    assert len(seen) > BATCH


def test_batch_says_how_many_env_steps_were_merged(make: Make) -> None:
    stage = make()
    stage.collect()
    stage.grant(0, 1)
    stage.grant(4, 1)
    stage.drain()
    steps = []
    while (batch := stage.ends[0].next()) is not None:
        steps.append((batch.env_steps, batch.progress))
        stage.answer()
    assert steps == [(TICKET, TICKET / 1000), (5 * TICKET, 5 * TICKET / 1000)]


def test_batch_of_which_nothing_can_be_drawn_is_empty(make: Make) -> None:
    stage = make()
    stage.collect(1)  # no step has an observation after it
    stage.grant(0, 1)
    stage.drain()
    batch = stage.ends[0].next()
    assert batch is not None
    assert len(batch.reward) == 0
    assert stage.node.context.stats.words[StatsColumn.EMPTY_BATCHES] == 1
    stage.answer()
    stage.collect(1)
    stage.grant(1, 1)
    stage.drain()
    batch = stage.ends[0].next()
    assert batch is not None
    assert len(batch.reward) == BATCH


def test_sequences_reach_the_optimizer_and_go_on_over_a_checkpoint(
    make: Make, tmp_path: Path
) -> None:
    replay = {"prioritized": True, "learning_starts": 16}
    given = {"algorithm": SequenceConfig(hidden_sizes=(4,)), "replay": replay}
    stage = make(**given)
    stage.collect(3)
    stage.grant(0, 1)
    stage.drain()
    empty = stage.ends[0].next()
    assert isinstance(empty, SequenceBatch) and empty.reward.shape == (0, 5)
    stage.answer()
    for ticket in range(1, 4):
        stage.collect()
        stage.grant(ticket, 3)
        assert len(take_all(stage, 3.0)) == 3
    restored = resumed(make, stage, tmp_path / "saved", **given)
    for each in (stage, restored):
        each.collect()
        each.grant(4, 1)
        each.drain()
    batches = [each.ends[0].next() for each in (stage, restored)]
    assert rows_of(stage) == rows_of(restored)
    for batch, (log, row) in ((b, r) for b in batches for r in rows_of(stage)):
        assert isinstance(batch, SequenceBatch)
        at = rows_of(stage).index((log, row))
        before = int(row > 0)
        np.testing.assert_array_equal(batch.mask[at], [before, 1, 1, 1, 1])
        np.testing.assert_array_equal(batch.reward[at, 1:], np.arange(row, row + 4))
        np.testing.assert_array_equal(batch.obs[at, 1:, 1], np.arange(row, row + 5))
        assert (batch.obs[at, 1 - before :, 0] == log).all()


@pytest.mark.parametrize("window", [Window(0), Window(1, -1), Window(1, 0, -1)])
def test_sequences_of_no_rows_are_refused(make: Make, window: Window) -> None:
    class Wrong(SequenceConfig, frozen=True, kw_only=True):
        def replay(self) -> ReplaySpec:
            return ReplaySpec(BATCH, sequence=window)

    with pytest.raises(ConfigError, match="sequences with at least 1 of `steps`"):
        make(algorithm=Wrong(hidden_sizes=(4,)))


def test_replay_that_never_has_anything_to_draw_ends_the_run(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay, "EMPTY_LIMIT", 5)
    stage = make()
    for ticket in range(4):
        stage.grant(ticket, 2)
        assert take_empty(stage) == 2
    stage.collect()
    stage.grant(4, 1)
    assert len(take_all(stage)) == 1, "something at last: they are counted anew"
    monkeypatch.setattr(stage.node.replay.groups[0], "_reader", NothingToDraw())
    for ticket in range(5, 9):
        stage.grant(ticket, 2)
        assert take_empty(stage) == 2
    stage.grant(9, 1)
    with pytest.raises(FastLoopError, match=r"5 rounds in a row .* nothing to draw"):
        stage.drain()


@pytest.mark.parametrize("slots", [1, 2, 3])
def test_priorities_count_from_the_batch_on_that_is_slots_later(make: Make, slots: int) -> None:
    """One row of the first batch gets all the weight there is."""
    stage = make(replay={"prioritized": True, "alpha": 1.0, "slots": slots})
    stage.collect(20)
    stage.grant(0, slots + 1)
    stage.drain()
    chosen = rows_of(stage)[0]
    errors = np.where([row == chosen for row in rows_of(stage)], 1e30, 0.0)
    stage.answer(errors.astype(np.float32))
    stage.drain()
    shares = []
    for _ in range(slots):
        shares.append(np.mean([row == chosen for row in rows_of(stage)]))
        stage.answer()
        stage.drain()
    assert shares[-1] == 1.0
    assert all(share < 1.0 for share in shares[:-1])


def test_draws_do_not_depend_on_when_answers_come(make: Make) -> None:
    """One optimizer answers each batch at once, the other keeps all it can."""
    prompt, late = (make(replay={"prioritized": True, "slots": 3}) for _ in range(2))
    errors = [np.random.default_rng(k).random(BATCH).astype(np.float32) for k in range(12)]
    drawn: list[list[list[tuple[int, int]]]] = []
    for stage, kept in ((prompt, 1), (late, 3)):
        stage.collect(20)
        stage.grant(0, 12)
        rows: list[list[tuple[int, int]]] = []
        while len(rows) < 12:
            for _ in range(kept):
                stage.drain()
            for _ in range(kept):
                rows.append(rows_of(stage))
                stage.answer(errors[len(rows) - 1])
        drawn.append(rows)
    assert drawn[0] == drawn[1]
    assert len({tuple(rows) for rows in drawn[0]}) == 12


def take_said(stage: ReplayStage) -> list[tuple[object, ...]]:
    """All batches there are, each with what was said of its rows; now they are said to be these."""
    taken = []
    stage.drain()
    while (batch := stage.ends[0].next()) is not None:
        assert batch.written is not None
        rows = rows_of(stage)
        taken.append((rows, batch.extra["said"].tolist(), batch.written.tolist()))
        end = stage.ends[0]
        end.version += 1
        said = np.array(rows, np.float32) + end.version / 100
        end.finish(np.full(BATCH, 0.5, np.float32), {"said": said})
        stage.drain()
    return taken


@pytest.mark.parametrize("slots", [1, 3])
@pytest.mark.parametrize("prioritized", [False, True])
def test_what_the_learner_says_of_a_row_is_there_from_the_batch_on_that_is_slots_later(
    make: Make, slots: int, prioritized: bool
) -> None:
    """By a dict of what was said; rows that are overwritten are forgotten."""
    stage = make(says=True, replay={"prioritized": prioritized, "slots": slots, "capacity": 64})
    batches: list[tuple[object, ...]] = []
    for ticket in range(8):
        stage.collect()
        stage.grant(ticket, 5)
        batches += take_said(stage)
    known: dict[object, tuple[list[float], int]] = {}
    seen = 0
    for number, (rows, said, written) in enumerate(batches):
        for version in range(max(0, number - slots), number - slots + 1):
            for row in batches[version][0] if version >= 0 else ():  # type: ignore[attr-defined]
                values = np.array(row, np.float32) + np.float32((version + 1) / 100)
                known[row] = values.tolist(), version + 1
        for row, values, version in zip(rows, said, written, strict=True):  # type: ignore[call-overload]
            expected = known.get(row, ([0.0, 0.0], -1))
            assert version == expected[1] and values == pytest.approx(expected[0]), (number, row)
            seen += version >= 0
    assert seen > 100


@pytest.mark.parametrize("resumed", [False, True])
@pytest.mark.parametrize("prioritized", [False, True])
def test_what_the_learner_says_of_rows_of_sequences_is_there_whichever_is_drawn(
    make: Make, tmp_path: Path, prioritized: bool, resumed: bool
) -> None:
    """By a dict of what was said of each row that was there."""
    replay = {"prioritized": prioritized, "slots": 2, "capacity": 64, "learning_starts": 16}
    given = {"algorithm": SayingOfSequencesConfig(hidden_sizes=(4,)), "replay": replay}
    stage, due = make(**given), [dict[tuple[int, int], tuple[float, int]]()]
    known: dict[tuple[int, int], tuple[float, int]] = {}
    seen = version = 0
    for ticket in range(10):
        if resumed and ticket == 6:
            save_to(stage, tmp_path / "saved")
            stage.drain()
            stage = make(tmp_path / "saved", **given)
        stage.collect(ends=ticket % 2 == 0)
        stage.grant(ticket, 5)
        stage.drain()
        while (batch := stage.ends[0].next()) is not None:
            if not len(batch.reward):
                stage.answer()
                stage.drain()
                continue
            assert isinstance(batch, SequenceBatch) and batch.written is not None
            if len(due) > 1:
                known |= due.pop(0)
            logs, rows = stage.ends[0].rows()
            said, version = np.full((*batch.mask.shape, 2), -9.0, np.float32), version + 1
            now: dict[tuple[int, int], tuple[float, int]] = {}
            for k, at in zip(*np.nonzero(np.ones_like(batch.mask)), strict=True):
                row = int(logs[k]), int(rows[k]) + int(at) - 1
                expected = known.get(row, (0.0, -1)) if batch.mask[k, at] else (0.0, -1)
                found = batch.extra["said"][k, at].tolist()
                assert (found, batch.written[k, at]) == ([expected[0]] * 2, expected[1])
                seen += expected[1] >= 0
                if batch.mask[k, at]:
                    said[k, at] = now.setdefault(row, (version + row[1] / 64, version))[0]
            due.append(now)
            stage.ends[0].version = version
            stage.ends[0].finish(np.full(BATCH, 0.5, np.float32), {"said": said})
            stage.drain()
    assert seen > 300
    side = stage.node.replay.side
    assert side is not None
    owners, versions = side.arrays["owner"], side.arrays["version"]
    places = {
        log * side.rows + row % side.rows: (row + 1, said[1]) for (log, row), said in known.items()
    }
    newest = {place: (owners[place], versions[place]) for place in np.flatnonzero(owners)}
    assert {place: newest[place] for place in places} == {
        place: max(places[place], newest[place]) for place in places
    }
    assert newest.keys() - places.keys() <= {
        log * side.rows + row % side.rows for step in due for log, row in step
    }


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ({"told": np.zeros((BATCH, 2))}, r"or none: said; got told"),
        ([("said", np.zeros((BATCH, 2)))], r"or none: said; got a list"),
        (
            {"said": np.zeros((BATCH, 3), np.float32)},
            r"of shape \(8, 2\) and dtype float32.*\(8, 3\)",
        ),
        ({"said": np.zeros((BATCH, 2), "U1")}, r"`extra\['said'\]` .*got shape \(8, 2\) of <U1"),
    ],
)
def test_what_does_not_fit_the_learners_columns_is_refused(
    make: Make, extra: object, message: str
) -> None:
    stage = make(says=True)
    stage.collect(20)
    stage.grant(0, 1)
    stage.drain()
    assert stage.ends[0].next() is not None
    with pytest.raises(ConfigError, match=message):
        stage.ends[0].finish(None, extra)  # type: ignore[arg-type]


def test_priorities_that_are_no_numbers_are_refused_and_counted(make: Make) -> None:
    stage = make(replay={"prioritized": True})
    stage.collect()
    stage.grant(0, 40)
    take_all(stage, float("nan"))
    assert stage.node.context.stats.words[StatsColumn.REFUSED_VALUES] >= 10 * BATCH


def test_figures_are_those_of_the_reader(make: Make) -> None:
    stage = make()
    stage.collect(10)
    stage.grant(0, 16)
    take_all(stage)
    words = stage.node.context.stats.words
    assert words[StatsColumn.DRAWN] == 16 * BATCH
    assert words[StatsColumn.LIVE_ROWS] == 10 * SHARDS * ENVS
    assert words[StatsColumn.AGED] == BATCH
    assert 1 <= words[StatsColumn.AGE_SUM] / BATCH <= 9


# --- several optimizers --------------------------------------------------------------------------


def test_optimizers_that_average_get_a_share_of_every_step(make: Make) -> None:
    stage = make(optimizers=2)
    stage.collect(20)
    stage.grant(0, 3)
    seen = []
    for _ in range(3):
        stage.drain()
        shares = [rows_of(stage, rank) for rank in (0, 1)]
        assert [len(share) for share in shares] == [BATCH // 2] * 2
        seen.extend(shares)
        stage.answer(rank=0)
        stage.answer(rank=1)
    stage.drain()
    assert [stage.ends[rank].next() for rank in (0, 1)] == [None, None]
    assert len({tuple(share) for share in seen}) == 6


def test_step_is_drawn_when_all_have_a_place_for_it(make: Make) -> None:
    stage = make(optimizers=2, replay={"slots": 1})
    stage.collect(20)
    stage.grant(0, 2)
    stage.drain()
    stage.answer(rank=0)
    stage.drain()
    assert stage.ends[0].next() is None, "the other one still has its share of the step before"
    stage.answer(rank=1)
    stage.drain()
    assert stage.ends[0].next() is not None


def test_asynchronous_optimizers_share_what_was_granted(make: Make) -> None:
    """Each whole batches, as it answers; the one that does not answer holds nobody up."""
    stage = make(optimizers=2, update="async")
    stage.collect(20)
    stage.grant(0, 9)
    taken = 0
    stage.drain()
    while (batch := stage.ends[1].next()) is not None:
        assert len(batch.reward) == BATCH
        taken += stage.answer(rank=1)
        stage.drain()
    assert taken == 7
    assert [stage.answer(rank=0) for _ in range(3)] == [True, True, False]


# --- checkpoints ---------------------------------------------------------------------------------


def test_cut_waits_for_every_answer(make: Make, tmp_path: Path) -> None:
    stage = make()
    stage.collect()
    stage.grant(0, 1)
    stage.drain()
    save_to(stage, tmp_path / "saved")
    stage.drain()
    assert stage.stage.events() == []
    stage.answer()
    stage.drain()
    noted, saved = stage.stage.events()
    assert noted == Noted("replay-0", 1)
    assert isinstance(saved, Saved)
    assert sorted(saved.files) == sorted(path.name for path in (tmp_path / "saved").iterdir())
    assert "replay-0.bin" in saved.files


def test_rows_written_after_the_cut_are_not_in_it(make: Make, tmp_path: Path) -> None:
    stage = make()
    stage.collect(5)
    save_to(stage, tmp_path / "saved")
    while Noted("replay-0", 1) not in stage.stage.events():
        stage.node.step()
    stage.collect(3)
    stage.drain()
    restored = make(tmp_path / "saved")
    assert restored.node.replay.reader.committed() == 5 * SHARDS * ENVS


def test_draws_go_on_while_rows_are_written(make: Make, tmp_path: Path) -> None:
    stage = make()
    stage.collect()
    save_to(stage, tmp_path / "saved")
    while Noted("replay-0", 1) not in stage.stage.events():
        stage.node.step()
    stage.grant(0, 1)
    stage.node.step()
    assert stage.ends[0].next() is not None
    assert not (tmp_path / "saved" / STATE_FILE).exists()


@pytest.mark.parametrize("prioritized", [False, True])
@pytest.mark.parametrize("steps", [1, 2, 7])
@pytest.mark.parametrize("says", [False, True])
def test_restored_replay_goes_on_as_the_one_that_was_saved(
    make: Make, tmp_path: Path, prioritized: bool, steps: int, says: bool
) -> None:
    """Logs, tree, streams, answers not applied yet; with fewer steps than slots and more."""
    replay = {"prioritized": prioritized, "slots": 3, "capacity": 48}
    stage = make(replay=replay, says=says)

    def taken(stage: ReplayStage, error: float) -> list[object]:
        return [*(take_said(stage) if says else take_all(stage, error))]

    for ticket in range(4):  # more rows than there is room for
        stage.collect()
        stage.grant(ticket, steps)
        taken(stage, 3.0)
    restored = resumed(make, stage, tmp_path / "saved", replay=replay, says=says)
    restored.ends[0].version = stage.ends[0].version
    for ticket in range(4, 7):
        drawn = []
        for each in (stage, restored):
            each.collect()
            each.grant(ticket, 8)
            drawn.append(taken(each, 0.1))
        assert drawn[0] == drawn[1]
        assert len(drawn[0]) == 8


@pytest.mark.parametrize("prioritized", [False, True])
def test_successor_has_what_a_checkpoint_held_and_was_not_applied(
    make: Make, tmp_path: Path, prioritized: bool
) -> None:
    kept = SupervisionConfig(restarts=RestartsConfig(replay=1))
    given = {"says": True, "supervision": kept, "replay": {"prioritized": prioritized, "slots": 3}}
    stage = make(**given)
    stage.collect(20)
    stage.grant(0, 4)
    take_said(stage)
    save_to(stage, tmp_path / "saved")
    stage.drain()
    drawn = []
    for dies in (False, True):
        restored = make(tmp_path / "saved", **given)
        restored.ends[0].version = 10
        if dies:
            restored.stage.hub = InprocHub()
            restored.node = ReplayNode(replace(restored.stage.context("replay-0"), life=2))
            restored.node.setup()
        restored.grant(1, 9)
        drawn.append(take_said(restored))
    assert drawn[0] == drawn[1] and len(drawn[0]) == 9
    assert any(version > 0 for *_, written in drawn[0][:3] for version in written)  # type: ignore[attr-defined]


def test_answers_are_carried_through_a_second_checkpoint(make: Make, tmp_path: Path) -> None:
    """The run was resumed, took one step, and is resumed again."""
    replay = {"prioritized": True, "alpha": 1.0, "slots": 3}
    stage = make(replay=replay)
    stage.collect(20)
    stage.grant(0, 3)
    take_all(stage, 3.0)
    for part in range(2):
        goes_on = resumed(make, stage, tmp_path / str(part), replay=replay)
        drawn = []
        for each in (stage, goes_on):
            each.grant(part + 1, 1)
            drawn.append(take_all(each, 5.0))
        assert drawn[0] == drawn[1]
        stage = goes_on
    save_to(stage, tmp_path / "last")
    stage.drain()
    answers = load(tmp_path / "last" / STATE_FILE)["answers"]
    assert isinstance(answers, list)
    assert [step[0][2][0] for step in answers[0]] == [3.0, 5.0, 5.0]


def test_answers_not_applied_at_a_cut_are_applied_after_it(make: Make, tmp_path: Path) -> None:
    replay = {"prioritized": True, "alpha": 1.0, "slots": 2}
    stage = make(replay=replay)
    stage.collect(20)
    stage.grant(0, 1)
    stage.drain()
    chosen = rows_of(stage)[0]
    errors = np.where([row == chosen for row in rows_of(stage)], 1e30, 0.0)
    stage.answer(errors.astype(np.float32))
    restored = resumed(make, stage, tmp_path / "saved", replay=replay)
    restored.grant(1, 2)
    first, second = take_all(restored)
    assert set(first) != {chosen}
    assert set(second) == {chosen}


def test_replay_that_is_not_kept_begins_empty(make: Make, tmp_path: Path) -> None:
    """Only the random stream goes on."""
    changes = {"checkpoint": CheckpointConfig(replay=False), "replay": {"prioritized": True}}
    stage = make(**changes)
    stage.collect(10)
    stage.grant(0, 5)
    take_all(stage, 1.0)
    save_to(stage, tmp_path / "saved")
    stage.drain()
    _, saved = stage.stage.events()
    assert saved == Saved("replay-0", 1, (STATE_FILE,))
    restored = make(tmp_path / "saved", **changes)
    assert restored.node.replay.reader.committed() == 0
    stream = stage.node.replay.reader.state()["stream"]
    assert restored.node.replay.reader.state()["stream"] == stream
    restored.collect(10)
    restored.grant(0, 5)
    assert len(take_all(restored, 1.0)) == 5


@pytest.mark.parametrize("when", ["begun", "written"])
def test_part_that_finds_no_room_is_reported_and_draws_go_on(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    stage = make()
    stage.collect()
    save_to(stage, tmp_path / "saved")
    if when == "begun":
        (tmp_path / "saved").rmdir()
    else:
        full = OSError(28, "No space left on device")
        monkeypatch.setattr(ReplaySave, "write", Mock(side_effect=full))
    stage.drain()
    saved = stage.stage.events()[-1]
    assert isinstance(saved, Saved)
    assert (saved.files, saved.checkpoint) == ((), 1)
    assert ("No such file" if when == "begun" else "No space left") in saved.error
    stage.grant(0, 1)
    assert len(take_all(stage)) == 1


def test_second_save_gives_up_the_first(make: Make, tmp_path: Path) -> None:
    stage = make()
    stage.collect()
    save_to(stage, tmp_path / "one", 1)
    stage.node.step()
    save_to(stage, tmp_path / "two", 2)
    stage.drain()
    events = stage.stage.events()
    assert [event.checkpoint for event in events if isinstance(event, Saved)] == [2]


def test_state_of_another_format_is_refused(make: Make, tmp_path: Path) -> None:
    stage = make()
    save_to(stage, tmp_path / "saved")
    stage.drain()
    path = tmp_path / "saved" / STATE_FILE
    save(path, {**load(path), "format": 9})
    with pytest.raises(CheckpointError, match="format 9, this version reads 1"):
        make(tmp_path / "saved")
