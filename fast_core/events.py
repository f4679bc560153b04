"""Every message between the scheduler and the nodes.

Events travel from nodes to the scheduler, commands from the scheduler to nodes. Both are small
records; arrays stay in shared memory. The wire format is MessagePack behind one version byte,
never pickle, so a stray or hostile sender can't run code.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from fast_core.errors import TransportError

PROTOCOL_VERSION = 1

StopReason = Literal["finished", "failed", "interrupted"]


class Message(msgspec.Struct, frozen=True, tag=True):
    """Base of everything that travels."""


# --- commands: scheduler -> node ---------------------------------------------------------------


class Assign(Message, frozen=True):
    """Execute a shard from now on (sent once per shard and incarnation)."""

    shard: int
    incarnation: int


class RolloutOrder(msgspec.Struct, frozen=True):
    """One shard rollout to collect.

    Attributes:
        shard: Shard to step.
        incarnation: Which life of the shard this order belongs to.
        slot: Rollout slot of the shard to write.
        rollout_id: Serial number within the shard, from 1 (0 means "open" in the slot header).
        ticket: Ticket whose place the rollout was admitted for.
        min_version: Oldest weights that may act.
    """

    shard: int
    incarnation: int
    slot: int
    rollout_id: int
    ticket: int
    min_version: int


class Collect(Message, frozen=True):
    """Collect these shard rollouts, in this order."""

    rollouts: tuple[RolloutOrder, ...]


class RolloutRef(msgspec.Struct, frozen=True):
    """Names one committed rollout in shared memory."""

    shard: int
    incarnation: int
    slot: int
    rollout_id: int


class Train(Message, frozen=True):
    """Train on one merged ticket; only `Trained` frees its slots."""

    ticket: int
    rollouts: tuple[RolloutRef, ...]
    env_steps: int
    granted: int


class Snapshot(Message, frozen=True):
    """Copy the current policy into the evaluation slot."""

    request: int


class Evaluate(Message, frozen=True):
    """Evaluate the snapshot for exactly ``episodes`` episodes."""

    request: int
    version: int
    env_steps: int
    episodes: int


class Save(Message, frozen=True):
    """Write this node's part of a checkpoint into ``directory``."""

    checkpoint: int
    directory: str


class Stop(Message, frozen=True):
    """Finish: close environments, flush, leave. Handled before anything still in the inbox."""

    reason: StopReason


class Record(Message, frozen=True):
    """Write one row of metrics."""

    env_steps: int
    updates: int
    time_s: float
    values: dict[str, float]


# --- events: node -> scheduler -----------------------------------------------------------------


class Ready(Message, frozen=True):
    """The node's setup is done; for env nodes a real reset and step worked."""

    node: str
    pid: int


class RolloutReady(Message, frozen=True):
    """A shard rollout is complete and committed.

    Attributes:
        episode_returns: Returns of episodes that ended in it, raw reward.
        episode_lengths: Their lengths in environment steps.
        quarantined: Episodes cut because the environment gave a non-finite value.
    """

    node: str
    shard: int
    incarnation: int
    slot: int
    rollout_id: int
    ticket: int
    version: int
    episode_returns: tuple[float, ...]
    episode_lengths: tuple[int, ...]
    quarantined: int = 0


class Trained(Message, frozen=True):
    """A ticket is settled.

    Attributes:
        version: Committed optimizer steps so far; the published weights carry it.
        updates: Optimizer steps committed for this ticket.
        skipped: Granted steps not taken.
        lag_mean: Mean policy lag of the rows, in versions, when they were consumed.
        lag_max: Largest policy lag of the rows.
        digest: SHA-256 of the learner's whole state, empty unless asked for.
    """

    node: str
    ticket: int
    version: int
    updates: int
    skipped: int
    lag_mean: float
    lag_max: int
    metrics: dict[str, float]
    digest: str = ""


class SnapshotTaken(Message, frozen=True):
    """The evaluation slot holds the policy of ``version``."""

    node: str
    request: int
    version: int
    env_steps: int


class Evaluated(Message, frozen=True):
    """Result of one evaluation, for the evaluated version, in episode order."""

    node: str
    request: int
    version: int
    env_steps: int
    returns: tuple[float, ...]
    lengths: tuple[int, ...]


class Saved(Message, frozen=True):
    """The node's part of a checkpoint is written and flushed to disk."""

    node: str
    checkpoint: int
    files: tuple[str, ...]


class Heartbeat(Message, frozen=True):
    """The node's I/O thread is alive."""

    node: str


class LogLine(Message, frozen=True):
    """One log record of a node."""

    node: str
    level: str
    text: str


class Failed(Message, frozen=True):
    """The node raised; it exits after this.

    Attributes:
        doing: What the node was doing, in words.
        error: Type and text of the first cause.
        traceback: The node's own traceback.
        context: Further facts by name: shard, environment, episode, seed, step, last action.
    """

    node: str
    doing: str
    error: str
    traceback: str
    context: dict[str, str]


# --- events that the launcher itself raises ----------------------------------------------------


class NodeExited(Message, frozen=True):
    """A node's process is gone.

    ``cause`` is a sentence for people ("killed by SIGKILL (out of memory?)"), empty when the
    node had been told to stop.
    """

    node: str
    cause: str


class StopRequested(Message, frozen=True):
    """A person or a signal asks the run to end; ``save`` asks for a last checkpoint first."""

    reason: str
    save: bool


class CheckpointWritten(Message, frozen=True):
    """The launcher has renamed the checkpoint to its final name."""

    checkpoint: int


class Tick(Message, frozen=True):
    """Time passed; carries nothing but the clock that comes with it."""


# --- commands to the launcher ------------------------------------------------------------------


class CommitCheckpoint(Message, frozen=True):
    """All parts are written: validate, write the manifest and rename."""

    checkpoint: int
    version: int
    env_steps: int
    files: tuple[str, ...]
    scheduler: bytes


class EndRun(Message, frozen=True):
    """Stop every node and finish with this outcome."""

    reason: StopReason
    text: str
    cause: Failed | None = None


class Decision(Message, frozen=True):
    """A line for ``events.jsonl``: what the scheduler decided and why."""

    what: str
    why: str


Command = Assign | Collect | Train | Snapshot | Evaluate | Save | Stop | Record
Event = (
    Ready
    | RolloutReady
    | Trained
    | SnapshotTaken
    | Evaluated
    | Saved
    | Heartbeat
    | LogLine
    | Failed
)
LauncherEvent = NodeExited | StopRequested | CheckpointWritten | Tick
LauncherCommand = CommitCheckpoint | EndRun | Decision

_VERSION_BYTE = bytes([PROTOCOL_VERSION])
_encoder = msgspec.msgpack.Encoder()
_commands: msgspec.msgpack.Decoder[Command] = msgspec.msgpack.Decoder(Command)
_events: msgspec.msgpack.Decoder[Event] = msgspec.msgpack.Decoder(Event)


def encode(message: Message) -> bytes:
    """Wire form of a message: one version byte, then MessagePack."""
    return _VERSION_BYTE + _encoder.encode(message)


def decode_command(data: bytes) -> Command:
    """Read a command off the wire.

    Raises:
        TransportError: Another protocol version, or not a command.
    """
    try:
        return _commands.decode(_body(data))
    except msgspec.MsgspecError as error:
        raise TransportError(f"not a FastLoop command: {error}; got {data[:32]!r}") from error


def decode_event(data: bytes) -> Event:
    """Read an event off the wire.

    Raises:
        TransportError: Another protocol version, or not an event.
    """
    try:
        return _events.decode(_body(data))
    except msgspec.MsgspecError as error:
        raise TransportError(f"not a FastLoop event: {error}; got {data[:32]!r}") from error


def _body(data: bytes) -> memoryview:
    if data[:1] != _VERSION_BYTE:
        got = data[0] if data else None
        raise TransportError(
            f"message has protocol version {got!r}, this process speaks {PROTOCOL_VERSION}; "
            "use one FastLoop version for all nodes of a run"
        )
    return memoryview(data)[1:]
