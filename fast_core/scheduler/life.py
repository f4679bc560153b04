"""What there is once in a run, whatever it learns: nodes, restarts, checkpoints, the end.

And the commands that wait to be sent. What is about one learner is in its `Flow`.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from fast_core.errors import CheckpointError
from fast_core.messages import Command, Failed, NodeExited, StopReason
from fast_core.messages.launching import Decision, EndRun, LauncherCommand
from fast_core.scheduler.acting import Acting
from fast_core.scheduler.balance import Loads
from fast_core.scheduler.changes import Changes
from fast_core.scheduler.checkpointing import Checkpoints
from fast_core.scheduler.crew import Crew
from fast_core.scheduler.evaluation import Evaluations
from fast_core.scheduler.failures import Restarts
from fast_core.scheduler.flow import Flow
from fast_core.scheduler.ledger import Ledger, ShardCounts
from fast_core.scheduler.optional import OptionalNodes
from fast_core.scheduler.routing import Routing
from fast_core.scheduler.settings import SchedulerSettings
from fast_core.scheduler.settled import Progress
from fast_core.scheduler.standstill import Standstill
from fast_core.scheduler.state import (
    Keyed,
    LifeCounters,
    SavedState,
    encode,
    kept,
    kept_by_flows,
)
from fast_core.scheduler.stopping import Ending

LAUNCHER = "launcher"
CALLBACKS = "callbacks"  # saves its part of a checkpoint like a node


class Send(NamedTuple):
    """A command and the node that gets it; `LAUNCHER` for the launcher's own."""

    node: str
    command: Command | LauncherCommand


class Life:
    """Each part of what the scheduler knows in a class of its own, and the outbox.

    Attributes:
        ledger: Who executes which shard, and where each rollout is.
        flows: What is collected for each learner, in the order of their shards.
        learners: The flow of each optimizer that reports, by its name.
        crew: The env nodes that there are.
        loads: What rollouts take the env nodes, None where shards stay where they are.
        counters: What belongs to no part alone; time and checkpoint as of the last one.
        awaited: Nodes that are not ready yet.
        users: Nodes of the user, and others whose messages are held to the same rules.
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
        flow_of = [k for k, flow in enumerate(settings.flows) for _ in range(flow.shards)]
        shards = _shard_counts(len(flow_of), saved)
        # At degree 0 a ticket has one rollout of each shard, whoever is slow or comes back.
        slots = settings.slots_per_shard if settings.degree else 1
        self.ledger = Ledger(slots, shards.incarnations, shards.rollout_ids, flow_of)
        kept_by = kept_by_flows(saved, [flow.key for flow in settings.flows])
        self.flows = [
            Flow(flow, self.ledger, settings.env_nodes, before, number)
            for number, (flow, before) in enumerate(zip(settings.flows, kept_by, strict=True))
        ]
        self.learners = {flow.settings.optimizer: flow for flow in self.flows}
        self.counters = kept(LifeCounters, saved)
        self.routing = Routing(settings.routes)
        self.crew = Crew(settings.env_nodes, settings.spare_nodes or (), "env", self.ledger.held)
        policies = settings.policy_nodes, settings.spare_policies or ()
        self.acting = Acting(*policies, self.ledger, balance=settings.balance_policies)
        self.loads = Loads() if settings.balance else None
        self.restarts = Restarts(settings.restarts, settings.backoff_s, settings.max_backoff_s)
        self.optional = OptionalNodes(settings.optional, settings.backoff_s, settings.max_backoff_s)
        self.evaluations = Evaluations(settings, saved)
        self.checkpoints = Checkpoints(settings, self.counters.checkpoint, self.progress)
        self.changes = Changes(settings, saved)
        self.standstill = Standstill(settings.work_timeout_s, settings.repeat_timeout_s)
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
    def flow(self) -> Flow:
        """The first learner's, which is the one that is evaluated."""
        return self.flows[0]

    def flow_of(self, shard: int) -> Flow:
        """What a shard is collected for; one that there is not, for none: take the first."""
        numbers = self.ledger.flow_of
        return self.flows[numbers[shard] if 0 <= shard < len(numbers) else 0]

    @property
    def progress(self) -> Progress:
        """What all learners have done together."""
        flows = self.flows
        return Progress(
            sum([flow.tickets.settled for flow in flows]),
            sum([flow.settled.env_steps for flow in flows]),
            sum([flow.settled.updates for flow in flows]),
        )

    @property
    def quiescent(self) -> bool:
        """Whether nothing that was started is open."""
        return all(flow.tickets.quiescent for flow in self.flows)

    def pass_until(self, now_s: float) -> None:
        """Let time pass for every flow."""
        for flow in self.flows:
            flow.times.pass_until(now_s)

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
        return (*self.settings.learners, *self.crew.members)

    @property
    def saving_nodes(self) -> tuple[str, ...]:
        """Nodes that hold a part of a checkpoint, and the callbacks if they do."""
        nodes = self.settings.working_with(self.crew.members)
        return (*nodes, CALLBACKS) if self.settings.callbacks_save else nodes

    @property
    def complete(self) -> bool:
        """Whether every node is there that has a part of a checkpoint or of a change."""
        away = self.restarts.away
        return not away or away.isdisjoint(self.settings.working_with(self.crew.members))

    def state(self) -> bytes:
        """The scheduler's part of a checkpoint.

        Raises:
            CheckpointError: Some rollout was started and is not settled.
        """
        if not self.quiescent:
            flows = self.flows
            inside = sum(flow.stages.inside for flow in flows)
            raise CheckpointError(
                "the scheduler can be saved only while nothing is in flight; "
                f"{self.ledger.running} rollouts run, {inside} are with the user's nodes, "
                f"{sum(flow.tickets.ready for flow in flows)} are ready, "
                f"{sum(flow.tickets.training for flow in flows)} tickets train"
            )
        elapsed_s, checkpoint = self.elapsed_s, self.checkpoints.number
        counters = msgspec.structs.replace(
            self.counters, elapsed_s=elapsed_s, checkpoint=checkpoint
        )
        once = (counters, self.ledger.state(), self.evaluations.state(), self.changes.state())
        first, *others = self.flows
        if not others:
            return encode((*once, *first.state()))
        keyed = Keyed(flows={flow.settings.key: encode(flow.state()) for flow in others})
        return encode((*once, *first.state(), keyed))

    def comes_back(self, event: Failed | NodeExited) -> bool:
        """Whether the run comes back from its newest checkpoint after this failure.

        What an optimizer knows is nowhere else, so nothing can take its place in the running run:
        all of it ends in order, and goes on as any run that is resumed does. Not where a person
        has asked it to end. A part that came back and has not begun has nothing to lose, so another
        node that dies in it, and whose budget allows that, begins it once more.
        """
        settings, ending, left = self.settings, self.ending, 0
        if ending is not None and ending.reason == "interrupted":
            return False
        if event.node in settings.learners:
            left = settings.comebacks
        elif settings.back and self.began_s is None:
            left = self.restarts.left_of(event.node)
        if left == 0:
            return False
        if isinstance(event, NodeExited) or event.hangs:
            return True
        return settings.comebacks_on_error and not event.refused

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
            learns = cause is not None and cause.node in self.settings.learners
            self.decide("optimizer lost" if learns else "node lost", text)
        else:
            self.decide("end", f"{reason}: {text}")
        self.send(LAUNCHER, EndRun(reason, text, cause, again))

    def fail(self, text: str) -> None:
        """End the run because a node broke its contract."""
        self.end("failed", text, Failed("scheduler", "deciding", text, "", {}))


def _shard_counts(shards: int, saved: SavedState | None) -> ShardCounts:
    """Incarnations and rollouts of each shard so far.

    Raises:
        CheckpointError: The state belongs to a run with other shards.
    """
    if saved is None:
        return ShardCounts([0] * shards, [0] * shards)
    found = saved.part(ShardCounts)
    if not len(found.incarnations) == len(found.rollout_ids) == shards:
        raise CheckpointError(
            f"the checkpoint belongs to a run with {len(found.incarnations)} shards, this run has "
            f"{shards}; set rollout.shards to {len(found.incarnations)}"
        )
    return found
