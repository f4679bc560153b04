"""A last checkpoint may take as long as it comes forward, and no longer."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from fast_core.config import SupervisionConfig
from fast_core.launcher import supervisor as module
from fast_core.launcher.checkpoints.last_save import DISK_S, TELL_EVERY_S, LastSave, SavedSoFar
from fast_core.memory import StatsColumn
from fast_core.messages.launching import StopRequested
from fast_core.system.interrupts import Interrupts
from tests.launcher.test_supervisor import interrupts as interrupts
from tests.launcher.test_supervisor import supervisor_of
from tests.nodes.replay_stage import replay_config
from tests.nodes.stage import Stage, make_config

LIMIT_S = 1.0


def test_run_that_reaches_no_cut_ends_after_the_limit() -> None:
    save = LastSave(LIMIT_S, 0.0, 100.0)
    for now_s in (100.0, 100.4, 100.9):
        save.look(SavedSoFar(), 0, now_s)
        assert save.deadline_s == 101.0


def test_bytes_and_steps_put_the_end_off() -> None:
    save = LastSave(LIMIT_S, 0.0, 100.0)
    save.look(SavedSoFar(), 5, 100.1)
    save.look(SavedSoFar(), 6, 100.9)
    assert save.deadline_s == 101.9, "a step was taken"
    for second in range(60):
        save.look(SavedSoFar(nbytes=1 + second), 6, 102.0 + second)
    for second in range(60):  # the disk has them; now they are read back
        save.look(SavedSoFar(60, second, committing=True), 6, 162.0 + second)
    assert save.deadline_s > 221.0


def test_disk_that_stands_still_is_given_time_for_a_flush_and_no_more() -> None:
    save = LastSave(LIMIT_S, 0.0, 100.0)
    save.look(SavedSoFar(), 0, 100.0)
    save.look(SavedSoFar(7), 0, 100.5)
    save.look(SavedSoFar(7), 0, 105.0)
    assert save.deadline_s == 100.5 + DISK_S
    patient = LastSave(3 * DISK_S, 0.0, 100.0)
    patient.look(SavedSoFar(7), 0, 100.0)
    assert patient.deadline_s == 100.0 + 3 * DISK_S


def test_open_round_may_take_three_times_what_one_took() -> None:
    save = LastSave(LIMIT_S, 10.0, 100.0)
    save.look(SavedSoFar(), 7, 100.1)
    assert save.deadline_s == 130.0
    save.look(SavedSoFar(), 8, 125.0)
    assert save.deadline_s == 155.0, "one of several that are open"
    assert LastSave(LIMIT_S, 0.01, 100.0).deadline_s == 100.0 + LIMIT_S


def test_what_takes_long_is_told_now_and_then() -> None:
    save, told = LastSave(LIMIT_S, 0.0, 100.0), []
    for tenth in range(int(22 * TELL_EVERY_S)):
        now_s = 100.0 + tenth / 10
        save.look(SavedSoFar(tenth), 0, now_s)
        if (nbytes := save.due_news(now_s)) is not None:
            told.append(nbytes)
    assert told == [50, 100]


class Told:
    """What a shell is told, and what it says of the checkpoint."""

    def __init__(self) -> None:
        self.events: list[object] = []
        self.lines: list[str] = []
        self.so_far = SavedSoFar()
        self.progress = SimpleNamespace(say=lambda text, level: self.lines.append(text))
        self.take = self.events.append
        self.rounds, self.round_s, self.run = 0, lambda now_s: 0.0, None
        self.saving = SimpleNamespace(so_far=lambda: self.so_far)


@pytest.mark.parametrize(("replays", "rounds"), [(True, 0), (False, 1), (False, 0)])
def test_interrupted_run_waits_for_steps_on_replay_for_rounds_and_for_bytes(
    tmp_path: Path,
    interrupts: Interrupts,
    monkeypatch: pytest.MonkeyPatch,
    replays: bool,
    rounds: int,
) -> None:
    make = replay_config if replays else make_config
    stage = Stage(tmp_path, make(supervision=SupervisionConfig(save_s=LIMIT_S)))
    clock = SimpleNamespace(now_s=100.0)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock.now_s))
    told = Told()
    interrupts.count = 1
    supervisor = supervisor_of(stage, interrupts, None, told)
    row = stage.memory.stats("optimizer-0")
    supervisor._take_interrupts()
    assert told.events == [StopRequested("Ctrl-C", save=True)]
    ended_s = None
    for tenth in range(1, 400):
        clock.now_s = 100.0 + tenth / 10
        if tenth < 30:
            row.words[StatsColumn.BATCHES] += replays
            told.rounds += rounds
        elif tenth < 200:
            told.so_far = SavedSoFar(tenth)
        supervisor._take_interrupts()
        if len(told.events) == 2:
            ended_s = clock.now_s
            break
    # Without a replay an optimizer counts nothing within a round.
    moves = replays or rounds > 0
    assert ended_s == pytest.approx(119.9 + DISK_S if moves else 100.0 + LIMIT_S, abs=0.2)
    last = told.events[-1]
    assert isinstance(last, StopRequested) and not last.save
    assert "no time for a last checkpoint (supervision.save_s)" in last.reason
    texts = told.lines
    assert bool(texts) is moves and all("Ctrl-C once more" in text for text in texts)
