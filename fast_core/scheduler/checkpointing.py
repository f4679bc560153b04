"""When to save, and how far a save has come.

A checkpoint is a cut at a settled ticket: admission is held, every started rollout is trained on,
then each node writes its part, and the launcher commits the whole. An asynchronous evaluation
doesn't hold it up.

A replay node notes what the cut is and writes its rows while training goes on: admission is held
only until it has noted it (`Noted`) and every other part is there. The next checkpoint waits for
the whole, and so does the end.

Callbacks are told of a checkpoint that is written before training goes on, unless it went on while
the replay was.

The first one of a run comes with the first round that ends after `FIRST_S`, if it isn't due before:
where rounds take long, the interval may be most of an hour, and all of that would be lost by a
death. Not where callbacks are told of checkpoints: what they decide then would hold from a ticket
that depends on time.

One that can't be written, because the disk is full say, is given up once every node is done with
it. The next one is due when it would have been.
"""

from __future__ import annotations

import math
from enum import Enum

import msgspec

from fast_core.messages import Noted, Save, Saved
from fast_core.messages.launching import AbandonCheckpoint, CheckpointWritten, CommitCheckpoint
from fast_core.scheduler.settings import SchedulerSettings
from fast_core.scheduler.settled import Progress

FIRST_S = 60.0


class Cut(Enum):
    """How far a checkpoint has come."""

    IDLE = "idle"
    DUE = "due"  # admission is held until nothing is open
    SAVING = "saving"  # nodes write their parts
    STREAMING = "streaming"  # only the replay node still does, and training goes on
    WRITING = "writing"  # the launcher validates and renames
    TELLING = "telling"  # it is written, and callbacks are being told


class Checkpoints:
    """Schedule of checkpoints and the one being written.

    Attributes:
        number: Serial number of the last checkpoint begun in the whole run.
        cut: How far the current one has come.
        error: Why the last one could not be written, empty if it was.
    """

    def __init__(self, settings: SchedulerSettings, number: int, progress: Progress):
        """Continue after the checkpoint of this number and progress; 0 for none."""
        self._settings = settings
        self.number = number
        self.cut = Cut.IDLE
        # A state is only ever written as part of a checkpoint, so its ticket is saved.
        self._tried_ticket = progress.tickets
        self._ticket = 0
        self.error = ""
        self._nodes: tuple[str, ...] = ()
        self._missing: set[str] = set()
        self._unnoted: set[str] = set()
        self._parts: dict[str, tuple[str, ...]] = {}
        self._owed: set[tuple[str, int]] = set()  # parts of those begun anew among them
        self._streams = frozenset(settings.replays)
        self._commit: CommitCheckpoint | None = None
        self._asked = False  # for another one, while one is being written
        self._next_updates = self._after(progress.updates)
        self._first_s = math.inf if "checkpoint" in settings.moments else FIRST_S

    def _after(self, updates: int) -> int | None:
        every = self._settings.checkpoint_every_updates
        return None if every is None else every * (updates // every + 1)

    @property
    def holds(self) -> bool:
        """Whether admission is held for a checkpoint."""
        if self.cut in (Cut.WRITING, Cut.TELLING):
            return not self._streams
        return self.cut is not Cut.IDLE and self.cut is not Cut.STREAMING

    @property
    def busy(self) -> bool:
        """Whether one is being written right now, or told of."""
        return self.cut not in (Cut.IDLE, Cut.DUE)

    @property
    def configured(self) -> bool:
        """Whether the run wants checkpoints at all."""
        return self._settings.checkpoint_every_updates is not None or (
            self._settings.checkpoint_at_end
        )

    @property
    def missing(self) -> tuple[str, ...]:
        """Nodes whose part of the current one is."""
        saving = self.cut in (Cut.SAVING, Cut.STREAMING)
        return tuple(node for node in self._nodes if saving and node in self._missing)

    def trained(self, updates: int, elapsed_s: float) -> None:
        """Ask for a checkpoint if training crossed a multiple of the interval, or for the first."""
        first = self.number == 0 and elapsed_s >= self._first_s
        if self._next_updates is not None and (first or updates >= self._next_updates):
            self._next_updates = self._after(updates)
            self.ask()

    def ask(self) -> None:
        """Want a checkpoint at the next moment of rest, after one that is being written."""
        if self.cut is Cut.IDLE:
            self.cut = Cut.DUE
        elif self.cut is not Cut.DUE:
            self._asked = True

    def is_settled(self, progress: Progress) -> bool:
        """Whether this cut was written, or tried in vain, or is the one before any ticket."""
        return self._tried_ticket == progress.tickets

    def start(self, progress: Progress, nodes: tuple[str, ...]) -> Save:
        """Begin to write; the same command goes to each of ``nodes``, which hold the parts.

        The directory is named by trained environment steps, which rise with every ticket even
        when all updates of one are skipped. The launcher drops the ``.tmp`` when it commits.
        """
        assert self.cut is Cut.DUE
        self.cut = Cut.SAVING
        self.number += 1
        self._ticket, self.error = progress.tickets, ""
        self._parts.clear()
        self._nodes, self._missing = nodes, set(nodes)
        self._unnoted = self._missing & self._streams
        self._owed |= {(node, self.number) for node in nodes}
        return Save(
            self.number, f"{self._settings.checkpoint_directory}/{progress.env_steps:012d}.tmp"
        )

    def shows(self, commit: CommitCheckpoint) -> None:
        """Keep what the launcher will be told but for the files: it belongs to the cut, too."""
        self._commit = commit

    def again(self, node: str) -> None:
        """Begin anew what is being saved, under another number, if this node had a part: it died.

        Where only the replay node is still writing, every other part is there, and nothing is
        lost by the death of another one.
        """
        had = node in (self._missing if self.cut is Cut.STREAMING else self._nodes)
        if self.cut in (Cut.SAVING, Cut.STREAMING) and had:
            self.cut = Cut.DUE
            self._unnoted.clear()

    def owes(self, event: Saved) -> bool:
        """Whether the node was asked for this part and has not answered yet."""
        return (event.node, event.checkpoint) in self._owed

    def expects(self, event: Saved) -> bool:
        """Whether this node's part of this checkpoint is still missing."""
        return (
            self.cut in (Cut.SAVING, Cut.STREAMING)
            and event.checkpoint == self.number
            and event.node in self._missing
        )

    def saved(self, event: Saved) -> CommitCheckpoint | AbandonCheckpoint | None:
        """Take a node's part; returns what to tell the launcher once every node is done."""
        self._missing.discard(event.node)
        self._unnoted.discard(event.node)
        self._owed.discard((event.node, event.checkpoint))
        self._parts[event.node] = event.files
        if event.error and not self.error:
            self.error = f"{event.node}: {event.error}"
        if self._missing:
            self._let_train()
            return None
        if self.error:
            return self._give_up()
        self.cut = Cut.WRITING
        assert self._commit is not None
        files = tuple(file for node in self._nodes for file in self._parts[node])
        return msgspec.structs.replace(self._commit, files=files)

    def noted(self, event: Noted) -> bool:
        """Take a node's word that it knows the cut; whether that was still to come."""
        if event.checkpoint != self.number or event.node not in self._unnoted:
            return False
        self._unnoted.discard(event.node)
        self._let_train()
        return True

    def _let_train(self) -> None:
        if self.cut is Cut.SAVING and not self._unnoted and self._missing <= self._streams:
            self.cut = Cut.STREAMING

    def expects_written(self, event: CheckpointWritten) -> bool:
        """Whether the launcher was asked to commit this checkpoint."""
        return self.cut is Cut.WRITING and event.checkpoint == self.number

    def written(self, event: CheckpointWritten) -> AbandonCheckpoint | None:
        """Take the launcher's word on the current checkpoint; returns what to tell it."""
        self.error = event.error
        if self.error:
            return self._give_up()
        if "checkpoint" in self._settings.moments:
            self.cut = Cut.TELLING
        else:
            self._settle()
        return None

    def told(self) -> None:
        """Callbacks have been told of it."""
        if self.cut is Cut.TELLING:
            self._settle()

    def _give_up(self) -> AbandonCheckpoint:
        self._settle()
        return AbandonCheckpoint(self.number, self.error)

    def _settle(self) -> None:
        self.cut = Cut.DUE if self._asked else Cut.IDLE
        self._asked = False
        self._tried_ticket = self._ticket
