"""What the launcher tells the scheduler beside what nodes say, and what it is told by it."""

from __future__ import annotations

import msgspec

from fast_core.messages import (
    Assign,
    Failed,
    Late,
    Message,
    Moment,
    NodeExited,
    StopReason,
    Value,
)


class StopRequested(Message, frozen=True):
    """A person or a signal asks the run to end; ``save`` asks for a last checkpoint first."""

    reason: str
    save: bool


class Requested(Message, frozen=True):
    """Somebody outside the run asks for something."""

    asked: Asked


class ScaleRequested(Message, frozen=True):
    """Somebody outside the run asks for more nodes, or fewer.

    Attributes:
        number: Tells this request from others.
        kind: Of node, as ``nodes`` of the configuration names it.
        count: How many there shall be.
        relative: It is added to how many there are.
    """

    number: int
    kind: str
    count: int
    relative: bool


class Acted(Message, frozen=True):
    """What acting took a policy node lately.

    Attributes:
        requests: How many of groups it answered.
        busy_s: How long it was at it, in all.
    """

    node: str
    requests: int
    busy_s: float


class CheckpointWritten(Message, frozen=True):
    """The launcher has renamed the checkpoint to its final name, or could not.

    Attributes:
        error: Why not, empty if it has.
    """

    checkpoint: int
    error: str = ""


class Asked(msgspec.Struct, frozen=True):
    """What a callback asked for while it was called, or somebody outside the run.

    Attributes:
        by: Its method, as ``module:Class.method``, or the command.
        stop: Why the run shall end; None if it need not.
        save: Whether a checkpoint is wanted now.
        changes: New values by key of the configuration.
    """

    by: str
    stop: str | None = None
    save: bool = False
    changes: dict[str, Value] = {}


class Told(Message, frozen=True):
    """The callbacks have been told, and nothing of what they asked for has been done yet.

    Attributes:
        moment: What the run waited for them to be told of, None where it did not wait.
        asked: What they asked for, in order.
    """

    moment: Moment | None
    asked: tuple[Asked, ...] = ()


class Tick(Message, frozen=True):
    """Time passed.

    Attributes:
        idle_since_s: Since when no node that the scheduler waits for has been at work, on the
            scheduler's clock; None if one is, or that isn't known.
    """

    idle_since_s: float | None = None


class CommitCheckpoint(Message, frozen=True):
    """All parts are written: validate, write the manifest and rename."""

    checkpoint: int
    version: int
    env_steps: int
    files: tuple[str, ...]
    scheduler: bytes


class AbandonCheckpoint(Message, frozen=True):
    """No node writes to it any more, and it can't be completed: remove what is there of it."""

    checkpoint: int
    error: str


class Respawn(Message, frozen=True):
    """Start a node anew that died; it reports `Ready` like any other.

    Attributes:
        life: The number of its life, 2 for the first that is not the one it began with.
        shards: What it executes, if it is an env node; nobody tells it again.
        changed: Values that are not the configuration's, by key.
    """

    node: str
    life: int
    shards: tuple[Assign, ...] = ()
    changed: dict[str, Value] = {}


class Retire(Message, frozen=True):
    """Have a node stop that is needed no more; its end is no failure."""

    node: str


class Scaled(Message, frozen=True):
    """What came of a `ScaleRequested`.

    Attributes:
        number: Of the request.
        text: How many nodes there are now.
        error: Why it was not done, empty if it was.
    """

    number: int
    text: str
    error: str = ""


class Tell(Message, frozen=True):
    """Tell the callbacks what has just happened, and answer with `Told`."""

    moment: Moment


class EndRun(Message, frozen=True):
    """Stop every node and finish with this outcome.

    Attributes:
        again: Whether it has not ended for good: it goes on from its newest checkpoint.
    """

    reason: StopReason
    text: str
    cause: Failed | None = None
    again: bool = False


class Decision(Message, frozen=True):
    """A line for ``events.jsonl``: what the scheduler decided and why."""

    what: str
    why: str


LauncherEvent = (
    NodeExited
    | StopRequested
    | Requested
    | ScaleRequested
    | Acted
    | CheckpointWritten
    | Told
    | Late
    | Tick
)
LauncherCommand = (
    CommitCheckpoint | AbandonCheckpoint | Respawn | Retire | Scaled | Tell | EndRun | Decision
)
