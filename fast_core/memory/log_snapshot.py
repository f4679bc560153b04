"""A replay log's rows as a stream: written while the run goes on, and put back when it resumes.

A stream begins with a header, which names the columns and the number of environments. Pieces
follow, rows of one environment as they lie, each with its own header: environment, number of the
first row, number of rows. The last piece bears no environment, so that streams can lie one behind
the other and one that was cut short is noticed.
"""

from __future__ import annotations

import heapq
import struct
from typing import Protocol

from fast_core.errors import SegmentError
from fast_core.memory.header import digest_of
from fast_core.memory.replay_log import ReplayLog

_HEADER = struct.Struct("<8s16sQ")  # magic, digest of the columns, environments
_PIECE = struct.Struct("<3Q")  # environment, first row, rows
_MAGIC = b"FLROWS01"
_END = 2**64 - 1
_MOST = 2**62


class Readable(Protocol):
    """A binary file, or what reads like one."""

    def readinto(self, buffer: memoryview, /) -> int | None:
        """Fill ``buffer``, or its beginning; 0 at the end."""


class LogSnapshot:
    """The rows of a shard's logs as of now, to be read bit by bit while the writer goes on.

    The cut is made here: what is live of each environment now is what the stream will hold. The
    environments take turns in small pieces, the oldest rows first, so that where rows are read
    faster than they are written the reader stays ahead of the writer in all of them from the
    beginning; the log's reserve is for the time until then.

    Concurrency:
        Reads as `ReplayReader` does: copies, and looks again whether the rows have stayed. Rows
        that were overwritten before they were read are ``missing``; the stream then goes on with
        the oldest one that is there, and what it had of that environment before is not restored.

    Attributes:
        rows: Rows of the cut.
        left: Rows of it that were not yet read.
        missing: Rows of it that won't be restored, because the writer was faster.
    """

    def __init__(self, log: ReplayLog) -> None:
        """Take the cut of ``log``; costs a copy of one row of each environment."""
        self._log = log
        spans = log.native.spans()
        self._first = [first for first, _ in spans]
        self._commit = [commit for _, commit in spans]
        self._next = list(self._first)
        # How far each unfinished environment is, and its number: a heap.
        self._turns = [(0, env) for env in range(log.envs) if self._commit[env] > 0]
        self._pending = _HEADER.pack(_MAGIC, columns_digest(log), log.envs)
        self._ended = False
        self._piece_rows = max(1, log.native.reserve)
        # A writer may cut the log before this row is read: that is not of this snapshot.
        self._bits_at = sum(field.row_nbytes for field in log.fields)
        self._last_bits = {env: self._bits_of_last(env) for _, env in self._turns}
        self.rows = sum(self._commit) - sum(self._first)
        self.missing = 0

    @property
    def left(self) -> int:
        """Rows of the cut that were not yet read."""
        return sum(self._commit) - sum(self._next)

    @property
    def margin(self) -> int:
        """How many rows each environment may still write before a row of the cut is lost.

        A reader that can hold the writer up does so when this gets small, and then loses nothing.
        """
        kept = self._log.capacity + self._log.native.reserve
        commits = self._log.native.committed()
        left = (self._next[env] + kept - commits[env] for _, env in self._turns)
        return max(0, min(left, default=_MOST))

    def read(self, max_bytes: int) -> bytearray:
        """The next bytes of the stream, nothing at its end.

        At most ``max_bytes``, or a row and two headers where that is more.
        """
        size = max(max_bytes, _HEADER.size + 2 * _PIECE.size + self._log.native.stride)
        chunk, end = bytearray(size), 0
        if not self._ended:
            end = self._begin(chunk)
            while self._turns and (used := self._add_piece(memoryview(chunk)[end:])):
                end += used
            if not self._turns and end + _PIECE.size <= size:
                _PIECE.pack_into(chunk, end, _END, self.missing, 0)
                end, self._ended = end + _PIECE.size, True
        del chunk[end:]
        return chunk

    def _begin(self, chunk: bytearray) -> int:
        pending, self._pending = self._pending, b""
        chunk[: len(pending)] = pending
        return len(pending)

    def _add_piece(self, room: memoryview) -> int:
        """Rows of the environment that is furthest back; the bytes they take, 0 if none fits."""
        stride = self._log.native.stride
        fitting = min((len(room) - _PIECE.size) // stride, self._piece_rows)
        if fitting < 1:
            return 0
        done, env = heapq.heappop(self._turns)
        before = self._next[env]
        first, count = self._copy(env, room[_PIECE.size : _PIECE.size + fitting * stride])
        _PIECE.pack_into(room, 0, env, first, count)
        self._next[env] = first + count
        if self._next[env] < self._commit[env]:
            heapq.heappush(self._turns, (done + self._next[env] - before, env))
        return _PIECE.size + count * stride

    def _copy(self, env: int, room: memoryview) -> tuple[int, int]:
        """Fills ``room`` with the next rows; returns the number of the first, and how many.

        Where nothing of the cut is left that is its end, and 0.
        """
        stride, end = self._log.native.stride, self._commit[env]
        while True:
            first = self._next[env]
            count = min(len(room) // stride, end - first)
            whole = self._log.native.read(env, first, room[: count * stride])
            if whole <= first or count == 0:
                if first + count == end and count:
                    room[(count - 1) * stride + self._bits_at] = self._last_bits[env]
                return first, count
            self._skip(env, min(whole, end))

    def _bits_of_last(self, env: int) -> int:
        row = bytearray(self._log.native.stride)
        self._log.native.read(env, self._commit[env] - 1, row)
        return row[self._bits_at]

    def _skip(self, env: int, whole: int) -> None:
        """Everything before row ``whole`` is lost, what has been read of it too."""
        self.missing += whole - self._first[env]
        self._first[env] = self._next[env] = whole


class LogRestore:
    """Puts a stream of `LogSnapshot` back, bit by bit, before any node draws from or writes to it.

    The logs may have another capacity: they keep the newest rows that fit.
    """

    def __init__(self, log: ReplayLog, file: Readable) -> None:
        """``log`` is empty, ``file`` stands at the beginning of the stream."""
        self._log, self._file = log, file
        self._env = self._first = self._count = 0
        self._next = [0] * log.envs
        self._state = "header"

    def read(self, max_bytes: int = 2**20) -> int:
        """Takes the next bytes; returns how many, 0 at the end of the stream.

        Raises:
            SegmentError: The stream ends too early, is damaged, or is of other columns or another
                number of environments.
        """
        if self._state == "end":
            return 0
        if self._state == "header":
            return self._read_header()
        if self._count == 0:
            return self._read_piece()
        return self._read_rows(max_bytes)

    def _read_header(self) -> int:
        magic, digest, envs = _HEADER.unpack(self._take(_HEADER.size))
        if magic != _MAGIC:
            raise SegmentError(f"no saved replay rows here (magic {magic!r}); the file is damaged")
        if digest != columns_digest(self._log) or envs != self._log.envs:
            raise SegmentError(
                f"the saved replay rows are of {envs} environments per shard with columns of "
                f"their own; this run has {self._log.envs} and columns "
                f"{[field.name for field in self._log.fields]!r}. Resume with the environment "
                "and rollout.envs_per_shard of that run, or without the replay's contents"
            )
        self._state = "pieces"
        return _HEADER.size

    def _read_piece(self) -> int:
        self._env, self._first, self._count = _PIECE.unpack(self._take(_PIECE.size))
        if self._env == _END:
            self._state, self._count = "end", 0
            return _PIECE.size
        known = self._env < self._log.envs
        if not known or not self._next[self._env] <= self._first <= _MOST:
            raise SegmentError(
                f"saved replay rows of environment {self._env} with first row {self._first}: "
                "the file is damaged. Resume from an older checkpoint"
            )
        self._put(b"")
        return _PIECE.size

    def _read_rows(self, max_bytes: int) -> int:
        stride = self._log.native.stride
        count = min(self._count, max(1, max_bytes // stride), self._log.capacity)
        rows = self._take(count * stride)
        self._put(rows)
        self._first, self._count = self._first + count, self._count - count
        self._next[self._env] = self._first
        return len(rows)

    def _put(self, rows: bytes | bytearray) -> None:
        """Behind the rows that are there, or in their place where there is a gap between."""
        self._log.native.restore(self._env, self._first, rows)

    def _take(self, size: int) -> bytearray:
        data, filled = bytearray(size), 0
        while filled < size:
            got = self._file.readinto(memoryview(data)[filled:])
            if not got:
                raise SegmentError(
                    f"the saved replay rows end {size - filled} bytes too early; the file is "
                    "damaged. Resume from an older checkpoint"
                )
            filled += got
        return data


def columns_digest(log: ReplayLog) -> bytes:
    """16 bytes that differ where the columns do."""
    return digest_of("replay rows", [(f.name, f.shape, f.dtype) for f in log.fields])
