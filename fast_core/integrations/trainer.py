"""`AsyncTrainer`: collector, learner and evaluator of a loop that is there already."""

from __future__ import annotations

import contextlib
import copy
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, cast

from fast_core.errors import ConfigError
from fast_core.integrations.coordinator import AUTO, Coordinator
from fast_core.integrations.hosts import (
    Collecting,
    Evaluating,
    Host,
    Learning,
    Part,
    Weights,
    check,
    check_factory,
    is_factory,
    reanalyzing,
)
from fast_core.integrations.loop import Crew, Team, run_inline
from fast_core.integrations.options import (
    check_backend,
    check_flag,
    check_interval,
    check_least,
    check_limit,
    print_line,
    read_degree,
    read_fraction,
    read_ratio,
)
from fast_core.integrations.questions import Questions
from fast_core.integrations.remote import Household, Remote
from fast_core.integrations.results import without_ours
from fast_core.integrations.statistics import Statistics
from fast_core.integrations.transport import Parcel
from fast_core.system.seeding import Role, draw_seed

Backend = Literal["inline", "thread", "process"]
_NUMBERS: dict[Part, int] = {"collector": 0, "learner": 1, "buffer": 2, "evaluator": 3}
_GRACE_S = 5.0  # that processes get to leave by themselves when all is done


@dataclass(frozen=True)
class Result:
    """What a run came to.

    Attributes:
        policy: The learner's weights at the end; None where it has no `get_weights()`.
        stats: The coordinator's last reading.
        chosen_degree: The degree in force at the end.
        why: Why it ended.
        evaluations: What `eval` returned, with the version that it was about, in order.
        decisions: What the run decided by itself, with the figures that caused it.
    """

    policy: Weights | None
    stats: Statistics
    chosen_degree: int
    why: str
    evaluations: tuple[tuple[int, object], ...]
    decisions: tuple[str, ...]


class AsyncTrainer:
    """Runs any collector, learner and evaluator so that collecting overlaps training.

    `fast_core.integrations.hosts` has the methods that a part must and may have.
    ``backend="inline", off_policy_degree=0`` is the host's own loop, call for call:
    evaluate if due, collect, push, sample and train as often as granted.

    Args:
        collector: An object, or a factory ``fn(rank, seed)`` of such; `process` and more than
            one collector need the factory.
        learner: Likewise; it stays in this process, as does the buffer.
        evaluator: Likewise; None for none. With `process` a factory.
        buffer: What takes collections (`push`) and gives batches (`sample`); without one
            `train` gets the collections themselves.
        backend: One thread, a thread for each part, or processes for collectors and evaluator.
        off_policy_degree: Rounds of collections that may be ahead of training; -1 or "auto"
            lets the run choose, "legacy-auto" is the older fixed rule
            ``max(1, (buffer_size // batch_size) // 10)``.
        data_queue_size: Collections of one collector that may wait to be trained on; where
            they do, it waits. None is ever dropped.
        enable_async_eval: Whether work goes on while an evaluation runs.
        num_collectors: Collections of one round.
        update_per_collect: Calls of `train` for each collection; 1 if nothing is said, or
        replay_ratio: for each environment step, a number or a fraction such as ``"1/3"``,
            taken exactly.
        reanalyze: Calls of `reanalyze_buffer`, which the buffer or else the learner has, an
            epoch; an epoch is a round that grants updates. 0.02 or "1/50" is every fiftieth.
        weight_sync_interval: Rounds of training between two exchanges of weights; they count as
            rounds that are ahead, so it is at most ``off_policy_degree + 1``. Where the run
            chooses the degree the interval is shortened to that. Evaluations are always of the
            newest weights.
        buffer_size: Rows of the buffer, for "legacy-auto" alone.
        batch_size: Rows of a batch, likewise.
        should_eval: Asked with the number of updates before each round whether to evaluate,
            unless these weights were evaluated already; the evaluator's own `should_eval` where
            it is in this process, else always.
        on_evaluation: Told in this process of the version that an evaluation begins with, with
            None, and then of that version with what `eval` returned; by the evaluator's thread.
        seed: What factories' seeds are derived from.
        work_timeout_s: Longest that one collection, evaluation or round of training may take;
            None for no limit. Inline there is none.
        debug_log: A line about each round, evaluation and decision: True for standard error, or
            what takes the lines. It is called by the thread that did the work.

    Attributes:
        coordinator: Answers at any time, from any thread, which side may work and how it stands.
    """

    def __init__(
        self,
        *,
        collector: Host,
        learner: Host,
        evaluator: Host | None = None,
        buffer: Host | None = None,
        backend: Backend = "thread",
        off_policy_degree: int | Literal["auto", "legacy-auto"] = 0,
        data_queue_size: int = 10,
        enable_async_eval: bool = False,
        num_collectors: int = 1,
        update_per_collect: int | None = None,
        replay_ratio: float | str | Fraction | None = None,
        reanalyze: float | str | Fraction | None = None,
        weight_sync_interval: int = 1,
        buffer_size: int | None = None,
        batch_size: int | None = None,
        should_eval: Callable[[int], bool] | None = None,
        on_evaluation: Callable[[int, object], None] | None = None,
        seed: int = 0,
        work_timeout_s: float | None = 600.0,
        debug_log: bool | Callable[[str], object] = False,
    ) -> None:
        """Take the parts; nothing starts, and no factory is called.

        Raises:
            ConfigError: A number is out of range, or an object lacks a method.
        """
        degree = read_degree(off_policy_degree, buffer_size, batch_size)
        check_least(
            ("off_policy_degree (-1 or 'auto' lets the run choose)", degree, AUTO),
            ("data_queue_size", data_queue_size, 1),
            ("num_collectors", num_collectors, 1),
            ("update_per_collect", update_per_collect, 1),
            ("weight_sync_interval", weight_sync_interval, 1),
            ("seed", seed, 0),
        )
        check_interval(weight_sync_interval, degree)
        check_backend(backend)
        check_flag("enable_async_eval", enable_async_eval)
        check_limit("work_timeout_s", work_timeout_s)
        ratio = read_ratio(replay_ratio, update_per_collect)
        if backend == "inline" and degree == AUTO:
            degree = 0  # nothing happens side by side
        self._backend, self._degree, self._async_eval = backend, degree, enable_async_eval
        self._collectors, self._seed, self._timeout_s = num_collectors, seed, work_timeout_s
        self._should_eval, self._attend = should_eval, on_evaluation or _nothing
        self._sync_interval = weight_sync_interval
        self._reanalyze = read_fraction("reanalyze", reanalyze)
        self._tell = print_line if debug_log is True else debug_log or None
        self._queue_size, self._replay_ratio = data_queue_size, ratio
        self._per_collection = None if ratio is not None else update_per_collect or 1
        parts = collector, learner, buffer, evaluator
        self._parts: dict[Part, Host | None] = dict(zip(_NUMBERS, parts, strict=True))
        self._changed, self._running = threading.Condition(), threading.Lock()
        self.coordinator = Questions(self._begin(), self._changed)
        self._check_parts()

    def _begin(
        self, max_env_steps: int | None = None, max_updates: int | None = None
    ) -> Coordinator:
        return Coordinator(
            collectors=self._collectors,
            degree=self._degree,
            queue_size=self._queue_size,
            updates_per_collection=self._per_collection,
            replay_ratio=self._replay_ratio,
            replays=self._parts["buffer"] is not None,
            async_eval=self._async_eval,
            sync_interval=self._sync_interval,
            max_env_steps=max_env_steps,
            max_updates=max_updates,
        )

    def run(self, *, max_env_step: int | None = None, max_train_iter: int | None = None) -> Result:
        """Collect and train until a limit is reached or an evaluation says stop.

        Limits are reached by whole rounds, and what is collected by then is trained on.
        `coordinator` can be asked meanwhile, from a call of any part in this process. Versions
        count from 0 in each run; objects go on as they are, and factories make new ones.

        Raises:
            ConfigError: A part that a factory made lacks a method, or a run is going on already;
                nothing was collected then.
            NodeFailed: A part raised (its traceback is in the message, the error is the cause), was
                killed, or did not come back in time. Inline the error itself.
            KeyboardInterrupt: Ctrl-C; threads and processes are ended first.
        """
        if max_env_step is None and max_train_iter is None:
            raise ConfigError("a run needs an end; give max_env_step or max_train_iter")
        check_least(("max_env_step", max_env_step, 1), ("max_train_iter", max_train_iter, 1))
        if not self._running.acquire(blocking=False):
            raise ConfigError(
                "run() of this trainer is going on already, and its parts work for one run at a "
                "time. Wait for it, or make another AsyncTrainer of other objects."
            )
        try:
            return self._run(max_env_step, max_train_iter)
        except BaseException as error:
            raise without_ours(error)  # noqa: B904 - it is the same one
        finally:
            self._running.release()

    def _run(self, max_env_step: int | None, max_train_iter: int | None) -> Result:
        coordinator = self._begin(max_env_step, max_train_iter)
        self.coordinator = Questions(coordinator, self._changed)
        with self._team() as team:
            if self._backend == "inline":
                run_inline(coordinator, team, self._changed)
            else:
                Crew(coordinator, team, self._changed, self._timeout_s).run()
            weights, _ = team.learning.weights()
            if weights is not None and self._backend == "process":
                weights = Weights(weights.version, cast("Parcel", weights.state).read())
        return Result(
            policy=weights,
            stats=coordinator.statistics(),
            chosen_degree=coordinator.degree,
            why=coordinator.why,
            evaluations=tuple(team.evaluations),
            decisions=tuple(coordinator.decisions),
        )

    # --- what is refused ---------------------------------------------------------------------

    def _check_parts(self) -> None:
        asks, attends = self._should_eval is not None, self._attend is not _nothing
        for name, said in (("should_eval", asks), ("on_evaluation", attends)):
            if said and self._parts["evaluator"] is None:
                raise ConfigError(
                    f"{name} is about evaluations, and there is no evaluator: nothing would be "
                    f"evaluated. Give evaluator=..., or leave {name} out."
                )
        for part, given in self._parts.items():
            if given is not None:
                self._check_part(part, given)
        learner, buffer = self._parts["learner"], self._parts["buffer"]
        made_later = is_factory(learner, "learner") or is_factory(buffer, "buffer")
        if self._reanalyze is not None and not made_later:
            reanalyzing(learner, buffer)

    def _check_part(self, part: Part, given: Host) -> None:
        if is_factory(given, part):
            check_factory(given, part)
            return
        if part in ("collector", "evaluator") and self._backend == "process":
            raise ConfigError(
                f"backend 'process' makes the {part} in a process of its own; got an object, "
                f"{type(given).__qualname__!r}. Give a function fn(rank, seed) that makes one, or "
                "take backend 'thread'."
            )
        if part == "collector" and self._collectors > 1:
            raise ConfigError(
                f"num_collectors is {self._collectors}, and one object can't collect twice at a "
                "time. Give a function fn(rank, seed) that makes a collector."
            )
        check(given, part, f"the {part}", self._further(part))

    def _further(self, part: Part) -> list[tuple[str, str]]:
        """The method that a part needs because of how it is run, with the reason."""
        apart = self._backend == "process"
        ahead = self._backend == "thread" and self._degree != 0
        evaluates = self._backend == "thread" and self._async_eval
        why = "it is in a process of its own" if apart else "it acts while the learner trains"
        if (part == "collector" and (apart or ahead)) or (
            part == "evaluator" and (apart or evaluates)
        ):
            return [("load_weights", f"{why}, so it needs a model of its own")]
        evaluates &= self._parts["evaluator"] is not None
        if part == "learner" and (apart or ahead or evaluates or self._sync_interval > 1):
            return [("get_weights", "collectors or evaluator act with copies of its model")]
        return []

    # --- what is made ------------------------------------------------------------------------

    def _made(self, part: Part, rank: int = 0) -> Host:
        given = self._parts[part]
        if given is None or not is_factory(given, part):
            return given
        host = given(rank, self._seed_of(part, rank))
        check(host, part, f"the {part} that its factory made", self._further(part))
        return host

    def _seed_of(self, part: Part, rank: int) -> int:
        return draw_seed(self._seed, Role.HOST, _NUMBERS[part], rank)

    @contextlib.contextmanager
    def _team(self) -> Iterator[Team]:
        """All parts, made and checked, while the run goes on."""
        if self._backend != "process":
            # Most learners give weights that they change; in one thread they are loaded before.
            learning = self._learning(_same if self._backend == "inline" else copy.deepcopy)
            collectors = [Collecting(self._made("collector", k)) for k in range(self._collectors)]
            host = self._made("evaluator")
            evaluator = None if host is None else Evaluating(host)
            asks: Callable[[int], bool] = getattr(host, "should_eval", _always)
            asks = self._should_eval or asks
            try:
                yield Team(
                    collectors, evaluator, learning, asks, lambda: None, self._tell, self._attend
                )
            finally:
                for each in (*collectors, evaluator):
                    if each is not None:
                        each.close()
            return
        household = Household()
        try:
            yield self._household_team(household, self._learning(household.weights.put))
            household.close(_GRACE_S)
        finally:
            household.close()

    def _learning(self, pack: Callable[[object], object]) -> Learning:
        return Learning(self._made("learner"), self._made("buffer"), pack, self._reanalyze)

    def _household_team(self, household: Household, learning: Learning) -> Team:
        def start(part: Part, name: str, rank: int) -> Remote:
            seed = self._seed_of(part, rank)
            return household.start(part, name, self._parts[part], rank, seed)

        collectors = [start("collector", f"collector-{k}", k) for k in range(self._collectors)]
        evaluator = None
        if self._parts["evaluator"] is not None:
            evaluator = start("evaluator", "evaluator", 0)
        for collector in collectors:
            collector.wait_until_ready(self._timeout_s)
        if evaluator is not None:
            names = evaluator.wait_until_ready(self._timeout_s)
            if "should_eval" in names and self._should_eval is None:
                raise ConfigError(
                    "the evaluator's should_eval() would be asked in a process of its own, before "
                    "every round. Give AsyncTrainer(should_eval=...), which is asked here."
                )
        asks = self._should_eval or _always
        end, tell = household.close, self._tell
        return Team(collectors, evaluator, learning, asks, end, tell, self._attend)


def _same(state: object) -> object:
    return state


def _always(train_iter: int) -> bool:
    return True


def _nothing(version: int, result: object) -> None:
    pass
