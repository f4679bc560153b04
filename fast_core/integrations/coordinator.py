"""Which side of a host's loop may work next: pure, from events and the time.

A ticket is a round of ``collectors`` collections. Admission, which collections train together, the
bound on their age, the degree that a run chooses by itself and the time of either side are the
scheduler's own (`fast_core.scheduler`). Its `Scheduler` as a whole is not used: it is for rollouts
of a fixed number of rows, of which a ticket grants a fixed number of updates, and for nodes that
start, save and die. A host's collection has as many rows as it likes, and updates follow from them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from fast_core.events import RolloutOrder, RolloutReady, Trained
from fast_core.integrations.statistics import Statistics
from fast_core.scheduler.admission import places, start_rollouts
from fast_core.scheduler.degree import Auto, AutoState, Spent, effective_share
from fast_core.scheduler.ledger import Ledger
from fast_core.scheduler.settled import Settled
from fast_core.scheduler.statistics import Way
from fast_core.scheduler.tickets import Tickets
from fast_core.scheduler.times import Times

AUTO = -1
MOST_AUTO = 16


@dataclass(frozen=True)
class Round:
    """What trains together.

    Attributes:
        ticket: Its number, from 0.
        orders: Its collections; at degree 0 by collector, else as they were completed.
        updates: Calls of `train` that it grants.
    """

    ticket: int
    orders: tuple[RolloutOrder, ...]
    updates: int


class Coordinator:
    """Decides who works next; every call costs time in proportion to what it starts.

    Not safe for threads: whoever shares it holds a lock. Times are seconds of one monotonic clock.

    Attributes:
        decisions: What was decided and why, for people, oldest first.
    """

    def __init__(
        self,
        *,
        collectors: int,
        degree: int,
        queue_size: int,
        updates_per_collection: int | None,
        replay_ratio: Fraction | None,
        replays: bool,
        async_eval: bool,
        sync_interval: int = 1,
        max_env_steps: int | None = None,
        max_updates: int | None = None,
    ) -> None:
        """Start with nothing collected.

        Args:
            collectors: Collections of one round.
            degree: Rounds that may be collected ahead of training, `AUTO` to let the run choose.
            queue_size: Collections of one collector that may wait to be trained on.
            updates_per_collection: Updates that a collection grants, or None and
            replay_ratio: updates that an environment step grants.
            replays: Whether batches are drawn from a buffer, where rows are old anyway.
            async_eval: Whether work goes on while an evaluation runs.
            sync_interval: Rounds of training between two exchanges of weights, at most the degree
                and one; they count as rounds that are collected ahead.
            max_env_steps: No round begins once so many environment steps are collected.
            max_updates: None begins once what has begun comes to so many updates.
        """
        self._per_collection, self._ratio = updates_per_collection, replay_ratio
        self._max_env_steps, self._max_updates = max_env_steps, max_updates
        self._async_eval, self._sync_interval = async_eval, sync_interval
        self._exchanged = self._exchanged_version = 0  # settled rounds, version of those weights
        self._auto = None
        if degree == AUTO:
            most = min(MOST_AUTO, queue_size)
            self._auto = Auto(most, AutoState(), replays=replays)
        self._fixed = degree
        self._ledger = Ledger(queue_size + 1 if degree else 1, [0] * collectors, [0] * collectors)
        for rank in range(collectors):
            self._ledger.assign(rank, str(rank))
        self._tickets = Tickets(collectors, 0)
        self._orders: dict[int, RolloutOrder] = {}  # of what runs, by collector
        self._rows: dict[RolloutOrder, int] = {}  # of what is collected and has not trained
        self._grants: dict[RolloutOrder, int] | None = None  # likewise, if collectors say it
        self._merged: deque[Round] = deque()
        self._training = False
        self._times = Times(
            map(str, range(collectors)), Spent(shards=collectors) if self._auto else None, None
        )
        self._settled = Settled()
        self._ess: float | None = None
        self._clip_fraction: float | None = None
        self._collected = self._collected_rows = self._merged_rows = 0
        self._due = False
        self._evaluating: int | None = None  # the version of the evaluation that runs
        self._wanted: int | None = None  # the newest one of which one was wanted
        self._begun: int | None = None  # the one that the last evaluation began with
        self._evaluated = self._coalesced = 0
        self._stopped = ""
        self.decisions: list[str] = []

    # --- questions ---------------------------------------------------------------------------

    @property
    def degree(self) -> int:
        """Rounds that may be collected ahead of training now."""
        return self._fixed if self._auto is None else self._auto.degree

    @property
    def updates(self) -> int:
        """Calls of `train` that rounds which have trained made; the version of the weights."""
        return self._settled.updates

    @property
    def env_steps(self) -> int:
        """Environment steps collected."""
        return self._collected_rows

    def can_collect(self) -> bool:
        """Whether some collector may begin a collection now."""
        return self._places() > 0 and self._ledger.has_idle

    def can_train(self) -> bool:
        """Whether a round is there to train on, and the learner free to."""
        return bool(self._merged) and not self._training and not self._waits

    def can_evaluate(self) -> bool:
        """Whether an evaluation is wanted, and none runs."""
        return self._due and self._evaluating is None

    @property
    def evaluates_newest(self) -> bool:
        """Whether the weights of now were wanted evaluated already, or are or were being so."""
        return self.updates in (self._wanted, self._begun)

    @property
    def evaluation(self) -> tuple[bool, int | None]:
        """Whether one is wanted that has not begun, and the version of the one that runs."""
        return self._due, self._evaluating

    @property
    def exchange_due(self) -> bool:
        """Whether weights are to be exchanged now or, while a round trains, at its end.

        They are as soon as otherwise nothing could be collected any more, whatever the interval.
        """
        since = self._tickets.settled + self._training - self._exchanged
        return since >= min(self._sync_interval, self.degree + 1)

    @property
    def finished(self) -> bool:
        """Whether the end has been decided and nothing is open any more: the queue is drained."""
        idle = self._tickets.quiescent and not self._due and self._evaluating is None
        return idle and bool(self.why)

    @property
    def why(self) -> str:
        """Why no further round begins; empty while they do."""
        env_steps, updates = self._collected_rows, self._promised()
        if self._stopped:
            return self._stopped
        if self._max_env_steps is not None and env_steps >= self._max_env_steps:
            return f"{env_steps} env steps (max_env_step: {self._max_env_steps})"
        if self._max_updates is not None and updates >= self._max_updates:
            return f"{updates} updates (max_train_iter: {self._max_updates})"
        return ""

    # --- events ------------------------------------------------------------------------------

    def start_collections(self, now_s: float) -> list[RolloutOrder]:
        """Begin every collection that may begin; the ``shard`` of an order is its collector."""
        self._times.pass_until(now_s)
        count = self._places()
        self._times.held = self._holds
        if count <= 0 or not self._ledger.has_idle:
            return []
        orders = start_rollouts(
            self._ledger,
            self._tickets,
            count,
            self.degree,
            self._exchanged_version,
            now_s,
            self._exchanged,
        )
        for node, collect in orders:
            self._times.ordered(node, len(collect.rollouts))
            for order in collect.rollouts:
                self._orders[order.shard] = order
        return [order for _, collect in orders for order in collect.rollouts]

    def collected(
        self,
        collector: int,
        version: int,
        env_steps: int,
        now_s: float,
        updates: int | None = None,
    ) -> None:
        """A collector's collection is complete: ``env_steps`` of ``version`` and newer.

        It grants ``updates``; None: as all do. Either all of a run say it or none does.
        """
        self._times.pass_until(now_s)
        order, node = self._orders.pop(collector), str(collector)
        names = (order.incarnation, order.slot, order.rollout_id, order.ticket)
        rollout = self._ledger.complete(RolloutReady(node, collector, *names, version, (), ()))
        assert rollout is not None and version >= order.min_version
        self._times.completed(node, rollout.began_s, now_s)
        self._rows[order] = env_steps
        if updates is not None:
            self._grants = {**(self._grants or {}), order: updates}
        self._collected_rows += env_steps
        self._collected += 1
        self._tickets.complete(rollout)
        self._merge()

    def start_training(self, now_s: float) -> Round | None:
        """Begin to train on the next round; None if that may not be now."""
        if not self.can_train():
            return None
        self._times.pass_until(now_s)
        self._training = True
        return self._merged[0]

    def trained(
        self,
        updates: int,
        now_s: float,
        metrics: Mapping[str, float] | None = None,
        publish_s: float = 0.0,
        *,
        exchanged: bool = True,
    ) -> None:
        """The round has trained with ``updates`` of those granted.

        Args:
            updates: How many.
            now_s: When.
            metrics: What `train` told.
            publish_s: Seconds that it took to take a snapshot.
            exchanged: Whether there is one, of the weights of now.
        """
        self._times.pass_until(now_s)
        self._training = False
        granted = self._merged.popleft()
        rollouts = self._tickets.settle()
        before = self._settled.version
        acted = [rollout.acted_with for rollout in rollouts]
        last = max(updates - 1, 0)
        event = Trained(
            node="learner",
            ticket=granted.ticket,
            version=before + updates,
            updates=updates,
            skipped=granted.updates - updates,
            lag_mean=before + last / 2 - sum(acted) / len(acted),
            lag_max=before + last - min(acted),
            metrics=dict(metrics or {}),
            publish_s=publish_s,
        )
        rows = sum(self._rows.pop(order) for order in granted.orders)
        if self._grants is not None:
            self._grants = {k: v for k, v in self._grants.items() if k not in granted.orders}
        self._settled.settle(event, rows)
        self._ledger.release(rollouts)
        self._times.settled(whole=True)
        self._times.training = self._tickets.training > 0
        self._ess = effective_share(event.metrics)
        self._clip_fraction = event.metrics.get("clip_fraction")
        if exchanged:
            self.exchanged()
        self._steer(publish_s, granted.updates)

    def exchanged(self) -> None:
        """Collections that begin from now on act with the weights of now."""
        self._exchanged, self._exchanged_version = self._tickets.settled, self._settled.version

    def want_evaluation(self) -> None:
        """Evaluate the newest weights as soon as no other evaluation runs; not after a stop."""
        if not self._stopped:
            self._coalesced += self._due
            self._due, self._wanted = True, self.updates

    def start_evaluation(self, version: int) -> bool:
        """Begin the evaluation that is wanted, of ``version``; False if none is, or one runs."""
        if not self.can_evaluate():
            return False
        self._due, self._evaluating = False, version
        self._begun = version
        return True

    def evaluated(self, *, stop: bool = False) -> None:
        """It has its result, which may be to ``stop``."""
        self._evaluating = None
        self._evaluated += 1
        if stop:
            self._due = False
            self.stop("the evaluator said stop")

    def stop(self, reason: str) -> None:
        """Begin no further round; those that have begun are collected and trained on."""
        self._stopped = self._stopped or reason

    def statistics(self, now_s: float | None = None) -> Statistics:
        """The counters; time has gone on to ``now_s``, or stands at the last event."""
        settled, tickets, sides = self._settled, self._tickets, self._times.sides(now_s)
        way: Way = "auto" if self._auto is not None else "async" if self._fixed else "sync"
        return Statistics(
            mode=way,
            degree=self.degree,
            rounds_admitted=-(-tickets.started // tickets.shards),
            rounds_collected=self._collected // tickets.shards,
            rounds_merged=tickets.merged,
            rounds_trained=tickets.settled,
            env_steps_collected=self._collected_rows,
            env_steps_trained=settled.env_steps,
            updates=settled.updates,
            lag_now=settled.lag_last,
            lag_mean=settled.lag_sum / max(tickets.settled, 1),
            lag_max=settled.lag_max,
            collecting_s=sides.collecting_s,
            collecting_waits_s=sides.collecting_waits_s,
            training_s=sides.training_s,
            training_waits_s=sides.training_waits_s,
            evaluations_run=self._evaluated,
            evaluations_coalesced=self._coalesced,
            rows_dropped=self._collected_rows - settled.env_steps - sum(self._rows.values()),
            ess=self._ess,
            clip_fraction=self._clip_fraction,
        )

    # --- rules -------------------------------------------------------------------------------

    @property
    def _waits(self) -> bool:
        """Whether the loop stands still for an evaluation."""
        return not self._async_eval and (self._due or self._evaluating is not None)

    @property
    def _holds(self) -> bool:
        return bool(self.why) or self._waits

    def _promised(self) -> int:
        """Updates made, and those that what has begun will grant as far as that is known."""
        tickets, settled = self._tickets, self._settled
        if self._grants is not None:
            return settled.updates + sum(self._grants.values())
        begun = self._granted(tickets.started, self._collected_rows)
        done = self._granted(tickets.settled * tickets.shards, settled.env_steps)
        return settled.updates + begun - done

    def _granted(self, collections: int, rows: int) -> int:
        """Updates granted in all by so much; what a ratio leaves over is thus carried on."""
        if self._ratio is None:
            return (self._per_collection or 0) * collections
        return int(self._ratio * rows)

    def _places(self) -> int:
        return places(
            started=self._tickets.started,
            settled=self._exchanged,
            shards=self._tickets.shards,
            degree=self.degree,
            needed=None,
            hold=self._holds,
        )

    def _merge(self) -> None:
        tickets = self._tickets
        while (rollouts := tickets.merge(0, in_shard_order=self.degree == 0)) is not None:
            before = self._granted((tickets.merged - 1) * tickets.shards, self._merged_rows)
            orders = tuple(rollout.order for rollout in rollouts)
            self._merged_rows += sum(self._rows[order] for order in orders)
            updates = self._granted(tickets.merged * tickets.shards, self._merged_rows) - before
            if self._grants is not None:
                updates = sum(self._grants[order] for order in orders)
            self._merged.append(Round(tickets.merged - 1, orders, updates))
            self._times.training = True

    def _steer(self, publish_s: float, granted: int) -> None:
        """Let the degree follow where time goes, once learning has begun."""
        spent = self._times.spent
        if self._auto is None or spent is None:
            return
        if not granted:
            spent.clear()
            return
        spent.settled(publish_s, self._ess)
        if (why := self._auto.settled(spent)) is not None:
            self.decisions.append(f"degree {why}")
