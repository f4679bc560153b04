"""Every message between the scheduler and the nodes.

Events travel from nodes to the scheduler, commands from the scheduler to nodes. Both are small
records; arrays stay in shared memory. Beside them stand what the launcher and the scheduler tell
each other (`launching`), what a sink of metrics is told (`metrics`), and how messages travel: one
contract (`channel`), two implementations (`zmq_channel`, `inproc`), and their bytes (`wire`).

A user's own messages subclass `UserMessage` and travel in an `Envelope`, which the scheduler
hands on unopened to every node that declares to consume them.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import msgspec

from fast_core.messages.metrics import RunEnd

StopReason = Literal["finished", "failed", "interrupted"]
Moment = Literal["start", "evaluation", "checkpoint"]
Value = Any  # whatever YAML can hold


class Message(msgspec.Struct, frozen=True, tag=True):
    """Base of everything that travels."""


class UserMessage(Message, frozen=True):
    """Base of your own messages: subclass it at the top of a module, ``frozen=True``.

    Send one with ``context.channel.send``. It reaches every node whose ``consumes`` names its
    class, in the order of each sender, and the sender's class must name it in ``emits``. Fields
    are what msgspec encodes: numbers, text, bytes, and tuples, lists, dicts or structs of those,
    64 KiB in all at most. Arrays belong into shared memory.

    Attributes:
        node: Name of the node that sends it, ``context.name``.
    """

    node: str


class Envelope(Message, frozen=True):
    """A `UserMessage` on its way; only a node that declares its kind opens it.

    Attributes:
        kind: Its class, as ``module:Class``.
        node: Who sends it.
        payload: The message, MessagePack.
    """

    kind: str
    node: str
    payload: bytes


# --- commands: scheduler -> node ---------------------------------------------------------------


class Assign(Message, frozen=True):
    """Execute a shard from now on (sent once per shard and incarnation).

    Attributes:
        taken_over: Whether its node died in this run: then it begins the episodes after those
            that were begun, and whatever a checkpoint holds of it has been trained on since.
    """

    shard: int
    incarnation: int
    taken_over: bool = False


class Release(Message, frozen=True):
    """Execute a shard no more: another node does; none of its rollouts is open."""

    shard: int


class Serve(Message, frozen=True):
    """Act for these shards, too, from now on; whoever did before does no more."""

    shards: tuple[int, ...]


class Leave(Message, frozen=True):
    """Act for a shard no more, and say so with `Left`: another policy node will."""

    shard: int


class RolloutOrder(msgspec.Struct, frozen=True):
    """One shard rollout to collect.

    Attributes:
        shard: Shard to step.
        incarnation: Which life of the shard this order belongs to.
        slot: Rollout slot of the shard to write.
        rollout_id: Serial number within the shard, from 1 (0 means "open" in the slot header).
        ticket: Ticket whose place the rollout was admitted for.
        min_version: Oldest weights that may act.
        actor: Rank of the policy node that acts in it, where there are such.
    """

    shard: int
    incarnation: int
    slot: int
    rollout_id: int
    ticket: int
    min_version: int
    actor: int = 0


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
    """Train on one merged ticket; only `Trained` frees its slots.

    With replay it goes to the replay node, which draws that many batches, and to the first
    optimizer, which answers when all steps are taken. A node of the user's that consumes it
    answers with `Followed`.

    Attributes:
        ticket: Its number.
        rollouts: Where its rollouts are, in training order; none with replay.
        env_steps: Environment steps merged before it.
        granted: Optimizer steps that it grants.
        oldest_version: Oldest weights that acted in its rollouts; with replay only.
        mean_version: Mean of the oldest ones of each of its rollouts; with replay only.
    """

    ticket: int
    rollouts: tuple[RolloutRef, ...]
    env_steps: int
    granted: int
    oldest_version: int = 0
    mean_version: float = 0.0


class Transform(Message, frozen=True):
    """Read a rollout, and change it in place, before it is trained on.

    The slot is the node's from this command to its `Transformed`.

    Attributes:
        ticket: Ticket whose place the rollout was admitted for.
        rollout: Where it is.
    """

    ticket: int
    rollout: RolloutRef


class Snapshot(Message, frozen=True):
    """Copy the current policy into the evaluation slot."""

    request: int


class Evaluate(Message, frozen=True):
    """Evaluate the snapshot for exactly ``episodes`` episodes.

    Attributes:
        changed: Values that are not the configuration's, by key.
    """

    request: int
    version: int
    env_steps: int
    episodes: int
    changed: dict[str, Value] = {}


class Change(Message, frozen=True):
    """Go on with other values of the configuration; nothing is open.

    Attributes:
        number: Serial number in this part of the run.
        values: Everything that is not as the configuration says, by key.
    """

    number: int
    values: dict[str, Value]


class Save(Message, frozen=True):
    """Write this node's part of a checkpoint into ``directory``."""

    checkpoint: int
    directory: str


class Stop(Message, frozen=True):
    """Finish: close environments, flush, leave. Handled before anything still in the inbox."""

    reason: StopReason


class Record(Message, frozen=True):
    """Write one row of metrics; see `fast_core.messages.metrics.MetricsRow`."""

    env_steps: int
    updates: int
    time_s: float
    values: dict[str, float]
    videos: dict[str, str] = {}


class Finish(Message, frozen=True):
    """The run has ended so; for sinks of metrics, after the last row."""

    summary: RunEnd


# --- events: node -> scheduler -----------------------------------------------------------------


class Ready(Message, frozen=True):
    """The node's setup is done; for env nodes a real reset and step worked."""

    node: str
    pid: int


class Restoring(Message, frozen=True):
    """The node brings environments back into the open episodes of a checkpoint.

    Attributes:
        taken: Steps it has taken again.
        steps: Steps there are to take.
        anew: Environments that begin new episodes instead; known when all steps are taken.
        why: Why the first of them does.
    """

    node: str
    taken: int
    steps: int
    anew: int = 0
    why: str = ""


class RolloutReady(Message, frozen=True):
    """A shard rollout is complete and committed.

    Attributes:
        episode_returns: Returns of episodes that ended in it, raw reward; NaN where quarantined.
        episode_lengths: Their lengths in environment steps.
        quarantined: Episodes cut because the environment gave a non-finite value.
        episode_infos: Numbers of the info of their last steps; of those alone that gave any.
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
    episode_infos: tuple[dict[str, float], ...] = ()


class Transformed(Message, frozen=True):
    """The node is done with a rollout and touches its slot no more."""

    node: str
    rollout: RolloutRef


class Followed(Message, frozen=True):
    """A node of the user's is done with a ticket, of which it had the `Train` too."""

    node: str
    ticket: int


class Trained(Message, frozen=True):
    """A ticket is settled.

    Attributes:
        version: Committed optimizer steps so far; the published weights carry it.
        updates: Optimizer steps committed for this ticket.
        skipped: Granted steps not taken.
        lag_mean: Mean policy lag of the rows, in versions, when they were consumed.
        lag_max: Largest policy lag of the rows.
        publish_s: Time from the last optimizer step until those who act could have the weights.
        digest: SHA-256 of the learner's whole state, empty unless asked for.
        checksum: CRC-32 of the weights published last, 0 unless the schedule is recorded.
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
    publish_s: float = 0.0
    checksum: int = 0


class SnapshotTaken(Message, frozen=True):
    """The evaluation slot holds the policy of ``version``."""

    node: str
    request: int
    version: int
    env_steps: int


class Played(msgspec.Struct, frozen=True):
    """What the episodes of an evaluation came to in one environment, in their order.

    Attributes:
        returns: NaN where an episode met NaN or infinity: its outcome is not known.
        info: Mean of each number of the info of the episodes' last steps.
    """

    returns: tuple[float, ...]
    lengths: tuple[int, ...]
    info: dict[str, float] = {}

    @property
    def score(self) -> float | None:
        """Mean return; None where an outcome is not known.

        The mean of the others would favour policies that break the episodes they do badly in.
        """
        mean = sum(self.returns) / len(self.returns)
        return None if math.isnan(mean) else mean


class Evaluated(Message, frozen=True):
    """Result of one evaluation, for the evaluated version; see `Played`.

    Attributes:
        others: That in each of ``evaluation.environments``, by name.
        video: Path of its video in the run directory, empty without one.
    """

    node: str
    request: int
    version: int
    env_steps: int
    returns: tuple[float, ...]
    lengths: tuple[int, ...]
    info: dict[str, float] = {}
    others: dict[str, Played] = {}
    video: str = ""

    @property
    def score(self) -> float | None:
        """See `Played.score`; that in the environment of training."""
        return self.played[None].score

    @property
    def played(self) -> dict[str | None, Played]:
        """Everything by the name of its environment; None is that of training."""
        own = Played(self.returns, self.lengths, self.info)
        return dict([(None, own), *self.others.items()])


class Noted(Message, frozen=True):
    """The node knows what its part of a checkpoint is, and others may go on while it writes."""

    node: str
    checkpoint: int


class Saved(Message, frozen=True):
    """The node's part of a checkpoint is written and flushed to disk, or could not be.

    Attributes:
        error: Why not, empty if it was; the run goes on without this checkpoint.
    """

    node: str
    checkpoint: int
    files: tuple[str, ...] = ()
    error: str = ""


class Changed(Message, frozen=True):
    """The node goes on with the values of `Change` ``number``."""

    node: str
    number: int


class Left(Message, frozen=True):
    """A policy node acts for the shard of a `Leave` no more, and writes nothing for it."""

    node: str
    shard: int


class LogLine(Message, frozen=True):
    """One log record of a node."""

    node: str
    level: str
    text: str


class Figures(Message, frozen=True):
    """Numbers that a node logs by name, see `fast_core.nodes.node.Node.log_figures`."""

    node: str
    values: dict[str, float]


class Failed(Message, frozen=True):
    """The node raised; it exits after this.

    Attributes:
        doing: What the node was doing, in words.
        error: Type and text of the first cause.
        traceback: The node's own traceback.
        context: Further facts by name: shard, environment, episode, seed, step, last action.
        refused: Whether it would not begin, because of the configuration; ``error`` says why.
        hangs: Whether its process lives and does not come back, hung or stopped: somebody else
            says this of it, and it must be killed and reaped before its work is given away.
    """

    node: str
    doing: str
    error: str
    traceback: str
    context: dict[str, str]
    refused: bool = False
    hangs: bool = False


# --- events that the launcher itself raises ----------------------------------------------------


class NodeExited(Message, frozen=True):
    """A node's process is gone.

    Attributes:
        cause: A sentence for people ("killed by SIGKILL (out of memory?)"), empty when the node
            had been told to stop.
        reaped: Whether it is gone for sure, so that nothing of it writes to memory any more.
        report: What is known of its death beyond the cause.
    """

    node: str
    cause: str
    reaped: bool = False
    report: Failed | None = None


class Late(Message, frozen=True):
    """Something arrived from an earlier life of a node, and was not read."""

    node: str


# --- commands to the launcher ------------------------------------------------------------------


WireCommand = (
    Assign
    | Release
    | Serve
    | Leave
    | Collect
    | Transform
    | Train
    | Snapshot
    | Evaluate
    | Change
    | Save
    | Stop
    | Record
    | Finish
    | Envelope
)
WireEvent = (
    Restoring
    | Ready
    | RolloutReady
    | Transformed
    | Followed
    | Trained
    | SnapshotTaken
    | Evaluated
    | Changed
    | Noted
    | Saved
    | Left
    | LogLine
    | Figures
    | Failed
    | Envelope
)
Command = WireCommand | UserMessage
Event = WireEvent | UserMessage
