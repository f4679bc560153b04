"""What is done of what is asked, and when who asked is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from fast_core.config import CheckpointConfig
from fast_core.events import Asked, CheckpointWritten, Requested
from fast_core.launcher.control.desk import Desk
from fast_core.launcher.control.messages import (
    Answer,
    AnyRequest,
    SaveRequest,
    Status,
    StatusRequest,
    StopRequest,
)
from fast_core.launcher.interrupts import Interrupts

STATUS = Status("training", 1000, 10.0, 1, 100.0, 2)
SAVED = Path("checkpoints/000000001000")


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


def desk_of(server: Server, checkpoint: CheckpointConfig | None = None) -> tuple[Desk, Interrupts]:
    interrupts = Interrupts()
    return Desk(checkpoint or CheckpointConfig(), interrupts, server), interrupts  # type: ignore[arg-type]


def take(desk: Desk, number: int = 4) -> list[Requested]:
    return desk.take(lambda: STATUS, lambda: number)


def test_status_is_told(server: Server) -> None:
    desk, _ = desk_of(server)
    server.requests = [("a", StatusRequest())]
    assert take(desk) == []
    assert server.told == [("a", Answer("done", status=STATUS))]


def test_stop_counts_as_one_ctrl_c_however_often_it_is_asked_for(server: Server) -> None:
    desk, interrupts = desk_of(server)
    server.requests = [("a", StopRequest()), ("b", StopRequest())]
    assert take(desk) == []
    assert (interrupts.count, interrupts.text, interrupts.signal) == (1, "fastloop stop", None)
    assert [(who, answer.kind) for who, answer in server.told] == [
        ("a", "accepted"),
        ("b", "accepted"),
    ]


def test_save_is_answered_by_the_first_checkpoint_begun_after_it(server: Server) -> None:
    desk, _ = desk_of(server)
    server.requests = [("a", SaveRequest())]
    assert take(desk, 4) == [Requested(Asked("fastloop save", save=True))]
    desk.committing("checkpoints/000000000500.tmp")
    desk.written(CheckpointWritten(4))
    assert [answer.kind for _, answer in server.told] == ["accepted"]
    desk.committing(f"{SAVED}.tmp")
    desk.written(CheckpointWritten(5, "disk full"))  # AbandonCheckpoint says what follows
    assert [answer.kind for _, answer in server.told] == ["accepted"]
    desk.written(CheckpointWritten(6))
    assert server.told[1:] == [("a", Answer("done", path=str(SAVED)))]
    desk.ended("over")
    assert len(server.told) == 2


def test_save_that_fails_or_comes_too_late_is_told(server: Server) -> None:
    desk, _ = desk_of(server)
    server.requests = [("a", SaveRequest())]
    take(desk)
    desk.abandoned(5, "env-0: no space left on device")
    server.requests = [("b", SaveRequest())]
    take(desk)
    desk.ended("Ctrl-C")
    refused = [(who, answer.text) for who, answer in server.told if answer.kind == "refused"]
    assert refused == [
        ("a", "the checkpoint could not be written: env-0: no space left on device"),
        ("b", "it ended before it was saved: Ctrl-C"),
    ]


def test_what_is_saved_already_is_named(server: Server) -> None:
    desk, _ = desk_of(server)
    for newest in (None, SAVED):
        server.requests = [("a", SaveRequest())]
        take(desk)
        desk.nothing_to_save(newest)
    told = [answer for _, answer in server.told if answer.kind != "accepted"]
    assert told[0].kind == "refused"
    assert (told[1].kind, told[1].path) == ("done", str(SAVED))


def test_run_without_checkpoints_says_so(server: Server) -> None:
    desk, _ = desk_of(server, CheckpointConfig(every_updates=None, at_end=False))
    server.requests = [("a", SaveRequest())]
    assert take(desk) == []
    ((_, answer),) = server.told
    assert answer.kind == "refused"
    assert "checkpoint.every_updates" in answer.text
