"""GOPS's objects as parts of `AsyncTrainer`, each doing its own work unchanged."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from fast_core.clients.gops.ray_stand_in import Recipe
from fast_core.clients.gops.weights import Gops, Tensors

Row = tuple[Any, ...]  # an Experience: obs, action, reward, done, info, next_obs, next_info, logp
Columns = dict[str, Any]
_FIELDS = ("obs", "action", "reward", "done", "info", "next_obs", "next_info", "logp")
_FLAGS = ("TimeLimit.truncated", "constraint")  # of an info, beside what the buffer keeps


@dataclass
class Samples:
    """What one round of a sampler gave.

    Attributes:
        batches: What each call of `sample` returned: experiences, or for algorithms that learn
            from policies' own samples, a dictionary of tensors.
        figures: The figures that each call returned.
        env_steps: How many steps that is.
    """

    batches: list[Any] = field(default_factory=list)
    figures: list[dict[str, float]] = field(default_factory=list)
    env_steps: int = 0


# --- samplers ------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Work:
    """What a sampler is for.

    Attributes:
        method: Which of its methods gives samples.
        calls: How often it is called in a round.
        kept: What the buffer keeps of infos.
        part: Which of its networks act: the name of a submodule, empty for all.
    """

    method: str
    calls: int
    kept: tuple[str, ...] = ()
    part: str = ""


class Collector:
    """A sampler in the learner's process, acting with the learner's own networks."""

    def __init__(
        self,
        sampler: Gops,
        work: Work,
        sampling: Callable[[], Any] = contextlib.nullcontext,
    ) -> None:
        """Call it inside the context that ``sampling`` gives."""
        self._sample = getattr(sampler, work.method)
        self._rows, self._calls = sampler.sample_batch_size, work.calls
        self._sampling = sampling

    def collect(self) -> Samples:
        """One round."""
        got = Samples()
        for _ in range(self._calls):
            with self._sampling():
                batch, figures = self._sample()
            got.batches.append(batch)
            got.figures.append(figures)
            got.env_steps += self._rows
        return got

    def count_env_steps(self, got: Samples) -> int:
        """Of one round."""
        return got.env_steps


class RemoteCollector:
    """A sampler in a process of its own; what it gives travels as a few arrays."""

    def __init__(self, sampler: Gops, work: Work) -> None:
        """Have it do the work."""
        self._collector, self._kept = Collector(sampler, work), work.kept
        self._weights = Tensors(sampler.networks, work.part)

    def collect(self) -> Columns:
        """One round as columns."""
        got = self._collector.collect()
        batches = got.batches
        columns: Columns = {"figures": got.figures, "env_steps": got.env_steps}
        if isinstance(batches[0], Mapping):
            columns["tensors"] = [
                {name: value.numpy() for name, value in batch.items()} for batch in batches
            ]
        else:
            rows = [row for batch in batches for row in batch]
            columns["rows"] = pack(rows, self._kept)
        return columns

    def count_env_steps(self, columns: Columns) -> int:
        """Of one round."""
        return int(columns["env_steps"])

    def load_weights(self, state: Mapping[str, Any], version: int) -> None:
        """Act with these from now on."""
        self._weights.load(state)


def make_collector(recipes: Sequence[Recipe], work: Work, rank: int, seed: int) -> RemoteCollector:
    """Make the sampler of a rank, in its process; GOPS derives its seed, not ``seed``."""
    prepare_process()
    return RemoteCollector(recipes[rank].make(), work)


def prepare_process() -> None:
    """One thread, as an actor of Ray's has; the cores are for the learner."""
    torch.set_num_threads(1)


def pack(rows: Sequence[Row], kept: Sequence[str]) -> Columns:
    """Rows as columns: arrays [N, ...]; what has no fixed shape stays a list.

    What only some infos have is the rows that have it, and a column of as many.
    """
    columns: Columns = {}
    for name, values in zip(_FIELDS, zip(*rows, strict=True), strict=True):
        if name in ("info", "next_info"):
            for key in dict.fromkeys((*kept, *_FLAGS)):
                having = [row for row, info in enumerate(values) if key in info]
                if having:
                    whole = None if len(having) == len(values) else np.array(having)
                    column = _column([values[row][key] for row in having])
                    columns[f"{name}.{key}"] = whole, column
        else:
            columns[name] = _column(values)
    return columns


def _column(values: Sequence[Any]) -> Any:
    # A `State` and its like are objects of GOPS's own, which NumPy would take for sequences.
    if not all(isinstance(value, np.ndarray | np.generic | int | float) for value in values):
        return list(values)
    try:
        column = np.array(values)
    except ValueError:  # of several shapes
        return list(values)
    return list(values) if column.dtype == object else column


def unpack(columns: Columns) -> list[Row]:
    """The rows again, as a buffer's `add_batch` takes them."""
    count = len(columns["obs"])
    return list(
        zip(
            *(
                _infos(columns, name, count) if name in ("info", "next_info") else columns[name]
                for name in _FIELDS
            ),
            strict=True,
        )
    )


def _infos(columns: Columns, name: str, count: int) -> list[dict[str, Any]]:
    start = f"{name}."
    infos: list[dict[str, Any]] = [{} for _ in range(count)]
    for key in filter(lambda key: key.startswith(start), columns):
        having, column = columns[key]
        for row, value in zip(range(count) if having is None else having, column, strict=True):
            infos[row][key.removeprefix(start)] = value
    return infos


def opened(data: Samples | Columns) -> Samples:
    """What a collector gave, from whichever process."""
    if isinstance(data, Samples):
        return data
    if "rows" in data:
        batches: list[Any] = [unpack(data["rows"])]
    else:
        batches = [
            {name: torch.as_tensor(value) for name, value in batch.items()}
            for batch in data["tensors"]
        ]
    return Samples(batches, data["figures"], data["env_steps"])
