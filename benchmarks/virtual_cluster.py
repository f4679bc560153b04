"""A cluster of env nodes in virtual time round the real scheduler core.

Each env node executes one shard. Its rollouts take what a law says, some nodes are stragglers, some
die; the optimizer trains. Only `Scheduler.handle` is real, and only its time is measured.
"""

from __future__ import annotations

import gc
import heapq
import random
import statistics
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from fast_core.messages import (
    Collect,
    Event,
    NodeExited,
    Ready,
    RolloutOrder,
    RolloutReady,
    Train,
    Trained,
)
from fast_core.messages.launching import EndRun, LauncherEvent, Respawn
from fast_core.scheduler import Budget, Scheduler, SchedulerSettings

ROWS, UPDATES = 1024, 4
TRAINING_S = 0.5  # of the time of a mean rollout; then collecting is what bounds the run
STRAGGLER_SHARE, STRAGGLER_FACTOR = 0.05, 10.0
RETURN_S = 0.3  # from a death until the node is ready again
OPTIMIZER = "optimizer-0"

Law = Callable[[random.Random, int], float]

# Time of one rollout of one node, mean 1 s but for the stragglers.
LAWS: dict[str, Law] = {
    "constant": lambda generator, node: 1.0,
    "lognormal": lambda generator, node: generator.lognormvariate(-0.125, 0.5),
    "Pareto": lambda generator, node: generator.paretovariate(1.5) / 3.0,
    "stragglers": lambda generator, node: (
        generator.uniform(0.9, 1.1)
        * (STRAGGLER_FACTOR if node % round(1 / STRAGGLER_SHARE) == 0 else 1.0)
    ),
}


def settings(nodes: int, degree: int, tickets: int, deaths: int) -> SchedulerSettings:
    """A run of one shard per env node without evaluations and checkpoints."""
    return SchedulerSettings(
        shards=nodes,
        env_nodes=tuple(f"env-{rank}" for rank in range(nodes)),
        optimizers=(OPTIMIZER,),
        evaluator=None,
        degree=degree,
        slots_per_shard=degree + 1,
        rows_per_rollout=ROWS,
        updates_granted=UPDATES,
        eval_every_env_steps=None,
        eval_episodes=1,
        eval_mode="async",
        eval_at_end=False,
        checkpoint_every_updates=None,
        checkpoint_at_end=False,
        checkpoint_directory="",
        stop_env_steps=tickets * nodes * ROWS,
        stop_updates=None,
        stop_time_s=None,
        stop_score=None,
        stop_score_held=1,
        start_timeout_s=60.0,
        restarts=(Budget("env", tuple(f"env-{rank}" for rank in range(nodes)), deaths),),
    )


@dataclass
class Outcome:
    """What a run in virtual time came to.

    Attributes:
        events: Events handled.
        handled_s: Real time that took.
        longest_ms: Of a single event.
        commands: Commands returned.
        dropped: Rollouts that died with their nodes.
        trained: Rollouts trained on by shard.
        absent: Most tickets in a row that had no rollout of some shard.
        virtual_s: Virtual time it took.
        messages: A sample of what travelled, for its size.
    """

    events: int = 0
    handled_s: float = 0.0
    longest_ms: float = 0.0
    commands: int = 0
    dropped: int = 0
    trained: Counter[int] = field(default_factory=Counter)
    absent: int = 0
    virtual_s: float = 0.0
    messages: list[object] = field(default_factory=list)


class VirtualCluster:
    """Runs to its end in `run`, once."""

    def __init__(self, nodes: int, law: Law, *, degree: int, tickets: int, deaths: int) -> None:
        """``deaths`` env nodes die, evenly over the first ``tickets`` seconds of virtual time.

        Each is back after `RETURN_S`.
        """
        self._settings = settings(nodes, degree, tickets, deaths)
        self._scheduler = Scheduler(self._settings)
        self._law, self._generator = law, random.Random(0)
        self._queues: dict[str, deque[RolloutOrder]] = {n: deque() for n in self._settings.nodes}
        self._busy: set[str] = set()
        self._deaths = 0
        self._lives: Counter[str] = Counter()
        self._heap: list[tuple[float, int, str, int, Event | LauncherEvent]] = []
        self._serial = self._version = self._ordered = 0
        self._free_s = 0.0  # when the optimizer is
        self._last_ticket: dict[int, int] = {}
        self._seen: set[tuple[int, int, int]] = set()
        self._ended: EndRun | None = None
        self._outcome = Outcome()
        for k in range(deaths):
            node = f"env-{(k * 7919 + 1) % nodes}"
            event = NodeExited(node, "killed by SIGKILL", reaped=True)
            self._at(tickets * (k + 0.5) / max(deaths, 1), node, event)

    def run(self) -> Outcome:
        """Run to the end and check that nothing was lost.

        Raises:
            AssertionError: A rollout was lost, or trained on twice.
        """
        gc.collect()
        gc.disable()  # what it scans are the books of this simulation
        try:
            for pid, node in enumerate(self._settings.nodes):
                self._deliver(Ready(node, pid), 0.0)
            while self._ended is None:
                now_s, _, node, life, event = heapq.heappop(self._heap)
                self._happen(node, life, event, now_s)
        finally:
            gc.enable()
        return self._conclude(now_s)

    def _happen(self, node: str, life: int, event: Event | LauncherEvent, now_s: float) -> None:
        if isinstance(event, NodeExited):
            self._deaths += 1
            self._lives[node] += 1
            self._queues[node].clear()
        elif life != self._lives[node]:
            return  # what it was doing died with it
        self._busy.discard(node)
        if isinstance(event, Trained):
            self._version = event.version  # published before it is reported
        self._deliver(event, now_s)
        self._start(node, now_s)

    def _deliver(self, event: Event | LauncherEvent, now_s: float) -> None:
        outcome, begun_s = self._outcome, time.thread_time()
        sends = self._scheduler.handle(event, now_s)
        took_s = time.thread_time() - begun_s
        outcome.events += 1
        outcome.handled_s += took_s
        outcome.longest_ms = max(outcome.longest_ms, 1e3 * took_s)
        outcome.commands += len(sends)
        if outcome.events % 97 == 0:
            outcome.messages += [event, *(command for _, command in sends)]
        for node, command in sends:
            match command:
                case Collect(rollouts):
                    self._ordered += len(rollouts)
                    self._queues[node].extend(rollouts)
                    self._start(node, now_s)
                case Respawn():
                    self._at(now_s + RETURN_S, command.node, Ready(command.node, 1))
                case Train():
                    self._train(command, now_s)
                case EndRun():
                    self._ended = command

    def _start(self, node: str, now_s: float) -> None:
        queue = self._queues[node]
        if queue and node not in self._busy:
            order = queue.popleft()
            self._busy.add(node)
            took_s = self._law(self._generator, int(node.partition("-")[2]))
            version = max(self._version, order.min_version)
            names = (order.shard, order.incarnation, order.slot, order.rollout_id, order.ticket)
            self._at(now_s + took_s, node, RolloutReady(node, *names, version, (1.0,), (9,)))

    def _train(self, command: Train, now_s: float) -> None:
        outcome, ticket = self._outcome, command.ticket
        for ref in command.rollouts:
            key = (ref.shard, ref.incarnation, ref.rollout_id)
            assert key not in self._seen, f"trained on twice: {ref}"
            self._seen.add(key)
            outcome.trained[ref.shard] += 1
            absent = ticket - self._last_ticket.get(ref.shard, -1) - 1
            outcome.absent = max(outcome.absent, absent)
            self._last_ticket[ref.shard] = ticket
        version = UPDATES * (ticket + 1)
        trained = Trained(OPTIMIZER, ticket, version, UPDATES, 0, 0.0, 0, {"loss/policy": 0.1})
        self._free_s = max(self._free_s, now_s) + TRAINING_S
        self._at(self._free_s, OPTIMIZER, trained)

    def _at(self, at_s: float, node: str, event: Event | LauncherEvent) -> None:
        self._serial += 1
        heapq.heappush(self._heap, (at_s, self._serial, node, self._lives[node], event))

    def _conclude(self, now_s: float) -> Outcome:
        outcome, end = self._outcome, self._ended
        assert end is not None and end.reason == "finished", end
        found = self._scheduler.statistics()
        outcome.dropped = found.rows_dropped // ROWS
        assert self._ordered == len(self._seen) + outcome.dropped, "a rollout was lost"
        assert found.env_steps_collected == found.env_steps_trained == len(self._seen) * ROWS
        assert found.env_nodes_lost == self._deaths
        outcome.virtual_s = now_s
        return outcome


def spread(counts: Counter[int], shards: Iterable[int]) -> tuple[int, float, int]:
    """Least, median and most rollouts trained on of one shard."""
    values = [counts[shard] for shard in shards]
    return min(values), statistics.median(values), max(values)
