"""`FastLoopTrainer`: what stands in GOPS's list of trainers under its own trainers' names."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import os
import random
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import torch

from fast_core.clients.gops.evaluation import Evaluations
from fast_core.clients.gops.hosts import Collector, Work, make_collector
from fast_core.clients.gops.learning import Learner, OwnSamples, Replay
from fast_core.clients.gops.optimizers import GradientAges, Optimizers, asked_copies
from fast_core.clients.gops.options import AVERAGES, Options
from fast_core.clients.gops.ray_stand_in import Actor, Recipe
from fast_core.clients.gops.records import Records
from fast_core.clients.gops.weights import Gops, acting_part
from fast_core.errors import ConfigError
from fast_core.integrations.trainer import AsyncTrainer, Result

_GRACE_S = 5.0  # that the evaluator gets to leave by itself
_MOST_THREADS = 4  # of a learner whose script sets none, as with GOPS


class FastLoopTrainer:
    """Trains with GOPS's algorithm, samplers, buffers and evaluator under FastLoop's scheduler.

    Attributes:
        networks: The algorithm's networks.
        iteration: Updates so far.
        max_iteration: Those at which `train` ends.
        sample_interval: Updates for each call of a sampler's `sample`.
        result: How the last `train` went: `AsyncTrainer`'s result.
        gradient_ages: With several algorithms, how old the gradients of the last `train` were.
    """

    def __init__(
        self,
        alg: Gops,
        sampler: Gops,
        buffer: Gops,
        evaluator: Gops,
        *,
        defaults: Options | None = None,
        **kwargs: Any,
    ) -> None:
        """Take GOPS's objects, or the handles that its functions gave.

        Args:
            alg: Of `create_alg`.
            sampler: Of `create_sampler`.
            buffer: Of `create_buffer`; None for algorithms that learn from their own samples.
            evaluator: Of `create_evaluator`.
            defaults: Options that hold unless ``kwargs`` has others.
            **kwargs: GOPS's arguments, and those of `Options`.

        Raises:
            ConfigError: Something is asked for that isn't supported.
        """
        self._given, self._name = kwargs, str(kwargs["trainer"])
        self._options = (defaults or Options()).updated(kwargs)
        self._degree = self._options.degree(self._name)
        self._inline = self._options.is_inline(self._name)
        self._averages = self._name in AVERAGES
        self._replays = buffer is not None
        self._prioritized = kwargs.get("buffer_name") == "prioritized_replay_buffer"
        self._copies = asked_copies(alg, self._name, kwargs.get("num_algs"), self._options)
        self._refuse(sampler, evaluator)
        buffers, streams = _made_buffers(buffer)
        self._alg = _made(alg)
        _go_on_with(streams)
        self._samplers = sampler if isinstance(sampler, list) else [sampler]
        self._evaluator: Recipe = evaluator.recipe
        self.networks = self._alg.networks
        if kwargs["ini_network_dir"] is not None:
            self.networks.load_state_dict(torch.load(kwargs["ini_network_dir"]))
        self._cuda = bool(kwargs["use_gpu"])
        batches = len(self._copies) if self._copies and self._averages else 1
        rows = kwargs.get("replay_batch_size")
        self._rows_of_step = None if rows is None else rows * batches
        self.sample_interval = kwargs.get("sample_interval", 1) if self._replays else 1
        self.max_iteration = kwargs["max_iteration"]
        self.log_save_interval = kwargs["log_save_interval"]
        self.apprfunc_save_interval = kwargs["apprfunc_save_interval"]
        self.eval_interval = kwargs["eval_interval"]
        self.iteration = self.last_eval_iteration = 0
        self.result: Result | None = None
        self._evaluations: Evaluations | None = None
        self._optimizers: Optimizers | None = None
        self.gradient_ages: GradientAges | None = None
        tags = importlib.import_module("gops.utils.tensorboard_setup").tb_tags
        averages = importlib.import_module("gops.utils.log_data").LogData()
        self._records = Records(kwargs["save_folder"], tags, averages)
        self._store: Replay | OwnSamples = OwnSamples(self._records)
        if self._replays:
            warm, rows = kwargs["buffer_warm_size"], kwargs["replay_batch_size"]
            several = streams if len(buffers) > 1 else []
            self._store = Replay(buffers, several, warm, rows, self._records)

    def train(self) -> None:
        """Sample and update until ``max_iteration``.

        Raises:
            NodeFailed: Something raised in the process of a sampler, of an algorithm's copy or of
                the evaluator, or that died, or didn't come back.
            KeyboardInterrupt: Ctrl-C; processes are ended first.
        """
        self._records.begin()
        threads = torch.get_num_threads()
        try:
            if self.iteration + self.eval_interval < self.max_iteration:
                self._evaluations = Evaluations(self._evaluator, self._options.work_timeout_s)
            if self.iteration < self.max_iteration:
                self._start_optimizers()
                self.result = self._loop().run(max_train_iter=self.max_iteration - self.iteration)
            if self._evaluations is not None:
                self._take_evaluation(wait=True)
                self._evaluations.close(_GRACE_S)
            if self._optimizers is not None:
                self._optimizers.close(_GRACE_S)
            self.save_apprfunc()
        finally:
            self.interrupt()
            if self._optimizers is not None:
                self.gradient_ages = self._optimizers.ages
            self._evaluations = self._optimizers = None
            self._records.writer.flush()
            torch.set_num_threads(threads)

    def interrupt(self) -> None:
        """End the processes of evaluator and copies of the algorithm; from any thread."""
        for each in (self._evaluations, self._optimizers):
            if each is not None:
                each.close()

    def _start_optimizers(self) -> None:
        if not self._copies:
            return
        options = self._options
        self._optimizers = Optimizers(
            self._copies,
            bound=options.max_gradient_staleness,
            cuda=self._cuda,
            timeout_s=options.work_timeout_s,
        )

    def save_apprfunc(self) -> None:
        """Save the networks of now under GOPS's name for them."""
        self._records.networks(self.iteration, self.networks)

    # --- after each update -------------------------------------------------------------------

    def after_update(self, told: Any) -> None:
        """Write, save and evaluate as it is due; for the learner."""
        if self.iteration % self.log_save_interval == 0:
            self._records.figures(self.iteration, told)
        if self.iteration % self.apprfunc_save_interval == 0:
            self.save_apprfunc()
        evaluations = self._evaluations
        if evaluations is None:
            return
        self._take_evaluation(wait=False)
        due = self.iteration - self.last_eval_iteration >= self.eval_interval
        if due and not evaluations.running:
            self.last_eval_iteration = self.iteration
            evaluations.begin(self.iteration, self._store.env_steps, self.networks)
            if not self._options.enable_async_eval:
                self._take_evaluation(wait=True)

    def _take_evaluation(self, *, wait: bool) -> None:
        assert self._evaluations is not None
        one = self._evaluations.result(wait=wait)
        if one is not None:
            self._records.evaluated(
                one,
                batch_size=self._rows_of_step,
                memory_mb=self._store.memory_mb,
                keeps_best=one.iteration >= self.max_iteration / 5,
            )

    # --- the loop ----------------------------------------------------------------------------

    def _loop(self) -> AsyncTrainer:
        options, degree = self._options, self._degree
        size = self._given["sample_batch_size"]
        samples = options.samples(degree, size) if self._replays else 1
        count = 1 if self._inline else len(self._samplers)
        updates: dict[str, Any] = {"update_per_collect": samples * self.sample_interval}
        if not self._replays:  # one for the round of all samplers
            actors = [each for each in self._samplers if isinstance(each, Actor)]
            rows = sum(each.recipe.keywords["sample_batch_size"] for each in actors)
            updates = {"replay_ratio": Fraction(1, size if self._inline else rows)}
        trainer = functools.partial(
            AsyncTrainer,
            buffer=self._store,
            off_policy_degree=degree,
            num_collectors=count,
            work_timeout_s=options.work_timeout_s,
            data_queue_size=options.data_queue_size,
            **updates,
        )
        method = "sample" if self._replays else "sample_with_replay_format"
        work = Work(method=method, calls=samples)
        if self._inline:
            with _random_kept():  # the streams of algorithm and buffers are set already
                sampler = self._samplers[0] = _made(self._samplers[0])
            sampler.networks = self.networks
            return trainer(
                collector=Collector(sampler, work, self._on("cpu") or contextlib.nullcontext),
                learner=self._learner(None, self._on("cuda") if not self._replays else None),
                backend="inline",
            )
        recipes = [sampler.recipe for sampler in self._samplers]
        part = acting_part(self.networks, recipes[0].creator)
        kept = tuple(self._given.get("additional_info", {}))
        work = dataclasses.replace(work, kept=kept, part=part)
        self._set_threads(count + len(self._copies))
        return trainer(
            collector=functools.partial(make_collector, recipes, work),
            learner=self._learner(part, None),
            backend="process",
        )

    def _learner(self, part: str | None, training: Callable[[], Any] | None) -> Learner:
        replay = self._store if isinstance(self._store, Replay) else None
        step, several = None, self._optimizers
        if several is not None:
            step = several.averaged_step if self._averages else several.step
        on_cuda = self._cuda and several is None  # what only takes steps stays, as in GOPS
        if on_cuda and training is None:
            self.networks.cuda()
        if self._options.fused_optimizers:
            _fuse(self.networks)
        return Learner(
            self._alg,
            self,
            prioritized=replay.update if replay is not None and self._prioritized else None,
            cuda=on_cuda,
            training=training or contextlib.nullcontext,
            part=part,
            step=step,
            sample=None if replay is None else replay.sample,
        )

    def _on(self, device: str) -> Callable[[], Any] | None:
        """A context with the networks there, where they may be elsewhere."""
        if not self._cuda:
            return None
        moved = importlib.import_module("gops.utils.common_utils").ModuleOnDevice
        return functools.partial(moved, self.networks, device)

    def _set_threads(self, others: int) -> None:
        """Leave cores to other processes, unless the script says how many threads train."""
        if self._given.get("num_threads_main") is None:
            cores = len(os.sched_getaffinity(0)) - others
            torch.set_num_threads(min(max(cores, 1), _MOST_THREADS))

    # --- what is refused ---------------------------------------------------------------------

    def _refuse(self, sampler: Gops, evaluator: Gops) -> None:
        given = self._given
        if not isinstance(evaluator, Actor):
            raise ConfigError(
                f"the evaluator of {self._name} must be what create_evaluator gives; got "
                f"{type(evaluator).__qualname__!r}. Call install() before anything is imported "
                "from gops.create_pkg."
            )
        if self._prioritized and given.get("num_buffers", 1) != 1:
            raise ConfigError(
                "num_buffers must be 1 with prioritized_replay_buffer, as in GOPS; got "
                f"{given['num_buffers']!r}. Take replay_buffer, or one buffer."
            )
        samplers = sampler if isinstance(sampler, list) else [sampler]
        if not self._inline and not all(isinstance(each, Actor) for each in samplers):
            raise ConfigError(
                f"the sampler of {self._name} was made in this process, but off_policy_degree "
                f"{self._degree} needs processes. Give create_sampler the same off_policy_degree "
                "as create_trainer, or give it to install()."
            )


class OwnSamplesTrainer(FastLoopTrainer):
    """The same for trainers that GOPS makes without a buffer."""

    def __init__(self, alg: Gops, sampler: Gops, evaluator: Gops, **kwargs: Any) -> None:
        """As of `FastLoopTrainer`."""
        super().__init__(alg, sampler, None, evaluator, **kwargs)


def _made(given: Gops) -> Gops:
    """The object, of a list of one too."""
    one = given[0] if isinstance(given, list) else given
    return one.recipe.make() if isinstance(one, Actor) else one


def _made_buffers(given: Gops) -> tuple[list[Gops], list[Any]]:
    """Buffers, and the random state that each was given by GOPS where it gives one."""
    buffers, streams = [], []
    for each in given if isinstance(given, list) else [given]:
        buffers.append(_made(each))
        if isinstance(each, Actor):
            streams.append(np.random.get_state())  # noqa: NPY002
    return buffers, streams


def _go_on_with(streams: Sequence[Any]) -> None:
    """Draw batches with the buffer's random numbers; the algorithm's are Torch's."""
    if streams:
        np.random.set_state(streams[0])  # noqa: NPY002


@contextlib.contextmanager
def _random_kept() -> Iterator[None]:
    """Leave all random numbers of this process as they are, where GOPS seeds them anew."""
    before = random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002
    try:
        yield
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])  # noqa: NPY002
        torch.set_rng_state(before[2])


def _fuse(networks: Gops) -> None:
    for optimizer in vars(networks).values():
        if isinstance(optimizer, torch.optim.Adam | torch.optim.AdamW):
            for group in optimizer.param_groups:
                group["fused"] = True
