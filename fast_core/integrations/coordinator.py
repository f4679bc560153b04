"""Which side of a host's loop may work next: pure, from events and the time.

A ticket is a round of ``collectors`` collections. A host's loop is a `Flow` without a `Life`: what
is admitted, which collections train together, the bound on their age, the degree that a run chooses
by itself and the time of either side are the flow's. What a run of nodes has beside it, that they
start, save, die and come back, a host sees to itself or does without. Here are the rules that are a
host's alone: when weights are exchanged, how evaluations go, and what ends it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import msgspec

from fast_core.integrations.statistics import Statistics
from fast_core.messages import RolloutOrder, RolloutReady, Trained
from fast_core.scheduler.degree import effective_share
from fast_core.scheduler.flow import Flow
from fast_core.scheduler.ledger import Ledger
from fast_core.scheduler.settings import FlowSettings

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
        self._per_collection, self._async_eval = updates_per_collection, async_eval
        self._max_env_steps, self._max_updates = max_env_steps, max_updates
        self._sync_interval = sync_interval
        names = [str(rank) for rank in range(collectors)]
        self._ledger = Ledger(queue_size + 1 if degree else 1, [0] * collectors, [0] * collectors)
        for rank, name in enumerate(names):
            self._ledger.assign(rank, name)
        auto = degree == AUTO
        settings = FlowSettings(
            shards=collectors,
            optimizers=("learner",),
            replay="buffer" if replays else None,
            degree=min(MOST_AUTO, queue_size) if auto else degree,
            auto_degree=auto,
            rows_per_rollout=1,
            updates_granted=(updates_per_collection or 0) * collectors,
            replay_ratio=None if replay_ratio is None else str(replay_ratio),
        )
        self._flow = Flow(settings, self._ledger, names)
        self._orders: dict[int, RolloutOrder] = {}  # of what runs, by collector
        self._said, self._owed = False, 0  # do collectors say updates; of collections not trained
        self._training = False
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
        return self._flow.degree

    @property
    def updates(self) -> int:
        """Calls of `train` that rounds which have trained made; the version of the weights."""
        return self._flow.settled.updates

    @property
    def env_steps(self) -> int:
        """Environment steps collected."""
        return self._flow.collected

    def can_collect(self) -> bool:
        """Whether some collector may begin a collection now."""
        return self._flow.has_idle and self._flow.places(None, hold=self._holds) > 0

    def can_train(self) -> bool:
        """Whether a round is there to train on, and the learner free to."""
        return self._flow.tickets.training > 0 and not self._training and not self._waits

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
        since = self._flow.tickets.settled + self._training - self._flow.published
        return since >= min(self._sync_interval, self.degree + 1)

    @property
    def finished(self) -> bool:
        """Whether the end has been decided and nothing is open any more: the queue is drained."""
        idle = self._flow.tickets.quiescent and not self._due and self._evaluating is None
        return idle and bool(self.why)

    @property
    def why(self) -> str:
        """Why no further round begins; empty while they do."""
        env_steps, updates = self.env_steps, self._promised()
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
        self._flow.times.pass_until(now_s)
        sends = self._flow.admit(None, now_s, hold=self._holds)
        orders = [order for _, collect in sends for order in collect.rollouts]
        self._orders.update((order.shard, order) for order in orders)
        return orders

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
        flow, order = self._flow, self._orders.pop(collector)
        flow.times.pass_until(now_s)
        names = (order.incarnation, order.slot, order.rollout_id, order.ticket)
        ready = RolloutReady(str(collector), collector, *names, version, (), ())
        rollout = self._ledger.complete(ready)
        assert rollout is not None and version >= order.min_version
        self._said |= updates is not None
        rollout.grants = self._per_collection if updates is None else updates
        self._owed += rollout.grants or 0
        flow.complete(rollout, now_s, env_steps)
        while flow.merge() is not None:
            pass

    def start_training(self, now_s: float) -> Round | None:
        """Begin to train on the next round; None if that may not be now."""
        if not self.can_train():
            return None
        self._flow.times.pass_until(now_s)
        merged, self._training = self._flow.tickets.next_to_settle, True
        assert merged is not None
        orders = tuple([rollout.order for rollout in merged.rollouts])
        return Round(self._flow.tickets.settled, orders, merged.granted)

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
        flow = self._flow
        flow.times.pass_until(now_s)
        merged, self._training = flow.tickets.next_to_settle, False
        assert merged is not None
        before, last = flow.settled.version, max(updates - 1, 0)
        acted = [rollout.acted_with for rollout in merged.rollouts]
        event = Trained(
            node="learner",
            ticket=flow.tickets.settled,
            version=before + updates,
            updates=updates,
            skipped=merged.granted - updates,
            lag_mean=before + last / 2 - sum(acted) / len(acted),
            lag_max=before + last - min(acted),
            metrics=dict(metrics or {}),
            publish_s=publish_s,
        )
        flow.settle(event, published=exchanged)
        self._owed -= sum([rollout.grants or 0 for rollout in merged.rollouts])
        if (why := flow.steer(event, learns=merged.granted > 0)) is not None:
            self.decisions.append(f"degree {why}")

    def exchanged(self) -> None:
        """Collections that begin from now on act with the weights of now."""
        self._flow.publish()

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
        flow, settled, tickets = self._flow, self._flow.settled, self._flow.tickets
        return Statistics(
            mode=flow.way,
            degree=self.degree,
            rounds_admitted=-(-tickets.started // tickets.shards),
            rounds_collected=(tickets.started - self._ledger.running) // tickets.shards,
            rounds_merged=tickets.merged,
            rounds_trained=tickets.settled,
            env_steps_collected=flow.collected,
            env_steps_trained=settled.env_steps,
            updates=settled.updates,
            lag_now=settled.lag_last,
            lag_mean=settled.lag_sum / max(tickets.settled, 1),
            lag_max=settled.lag_max,
            **msgspec.structs.asdict(flow.times.sides(now_s)),
            evaluations_run=self._evaluated,
            evaluations_coalesced=self._coalesced,
            ess=effective_share(flow.reported),
            clip_fraction=flow.reported.get("clip_fraction"),
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
        flow, owed = self._flow, self._owed
        if self._per_collection is None and not self._said:
            owed = flow.ratio.granted_by(flow.collected)
            owed -= flow.ratio.granted_by(flow.settled.env_steps)
        elif not self._said:
            owed += self._ledger.running * (self._per_collection or 0)
        return self.updates + owed
