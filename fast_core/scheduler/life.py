"""Everything the scheduler knows about a run, and the commands that wait to be sent."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import msgspec

from fast_core.errors import CheckpointError
from fast_core.events import (
    Command,
    Decision,
    EndRun,
    Failed,
    LauncherCommand,
    StopReason,
    Train,
)
from fast_core.scheduler.acting import Acting
from fast_core.scheduler.balance import Loads
from fast_core.scheduler.changes import Changes
from fast_core.scheduler.checkpointing import Checkpoints
from fast_core.scheduler.crew import Crew
from fast_core.scheduler.degree import Auto, AutoState, Spent
from fast_core.scheduler.evaluation import Evaluations
from fast_core.scheduler.failures import Restarts
from fast_core.scheduler.ledger import Ledger, ShardCounts
from fast_core.scheduler.optional import OptionalNodes
from fast_core.scheduler.ratio import Ratio
from fast_core.scheduler.routing import Routing
from fast_core.scheduler.settings import SchedulerSettings
from fast_core.scheduler.settled import Settled
from fast_core.scheduler.stages import Stages
from fast_core.scheduler.standstill import Standstill
from fast_core.scheduler.state import Counters, SavedState, encode, kept
from fast_core.scheduler.statistics import Episodes
from fast_core.scheduler.stopping import Ending
from fast_core.scheduler.tickets import Tickets
from fast_core.scheduler.times import Times

LAUNCHER = "launcher"
CALLBACKS = "callbacks"  # saves its part of a checkpoint like a node


class Send(NamedTuple):
    """A command and the node that gets it; `LAUNCHER` for the launcher's own."""

    node: str
    command: Command | LauncherCommand


class Life:
    """The parts of the scheduler's knowledge, each in a class of its own, and the outbox.

    Attributes:
        auto: What chooses the degree, None where it is given.
        loads: What rollouts take the env nodes, None where shards stay where they are.
        counters: What belongs to no part alone; tickets, time and checkpoint as of the last one.
        collected: Environment steps of accepted rollouts.
        merged_env_steps: Environment steps of merged tickets.
        drawing: With replay what is ordered of merged tickets that are not settled, oldest first.
        awaited: Nodes that are not ready yet.
        users: Nodes of the user, and others whose messages are held to the same rules.
        reported: What the learner reported of the last ticket that granted steps.
        now_s: Time of the last event.
        start_deadline_s: When every node must be ready; None before the first event.
        why_anew: Why the first of them in this part of it, empty for none.
        restoring: Whether a node steps open episodes again, as it said last.
        began_s: When training began; None while nodes start.
        telling_start: Whether callbacks are being told that it begins.
        ending: The end that has been decided, None while the run goes on.
        ended: Whether `EndRun` has been sent.
    """

    def __init__(self, settings: SchedulerSettings, saved: SavedState | None):
        self.settings = settings
        self.resumed = saved is not None
        shards = _shard_counts(settings, saved)
        # At degree 0 a ticket has one rollout of each shard, whoever is slow or comes back.
        slots = settings.slots_per_shard if settings.degree else 1
        self.ledger = Ledger(slots, shards.incarnations, shards.rollout_ids)
        self.counters = kept(Counters, saved)
        self.tickets = Tickets(
            settings.shards, self.counters.settled, drops=settings.stragglers == "drop"
        )
        self.auto: Auto | None = None
        if settings.auto_degree:
            state, replays = kept(AutoState, saved), settings.replay is not None
            self.auto = Auto(settings.degree, state, replays=replays)
        spent = None if self.auto is None else Spent(shards=settings.shards)
        self.times = Times(settings.env_nodes, spent, saved)
        self.stages = Stages(settings.stages, settings.shards, in_shard_order=settings.degree == 0)
        self.routing = Routing(settings.routes)
        self.crew = Crew(settings.env_nodes, settings.spare_nodes or ())
        policies = settings.policy_nodes, settings.spare_policies or ()
        self.acting = Acting(*policies, self.ledger, balance=settings.balance_policies)
        self.loads = Loads() if settings.balance else None
        self.restarts = Restarts(settings.restarts, settings.backoff_s, settings.max_backoff_s)
        self.optional = OptionalNodes(settings.optional, settings.backoff_s, settings.max_backoff_s)
        self.settled = kept(Settled, saved)
        self.ratio = Ratio(settings, saved)
        self.evaluations = Evaluations(settings, saved)
        self.checkpoints = Checkpoints(settings, saved)
        self.changes = Changes(settings, saved)
        self.episodes = kept(Episodes, saved)
        self.standstill = Standstill(settings.work_timeout_s, settings.repeat_timeout_s)
        self.collected = self.settled.env_steps
        self.merged_env_steps = self.settled.env_steps
        self.drawing: deque[Train] = deque()
        self.reported: dict[str, float] = {}
        self.awaited = set(settings.nodes)
        others = (*settings.savers, *settings.other_nodes, *settings.optional)
        self.users = frozenset(others) - {*settings.policy_nodes}
        self.earlier_s = self.counters.elapsed_s
        self.now_s = 0.0
        self.start_deadline_s: float | None = None
        self.why_anew = ""
        self.restoring = False
        self.began_s: float | None = None
        self.telling_start = False
        self.ending: Ending | None = None
        self.ended = False
        self._outbox: list[Send] = []

    @property
    def degree(self) -> int:
        """Tickets that may be collected ahead of training now."""
        return self.settings.degree if self.auto is None else self.auto.degree

    @property
    def elapsed_s(self) -> float:
        """Seconds of training at the last event, earlier parts of the run included."""
        return self.elapsed_at(self.now_s)

    def elapsed_at(self, now_s: float) -> float:
        """Seconds of training at ``now_s``, earlier parts of the run included."""
        return self.earlier_s + (0.0 if self.began_s is None else now_s - self.began_s)

    @property
    def time_limit_s(self) -> float | None:
        """When the time limit is reached, None for never."""
        limit = self.settings.stop_time_s
        if limit is None or self.began_s is None:
            return None
        return self.began_s + limit - self.earlier_s

    def crew_of(self, node: str) -> Crew:
        """The crew that this node is of, or may be."""
        return self.acting.crew if self.acting.crew.knows(node) else self.crew

    @property
    def changing_nodes(self) -> tuple[str, ...]:
        """Nodes that values of the configuration may change for."""
        return (*self.settings.optimizers, *self.crew.members)

    @property
    def saving_nodes(self) -> tuple[str, ...]:
        """Nodes that hold a part of a checkpoint, and the callbacks if they do."""
        nodes = self.settings.working(self.crew.members)
        return (*nodes, CALLBACKS) if self.settings.callbacks_save else nodes

    @property
    def complete(self) -> bool:
        """Whether every node is there that has a part of a checkpoint or of a change."""
        away = self.restarts.away
        return not away or away.isdisjoint(self.settings.working(self.crew.members))

    def state(self) -> bytes:
        """The scheduler's part of a checkpoint.

        Raises:
            CheckpointError: Some rollout was started and is not settled.
        """
        tickets = self.tickets
        if not tickets.quiescent:
            raise CheckpointError(
                "the scheduler can be saved only while nothing is in flight; "
                f"{self.ledger.running} rollouts run, {self.stages.inside} are with the user's "
                f"nodes, {tickets.ready} are ready, {tickets.training} tickets train"
            )
        counters = msgspec.structs.replace(
            self.counters,
            settled=tickets.settled,
            elapsed_s=self.elapsed_s,
            checkpoint=self.checkpoints.number,
        )
        parts = (self.ledger.state(), self.settled, self.ratio.state(), self.evaluations.state())
        auto = () if self.auto is None else (self.auto.state(),)
        later = (self.episodes, self.changes.state(), self.times.state(), *auto)
        return encode((counters, *parts, *later))

    def send(self, node: str, command: Command | LauncherCommand) -> None:
        """Put a command into the outbox."""
        self._outbox.append(Send(node, command))

    def take_outbox(self) -> list[Send]:
        """Empty the outbox; returns what was in it, in order."""
        outbox, self._outbox = self._outbox, []
        return outbox

    def decide(self, what: str, why: str) -> None:
        """Note a decision for people."""
        self.send(LAUNCHER, Decision(what, why))

    def end(
        self, reason: StopReason, text: str, cause: Failed | None = None, *, again: bool = False
    ) -> None:
        """End the run now; ``again`` says that it comes back."""
        self.ended = True
        if again:
            learns = cause is not None and cause.node in self.settings.optimizers
            self.decide("optimizer lost" if learns else "node lost", text)
        else:
            self.decide("end", f"{reason}: {text}")
        self.send(LAUNCHER, EndRun(reason, text, cause, again))

    def fail(self, text: str) -> None:
        """End the run because a node broke its contract."""
        self.end("failed", text, Failed("scheduler", "deciding", text, "", {}))


def _shard_counts(settings: SchedulerSettings, saved: SavedState | None) -> ShardCounts:
    """Incarnations and rollouts of each shard so far.

    Raises:
        CheckpointError: The state belongs to a run with other shards.
    """
    if saved is None:
        return ShardCounts([0] * settings.shards, [0] * settings.shards)
    found = saved.part(ShardCounts)
    if not len(found.incarnations) == len(found.rollout_ids) == settings.shards:
        raise CheckpointError(
            f"the checkpoint belongs to a run with {len(found.incarnations)} shards, this run has "
            f"{settings.shards}; set rollout.shards to {len(found.incarnations)}"
        )
    return found
