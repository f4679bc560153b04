"""Does what is asked over the control socket, and tells who asked what came of it."""

from __future__ import annotations

import time
from pathlib import Path

from fast_core.config import CheckpointConfig
from fast_core.launcher.control.server import Client, ControlServer
from fast_core.launcher.control.status import run_status
from fast_core.launcher.listener import Listener, NewRun
from fast_core.messages import Command, Event, Record
from fast_core.messages.launching import (
    AbandonCheckpoint,
    Asked,
    CheckpointWritten,
    EndRun,
    LauncherCommand,
    LauncherEvent,
    Requested,
    Scaled,
    ScaleRequested,
)
from fast_core.messages.requests import (
    Answer,
    Kind,
    SaveRequest,
    ScaleRequest,
    Status,
    StatusRequest,
    StopRequest,
)
from fast_core.monitor.checkpoint_files import newest_complete
from fast_core.system.interrupts import Interrupts

SAVE, STOP = "fastloop save", "fastloop stop"


class Desk(Listener):
    """Answers who asks how the run is, or asks for an end, a checkpoint or other nodes."""

    def __init__(
        self,
        checkpoint: CheckpointConfig,
        folder: Path,
        interrupts: Interrupts,
        server: ControlServer,
    ) -> None:
        """``checkpoint`` says whether the run can be saved, and ``folder`` is where.

        ``interrupts`` end it.
        """
        self._server, self._interrupts, self._folder = server, interrupts, folder
        self._saves = checkpoint.every_updates is not None or checkpoint.at_end
        self._waiting: dict[Client, int] = {}  # who for a checkpoint, and after which number
        self._scaling: dict[int, Client] = {}  # who waits for nodes to come or go, by request
        self._serial = 0
        self._env_steps_per_s = 0.0

    def begin(self, run: NewRun) -> None:
        """See `Listener.begin`."""
        self._scheduler, self._roster = run.scheduler, run.roster

    def row(self, record: Record) -> None:
        """Keep how fast the run is."""
        self._env_steps_per_s = record.values.get("time/env_steps_per_s", 0.0)

    def filenos(self) -> tuple[int, ...]:
        """One is readable once `take` has something to do."""
        return (self._server.fileno(),)

    def take(self) -> list[Requested | ScaleRequested]:
        """Take what is asked; returns what the scheduler has to decide."""
        server, events = self._server, list[Requested | ScaleRequested]()
        for client, request in server.take():
            match request:
                case StatusRequest():
                    server.finish(client, Answer("done", status=self._status()))
                case StopRequest():
                    self._interrupts.ask(STOP)
                    server.send(client, Answer("accepted", "it ends"))
                case ScaleRequest(kind, count, relative):
                    self._serial += 1
                    self._scaling[self._serial] = client
                    events.append(ScaleRequested(self._serial, kind, count, relative))
                case SaveRequest() if self._saves:
                    server.send(client, Answer("accepted", "it saves as soon as it can"))
                    self._waiting[client] = self._scheduler.statistics().checkpoint
                    events.append(Requested(Asked(SAVE, save=True)))
                case SaveRequest():
                    text = (
                        "it keeps no checkpoints: checkpoint.every_updates is null and "
                        "checkpoint.at_end false. A run that sets one of them can be saved"
                    )
                    server.finish(client, Answer("refused", text))
        return events

    def _status(self) -> Status:
        now = self._scheduler.statistics(time.monotonic())
        return run_status(now, self._env_steps_per_s, self._roster)

    def heard(self, event: Event | LauncherEvent) -> None:
        """Tell who asked what comes of an event that the scheduler has taken."""
        match event:
            case CheckpointWritten(number, ""):
                self._finish(Answer("done", path=self._newest()), number)
            case ScaleRequested(number) if number in self._scaling:  # else it was answered at once
                answer = Answer("accepted", "its nodes come and go")
                self._server.send(self._scaling[number], answer)
            case Requested() if not self._scheduler.saving:
                newest = self._newest()
                text = "nothing was trained since"
                if not newest:
                    text = "it has trained nothing yet that could be saved"
                self._finish(Answer("done" if newest else "refused", text, newest))

    def _newest(self) -> str:
        """The newest checkpoint, empty without one."""
        return str(newest_complete(self._folder) or "")

    def obey(self, command: Command | LauncherCommand) -> None:
        """Tell who asked what the scheduler orders of that."""
        match command:
            case AbandonCheckpoint(number, error):
                text = f"the checkpoint could not be written: {error}"
                self._finish(Answer("refused", text), number)
            case Scaled(number, text, error):
                kind: Kind = "refused" if error else "done"
                self._server.finish(self._scaling.pop(number), Answer(kind, error or text))
            case EndRun(text=text):  # with every checkpoint that it will have
                for client in self._scaling.values():
                    refusal = f"it ended before that: {text}"
                    self._server.finish(client, Answer("refused", refusal))
                self._scaling.clear()
                self._finish(Answer("refused", f"it ended before it was saved: {text}"))

    def _finish(self, answer: Answer, number: int | None = None) -> None:
        """Answer who waits for a checkpoint; with a ``number``, for one that this is."""
        for client, before in [*self._waiting.items()]:
            if number is None or before < number:
                del self._waiting[client]
                self._server.finish(client, answer)
