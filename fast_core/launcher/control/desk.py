"""Does what is asked over the control socket, and tells who asked what came of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fast_core.config import CheckpointConfig
from fast_core.events import (
    Asked,
    CheckpointWritten,
    Event,
    LauncherEvent,
    Requested,
    Scaled,
    ScaleRequested,
)
from fast_core.launcher.control.messages import (
    Answer,
    Kind,
    SaveRequest,
    ScaleRequest,
    Status,
    StatusRequest,
    StopRequest,
)
from fast_core.launcher.control.server import Client, ControlServer
from fast_core.launcher.interrupts import Interrupts
from fast_core.run.checkpoint_files import complete_names

SAVE, STOP = "fastloop save", "fastloop stop"


class Desk:
    """What the shell needs of the control socket; where there is none, nobody asks."""

    def __init__(
        self,
        checkpoint: CheckpointConfig,
        interrupts: Interrupts,
        server: ControlServer | None = None,
    ) -> None:
        """``checkpoint`` says whether the run can be saved; ``interrupts`` end it."""
        self._server, self._interrupts = server, interrupts
        self._saves = checkpoint.every_updates is not None or checkpoint.at_end
        self._waiting: dict[Client, int] = {}  # who for a checkpoint, and after which number
        self._scaling: dict[int, Client] = {}  # who waits for nodes to come or go, by request
        self._serial = 0
        self._written = ""

    def filenos(self) -> tuple[int, ...]:
        """One is readable once `take` has something to do."""
        return () if self._server is None else (self._server.fileno(),)

    def take(
        self, status: Callable[[], Status], number: Callable[[], int]
    ) -> list[Requested | ScaleRequested]:
        """Take what is asked; returns what the scheduler has to decide.

        Args:
            status: How the run is.
            number: Serial number of the last checkpoint begun.
        """
        server, events = self._server, list[Requested | ScaleRequested]()
        if server is None:
            return events
        for client, request in server.take():
            match request:
                case StatusRequest():
                    server.finish(client, Answer("done", status=status()))
                case StopRequest():
                    self._interrupts.ask(STOP)
                    server.send(client, Answer("accepted", "it ends"))
                case ScaleRequest(kind, count, relative):
                    self._serial += 1
                    self._scaling[self._serial] = client
                    events.append(ScaleRequested(self._serial, kind, count, relative))
                case SaveRequest() if self._saves:
                    server.send(client, Answer("accepted", "it saves as soon as it can"))
                    self._waiting[client] = number()
                    events.append(Requested(Asked(SAVE, save=True)))
                case SaveRequest():
                    text = (
                        "it keeps no checkpoints: checkpoint.every_updates is null and "
                        "checkpoint.at_end false. A run that sets one of them can be saved"
                    )
                    server.finish(client, Answer("refused", text))
        return events

    def heard(self, event: Event | LauncherEvent, *, saving: bool, folder: Path) -> None:
        """Tell who asked what comes of an event that the scheduler has taken.

        ``saving`` is whether a checkpoint is due or begun, ``folder`` where those before lie.
        """
        match event:
            case CheckpointWritten():
                self.written(event)
            case ScaleRequested(number):
                self.scales(number)
            case Requested() if not saving:
                names = complete_names(folder)
                self.nothing_to_save(folder / names[-1] if names else None)

    def nothing_to_save(self, newest: Path | None) -> None:
        """Nothing was trained since the ``newest`` checkpoint, or at all."""
        if newest is None:
            answer = Answer("refused", "it has trained nothing yet that could be saved")
        else:
            answer = Answer("done", "nothing was trained since", str(newest))
        self._finish(answer)

    def committing(self, directory: str) -> None:
        """A checkpoint is being committed, which is in ``directory`` until then."""
        self._written = directory.removesuffix(".tmp")

    def written(self, event: CheckpointWritten) -> None:
        """A checkpoint is written."""
        if not event.error:
            self._finish(Answer("done", path=self._written), event.checkpoint)

    def abandoned(self, number: int, error: str) -> None:
        """A checkpoint could not be written."""
        self._finish(Answer("refused", f"the checkpoint could not be written: {error}"), number)

    def scales(self, number: int) -> None:
        """Nodes come or go for this request, unless it was answered at once."""
        if self._server is not None and number in self._scaling:
            self._server.send(self._scaling[number], Answer("accepted", "its nodes come and go"))

    def scaled(self, command: Scaled) -> None:
        """A request for nodes was refused, or is done."""
        client = self._scaling.pop(command.number)
        kind: Kind = "refused" if command.error else "done"
        self._answer(client, Answer(kind, command.error or command.text))

    def ended(self, text: str) -> None:
        """The run has come to its end, with every checkpoint that it will have."""
        for client in self._scaling.values():
            self._answer(client, Answer("refused", f"it ended before that: {text}"))
        self._scaling.clear()
        self._finish(Answer("refused", f"it ended before it was saved: {text}"))

    def _finish(self, answer: Answer, number: int | None = None) -> None:
        """Answer who waits for a checkpoint; with a ``number``, for one that this is."""
        for client, before in [*self._waiting.items()]:
            if number is None or before < number:
                del self._waiting[client]
                self._answer(client, answer)

    def _answer(self, client: Client, answer: Answer) -> None:
        assert self._server is not None, "who waits has come over it"
        self._server.finish(client, answer)
