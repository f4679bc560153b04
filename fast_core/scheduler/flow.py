"""What is collected for one learner, and how far that has trained on it. Pure.

A run has a flow for each learner, and one `Life` of the nodes that they share. What a flow knows
changes with the rollouts of its shards alone: it is told of one that is complete, of a ticket that
is trained on, and asked what may begin. That nodes start, die, move and save is no part of it, so a
loop without any (`fast_core.integrations`) has a flow and no life.

The ledger is shared: it says who executes which shard, for the life, and where each rollout is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import msgspec

from fast_core.messages import Collect, RolloutOrder, Train, Trained
from fast_core.scheduler.degree import Auto, AutoState, Spent, effective_share
from fast_core.scheduler.followers import Followers
from fast_core.scheduler.ledger import Ledger, Rollout, RolloutState
from fast_core.scheduler.ratio import Ratio
from fast_core.scheduler.settings import FlowSettings
from fast_core.scheduler.settled import Settled
from fast_core.scheduler.stages import Stages
from fast_core.scheduler.state import FlowCounters, SavedState, kept
from fast_core.scheduler.statistics import Episodes, Way
from fast_core.scheduler.tickets import Merged, Tickets
from fast_core.scheduler.times import Times


class Flow:
    """Tickets of one learner, from admission to settlement.

    Attributes:
        auto: What chooses the degree, None where it is given.
        counters: What belongs to no part alone; tickets as of the last checkpoint.
        collected: Environment steps of accepted rollouts.
        merged_rows: Environment steps of merged tickets.
        published: Settled tickets that the newest published weights are of, which bounds admission.
        published_version: Their version.
        drawing: With replay what is ordered of merged tickets that are not settled, oldest first.
        followers: Who gets its tickets too.
        reported: What the learner reported of the last ticket that granted steps.
    """

    def __init__(
        self,
        settings: FlowSettings,
        ledger: Ledger,
        nodes: Iterable[str],
        saved: SavedState | None = None,
        number: int = 0,
    ):
        """Go on from ``saved``.

        Args:
            settings: Its shards and limits.
            ledger: Where the rollouts of all flows are.
            nodes: Who collects.
            saved: What a checkpoint has of it.
            number: Its place among the flows of the run, by which the ledger knows its shards.
        """
        self.settings, self._ledger, self._number = settings, ledger, number
        self.counters = kept(FlowCounters, saved)
        drops = settings.stragglers == "drop"
        self.tickets = Tickets(settings.shards, self.counters.settled, drops=drops)
        self.auto: Auto | None = None
        if settings.auto_degree:
            replays = settings.replay is not None
            self.auto = Auto(settings.degree, kept(AutoState, saved), replays=replays)
        spent = None if self.auto is None else Spent(shards=settings.shards)
        self.times = Times(nodes, spent, saved)
        shards = [shard for shard, flow in enumerate(ledger.flow_of) if flow == number]
        self.stages = Stages(settings.stages, shards, in_shard_order=settings.degree == 0)
        self.ratio = Ratio(settings, saved)
        self.settled = kept(Settled, saved)
        self.episodes = kept(Episodes, saved)
        self.collected = self.merged_rows = self.settled.env_steps
        self.published, self.published_version = self.tickets.settled, self.settled.version
        self.drawing: deque[Train] = deque()
        self.followers = Followers(settings.followers, self.tickets.settled)
        self.reported: dict[str, float] = {}

    @property
    def degree(self) -> int:
        """Tickets that may be collected ahead of training now."""
        return self.settings.degree if self.auto is None else self.auto.degree

    @property
    def way(self) -> Way:
        """How it comes by its degree."""
        if self.auto is not None:
            return "auto"
        return "async" if self.settings.degree else "sync"

    @property
    def has_idle(self) -> bool:
        """Whether some shard could start a rollout now."""
        return self._ledger.has_idle(self._number)

    def places(self, needed: int | None, *, hold: bool) -> int:
        """Rollouts that may be started now: see the function `places`."""
        return places(
            started=self.tickets.started,
            settled=self.published,
            shards=self.settings.shards,
            degree=self.degree,
            needed=needed,
            hold=hold,
        )

    def admit(self, needed: int | None, now_s: float, *, hold: bool) -> list[tuple[str, Collect]]:
        """Start what may be started on idle shards.

        Every order asks for the newest weights published so far. That is no older than the end of
        ticket ``i - degree - 1``, which the guarantee needs for the ticket ``i`` it is admitted
        for, and it is what allows a rollout that others overtake to be merged up to ``degree``
        tickets after the settled prefix of this moment.

        Args:
            needed: Number of tickets the whole run can need, None for no limit.
            now_s: The time.
            hold: Begin no further ticket.

        Returns:
            One `Collect` for every node concerned, orders by shard.
        """
        tickets, ledger, number = self.tickets, self._ledger, self._number
        version, last_ticket = self.published_version, self.published + self.degree
        count = self.places(needed, hold=hold)
        self.times.held = hold or (needed is not None and needed <= last_ticket + 1)
        orders: dict[str, list[RolloutOrder]] = {}
        while count > 0 and ledger.has_idle(number):
            ticket = tickets.started // tickets.shards
            rollout = ledger.start(ticket, version, last_ticket, number)
            rollout.began_s = now_s
            tickets.begin(rollout)
            orders.setdefault(ledger.owners[rollout.order.shard], []).append(rollout.order)
            count -= 1
        for node, batch in orders.items():
            batch.sort(key=lambda order: order.shard)
            self.times.ordered(node, len(batch))
        return [(node, Collect(tuple(batch))) for node, batch in orders.items()]

    def complete(self, rollout: Rollout, now_s: float, rows: int) -> float:
        """Take a rollout that is complete; returns how long its node was at it, in s.

        Stages take it first where there are any; one that comes too late is done with.
        """
        assert rollout.result is not None
        served_s = self.times.completed(rollout.result.node, rollout.began_s, now_s)
        if rollout.place is RolloutState.LATE:
            self.tickets.late -= 1
            self._ledger.release([rollout])
            return served_s
        rollout.rows = rows
        self.collected += rows
        if not self.settings.stages:
            self.tickets.complete(rollout)
        return served_s

    def drop(self, rollout: Rollout) -> bool:
        """Count a rollout no more whose node died; whether it was counted."""
        counted = self.tickets.drop(rollout)
        self.counters.rollouts_dropped += counted
        return counted

    def merge(self) -> Merged | None:
        """Form the next ticket, and say what it grants, if it can be formed now."""
        tickets = self.tickets
        late = tickets.late
        rollouts = tickets.merge(in_shard_order=self.degree == 0)
        self.counters.rollouts_dropped += tickets.late - late
        if rollouts is None:
            return None
        rows = sum([rollout.rows for rollout in rollouts])
        merged = Merged(rollouts, rows, self._grant(rollouts, rows))
        tickets.train(merged)
        self.times.training = True
        self.merged_rows += rows
        self.ratio.granted += merged.granted
        self.episodes.add(rollouts)
        return merged

    def _grant(self, rollouts: list[Rollout], rows: int) -> int:
        grants = [rollout.grants for rollout in rollouts if rollout.grants is not None]
        return sum(grants) if grants else self.ratio.grant(self.merged_rows, rows)

    def order(self, merged: Merged) -> Train:
        """What the learner is told of a ticket that was just formed."""
        ticket, env_steps = self.tickets.merged - 1, self.merged_rows - merged.rows
        if self.settings.replay is None:
            refs = tuple([rollout.ref for rollout in merged.rollouts])
            return Train(ticket, refs, env_steps, merged.granted)
        versions = [rollout.acted_with for rollout in merged.rollouts]
        mean = sum(versions) / len(versions)
        train = Train(ticket, (), env_steps, merged.granted, min(versions), mean)
        self.drawing.append(train)
        return train

    def fault(self, event: Trained) -> str | None:
        """What is wrong with a report of its learner; None if nothing is."""
        due = self.tickets.next_to_settle
        expected, granted = (None, 0) if due is None else (self.tickets.settled, due.granted)
        return self.settled.fault(event, expected=expected, granted=granted)

    def settle(self, event: Trained, *, whole: bool = True, published: bool = True) -> None:
        """Count the ticket that was trained on.

        ``whole`` says that every node is there, ``published`` that the weights of now are.
        """
        merged = self.tickets.settle()
        self._ledger.release(merged.rollouts)
        if self.drawing:
            self.drawing.popleft()
        self.settled.settle(event, merged.rows)
        self.reported = event.metrics or self.reported
        self.times.settled(whole=whole)
        self.times.training = self.tickets.training > 0
        if published:
            self.publish()

    def publish(self) -> None:
        """What begins from now on acts with the weights of now."""
        self.published, self.published_version = self.tickets.settled, self.settled.version

    def steer(self, event: Trained, *, learns: bool) -> str | None:
        """Let the degree follow where time goes, once learning has begun; returns why it moves.

        A ticket of which nothing was to be learnt tells nothing.
        """
        auto, spent = self.auto, self.times.spent
        if auto is None or spent is None:
            return None
        if not learns:
            spent.clear()
            return None
        spent.settled(event.publish_s, effective_share(event.metrics))
        return auto.settled(spent)

    def state(self) -> tuple[msgspec.Struct, ...]:
        """What a checkpoint keeps, part by part, while nothing is open."""
        counters = msgspec.structs.replace(self.counters, settled=self.tickets.settled)
        auto = () if self.auto is None else (self.auto.state(),)
        ratio, times = self.ratio.state(), self.times.state()
        return (counters, self.settled, ratio, self.episodes, times, *auto)

    def named(self, text: str) -> str:
        """A text that is about this flow, for people, where there are several."""
        return f"{self.settings.key}: {text}" if self.settings.key else text


def places(
    *, started: int, settled: int, shards: int, degree: int, needed: int | None, hold: bool
) -> int:
    """Rollouts that may be started on top of ``started``.

    Ticket ``i`` starts only if ``i <= settled + degree``: one counter over accepted and running
    work. Where the degree has fallen since, a ticket that has begun is filled once it may begin
    again.

    Args:
        started: Rollouts started so far.
        settled: Length of the settled prefix of tickets.
        shards: Rollouts of one ticket.
        degree: Tickets that may be collected ahead of training.
        needed: Number of tickets the whole run can need, None for no limit.
        hold: Begin no further ticket. One that has begun is still filled: its rollouts could not
            be trained on otherwise, and the run would never come to rest.
    """
    if started // shards > settled + degree:
        return 0
    if hold:
        return -started % shards
    tickets = settled + 1 + degree
    if needed is not None:
        tickets = min(tickets, needed)
    return max(tickets * shards - started, -started % shards)
