"""The scheduler's shell: what it notes down, and whose death it waits to hear of."""

from __future__ import annotations

import io
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from fast_core.config import RunConfig
from fast_core.errors import TransportError
from fast_core.launcher import shell as module
from fast_core.launcher.listener import Listener, NewRun
from fast_core.launcher.roster import EXIT_NEWS_S
from fast_core.launcher.shell import Shell
from fast_core.memory import StatsColumn
from fast_core.messages import (
    Collect,
    Command,
    Failed,
    NodeExited,
    Ready,
    Save,
    Saved,
    Stop,
    Trained,
)
from fast_core.messages.launching import (
    AbandonCheckpoint,
    CheckpointWritten,
    CommitCheckpoint,
    Decision,
    EndRun,
)
from fast_core.monitor.progress import PlainProgress
from fast_core.monitor.run_directory import RunDirectory
from fast_core.nodes.node import NodeState
from fast_core.scheduler import CALLBACKS, LAUNCHER, Send
from tests.closing import until_the_end
from tests.nodes.stage import Stage

FULL = "[Errno 28] No space left on device"


def fail(*_: object) -> None:
    raise OSError(28, "No space left on device")


class Lossy:
    """A hub that refuses what goes to ``gone``."""

    def __init__(self, stage: Stage) -> None:
        self._hub = stage.hub
        self.gone: set[str] = set()
        self.sent: list[tuple[str, Command]] = []

    def send(self, node: str, command: Command) -> None:
        if node in self.gone:
            raise TransportError(f"{type(command).__name__} for {node} was refused")
        self.sent.append((node, command))

    def __getattr__(self, name: str) -> object:
        return getattr(self._hub, name)


class Desk:
    """A shell, what it sends and what it says."""

    def __init__(self, folder: Path, config: RunConfig | None = None) -> None:
        self.now_s = 1000.0
        self.stage = Stage(folder, config)
        self.hub = Lossy(self.stage)
        run = RunDirectory.create(folder / "runs", "toy", datetime(2026, 1, 1))
        self.screen = io.StringIO()
        progress = PlainProgress(self.screen)
        stats = self.stage.memory.all_stats()
        shell = Shell(self.stage.plan, run, self.hub, stats, progress, None, "name: toy\n")  # type: ignore[arg-type]
        self.shell = until_the_end(shell)

    def make_ready(self) -> None:
        for node in self.stage.plan.names.all:
            if node not in self.shell.roster.optional:
                self.shell.take(Ready(node, 1))

    def give_up_unreachable(self) -> None:
        for event in self.shell.roster.take_unreachable():
            self.shell.take(event)


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """One with a clock that the test moves."""
    made: list[Desk] = []
    monkeypatch.setattr(module.time, "monotonic", lambda: made[0].now_s if made else 1000.0)
    made.append(Desk(tmp_path))
    return made[0]


def test_work_goes_out_once_everybody_is_ready(desk: Desk) -> None:
    assert desk.hub.sent == []
    desk.make_ready()
    assert {node for node, command in desk.hub.sent if isinstance(command, Collect)} == {
        "env-0",
        "env-1",
    }


def test_rounds_take_their_average_and_a_suspended_one_does_not_count(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By it Ctrl-C waits for the open round, whatever that has taken so far."""
    desk.make_ready()
    monkeypatch.setattr(desk.shell.scheduler, "handle", lambda event, now_s: [])
    assert desk.shell.round_s(desk.now_s) == 0.0
    for number, (took_s, average_s) in enumerate([(3, 3), (5, 4), (3600, 4), (4, 4), (8, 5)]):
        desk.now_s += took_s
        desk.shell.take(Trained("optimizer-0", number, 0, 0, 0, 0.0, 0, {}))
        assert desk.shell.round_s(desk.now_s + 100) == pytest.approx(average_s)


def test_refused_message_waits_for_the_news_of_the_nodes_death(desk: Desk) -> None:
    desk.hub.gone = {"env-1"}
    desk.make_ready()
    assert desk.shell.end is None
    desk.give_up_unreachable()
    assert desk.shell.end is None
    desk.shell.take(NodeExited("env-1", "was killed by SIGSEGV"))
    assert desk.shell.end is not None
    assert "SIGSEGV" in desk.shell.end.text
    assert [failure.node for failure in desk.shell.failures.kept] == ["env-1"]


def test_refused_message_without_such_news_is_the_cause(desk: Desk) -> None:
    desk.hub.gone = {"env-1"}
    desk.make_ready()
    desk.now_s += EXIT_NEWS_S
    desk.give_up_unreachable()
    assert desk.shell.end is not None
    assert desk.shell.end.reason == "failed"
    assert "for env-1 was refused" in desk.shell.end.text


def test_nodes_that_are_not_connected_are_named_when_told_to_stop(desk: Desk) -> None:
    desk.hub.gone = {"optimizer-0"}
    assert desk.shell.stop_nodes(desk.stage.plan.names.all) == ["optimizer-0"]
    told = {node for node, command in desk.hub.sent if isinstance(command, Stop)}
    assert told == set(desk.stage.plan.names.all) - {"optimizer-0"}
    desk.hub.gone = set()
    assert desk.shell.tell_stop(["optimizer-0"]) == []


def test_node_that_fails_and_then_exits_is_one_failure(desk: Desk) -> None:
    desk.make_ready()
    desk.shell.take(Failed("env-0", "stepping", "bad joint 7", "", {}))
    desk.shell.take(NodeExited("env-0", "exited with status 1"))
    desk.shell.take(NodeExited("env-1", "was killed by SIGKILL"))
    assert [failure.node for failure in desk.shell.failures.kept] == ["env-0", "env-1"]
    assert desk.shell.end is not None
    assert desk.shell.end.cause is not None
    assert desk.shell.end.cause.error == "bad joint 7"


def test_checkpoint_that_cannot_be_begun_is_refused_for_every_node(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(desk.shell.saving._store, "prepare", fail)
    desk.make_ready()
    desk.hub.sent.clear()
    taken: list[object] = []
    monkeypatch.setattr(desk.shell, "take", taken.append)
    save = Save(1, str(desk.shell.run.checkpoints / "1.tmp"))
    desk.shell._carry_out([Send(node, save) for node in ("env-0", "env-1")])
    assert taken == [Saved(n, 1, (), FULL) for n in ("env-0", "env-1")]
    assert desk.hub.sent == []


def test_checkpoint_that_is_given_up_leaves_nothing_and_is_told_ever_more_rarely(
    desk: Desk,
) -> None:
    directory = desk.shell.run.checkpoints / "1.tmp"
    for number in range(1, 101):
        desk.shell.saving.prepare(Save(number, str(directory)))
        (directory / "learner").write_bytes(b"half")
        desk.shell._carry_out([Send(LAUNCHER, AbandonCheckpoint(number, FULL))])
        assert not directory.exists()
    told = desk.screen.getvalue().splitlines()
    assert [FULL in line for line in told] == [True] * 3
    assert "10 in a row" in told[1] and "100 in a row" in told[2]
    assert desk.shell.end is None


def test_commit_that_fails_reaches_the_scheduler(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(desk.shell.saving._store, "commit", fail)
    taken: list[object] = []
    monkeypatch.setattr(desk.shell, "take", taken.append)
    desk.shell._carry_out([Send(LAUNCHER, CommitCheckpoint(1, 0, 0, (), b""))])
    assert desk.shell.await_others(60.0)
    assert desk.shell.receive()
    assert taken == [CheckpointWritten(1, FULL)]


def test_how_far_a_checkpoint_is_can_be_seen(desk: Desk) -> None:
    shell = desk.shell
    assert shell.saving.so_far() == (0, 0, False)
    directory = shell.run.checkpoints / "1.tmp"
    shell.saving.prepare(Save(1, str(directory)))
    assert shell.saving.so_far() == (0, 0, False)
    for name, size in (("learner", 100), ("rows", 3 << 20)):
        (directory / name).write_bytes(bytes(size))
    assert shell.saving.so_far() == (100 + (3 << 20), 0, False)
    commit = CommitCheckpoint(1, 0, 0, ("learner", "rows"), b"state")
    shell._carry_out([Send(LAUNCHER, commit)])
    shell.await_others(60.0)
    saved = shell.saving.so_far()
    assert saved.committing and saved.pieces == 1 + 3 + 1, "read back piece by piece"
    shell.receive()
    assert (shell.saving.so_far().nbytes, shell.saving.so_far().committing) == (0, False)


def test_configuration_is_written_when_every_node_has_accepted_it(desk: Desk) -> None:
    assert not desk.shell.run.config.exists()
    desk.make_ready()
    assert desk.shell.run.config.read_text() == "name: toy\n"


def test_configuration_that_cannot_be_written_stays_as_it_was(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(desk.shell.run, "write_config", fail)
    desk.make_ready()
    assert desk.shell.end is None
    assert "config.yaml: [Errno 28]" in desk.screen.getvalue()


def test_files_that_changed_while_the_run_started_are_told_once_it_begins(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(desk.shell.chronicle, "report", told.append)
    sources = SimpleNamespace(changed=lambda: ["own.py"])
    monkeypatch.setattr(desk.shell.chronicle, "_sources", sources)
    assert told == []
    desk.make_ready()
    assert [text.partition(":")[0] for text in told] == ["own.py changed while the run started"]


@pytest.mark.parametrize("reason", ["finished", "interrupted"])
def test_callback_that_fails_after_the_last_ticket_is_not_passed_over(
    desk: Desk, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last row of metrics is told of while the nodes stop."""
    desk.make_ready()
    failed = Failed(CALLBACKS, "calling mine:Logger.on_metrics", "KeyError: 'x'", "line 3\n", {})
    desk.shell.end = EndRun(reason, "10 env steps")  # type: ignore[arg-type]
    monkeypatch.setattr(desk.shell.scheduler, "handle", lambda *_: [])  # which has ended it
    desk.shell.take(failed)
    text = "callbacks failed while calling mine:Logger.on_metrics: KeyError: 'x'"
    if reason == "finished":
        assert desk.shell.end == EndRun("failed", text, failed)
    else:
        assert desk.shell.end.reason == reason
        assert "line 3" in desk.screen.getvalue()


def test_run_that_waits_for_a_callback_does_not_stand_still(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as one whose part of a checkpoint takes long: it has a limit of its own."""
    desk.make_ready()
    for row in desk.shell.roster.stats.values():
        row.words[StatsColumn.STATE] = NodeState.WAITING
    assert desk.shell._idle_since_s() is not None
    monkeypatch.setattr(desk.shell, "_listeners", (SimpleNamespace(busy=True, close=list),))
    assert desk.shell._idle_since_s() is None


class Ear(Listener):
    """Notes what it hears, and whether the scheduler knew of it by then."""

    def __init__(self) -> None:
        self.noted: list[tuple[str, object]] = []

    def begin(self, run: NewRun) -> None:
        self.noted.append(("begin", run.scheduler.statistics().phase))

    def hear(self, event: object, now_s: float) -> None:
        self.noted.append(("hear", event))

    def heard(self, event: object) -> None:
        self.noted.append(("heard", event))

    def obey(self, command: object) -> None:
        self.noted.append(("obey", type(command)))


def test_listener_hears_before_the_scheduler_and_after_it_until_the_end(desk: Desk) -> None:
    plan, ear, stats = desk.stage.plan, Ear(), desk.stage.memory.all_stats()
    run, progress = desk.shell.run, desk.shell.progress
    shell = Shell(plan, run, desk.hub, stats, progress, None, "", listeners=[ear])  # type: ignore[arg-type]
    assert ear.noted == [("begin", "starting")]
    failed, late = Failed("env-0", "stepping", "bad joint 7", "", {}), NodeExited("env-1", "gone")
    shell.take(failed)
    shell.take(late)
    assert [each for each in ear.noted[1:] if each != ("obey", Decision)] == [
        ("hear", failed),
        ("obey", EndRun),
        ("heard", failed),
        ("heard", late),
    ]
    shell.close()
