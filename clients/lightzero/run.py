"""One training run: LightZero's parts, made and put under `AsyncTrainer`."""

from __future__ import annotations

import contextlib
import copy
import functools
import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from fast_core.clients.lightzero.hosts import (
    Begun,
    Buffer,
    Collector,
    Evaluated,
    Evaluator,
    Learner,
    Place,
    PublishingLearner,
)
from fast_core.clients.lightzero.library import Its, LightZero, Part
from fast_core.clients.lightzero.options import Options
from fast_core.clients.lightzero.recorder import replay
from fast_core.clients.lightzero.snapshots import Snapshots
from fast_core.errors import ConfigError
from fast_core.integrations.trainer import AsyncTrainer, Result

BEST = "ckpt_best.pth.tar"


@dataclass(frozen=True)
class Limits:
    """A run ends with the first that is reached."""

    max_env_step: int
    max_train_iter: int

    def after(self, begun: Begun) -> dict[str, int]:
        """What `AsyncTrainer.run` is given; one round is trained in any case."""
        return {
            "max_env_step": max(self.max_env_step - begun.envstep, 1),
            "max_train_iter": max(self.max_train_iter - begun.train_iter, 1),
        }


@dataclass
class Bench:
    """What the learner's side works with.

    Attributes:
        library: Where the parts come from.
        cfg: The whole configuration.
        policy: The one that learns.
        writer: Of TensorBoard's files.
        learner: LightZero's learner.
        buffer: LightZero's game buffer.
        host: The same for `AsyncTrainer`.
        begun: Where the run begins.
    """

    library: LightZero
    cfg: Its
    policy: Its
    writer: Its
    learner: Its
    buffer: Its
    host: Buffer = field(init=False)
    begun: Begun = field(init=False)

    def __post_init__(self) -> None:
        """Load what `load_ckpt_before_run` names, as its own loop does at this point."""
        self.learner.call_hook("before_run")
        self.begun = Begun(self.learner.train_iter, 0)
        its = self.buffer, self.policy, self.learner, self.writer
        self.host = Buffer(self.library, self.cfg, *its)


def train(
    library: LightZero,
    cfg: Its,
    options: Options,
    *,
    model: Its = None,
    model_path: str | None = None,
    limits: Limits,
) -> Its:
    """Train as ``cfg`` says.

    Args:
        library: Where the parts come from.
        cfg: The whole configuration.
        options: How.
        model: What the policy is given as its model; None makes one.
        model_path: A checkpoint to begin with.
        limits: When to end.

    Returns:
        The policy that learned.

    Raises:
        NodeFailed: A collector, the evaluator or the learner raised, or died.
    """
    if options.is_own_loop:
        return _train_in_order(library, cfg, model, model_path, limits)
    threads = _threads(options.num_collectors)
    before = library.set_threads(threads)
    try:
        return _train_asynchronously(library, cfg, options, model, model_path, limits, threads)
    finally:
        library.set_threads(before)


def _train_asynchronously(
    library: LightZero,
    cfg: Its,
    options: Options,
    model: Its,
    model_path: str | None,
    limits: Limits,
    threads: int,
) -> Its:
    copied = copy.deepcopy(model)  # before anybody learns with it
    library.seed(cfg, cfg.seed)
    bench = _bench(library, cfg, model, model_path)
    with _hosts(bench, options, copied, threads) as (collector, evaluator):
        snapshots = Snapshots(lambda: _state(bench))
        trainer = AsyncTrainer(
            collector=collector,
            evaluator=evaluator,
            learner=PublishingLearner(cfg, bench.learner, bench.host, bench.policy, snapshots),
            buffer=bench.host,
            backend=options.async_backend,
            off_policy_degree=options.off_policy_degree,
            data_queue_size=options.data_queue_size,
            enable_async_eval=options.enable_async_eval,
            num_collectors=options.num_collectors,
            weight_sync_interval=options.weight_sync_interval,
            should_eval=_Schedule(bench, snapshots),
            on_evaluation=functools.partial(attend, bench, snapshots),
            seed=cfg.seed,
            work_timeout_s=None,  # games may be as long as they like
            debug_log=bench.learner.info if options.enable_async_debug_log else False,
        )
        snapshots.standing = lambda: trainer.coordinator.evaluation
        result = trainer.run(**limits.after(bench.begun))
    bench.learner.call_hook("after_run")
    bench.learner.info(summary(result))
    return bench.policy


def summary(result: Result) -> str:
    """What a run came to, in a few lines."""
    return f"asynchronous training ended: {result.why}\n{result.stats.table()}"


def _bench(library: LightZero, cfg: Its, model: Its, model_path: str | None) -> Bench:
    policy = library.policy(cfg, model)
    if model_path is not None:
        library.load(cfg, policy, model_path)
    writer = library.writer(cfg)
    learner = library.learner(cfg, policy, writer)
    return Bench(library, cfg, policy, writer, learner, library.buffer(cfg))


def _train_in_order(
    library: LightZero, cfg: Its, model: Its, model_path: str | None, limits: Limits
) -> Its:
    """LightZero's own loop, call for call."""
    collecting = library.environments(cfg, "collector", cfg.seed)
    evaluating = library.environments(cfg, "evaluator", cfg.seed)
    library.seed(cfg, cfg.seed)
    bench = _bench(library, cfg, model, model_path)
    policy, learner, writer = bench.policy, bench.learner, bench.writer
    collector = library.collector(cfg, policy, collecting, writer, 0)
    evaluator = library.evaluator(cfg, policy, evaluating, writer)
    if cfg.policy.random_collect_episode_num > 0:
        bench.buffer.push_game_segments(
            library.collect_at_random(cfg, policy, collector, collecting)
        )
        bench.buffer.remove_oldest_data_to_fit()
        bench.host.envstep = collector.envstep
    bench.begun = Begun(learner.train_iter, collector.envstep)
    if library.evaluates_first:
        evaluator.eval(learner.save_checkpoint, learner.train_iter, collector.envstep)
    AsyncTrainer(
        collector=Collector(library, cfg, collector, bench.begun, None),
        evaluator=Evaluator(evaluator, learner.save_checkpoint, bench.begun, None),
        learner=Learner(cfg, learner, bench.host),
        buffer=bench.host,
        backend="inline",
        should_eval=_OwnSchedule(bench, evaluator),
    ).run(**limits.after(bench.begun))
    learner.call_hook("after_run")
    return policy


class _OwnSchedule:
    """Asks LightZero's evaluator before each round whether to evaluate."""

    def __init__(self, bench: Bench, evaluator: Its) -> None:
        """Ask ``evaluator``."""
        self._bench, self._evaluator = bench, evaluator

    def __call__(self, updates: int) -> bool:
        bench = self._bench
        train_iter = bench.begun.train_iter + updates
        bench.library.log_buffer(train_iter, bench.buffer, bench.writer)
        return bool(self._evaluator.should_eval(train_iter))


class _Schedule:
    """Says so by LightZero's rule where no evaluator is, and evaluates first, too."""

    def __init__(self, bench: Bench, snapshots: Snapshots) -> None:
        """``snapshots`` is told what will be evaluated."""
        self._bench, self._snapshots = bench, snapshots
        self._first = bench.library.evaluates_first
        self._last = 0

    def __call__(self, updates: int) -> bool:
        bench = self._bench
        train_iter = bench.begun.train_iter + updates
        bench.library.log_buffer(train_iter, bench.buffer, bench.writer)
        due = self._first or train_iter - self._last >= bench.cfg.policy.eval_freq
        self._first = False
        if due:
            self._last = train_iter
            self._snapshots.want(updates)
        return due


@contextlib.contextmanager
def _hosts(bench: Bench, options: Options, model: Its, threads: int) -> Iterator[tuple[Any, Any]]:
    """Factories of collectors and evaluator; what they make in this process is closed."""
    place = Place(bench.library, bench.cfg, model, bench.begun, threads, None)
    if options.async_backend == "process":
        yield place.collector, place.evaluator
        return
    made: list[Any] = []

    def here(part: Part, rank: int, seed: int) -> Any:
        own = copy.deepcopy(model)
        near = replace(place, model=own, threads=None, writer=bench.writer)
        made.append(getattr(near, part)(rank, seed))
        return made[-1]

    try:
        yield functools.partial(here, "collector"), functools.partial(here, "evaluator")
    finally:
        for host in made:
            host.close()


def attend(bench: Bench, snapshots: Snapshots, version: int, result: Any) -> None:
    """Save the best, which is what was evaluated, and write what the evaluator wrote."""
    if result is None:
        return
    evaluated: Evaluated = result[1]
    replay(evaluated.written, bench.writer)
    if evaluated.is_best:
        state = snapshots.of(version)
        path = f"./{bench.cfg.exp_name}/ckpt/{BEST}"
        last = {"last_iter": evaluated.train_iter, "last_step": evaluated.envstep}
        bench.library.save(path, {**state, **last})
        bench.learner.info(f"learner save ckpt in {path} (of iteration {evaluated.train_iter})")


def _state(bench: Bench) -> Its:
    return copy.deepcopy(bench.policy.learn_mode.state_dict())


def _threads(collectors: int) -> int:
    """Of torch, for the learner and for each of the others: the cores, divided."""
    return max(len(os.sched_getaffinity(0)) // (1 + collectors), 1)


def whole(name: str, value: object) -> int:
    """A limit, which LightZero's scripts write as 1e5, too.

    Raises:
        ConfigError: It is no number, or below 1.
    """
    if value is None:
        return 10**10
    if not isinstance(value, int | float) or isinstance(value, bool) or not value >= 1:
        raise ConfigError(f"{name} must be a number, at least 1; got {value!r}")
    return int(value)
