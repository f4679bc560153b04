"""Streams of a replay log's rows: the cut, taken while the writer goes on, and put back."""

from __future__ import annotations

import io
import mmap
import tempfile

import numpy as np
import pytest

from fast_core.algorithm.spec import FieldSpec, SpaceSpec
from fast_core.errors import SegmentError
from fast_core.memory import LogRestore, LogSnapshot, ReplayLog, log_rows, replay_fields
from fast_core.memory.log_rows import BEGINS, BITS, ORIGIN, TERMINATED, TRUNCATED, row_dtype
from tests.memory.replay_model import (
    FIELDS,
    Memory,
    new_log,
    new_reader,
    restored,
    streamed,
)

STRIDE = 16 + 8 + 4 + 1


class Writer:
    """Every row's number is its action, and its environment its reward."""

    def __init__(self, log: ReplayLog) -> None:
        self.log, self.step = log, 0

    def write(self, steps: int) -> None:
        envs = self.log.envs
        reward, never = np.arange(envs, dtype=np.float32), np.zeros(envs, bool)
        for _ in range(steps):
            obs = np.full((envs, 2), self.step, np.float64)
            self.log.append(obs, np.full(envs, self.step), reward, never, never)
            self.step += 1


def written(log: ReplayLog, steps: int) -> Writer:
    writer = Writer(log)
    writer.write(steps)
    return writer


def rows_of(log: ReplayLog) -> list[bytes]:
    """What is live of each environment, read in one piece."""
    found = []
    for env, (first, commit) in enumerate(log.native.spans()):
        rows = bytearray((commit - first) * log.native.stride)
        assert log.native.read(env, first, rows) == first
        found.append(bytes(rows))
    return found


def ids_of(log: ReplayLog) -> list[list[int]]:
    """Numbers of the live rows of each environment, from what was written into them."""
    ids = []
    for env, rows in enumerate(rows_of(log)):
        table = np.frombuffer(rows, np.uint8).reshape(-1, log.native.stride)
        assert (table[:, 24:28].copy().view(np.float32) == env).all()
        ids.append(table[:, 16:24].copy().view(np.int64).ravel().tolist())
    return ids


def test_log_that_is_cut_after_the_snapshot_is_not_in_it(memory: Memory) -> None:
    """The writer died meanwhile: its successor says so in the last row, which is not read yet."""
    log = new_log(memory, 40, 3)
    written(log, 7)
    log.cut(2)
    expected, snapshot = rows_of(log), LogSnapshot(log)
    log.cut(1)
    assert rows_of(log) != expected
    again = restored(new_log(memory, 40, 3), streamed(snapshot, 200))
    assert rows_of(again) == expected


@pytest.mark.parametrize("max_bytes", [1, 200, 10**6])
@pytest.mark.parametrize("steps", [0, 7, 40, 1000])
def test_stream_holds_the_rows_of_the_cut_while_the_writer_goes_on(
    memory: Memory, steps: int, max_bytes: int
) -> None:
    """CKPT-09, CKPT-10."""
    log = new_log(memory, 40, 3, reserve=700)
    writer = written(log, steps)
    expected, spans = rows_of(log), log.native.spans()
    snapshot = LogSnapshot(log)
    assert snapshot.rows == snapshot.left == 3 * min(steps, 40)
    stream = streamed(snapshot, max_bytes, lambda: writer.write(5))
    assert (snapshot.left, snapshot.missing) == (0, 0)
    copy = restored(new_log(memory, 40, 3), stream)
    assert copy.native.spans() == spans
    assert rows_of(copy) == expected
    assert copy.published() == (steps,) * 3


def test_pieces_are_bounded_and_the_environments_take_turns(memory: Memory) -> None:
    log = new_log(memory, 100, 4, reserve=5)
    written(log, 300)
    snapshot = LogSnapshot(log)
    header = len(new_snapshot_of_nothing(memory))
    assert len(snapshot.read(1)) <= header + 24 + STRIDE
    while piece := snapshot.read(500):
        assert len(piece) <= 500
        assert max(snapshot._next) - min(snapshot._next) <= 5


def new_snapshot_of_nothing(memory: Memory) -> bytes:
    return streamed(LogSnapshot(new_log(memory, 10, 1)), 1000)


def test_reader_that_is_faster_than_the_writer_loses_nothing(memory: Memory) -> None:
    """All environments are written at once; the reserve is for its beginning only."""
    log = new_log(memory, 2000, 8)
    writer = written(log, 2500)
    snapshot = LogSnapshot(log)
    reserve = log.native.reserve
    assert reserve == 64
    # 64 rows of one environment are read while 5 rows of all eight are written.
    stream = streamed(snapshot, 72 + reserve * STRIDE, lambda: writer.write(5))
    assert writer.step - 2500 > 10 * reserve
    assert snapshot.missing == 0
    copy = restored(new_log(memory, 2000, 8), stream)
    assert ids_of(copy) == [list(range(500, 2500))] * 8


@pytest.mark.parametrize("beyond", [0, 1])
@pytest.mark.parametrize("read_before", [0, 1, 5])
def test_margin_is_what_may_be_written_without_a_loss(
    memory: Memory, read_before: int, beyond: int
) -> None:
    log = new_log(memory, 50, 2, reserve=6)
    writer = written(log, 80)
    snapshot = LogSnapshot(log)
    assert snapshot.margin == 6
    for _ in range(read_before):
        snapshot.read(72 + 3 * STRIDE)
    writer.write(snapshot.margin + beyond)
    assert snapshot.margin == 0
    streamed(snapshot, 300)
    assert (snapshot.missing > 0) == (beyond > 0)
    assert snapshot.margin > 10**9


def test_log_that_is_not_full_has_a_wider_margin(memory: Memory) -> None:
    log = new_log(memory, 50, 1, reserve=6)
    written(log, 20)
    assert LogSnapshot(log).margin == 36


def test_overwritten_rows_are_counted_and_the_rest_has_no_gap(memory: Memory) -> None:
    log = new_log(memory, 50, 2, reserve=6)
    writer = written(log, 80)
    snapshot = LogSnapshot(log)
    stream = bytes(snapshot.read(72 + 3 * STRIDE))
    assert snapshot.left == 97
    writer.write(10)  # all but rows 34 to 89 are gone, those read before included
    stream += bytes(snapshot.read(2 * (24 + 6 * STRIDE)))
    assert snapshot.missing == 2 * 4
    writer.write(20)
    stream += streamed(snapshot, 300)
    assert (snapshot.left, snapshot.missing) == (0, 2 * 24)
    copy = restored(new_log(memory, 50, 2), stream)
    assert ids_of(copy) == [list(range(54, 80))] * 2
    assert copy.published() == (80, 80)
    reader = new_reader(copy, frames=4)
    assert reader.valid() == 2 * (79 - 54 - 3)


def test_cut_that_is_gone_leaves_an_empty_log_of_the_same_length(memory: Memory) -> None:
    log = new_log(memory, 50, 2, reserve=6)
    writer = written(log, 80)
    snapshot = LogSnapshot(log)
    writer.write(200)
    stream = streamed(snapshot, 300)
    assert snapshot.missing == 100
    copy = restored(new_log(memory, 50, 2), stream)
    assert copy.native.spans() == [(80, 80)] * 2
    writer.log = copy
    writer.write(3)
    reader = new_reader(copy)
    assert reader.valid() == 4


def test_stacks_that_reach_into_a_gone_cut_are_not_drawn(memory: Memory) -> None:
    """Whatever lies in the places of the rows before; the writer continues in an episode."""
    region = memory(ReplayLog.nbytes(FIELDS, 50, 1))
    log = ReplayLog.create(region, FIELDS, 50, 1)
    written(log, 80)
    log.native.restore(0, 500, b"")
    writer = Writer(ReplayLog.attach(region, FIELDS, 50, 1, continues=True))
    writer.write(6)
    reader = new_reader(log, frames=4)
    arrays = reader.arrays(100)
    assert reader.draw(arrays)
    assert set(arrays.row.tolist()) == {503, 504}
    assert (arrays.obs[..., 0] == arrays.row[:, None] - 500 + np.arange(-3, 1)).all()


def test_restored_rows_are_drawn_at_once(memory: Memory) -> None:
    """CKPT-08: 100 000 items."""
    log = new_log(memory, 12_500, 8)
    written(log, 20_000)
    copy = restored(new_log(memory, 12_500, 8), streamed(LogSnapshot(log), 2**20), 2**20)
    readers = [new_reader(one, steps=3) for one in (log, copy)]
    assert [reader.live() for reader in readers] == [100_000] * 2
    arrays = [reader.arrays(256) for reader in readers]
    assert all(reader.draw(to) for reader, to in zip(readers, arrays, strict=True))
    for left, right in zip(arrays[0].in_order, arrays[1].in_order, strict=True):
        assert left.tobytes() == right.tobytes()


def test_streams_lie_one_behind_the_other(memory: Memory) -> None:
    logs = [new_log(memory, 20, 2), new_log(memory, 20, 2)]
    for steps, log in zip((5, 33), logs, strict=True):
        written(log, steps)
    file = io.BytesIO(b"".join(streamed(LogSnapshot(log), 100) for log in logs))
    for log in logs:
        copy = new_log(memory, 20, 2)
        restore = LogRestore(copy, file)
        while restore.read(64):
            pass
        assert rows_of(copy) == rows_of(log)
    assert file.read() == b""


def test_stream_cut_short_anywhere_is_refused(memory: Memory) -> None:
    log = new_log(memory, 3, 2)
    written(log, 4)
    stream = streamed(LogSnapshot(log), 70)
    for end in range(len(stream)):
        with pytest.raises(SegmentError, match="bytes too early"):
            restored(new_log(memory, 3, 2), stream[:end])


def test_stream_of_other_columns_or_environments_is_refused(memory: Memory) -> None:
    log = new_log(memory, 30, 2)
    written(log, 4)
    stream = streamed(LogSnapshot(log), 1000)
    other = replay_fields(SpaceSpec("box", (4,), "float32"), FieldSpec("action", (), "int64"))
    for copy in (new_log(memory, 30, 3), new_log(memory, 30, 2, fields=other)):
        with pytest.raises(SegmentError, match=r"of 2 environments per shard.*Resume with"):
            restored(copy, stream)


def test_damaged_stream_is_refused(memory: Memory) -> None:
    log = new_log(memory, 30, 2)
    written(log, 4)
    stream = streamed(LogSnapshot(log), 1000)
    with pytest.raises(SegmentError, match="no saved replay rows here"):
        restored(new_log(memory, 30, 2), b"x" + stream[1:])
    with pytest.raises(SegmentError, match="environment 7 with first row 0: the file is damaged"):
        restored(new_log(memory, 30, 2), stream[:32] + b"\7" + stream[33:])
    with pytest.raises(SegmentError, match="first row"):
        restored(new_log(memory, 30, 2), stream[:40] + b"\xff" * 8 + stream[48:])


def test_native_reads_and_restores_are_checked(memory: Memory) -> None:
    log = new_log(memory, 10, 1, reserve=0)
    for wrong in (b"x", bytes(11 * STRIDE)):
        with pytest.raises(SegmentError, match="saved rows must be at most 10 times"):
            log.native.restore(0, 0, wrong)
    for wrong in (bytearray(1), bytearray(13 * STRIDE)):
        with pytest.raises(SegmentError, match="at most 12 rows"):
            log.native.read(0, 0, wrong)
    with pytest.raises(IndexError, match="environment 1 asked of 1"):
        log.native.read(1, 0, bytearray(STRIDE))
    with pytest.raises(IndexError, match="environment 1 asked of 1"):
        log.native.restore(1, 0, b"")


def sparse(nbytes: int) -> memoryview:
    """Memory of which only what is written takes any."""
    with tempfile.TemporaryFile() as file:
        file.truncate(nbytes)
        return memoryview(mmap.mmap(file.fileno(), nbytes))


def test_rows_beyond_4_gib_come_back(memory: Memory) -> None:
    """CKPT-09: a log of 6 GiB, of which the rows about 5 GiB are there."""
    row_bytes, capacity, first = 8192 - 13, 800_000, 650_000
    fields = replay_fields(
        SpaceSpec("box", (row_bytes,), "uint8"), FieldSpec("action", (), "int64")
    )
    logs = [new_log(sparse, capacity, 1, fields=fields) for _ in range(2)]
    assert ReplayLog.nbytes(fields, capacity, 1) > 6 * 2**30
    logs[0].native.restore(0, first, b"")
    for row in range(first, first + 20):
        obs = np.full((1, row_bytes), row % 251, np.uint8)
        never = np.zeros(1, bool)
        logs[0].append(obs, np.array([row]), np.zeros(1, np.float32), never, never)
    restored(logs[1], streamed(LogSnapshot(logs[0]), 40_000))
    assert logs[1].native.spans() == [(first, first + 20)]
    assert rows_of(logs[0]) == rows_of(logs[1])
    assert [row[0] for row in chunks(rows_of(logs[1])[0], 8192)] == [
        row % 251 for row in range(first, first + 20)
    ]


@pytest.mark.parametrize("obs_bytes", [3, 5000])  # long rows begin at cache lines
def test_rows_of_a_stream_have_the_columns(memory: Memory, obs_bytes: int) -> None:
    fields = replay_fields(
        SpaceSpec("box", (obs_bytes,), "uint8"), FieldSpec("action", (), "int64")
    )
    log = new_log(memory, 9, 2, fields=fields)
    assert ReplayLog.row_nbytes(fields) == log.native.stride == row_dtype(fields).itemsize
    for step in range(20):
        ends = np.array([step % 4 == 3, False])
        log.append(
            np.full((2, obs_bytes), step, np.uint8),
            np.array([step, -step]),
            np.full(2, step / 2, np.float32),
            ends,
            np.array([False, step % 8 == 7]),
            np.full((2, obs_bytes), 200, np.uint8),
        )
    stream = io.BytesIO(streamed(LogSnapshot(log), 100))
    pieces = list(log_rows.rows_of(stream, fields, 2))
    found = {
        env: [row for piece in pieces if piece.env == env for row in piece.rows] for env in (0, 1)
    }
    firsts = {piece.env: piece.first for piece in reversed(pieces)}
    for env, (first, end) in enumerate(log.native.spans()):
        assert firsts[env] == first and len(found[env]) == end - first == 9
    steps = [row for row in found[0] if row[BITS] & ORIGIN]
    assert [row["action"] for row in steps] == list(range(13, 20))
    assert [row["reward"] for row in steps] == [step / 2 for step in range(13, 20)]
    assert [bool(row[BITS] & TERMINATED) for row in steps] == [s % 4 == 3 for s in range(13, 20)]
    assert [bool(row[BITS] & BEGINS) for row in steps] == [s % 4 == 0 for s in range(13, 20)]
    ends = [row for row in found[0] if not row[BITS] & ORIGIN]
    assert len(ends) == 2 and all((row["obs"] == 200).all() for row in ends)
    assert sum(bool(row[BITS] & TRUNCATED) for row in found[1]) == 1


def chunks(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]
