"""GOPS's buffers and algorithm as the learner's side of `AsyncTrainer`."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import torch

from fast_core.clients.gops.hosts import Columns, Samples, opened
from fast_core.clients.gops.records import Records
from fast_core.clients.gops.weights import Flat, Gops, Tensors


class Replay:
    """One buffer of GOPS's or several, filled and drawn from in turn.

    Attributes:
        env_steps: Steps that they were given.
    """

    def __init__(
        self,
        buffers: Sequence[Gops],
        streams: Sequence[Any],
        warm_size: int,
        batch_size: int,
        records: Records,
    ) -> None:
        """Take GOPS's objects.

        Args:
            buffers: They.
            streams: NumPy's random state of each, if there are several: what it draws with.
            warm_size: Steps that each must hold before the round that is trained on first.
            batch_size: Rows of a batch.
            records: Gets what samplers tell.
        """
        self._buffers, self._streams = buffers, [*streams]
        self._warm_size, self._batch_size = warm_size, batch_size
        self._records = records
        self._pushes, self._draws = (itertools.cycle(range(len(buffers))) for _ in range(2))
        self._warm = False
        self.env_steps = 0

    @property
    def memory_mb(self) -> float:
        """What GOPS says they take."""
        return float(sum(buffer.__get_RAM__() for buffer in self._buffers))

    def push(self, data: Samples | Columns) -> None:
        """Add what a round of one sampler gave."""
        # As with GOPS a round of its own comes between the last to warm up and the first update.
        warm = self._warm or all(buffer.size >= self._warm_size for buffer in self._buffers)
        got = opened(data)
        for batch in got.batches:
            self._buffers[next(self._pushes)].add_batch(batch)
        self.env_steps += got.env_steps
        if warm:
            self._warm = True
            self._records.sampled(got.figures)

    def is_trainable(self) -> bool:
        """Whether they are warm."""
        return self._warm

    def sample(self) -> Any:
        """A batch of the next one, as it draws."""
        turn = next(self._draws)
        if not self._streams:
            return self._buffers[turn].sample_batch(self._batch_size)
        np.random.set_state(self._streams[turn])  # noqa: NPY002
        batch = self._buffers[turn].sample_batch(self._batch_size)
        self._streams[turn] = np.random.get_state()  # noqa: NPY002
        return batch

    def update(self, rows: Any, priorities: Any) -> None:
        """Tell new priorities of the last batch; there is one buffer then."""
        self._buffers[0].update_batch(rows, priorities)


class OwnSamples:
    """Instead of a buffer: the samples of all samplers' round, for one update.

    Attributes:
        env_steps: Steps that came through.
        memory_mb: None, since nothing is kept.
    """

    memory_mb = None

    def __init__(self, records: Records) -> None:
        """Give what samplers tell to ``records``."""
        self._records = records
        self._batches: list[Any] = []
        self.env_steps = 0

    def push(self, data: Samples | Columns) -> None:
        """Add what a round of one sampler gave."""
        got = opened(data)
        self._batches += got.batches
        self.env_steps += got.env_steps
        self._records.sampled(got.figures)

    def sample(self) -> Any:
        """All of it, joined as it came: at degree 0 in the order of samplers."""
        batches, self._batches = self._batches, []
        if len(batches) == 1:
            return batches[0]
        return {
            name: torch.cat([batch[name] for batch in batches])
            for name, value in batches[0].items()
            if value is not None
        }


class Run(Protocol):
    """What follows an update, and how many there are to be."""

    iteration: int
    max_iteration: int

    def after_update(self, told: Any) -> None:
        """Write, save and evaluate as it is due; ``iteration`` is still that of the update."""

    def interrupt(self) -> None:
        """Have an update that waits for other processes come back."""


class Learner:
    """GOPS's algorithm."""

    def __init__(
        self,
        alg: Gops,
        run: Run,
        *,
        prioritized: Callable[[Any, Any], None] | None,
        cuda: bool,
        training: Callable[[], Any] = contextlib.nullcontext,
        part: str | None = None,
        step: Callable[[Gops, int, Callable[[], Any]], list[Any]] | None = None,
        sample: Callable[[], Any] | None = None,
    ) -> None:
        """Take it.

        Args:
            alg: It.
            run: Counts its updates.
            prioritized: Takes rows and priorities, where it tells them.
            cuda: Whether batches go to the GPU.
            training: Gives the context in which it trains.
            part: What of its networks is published for samplers in other processes; None: nothing.
            step: Takes a step with what copies of the algorithm compute: a method of `Optimizers`.
                None: the algorithm does all.
            sample: Draws a further batch for them, since several are computed side by side.
        """
        self._alg, self._run = alg, run
        self._prioritized, self._cuda, self._training = prioritized, cuda, training
        self._step, self._sample = step, sample
        if part is not None:
            self.get_weights: Callable[[], Flat] = Tensors(alg.networks, part).flat

    def train(self, batch: Any) -> None:
        """One update; none beyond the last that GOPS would make."""
        run = self._run
        if run.iteration >= run.max_iteration:
            return
        told = self.update(batch)
        run.after_update(told)
        run.iteration += 1

    def interrupt(self) -> None:
        """Come back soon, since the run ends early."""
        self._run.interrupt()

    def update(self, batch: Any) -> Any:
        """Make it, and give its figures; of several copies the last one's."""
        if self._step is not None and self._sample is not None:
            given = itertools.chain([batch], iter(self._sample, None))
            told = self._step(self._alg, self._run.iteration, lambda: next(given))
            return [self.figures(each) for each in told][-1]
        if self._cuda:
            for name, value in batch.items():
                batch[name] = value.cuda()
        networks = self._alg.networks
        with self._training():
            networks.train()
            told = self.figures(self._alg.local_update(batch, self._run.iteration))
            networks.eval()
        return told

    def figures(self, told: Any) -> Any:
        """What an update told, but for priorities, which go to the buffer."""
        if self._prioritized is None:
            return told
        told, rows, priorities = told
        self._prioritized(rows, priorities)
        return told
