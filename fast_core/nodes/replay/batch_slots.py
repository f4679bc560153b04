"""Both ends of the batch slots: what the replay node draws, and what the optimizers answer.

An optimizer has ``replay.slots`` places in shared memory, each a pair of mailboxes: the batch,
written by the replay node, and the result, written by the optimizer. Batch ``n``, from 1, lies in
place ``(n - 1) % slots``. It is the optimizer's from the moment its number is there until the
result bears the same number; what the result says is the replay node's until it fills the place
again. So neither waits for the other while there is a free place, and nothing is copied.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from types import MappingProxyType
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from fast_core.algorithm import Array, ReplayBatch, SequenceBatch
from fast_core.errors import ConfigError
from fast_core.memory import DrawnArrays, Mailbox, drawn_arrays
from fast_core.policy.checked import names
from fast_core.run.mail import Carried, Drawn, Learnt
from fast_core.run.memory import RunMemory
from fast_core.run.names import REPLAY
from fast_core.run.plan import RunPlan

UNSAID_LIMIT = 100  # batches at the beginning
NOTHING: Mapping[str, Array] = MappingProxyType({})


class BatchChain:
    """A digest of all batches that an optimizer was given, each after the one before.

    With it the digest of a learner covers the replay too: what it holds, draws and weighs.
    """

    def __init__(self, value: str = "") -> None:
        """Go on from ``value``."""
        self.value = value

    def add(self, box: Mailbox[Drawn]) -> None:
        """Count the batch in ``box`` in."""
        drawn = box.words
        sha = hashlib.sha256(f"{self.value} {drawn.rows} {drawn.env_steps}".encode())
        for name in box if drawn.rows else ():
            sha.update(box[name].tobytes())
        self.value = sha.hexdigest()


class BatchSlots:
    """An optimizer's end.

    Attributes:
        announce: Is given the batch after the one that `next` gives, where it is drawn already:
            the learner can begin to copy it to its device.
        version: Of the learner, whose words of a batch it is noted with.
        granted: Number of the last batch that may be taken before those before it are finished.

    Concurrency:
        The batch's number, loaded with acquire, pairs with the replay node's release store, so the
        arrays are whole. The result's number is stored with release after its rows.
    """

    def __init__(
        self, plan: RunPlan, memory: RunMemory, rank: int, chain: BatchChain | None = None
    ) -> None:
        """Attach to the slots of the optimizer ``rank``; nobody else may consume them.

        Every batch is added to ``chain`` when it is taken.
        """
        slots = range(plan.config.replay.slots)
        self._batches = [memory.batch(rank, slot) for slot in slots]
        self._results = [memory.result(rank, slot) for slot in slots]
        self._doorbell = memory.doorbell(REPLAY)
        self._views = [batch_views(box) for box in self._batches]
        self._progress = plan.config.progress
        self._nothing = [batch_views(box, rows=0) for box in self._batches]
        self._chain = chain
        self._awaits_errors = plan.config.replay.prioritized
        self._number = 1
        self._slot = 0
        self._open: deque[ReplayBatch] = deque()  # the oldest first
        self._announced: ReplayBatch | None = None
        self.announce: Callable[[ReplayBatch], None] | None = None
        self.version = self.granted = 0

    @property
    def number(self) -> int:
        """Number of the batch that `next` gives: one more than were finished."""
        return self._number

    @property
    def ready(self) -> bool:
        """Whether `next` gives a batch; to ask takes none, on which digests depend."""
        return bool(self._open) or self._drawn(0) is not None

    def next(self, ahead: int = 0) -> ReplayBatch | None:
        """The oldest batch that is not finished, or one so far behind it; None if it isn't drawn.

        The arrays are views of shared memory, valid until `finish`. A batch without rows stands
        for a step that is skipped, because nothing could be drawn.
        """
        while len(self._open) <= ahead:
            further = len(self._open)
            slot = self._drawn(further)
            if slot is None or (further and self._number + further > self.granted):
                return None
            if self._chain is not None:
                self._chain.add(self._batches[slot])
            self._open.append(self._announced or self._batch(slot))
            self._announced = None
            self._announce(further + 1)
        return self._open[ahead]

    def _drawn(self, further: int) -> int | None:
        """The slot of the batch so far behind the oldest; None if it isn't drawn."""
        slot = (self._slot + further) % len(self._batches)
        there = self._batches[slot].number() == self._number + further
        return slot if there else None

    def _announce(self, further: int) -> None:
        slot = None if self.announce is None else self._drawn(further)
        if slot is None or self.announce is None or not self._batches[slot].words.rows:
            return
        self._announced = self._batch(slot)
        self.announce(self._announced)

    def _batch(self, slot: int) -> ReplayBatch:
        rows, env_steps = self._batches[slot].words
        make = (self._views if rows else self._nothing)[slot]
        return make(env_steps=env_steps, progress=self._progress(env_steps))

    def rows(self) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Log and number of the first row of each window of the oldest open batch."""
        box = self._batches[self._slot]
        return box["log"], box["row"]

    def finish(self, priority: Array | None, extra: Mapping[str, Array] = NOTHING) -> None:
        """Give the batch back, with the absolute errors ``[N]`` of its rows or without.

        ``extra`` is what the learner says of them, as `UpdateReport.extra`.

        Raises:
            ConfigError: The errors have another shape, or there are never any although draws go by
                them, so the algorithm is at fault.
        """
        if self._awaits_errors:
            self._check_errors(priority)
        result = self._results[self._slot]
        stored = result["priority"]
        if priority is not None and np.shape(priority) != stored.shape:
            raise ConfigError(
                "update of the algorithm must report `priority` of shape "
                f"{stored.shape}, one absolute error for each row of the batch, or None; got shape "
                f"{np.shape(priority)}"
            )
        if priority is not None:
            stored[...] = priority
        if extra:
            self._store(extra, result)
        result.publish(self._number, Learnt(priority is not None, self.version if extra else -1))
        self._doorbell.ring()
        self._number += 1
        self._slot = (self._slot + 1) % len(self._batches)
        if self._open:
            self._open.popleft()

    def _store(self, extra: object, result: Mailbox[Learnt]) -> None:
        said = {name: result[name] for name in result if name not in ("priority", "mask")}
        if not isinstance(extra, Mapping) or extra.keys() != said.keys():
            raise ConfigError(
                "update of the algorithm must report in `extra` all columns that the learner "
                f"writes, as columns() says, or none: {', '.join(said) or 'there are none'}; got "
                f"{names(extra)}"
            )
        for name, stored in said.items():
            given = np.asarray(extra[name])
            if given.shape != stored.shape or not np.can_cast(given, stored.dtype, "same_kind"):
                raise ConfigError(
                    f"update of the algorithm must report `extra[{name!r}]` of shape "
                    f"{stored.shape} and dtype {stored.dtype}, a row for each of the batch; got "
                    f"shape {given.shape} of {given.dtype}"
                )
            stored[...] = given
        if "mask" in result:
            result["mask"][...] = self._batches[self._slot]["mask"]

    def _check_errors(self, priority: Array | None) -> None:
        # One by one they may be missing: a batch was empty, or its errors not finite.
        if priority is not None:
            self._awaits_errors = False
        elif self._number == UNSAID_LIMIT and self._batches[self._slot].words.rows:
            raise ConfigError(
                "replay.prioritized needs an algorithm that reports `priority`, one absolute error "
                f"for each row of the batch; update reported none for {UNSAID_LIMIT} batches. Set "
                "replay.prioritized to false, or report them"
            )


@dataclass(frozen=True)
class BatchResult:
    """What an optimizer answered to a batch.

    Attributes:
        log: ``[N]`` int32, which environment a window is of.
        row: ``[N]`` int64, number of its first row.
        error: ``[N]`` float32, its absolute error; empty where it has none.
        version: Of the learner that said something of them, -1 if it said nothing.
        extra: What it said, ``[N, ...]`` by name.
    """

    log: NDArray[np.int32]
    row: NDArray[np.int64]
    error: NDArray[np.float32]
    version: int = -1
    extra: Mapping[str, Array] = field(default_factory=dict)

    def copied(self) -> list[object]:
        """All of it, in private memory; the last two only where something was said."""
        copies: list[object] = [self.log.copy(), self.row.copy(), self.error.copy()]
        said = {name: values.copy() for name, values in self.extra.items()}
        return [*copies, self.version, said] if said else copies


class FilledSlots:
    """The replay node's end of the slots of one optimizer.

    Concurrency:
        The result's number, loaded with acquire, pairs with the optimizer's release store. A place
        is filled only when the result of the batch before in it is there, so the optimizer reads
        nothing of it then.
    """

    def __init__(self, plan: RunPlan, memory: RunMemory, rank: int) -> None:
        """Attach to the slots of the optimizer ``rank``."""
        slots = range(plan.config.replay.slots)
        self._batches = [memory.batch(rank, slot) for slot in slots]
        self._results = [memory.result(rank, slot) for slot in slots]
        self._arrays = [drawn_arrays(box) for box in self._batches]
        self._doorbell = memory.doorbell(plan.names.optimizers[rank])
        self._filled = 0

    @property
    def filled(self) -> int:
        """Batches that were published."""
        return self._filled

    @property
    def free(self) -> bool:
        """Whether the place of the next batch is free."""
        before = self._filled + 1 - len(self._batches)
        return before < 1 or self._answered(before)

    @property
    def idle(self) -> bool:
        """Whether the optimizer has answered everything."""
        return self._filled == 0 or self._answered(self._filled)

    @property
    def next(self) -> DrawnArrays:
        """Where the next batch goes; it must be `free`."""
        return self._arrays[self._filled % len(self._arrays)]

    @property
    def newest(self) -> DrawnArrays:
        """The batch that was published last."""
        return self._arrays[(self._filled - 1) % len(self._arrays)]

    def fill(self) -> None:
        """`next` holds a batch; `publish` gives it to the optimizer."""
        self._filled += 1

    def publish(self, *, drawn: bool, env_steps: int) -> None:
        """Give `newest` to the optimizer, if it hasn't it; without rows if nothing was drawn."""
        box = self._batches[(self._filled - 1) % len(self._batches)]
        if self._filled and box.number() != self._filled:
            box.publish(self._filled, Drawn(box.rows if drawn else 0, env_steps))
        self._doorbell.ring()

    def go_on(self, filled: int) -> None:
        """Go on where another replay node had filled so many."""
        self._filled = filled

    def result(self, number: int) -> BatchResult | None:
        """What was answered to the batch ``number``, views; None if there is nothing to apply.

        It must have been answered, and its place not been filled again.
        """
        slot = (number - 1) % len(self._batches)
        batch, result = self._batches[slot], self._results[slot]
        assert result.number() == number == batch.number(), "of an open batch, or too late"
        words = result.words
        return result_of(words, batch, result, "priority") if batch.words.rows else None

    def _answered(self, number: int) -> bool:
        # Only this batch or an older one of the same place can bear another number.
        return self._results[(number - 1) % len(self._results)].number() == number


def result_of(
    words: Learnt | Carried, rows: Mapping[str, Array], said: Mapping[str, Array], error: str
) -> BatchResult | None:
    """An answer out of mailboxes; None if it says nothing.

    Args:
        words: Of the answer.
        rows: Which have ``log`` and ``row``.
        said: Which have the rest.
        error: What errors are called there.
    """
    if not words.has_errors and words.version < 0:
        return None
    errors = said[error] if words.has_errors else said[error][:0]
    names = [name for name in said if name not in ("log", "row", error)]
    extra = {name: said[name] for name in names} if words.version >= 0 else NOTHING
    log, row = (cast("NDArray[Any]", rows[name]) for name in ("log", "row"))
    return BatchResult(log, row, cast("NDArray[np.float32]", errors), words.version, extra)


def batch_views(box: Mailbox[Drawn], rows: int | None = None) -> Callable[..., ReplayBatch]:
    """Makes the batch in ``box``, or the first ``rows`` of it; what it says of the run is added."""
    kind: Any = SequenceBatch if "mask" in box else ReplayBatch
    views = {name: box[name][:rows] for name in box if name not in ("log", "row")}
    usual = {each.name for each in fields(kind)}
    extra = {name: views.pop(name) for name in [*views] if name not in usual}
    return partial(kind, **views, extra=extra)
