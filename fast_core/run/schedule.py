"""What is recorded of a run so that it can be run again: `schedule/` in its directory.

All randomness of a run is keyed, so its results depend on nothing but the order of events and
on when the scheduler saw them. Each part of a run (a launch, or a resume) records that in a file
of its own: MessagePack, each piece behind its length, compressed as gzip does. What a killed
writer left is read up to its last whole piece.
"""

from __future__ import annotations

import contextlib
import os
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from fast_core.errors import CheckpointError
from fast_core.messages import Moment, WireEvent
from fast_core.messages.launching import LauncherEvent
from fast_core.run.plan import RunPlan
from fast_core.system.decoding import MsgpackDecoder, from_msgpack
from fast_core.system.regular_file import read_large

P = TypeVar("P")
FORMAT = 1
FOLDER = "schedule"
_LENGTH = struct.Struct("<I")
_GZIP = 31  # zlib's way to ask for gzip's frame
_UNPACKED_BYTES, _UNPACKED_TIMES = 1 << 24, 30  # at most; honest records have 5 times their size
_FLUSH_BYTES, _FLUSH_S = 1 << 16, 1.0


class ScheduleHeader(msgspec.Struct, frozen=True, kw_only=True):
    """How a recorded part of a run began.

    Attributes:
        format: Version of this layout.
        fingerprint: What the bits depend on beside the configuration, by name.
        config: The resolved configuration, YAML.
        checkpoint: Name of the checkpoint that it went on from, empty where it began anew; it is
            kept beside the record (`checkpoint_of`).
        started_s: When the scheduler was made, on its clock.
        moments: What it waited for callbacks to be told of.
        callbacks_save: Whether callbacks had a part of checkpoints.
        auto_degree: Whether it chose its degree by itself.
    """

    format: int
    fingerprint: dict[str, str]
    config: str
    checkpoint: str
    started_s: float
    moments: tuple[Moment, ...]
    callbacks_save: bool
    auto_degree: bool


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """One event that the scheduler was given.

    Attributes:
        now_s: When, on its clock.
        event: The event, without what a rerun gives anew.
        check: CRC-32 of that, where a rerun must give the same.
        version: Of the weights that the node had, where an env node failed; else -1.
    """

    now_s: float
    event: WireEvent | LauncherEvent
    check: int = 0
    version: int = -1


class Schedule(msgspec.Struct):
    """A recorded part of a run, as far as it was written.

    Attributes:
        header: How it began.
        entries: What the scheduler was given since, in order.
    """

    header: ScheduleHeader
    entries: list[Entry]


class ScheduleWriter:
    """Appends pieces to a file; training is worth more than that file, so it never raises.

    Written about once a second, so a killed process loses that much of it.
    """

    def __init__(self, path: Path, report: Callable[[str], None]) -> None:
        """``report`` is told the first failure, after which nothing is written any more."""
        self._path, self._report = path, report
        self._encoder = msgspec.msgpack.Encoder()
        self._compressor = zlib.compressobj(1, zlib.DEFLATED, _GZIP)
        self._pending = bytearray()
        self._flushed_s = 0.0
        self._fd: int | None = None
        with self._guarded():
            path.parent.mkdir(exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
            self._fd = os.open(path, flags, 0o644)

    def write(self, piece: Any, now_s: float) -> None:
        """Append a piece; ``now_s`` says when it is time to put what there is into the file."""
        if self._fd is None:
            return
        data = self._encoder.encode(piece)
        self._pending += _LENGTH.pack(len(data))
        self._pending += data
        if len(self._pending) >= _FLUSH_BYTES or now_s >= self._flushed_s + _FLUSH_S:
            self._flushed_s = now_s
            self._flush(zlib.Z_SYNC_FLUSH)

    def _flush(self, mode: int) -> None:
        with self._guarded():
            data = self._compressor.compress(self._pending) + self._compressor.flush(mode)
            self._pending.clear()
            left = memoryview(data)
            while left:
                left = left[os.write(self._fd, left) :] if self._fd is not None else left[:0]

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self._let_go()
            self._report(
                f"can't write {self._path}: {error}; training goes on, and can be run again only "
                "as far as it was recorded"
            )

    def give_up(self, why: str) -> None:
        """Write what there is, and nothing after it."""
        if self._fd is not None:
            self.close()
            self._report(f"{self._path} ends here: {why}; training goes on")

    def _let_go(self) -> None:
        fd, self._fd = self._fd, None
        if fd is not None:
            with contextlib.suppress(OSError):
                os.close(fd)

    def close(self) -> None:
        """Write the rest. May be called twice."""
        if self._fd is not None:
            self._flush(zlib.Z_FINISH)
        self._let_go()


def parts(folder: Path) -> list[Path]:
    """The files of the recorded parts in a run directory, in their order."""
    found = {
        int(number): path
        for path in (folder / FOLDER).glob("part-*.gz")
        if (number := path.name.removeprefix("part-").removesuffix(".gz")).isdecimal()
    }
    return [found[number] for number in sorted(found)]


def next_part(folder: Path) -> Path:
    """Where the next part is to be recorded."""
    return folder / FOLDER / f"part-{len(parts(folder))}.gz"


def of_node(part: Path, node: str) -> Path:
    """Where a node records its share of a part."""
    return part.with_name(f"{part.name.removesuffix('.gz')}.{node}.gz")


def recording(plan: RunPlan, node: str, report: Callable[[str], None]) -> ScheduleWriter | None:
    """Where a node writes down its share; None where nothing is recorded. ``report`` as there."""
    if plan.follows is not None or not plan.config.diagnostics.schedule:
        return None
    return ScheduleWriter(of_node(parts(Path(plan.run_directory))[-1], node), report)


def followed(plan: RunPlan, node: str) -> Path | None:
    """The recorded share that a node does again; None in a run of its own."""
    return None if plan.follows is None else of_node(Path(plan.follows), node)


END = -1


class View(msgspec.Struct, frozen=True, array_like=True):
    """From which batch on draws looked at other rows of the replay, or were for others.

    Attributes:
        first: Number of that batch, from 0.
        more: How many more rows it looked at than the one before, by log; none for none.
        group: Which optimizers it was for; `END` in the last entry, which counts the batches.
    """

    first: int
    more: tuple[int, ...] = ()
    group: int = 0


BEGUN = -1  # the rank of a gradient step that is none


class GradientStep(msgspec.Struct, frozen=True, array_like=True):
    """What the owner of several optimizers did, with ``update: async``.

    Attributes:
        rank: Whose gradient it applied; `BEGUN` where it computed an own one.
        updates: Steps that came of it, 1 or 0.
    """

    rank: int
    updates: int


class GradientBase(msgspec.Struct, frozen=True, array_like=True):
    """Steps behind the parameters that a worker computed a gradient with."""

    steps: int


def checkpoint_of(part: Path) -> Path:
    """Where the checkpoint is kept that a part went on from."""
    return part.with_suffix(".checkpoint")


class Pass(msgspec.Struct, frozen=True, array_like=True):
    """A forward pass of a policy node.

    Attributes:
        version: Of the weights.
        groups: Whose it was, in the order of their rows; numbers among the node's own.
    """

    version: int
    groups: tuple[int, ...]


def batches_in(views: Sequence[View]) -> int:
    """So many batches are known of; a killed writer told of the last ones no more."""
    return views[-1].first + (views[-1].group != END) if views else 0


def read_schedule(path: Path) -> Schedule:
    """Read a recorded part.

    Raises:
        CheckpointError: It can't be read, or is of another format.
    """
    try:
        pieces = _pieces_of(path)
        if (first := next(pieces, None)) is None:
            raise CheckpointError(
                f"nothing whole stands in the recorded schedule {path}: the run was killed before "
                "it was written, or the file was cut off"
            )
        header = from_msgpack(first, ScheduleHeader)
        if header.format != FORMAT:
            raise CheckpointError(
                f"{path} has format {header.format}, this FastLoop reads {FORMAT}. Run it again "
                f"with FastLoop {header.fingerprint.get('fastloop', 'of then')}"
            )
        decode = MsgpackDecoder(Entry).decode
        return Schedule(header, [decode(piece) for piece in pieces])
    except msgspec.MsgspecError as error:
        raise _unreadable(path, error) from error


def read_share(path: Path, kind: type[P]) -> list[P]:
    """Read what a node recorded of a part (`of_node`), pieces of one kind.

    Raises:
        CheckpointError: It can't be read.
    """
    decode = MsgpackDecoder(kind).decode
    try:
        return [decode(piece) for piece in _pieces_of(path)]
    except msgspec.MsgspecError as error:
        raise _unreadable(path, error) from error


def _pieces_of(path: Path) -> Iterator[memoryview]:
    try:
        packed = read_large(path)
        most = _UNPACKED_BYTES + _UNPACKED_TIMES * len(packed)
        data = zlib.decompressobj(_GZIP).decompress(packed, most + 1)
    except (OSError, zlib.error) as error:
        raise _unreadable(path, error) from error
    if len(data) > most:
        raise CheckpointError(
            f"the recorded schedule {path} has {len(packed):,} bytes and unpacks to more than "
            f"{most:,}, which none that a run wrote does; it is damaged, or was made to fill memory"
        )
    return _pieces(data)


def _unreadable(path: Path, error: Exception) -> CheckpointError:
    return CheckpointError(f"can't read the recorded schedule {path}: {error}")


def _pieces(data: bytes) -> Iterator[memoryview]:
    view, at = memoryview(data), 0
    while at + _LENGTH.size <= len(data):
        (length,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size
        if at + length > len(data):
            return
        yield view[at : at + length]
        at += length
