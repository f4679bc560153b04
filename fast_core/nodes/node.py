"""The base of every node: one wait point, an inbox, and work in bounded units.

A node is driven from outside: `Node.step` handles what arrived and does one unit of work. In
process mode `run` calls it in a loop and sleeps on the node's doorbell in between; in inline mode
one thread calls the same `step` of all nodes in turn.
"""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import ClassVar

from fast_core.config import Values
from fast_core.memory import Doorbell, Ring, StatsColumn, StatsRow, Structure
from fast_core.messages import Assign, Command, Envelope, Figures, Message, Save, Saved, Stop
from fast_core.messages.channel import NodeChannel
from fast_core.messages.requests import NodeStatus
from fast_core.messages.wire import MessageReader
from fast_core.run.memory import RunMemory
from fast_core.run.plan import RunPlan
from fast_core.run.structures import SPAN
from fast_core.system.seeding import Role, stream
from fast_core.system.threads import default_threads

WAIT_LIMIT_S = 1.0
# Of states that change with every hand-over, the trace keeps those that last this long.
SHORT_NS = 1_000_000
_PROGRESS, _STATE = int(StatsColumn.PROGRESS), int(StatsColumn.STATE)


class NodeState(IntEnum):
    """What a node is doing, as shown in the live table and the trace."""

    STARTING = 0
    WAITING = 1
    STEPPING = 2
    LEARNING = 3
    PUBLISHING = 4
    EVALUATING = 5
    SAVING = 6
    WRITING = 7
    STOPPED = 8
    ACTING = 9
    TRANSFORMING = 10
    DRAWING = 11
    TRYING = 12
    HANDLING = 13


IDLE = (NodeState.WAITING, NodeState.STARTING)


def time_spent(row: StatsRow) -> tuple[int, int, int]:
    """How long a node has worked and has waited, with the state that it is in, and that alone, ns.

    ``row`` is of one moment (`StatsRow.snapshot`).
    """
    now_ns = time.monotonic_ns()
    doing_ns = max(0, now_ns - row.state_since_ns) if row.state_since_ns else 0
    idle = row.state in IDLE
    return row.busy_ns + doing_ns * (not idle), row.waiting_ns + doing_ns * idle, doing_ns


def node_status(name: str, word: str, row: StatsRow, life: int) -> NodeStatus:
    """How a node is, in a ``word``, in the ``life`` that its counters are of."""
    busy_s, waiting_s, doing_s = (each / 1e9 for each in time_spent(row.snapshot()))
    return NodeStatus(name, word, doing_s, busy_s, waiting_s, life)


@dataclass
class NodeContext:
    """What a node is given to live in.

    Attributes:
        name: Unique name, for instance ``env-1``.
        rank: Index among the nodes of its kind.
        plan: The plan of the run, or of the one of several learners that the node works for.
        memory: The run's shared memory.
        channel: The way to the scheduler.
        doorbell: Where the node waits.
        stats: The node's own row of counters.
        spans: Ring of finished states, for the trace; what does not fit is not recorded.
        life: The number of its life: 1, and one more each time it died and came back.
        shards: What it executes from the beginning, if it is an env node that came back.
    """

    name: str
    rank: int
    plan: RunPlan
    memory: RunMemory
    channel: NodeChannel
    doorbell: Doorbell = field(init=False)
    stats: StatsRow = field(init=False)
    spans: Ring = field(init=False)
    life: int = 1
    shards: tuple[Assign, ...] = ()
    log: logging.Logger = field(default_factory=lambda: logging.getLogger("fastloop"))

    def __post_init__(self) -> None:
        memory, name = self.memory, self.name
        self.doorbell, self.stats = memory.doorbell(name), memory.stats(name)
        self.spans = memory.spans(name)

    def of(self, plan: RunPlan) -> NodeContext:
        """The same for what is done for one learner of several, whose plan this is."""
        return self if plan is self.plan else replace(self, plan=plan, memory=self.memory.of(plan))

    @property
    def settings(self) -> Values:
        """What the configuration says to this node (``nodes.extra[...].settings``)."""
        return self.plan.settings_of(self.name)


class Node(ABC):
    """Subclass this to add dataflow.

    A subclass names the commands it handles in ``consumes`` and the events it sends in ``emits``;
    the launcher refuses a topology in which a message has nobody to consume it. Messages of its
    own are subclasses of `fast_core.messages.UserMessage`. Likewise it names in ``reads`` and
    ``writes`` the structures of shared memory (`fast_core.run.structures`) that it attaches to,
    by family or name; others are not given to it. Those of its own come from `structures`. A node
    that writes something down sets ``finishes_inbox``: it handles what came before the `Stop`,
    all others drop it. One without which the run goes on sets ``essential`` to False: if it fails,
    hangs or is killed it is started anew, a few times in a row, and the run neither ends nor
    waits for it.
    """

    consumes: ClassVar[frozenset[type[Message]]] = frozenset()
    emits: ClassVar[frozenset[type[Message]]] = frozenset()
    reads: ClassVar[frozenset[str]] = frozenset()
    writes: ClassVar[frozenset[str]] = frozenset()
    finishes_inbox: ClassVar[bool] = False
    essential: ClassVar[bool] = True

    def __init__(self, context: NodeContext) -> None:
        """Keep the context; anything slow or that can fail belongs into `setup`."""
        context.memory = context.memory.seen_by(type(self).__name__, self.reads | self.writes)
        context.plan = context.plan.of_node(context.name)
        context.memory = context.memory.of(context.plan)
        self.context = context
        self.doing = "starting"
        self._messages = MessageReader(self.consumes)
        self._state = NodeState.STARTING
        self._since_ns = time.monotonic_ns()
        self._works = context.memory.works(context.name)
        for state in NodeState:  # what stands there is of an earlier process
            self._works[state] = 0
        delay_ms = context.plan.config.diagnostics.delay_ms
        self._delay_s = delay_ms / 1000
        row = context.plan.names.number(context.name)
        self._delays = stream(context.plan.config.seed, Role.DELAY, row)

    # --- for subclasses ------------------------------------------------------------------------

    @classmethod
    def structures(cls, plan: RunPlan, name: str) -> Iterable[Structure]:
        """Shared memory that the node ``name`` adds to a run, as its writer.

        The launcher asks once, before anything starts; ``plan.settings_of(name)`` are the settings.
        """
        return ()

    def setup(self) -> None:  # noqa: B027 - optional for subclasses
        """Make everything ready; the node reports ready when this returns."""

    @abstractmethod
    def handle(self, command: Command) -> None:
        """Take one command from the inbox; long work is queued and done in `work`."""

    def work(self) -> bool:
        """Do one bounded unit of work; True if something was done."""
        return False

    def close(self) -> None:  # noqa: B027 - optional for subclasses
        """Let go of everything; after a failure too, also one of `setup`, and perhaps twice."""

    def failure_context(self) -> dict[str, str]:
        """Facts for a crash report, by name."""
        return {}

    def log_figures(self, values: Mapping[str, float]) -> None:
        """Put numbers into the run's metrics, as ``<name of the node>/<name>``.

        Each row of metrics has the mean of what was logged since the last one; values that are
        not finite are left out. It never waits longer than any message, see `NodeChannel.send`.
        """
        numbers = {str(name): float(value) for name, value in values.items()}
        self.context.channel.send(Figures(self.context.name, numbers))

    @property
    def threads(self) -> int:
        """Threads that this node computes with."""
        return self.context.plan.roles[self.context.name].threads or default_threads()

    @property
    def stopping(self) -> bool:
        """True once the run ends; long work returns early."""
        return self.context.channel.stop_requested

    @contextmanager
    def state(self, state: NodeState, doing: str) -> Iterator[None]:
        """Show what the node does; time outside any state counts as waiting."""
        previous, before = self._state, self.doing
        self.enter(state, doing)
        yield
        self.enter(previous, before)

    def enter(self, state: NodeState, doing: str, *, least_ns: int = 0) -> None:
        """Change the state that is shown and account the time of the old one.

        The trace keeps the old one if it lasted at least ``least_ns``.
        """
        now_ns, words = time.monotonic_ns(), self.context.stats.words
        idle = self._state in IDLE
        words[StatsColumn.WAITING_NS if idle else StatsColumn.BUSY_NS] += now_ns - self._since_ns
        if now_ns - self._since_ns >= least_ns:
            self.context.spans.try_push(SPAN.pack(self._state, self._since_ns, now_ns))
        words[StatsColumn.STATE] = int(state)
        words[StatsColumn.STATE_SINCE_NS] = now_ns
        self._works[self._state] += 1
        self._state, self._since_ns, self.doing = state, now_ns, doing

    def report_unsaved(self, checkpoint: int, error: OSError) -> None:
        """Say that this node's part of a checkpoint can't be written; the run goes on.

        What `handle` raises for a `Save` is reported so; one that is done later has to call it.
        """
        self.enter(NodeState.WAITING, "waiting for work")
        self.context.channel.send(Saved(self.context.name, checkpoint, (), str(error)))

    # --- for whoever drives the node -----------------------------------------------------------

    def step(self) -> bool:
        """Handle what arrived and do one unit of work; True if there was anything to do."""
        self.context.stats.words[_PROGRESS] += 1
        commands = self.context.channel.receive()
        for command in commands:
            if isinstance(command, Stop) or (self.stopping and not self.finishes_inbox):
                return True
            self._delay()
            if isinstance(command, Envelope):
                command = self._messages.open(command)
            try:
                with self._handling(command):
                    self.handle(command)
            except OSError as error:
                if not isinstance(command, Save):
                    raise
                self.report_unsaved(command.checkpoint, error)
        worked = self.work()
        self._works[self._state] += 1  # a state that lasts: what was done in this turn came back
        return worked or bool(commands)

    def run(self) -> None:
        """Step until told to stop, sleeping on the doorbell while there is nothing to do."""
        doorbell, channel = self.context.doorbell, self.context.channel
        self.enter(NodeState.WAITING, "waiting for work")
        while not channel.stop_requested:
            seen = doorbell.value()
            if not self.step():
                doorbell.wait(seen, WAIT_LIMIT_S)
        if self.finishes_inbox:
            self.step()
        self.enter(NodeState.STOPPED, "stopping")

    @contextmanager
    def _handling(self, command: Command) -> Iterator[None]:
        """Show whose turn it is, for whatever `handle` does in no state of its own."""
        words, before = self.context.stats.words, self.doing
        words[_STATE] = NodeState.HANDLING
        self.doing = doing = f"handling {type(command).__name__}"
        yield
        self._works[NodeState.HANDLING] += 1
        if words[_STATE] == NodeState.HANDLING:
            words[_STATE] = self._state
        if self.doing is doing:
            self.doing = before

    def _delay(self) -> None:
        if self._delay_s:
            time.sleep(self._delays.uniform(0, self._delay_s))
