"""What is done of what is asked, and when who asked is told."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from fast_core.config import CheckpointConfig
from fast_core.launcher.control.desk import Desk
from fast_core.launcher.listener import NewRun
from fast_core.messages import Record
from fast_core.messages.launching import (
    AbandonCheckpoint,
    Asked,
    CheckpointWritten,
    EndRun,
    Requested,
    Scaled,
)
from fast_core.messages.requests import (
    Answer,
    AnyRequest,
    SaveRequest,
    ScaleRequest,
    StatusRequest,
    StopRequest,
)
from fast_core.monitor.checkpoint_files import MANIFEST
from fast_core.scheduler.statistics import Statistics
from fast_core.system.interrupts import Interrupts
from tests.launcher.shown.test_metrics_rows import BLANK

FIRST, NEXT = "000000000500", "000000001000"


class Undecided:
    """A scheduler to which nothing happens."""

    saving = False

    def statistics(self, now_s: float = 0.0) -> Statistics:
        return msgspec.structs.replace(BLANK, checkpoint=4, env_steps_trained=1000, elapsed_s=now_s)


class Server:
    """Who asks, and what they are told."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, AnyRequest]] = []
        self.told: list[tuple[str, Answer]] = []

    def take(self) -> list[tuple[str, AnyRequest]]:
        taken, self.requests = self.requests, []
        return taken

    def send(self, client: str, answer: Answer) -> None:
        self.told.append((client, answer))

    finish = send


@pytest.fixture
def server() -> Server:
    return Server()


class Lobby:
    """A desk with its run."""

    def __init__(self, folder: Path, server: Server) -> None:
        self.folder, self.interrupts, self.server = folder, Interrupts(), server
        self.desk = self.made(CheckpointConfig())

    def made(self, checkpoint: CheckpointConfig) -> Desk:
        desk = Desk(checkpoint, self.folder, self.interrupts, self.server)  # type: ignore[arg-type]
        roster = SimpleNamespace(stats={})
        desk.begin(NewRun(Undecided(), None, roster, 0.0))  # type: ignore[arg-type]
        return desk

    def commit(self, name: str) -> str:
        (self.folder / name).mkdir()
        (self.folder / name / MANIFEST).write_text("{}")
        return str(self.folder / name)


@pytest.fixture
def lobby(tmp_path: Path, server: Server) -> Lobby:
    return Lobby(tmp_path, server)


def test_status_is_told_with_the_rate_of_the_newest_row(server: Server, lobby: Lobby) -> None:
    server.requests = [("a", StatusRequest())]
    lobby.desk.row(Record(1000, 1, 9.0, {"time/env_steps_per_s": 10.0}))
    assert lobby.desk.take() == []
    ((_, answer),) = server.told
    assert answer.kind == "done" and answer.status is not None
    assert (answer.status.env_steps, answer.status.env_steps_per_s) == (1000, 10.0)
    assert answer.status.elapsed_s > 0.0, "time has gone on since its last event"


def test_stop_counts_as_one_ctrl_c_however_often_it_is_asked_for(
    server: Server, lobby: Lobby
) -> None:
    desk, interrupts = lobby.desk, lobby.interrupts
    server.requests = [("a", StopRequest()), ("b", StopRequest())]
    assert desk.take() == []
    assert (interrupts.count, interrupts.text, interrupts.signal) == (1, "fastloop stop", None)
    assert [(who, answer.kind) for who, answer in server.told] == [
        ("a", "accepted"),
        ("b", "accepted"),
    ]


def test_save_is_answered_by_the_first_checkpoint_begun_after_it(
    server: Server, lobby: Lobby
) -> None:
    desk = lobby.desk
    server.requests = [("a", SaveRequest())]
    assert desk.take() == [Requested(Asked("fastloop save", save=True))]
    lobby.commit(FIRST)
    desk.heard(CheckpointWritten(4))
    assert [answer.kind for _, answer in server.told] == ["accepted"]
    desk.heard(CheckpointWritten(5, "disk full"))  # AbandonCheckpoint says what follows
    assert [answer.kind for _, answer in server.told] == ["accepted"]
    saved = lobby.commit(NEXT)
    desk.heard(CheckpointWritten(6))
    assert server.told[1:] == [("a", Answer("done", path=saved))]
    desk.obey(EndRun("finished", "over"))
    assert len(server.told) == 2


def test_save_that_fails_or_comes_too_late_is_told(server: Server, lobby: Lobby) -> None:
    desk = lobby.desk
    server.requests = [("a", SaveRequest())]
    desk.take()
    desk.obey(AbandonCheckpoint(5, "env-0: no space left on device"))
    server.requests = [("b", SaveRequest())]
    desk.take()
    desk.obey(EndRun("interrupted", "Ctrl-C"))
    refused = [(who, answer.text) for who, answer in server.told if answer.kind == "refused"]
    assert refused == [
        ("a", "the checkpoint could not be written: env-0: no space left on device"),
        ("b", "it ended before it was saved: Ctrl-C"),
    ]


def test_what_is_saved_already_is_named(server: Server, lobby: Lobby) -> None:
    desk = lobby.desk
    for name in ("", NEXT):
        saved = lobby.commit(name) if name else ""
        server.requests = [("a", SaveRequest())]
        (requested,) = desk.take()
        desk.heard(requested)
    told = [answer for _, answer in server.told if answer.kind != "accepted"]
    assert told[0].kind == "refused"
    assert (told[1].kind, told[1].path) == ("done", saved)


def test_who_asks_for_nodes_is_told_what_comes_of_it(server: Server, lobby: Lobby) -> None:
    desk = lobby.desk
    server.requests = [("a", ScaleRequest("env", 4)), ("b", ScaleRequest("env", 9))]
    first, second = desk.take()
    desk.obey(Scaled(2, "", "there are 5 shards"))
    desk.heard(second)
    desk.heard(first)
    desk.obey(Scaled(1, "4 env nodes"))
    assert server.told == [
        ("b", Answer("refused", "there are 5 shards")),
        ("a", Answer("accepted", "its nodes come and go")),
        ("a", Answer("done", "4 env nodes")),
    ]


def test_run_without_checkpoints_says_so(server: Server, lobby: Lobby) -> None:
    desk = lobby.made(CheckpointConfig(every_updates=None, at_end=False))
    server.requests = [("a", SaveRequest())]
    assert desk.take() == []
    ((_, answer),) = server.told
    assert answer.kind == "refused"
    assert "checkpoint.every_updates" in answer.text
