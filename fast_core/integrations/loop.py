"""The three steps of a host's loop, and who takes them: one thread, or a thread for each part."""

from __future__ import annotations

import functools
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from fast_core.errors import NodeFailed
from fast_core.integrations.coordinator import Coordinator, Round
from fast_core.integrations.hosts import Collected, Learning, Weights
from fast_core.integrations.results import EvalResult, without_ours
from fast_core.messages import RolloutOrder
from fast_core.system.text import error_text

Step = Callable[[], None]

SHUTDOWN_S = 30.0  # that threads get to come back from the call that they are in
LOOK_S = 0.5  # between looks for calls that do not come back


@dataclass
class Team:
    """The parts of a host, ready to work.

    Attributes:
        collectors: Each collects once, with weights, updates and environment steps so far.
        evaluator: Likewise; None for none.
        learning: The learner and its buffer.
        should_eval: Whether to evaluate after so many updates.
        end: Ends the processes of collectors and evaluator at once, if they have any.
        tell: Takes a line for people about each step of the run.
        attend: Told of the version that an evaluation begins with, then of it and the result.
        evaluations: What `eval` returned so far, with the version that it was about.
    """

    collectors: Sequence[Callable[[Weights | None, int, int], Collected]]
    evaluator: Callable[[Weights | None, int, int], EvalResult] | None
    learning: Learning
    should_eval: Callable[[int], bool]
    end: Callable[[], None]
    tell: Callable[[str], object] | None = None
    attend: Callable[[int, object], None] = lambda version, result: None
    evaluations: list[tuple[int, object]] = field(default_factory=list)


class Loop:
    """The steps of the loop, safe for threads: parts work outside the lock.

    Attributes:
        changed: Its lock keeps everything here and the coordinator; notified whenever other work
            may have become possible.
        orders: Collections that may begin, by collector.
    """

    def __init__(self, coordinator: Coordinator, team: Team, changed: threading.Condition) -> None:
        self.changed = changed
        self.orders: dict[int, RolloutOrder] = {}
        self.coordinator, self._team = coordinator, team
        self._data: dict[RolloutOrder, object] = {}
        self._weights: Weights | None = None
        self._asking = True  # nothing begins meanwhile, or a synchronous one would come too late

    def begin(self) -> None:
        """Take the first weights, and let the first step be taken."""
        self._weights, _ = self._team.learning.weights()
        self._ask_for_evaluation()

    def _ask_for_evaluation(self) -> None:
        coordinator = self.coordinator
        # A round in which nothing was trained, as while a buffer warms up, leaves nothing to learn.
        asks = self._team.evaluator is not None and not coordinator.evaluates_newest
        wanted = asks and not coordinator.finished and self._team.should_eval(coordinator.updates)
        # An evaluation is of the newest weights; and a degree that has fallen asks for them, too.
        exchange, weights = wanted or self.coordinator.exchange_due, self._weights
        if exchange and weights is not None and weights.version != self.coordinator.updates:
            weights, _ = self._team.learning.weights()
        with self.changed:
            self._asking = False
            if exchange:
                self._weights = weights
                self.coordinator.exchanged()
            if wanted:
                self.coordinator.want_evaluation()
            self._advance()

    def _advance(self) -> None:
        if self._asking:
            return
        for order in self.coordinator.start_collections(time.monotonic()):
            self.orders[order.shard] = order
        self.changed.notify_all()

    def collect(self, order: RolloutOrder) -> None:
        """Have a collector collect once."""
        with self.changed:
            weights = self._weights
            updates, env_steps = self.coordinator.updates, self.coordinator.env_steps
        version = updates if weights is None else weights.version
        got = self._team.collectors[order.shard](weights, updates, env_steps)
        with self.changed:
            self._data[order] = got.data
            now_s = time.monotonic()
            self.coordinator.collected(order.shard, version, got.env_steps, now_s, got.updates)
            self._advance()

    def train(self, given: Round) -> None:
        """Train on a round, and publish."""
        with self.changed:
            data = [self._data.pop(order) for order in given.orders]
            exchanged = self.coordinator.exchange_due
        updates, metrics = self._team.learning.train(data, given.updates)
        weights, publish_s = self._weights, 0.0
        if exchanged:
            weights, publish_s = self._team.learning.weights()
        with self.changed:
            self._weights = weights
            known = len(self.coordinator.decisions)
            now_s = time.monotonic()
            self.coordinator.trained(updates, now_s, metrics, publish_s, exchanged=exchanged)
            self._asking = True
            lines = [self._line(given, publish_s if exchanged else None)]
            lines += self.coordinator.decisions[known:]
        self._tell(lines)
        self._ask_for_evaluation()

    def _line(self, given: Round, publish_s: float | None) -> str:
        sent = "not sent" if publish_s is None else f"sent in {publish_s * 1e3:.1f} ms"
        stats = self.coordinator.statistics()
        return f"round {given.ticket}: version {stats.updates}, {sent}; {stats.line()}"

    def _tell(self, lines: Iterable[str]) -> None:
        """Outside of the lock, since people's functions may be slow."""
        if self._team.tell is not None:
            for line in lines:
                self._team.tell(line)

    def start_evaluation(self) -> Step | None:
        """Begin an evaluation of the newest weights if one is wanted and none runs."""
        with self.changed:
            weights, updates = self._weights, self.coordinator.updates
            version = updates if weights is None else weights.version
            if not self.coordinator.start_evaluation(version):
                return None
            env_steps = self.coordinator.env_steps
        return functools.partial(self._evaluate, weights, version, updates, env_steps)

    def _evaluate(
        self, weights: Weights | None, version: int, updates: int, env_steps: int
    ) -> None:
        assert self._team.evaluator is not None
        self._team.attend(version, None)
        verdict = self._team.evaluator(weights, updates, env_steps)
        self._team.attend(version, verdict.result)
        with self.changed:
            self._team.evaluations.append((version, verdict.result))
            self.coordinator.evaluated(stop=verdict.stop)
            self._advance()
        said = " and said stop" if verdict.stop else ""
        self._tell([f"evaluation of version {version} scored {verdict.score}{said}"])


def run_inline(coordinator: Coordinator, team: Team, changed: threading.Condition) -> None:
    """Take every step in this thread; errors are the host's own."""
    loop = Loop(coordinator, team, changed)
    loop.begin()
    while not coordinator.finished:
        if (step := loop.start_evaluation()) is not None:
            step()
        elif loop.orders:
            loop.collect(loop.orders.pop(min(loop.orders)))
        else:
            given = coordinator.start_training(time.monotonic())
            assert given is not None, "somebody can work until all is done"
            loop.train(given)


class _Thread:
    """One part's thread, and how often the watch has seen it in the same call."""

    def __init__(self, name: str, call: str, body: Callable[[_Thread], None]) -> None:
        self.name, self.call = name, call
        self.thread = threading.Thread(target=body, args=(self,), name=name, daemon=True)
        self.calls, self.busy = 0, False
        self._seen, self._looks = 0, 0

    def looks(self) -> int:
        """Look at it once more; time in which nobody could look does not count."""
        same = self.busy and self.calls == self._seen
        self._looks = self._looks + 1 if same else 0
        self._seen = self.calls
        return self._looks

    def stack(self) -> str:
        """Where it is now."""
        frame = sys._current_frames().get(self.thread.ident or 0)
        return "".join(traceback.format_stack(frame)) if frame is not None else ""


class Crew:
    """A thread for each part; the caller's thread watches over them."""

    def __init__(
        self,
        coordinator: Coordinator,
        team: Team,
        changed: threading.Condition,
        timeout_s: float | None,
    ) -> None:
        """Start nothing; ``timeout_s`` limits each step, None for no limit."""
        self._loop, self._coordinator = Loop(coordinator, team, changed), coordinator
        self._team, self._timeout_s = team, timeout_s
        self._changed, self._ended = changed, threading.Event()
        self._over = False
        self._failure: BaseException | None = None
        self._threads: list[_Thread] = []
        for rank, collect in enumerate(team.collectors):
            take = functools.partial(self._next_collection, rank)
            self._add(f"collector-{rank}", collect, "collect()", take)
        self._add("learner", None, "train()", self._next_round)
        if team.evaluator is not None:
            self._add("evaluator", team.evaluator, "eval()", self._loop.start_evaluation)

    def _add(self, name: str, work: object, call: str, take: Callable[[], Step | None]) -> None:
        name = getattr(work, "name", f"{name} (a thread of process {os.getpid()})")
        self._threads.append(_Thread(name, call, functools.partial(self._work, take)))

    def run(self) -> None:
        """Work until all is done.

        Raises:
            NodeFailed: A part raised, died, or did not come back in time.
        """
        self._loop.begin()
        error: BaseException | None = None
        try:
            for each in self._threads:
                each.thread.start()
            self._watch()
            error = self._failure
        except BaseException as raised:  # Ctrl-C above all
            error = raised
        left = self._close(error)
        if error is not None:
            if left:
                error.add_note(f"Still running, since a thread can't be ended: {', '.join(left)}.")
            raise error

    def _next_collection(self, rank: int) -> Step | None:
        order = self._loop.orders.pop(rank, None)
        return None if order is None else functools.partial(self._loop.collect, order)

    def _next_round(self) -> Step | None:
        given = self._coordinator.start_training(time.monotonic())
        return None if given is None else functools.partial(self._loop.train, given)

    def _work(self, take: Callable[[], Step | None], me: _Thread) -> None:
        """Take steps until the run is over."""
        try:
            while (step := self._wait_for(take)) is not None:
                me.calls, me.busy = me.calls + 1, True
                step()
                me.busy = False
        except BaseException as error:  # the end of a thread of the user's code
            me.busy = False
            if not isinstance(error, NodeFailed):
                told = "".join(traceback.format_exception(without_ours(error)))
                failed = NodeFailed(f"{me.name} raised in {me.call}:\n{told}")
                failed.__cause__, error = error, failed
            self._end(error)

    def _wait_for(self, take: Callable[[], Step | None]) -> Step | None:
        with self._changed:
            while not self._over:
                if (step := take()) is not None:
                    return step
                if self._coordinator.finished:
                    self._end(None)
                    return None
                self._changed.wait()
        return None

    def _end(self, failure: BaseException | None) -> None:
        with self._changed:
            if not self._over:
                self._over, self._failure = True, failure
            self._changed.notify_all()
            self._ended.set()

    def _watch(self) -> None:
        """Wait for the end, and end the run if a part does not come back."""
        limit_s = self._timeout_s
        look_s = LOOK_S if limit_s is None else min(LOOK_S, limit_s / 4)
        while not self._ended.wait(look_s):
            for each in self._threads:
                looks = each.looks()
                if limit_s is not None and looks * look_s >= limit_s:
                    raise NodeFailed(
                        f"{each.name} did not come back from {each.call} within {limit_s:g} s "
                        f"(work_timeout_s); its thread is here:\n{each.stack()}"
                    )

    def _close(self, error: BaseException | None) -> list[str]:
        """End threads, and processes too where something went wrong; returns who does not."""
        self._end(None)
        if error is not None:
            self._team.end()
            try:
                self._team.learning.interrupt()
            except Exception as raised:  # of the user's code; it is not what ended the run
                error.add_note(f"The learner's interrupt() raised: {error_text(raised)}")
        # One that hung for the whole limit gets no second one.
        deadline_s = time.monotonic() + (LOOK_S if self._hangs(error) else SHUTDOWN_S)
        for each in self._threads:
            if each.thread.ident is not None:
                each.thread.join(max(deadline_s - time.monotonic(), 0.0))
        return [f"{each.name} in {each.call}" for each in self._threads if each.thread.is_alive()]

    def _hangs(self, error: BaseException | None) -> bool:
        return error is not None and error is not self._failure and isinstance(error, NodeFailed)
