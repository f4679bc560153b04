"""Replay logs between processes: no torn row, and death of the writers."""

from __future__ import annotations

import io
import time
import zlib
from collections.abc import Callable

import numpy as np
import pytest

from fast_core.algorithm.spec import FieldSpec, SpaceSpec
from fast_core.memory import (
    LogRestore,
    LogSnapshot,
    PriorityTree,
    ReplayArrays,
    ReplayLog,
    ReplayReader,
    carrier_of,
    replay_fields,
)
from fast_core.memory.replay_log import ReplayFields
from tests.forms import slow_but
from tests.memory.conftest import Memory

pytestmark = pytest.mark.process


ENVS, CAPACITY, STEPS, SECONDS = 2, 12, 2, 2.0
INCARNATION = 1_000_000_000
SEED = np.random.SeedSequence(4)


def fields_of(words: int) -> ReplayFields:
    """Observations are ``words`` 32-bit words: their number repeated, and a checksum."""
    return replay_fields(SpaceSpec("box", (words,), "uint32"), FieldSpec("action", (), "int64"))


def fill(row: np.ndarray, number: int) -> None:
    row[:-1] = number & 0xFFFFFFFF
    row[-1] = zlib.crc32(row[:-1].tobytes())


def write_for_ever(memory: memoryview, fields: ReplayFields, incarnation: int) -> None:
    """Numbers go up by one from row to row, and by more where an episode ended."""
    log = ReplayLog.attach(memory, fields, CAPACITY, ENVS)
    obs, final = np.zeros((2, ENVS, *fields[0].shape), np.uint32)
    reward, never = np.ones(ENVS, np.float32), np.zeros(ENVS, bool)
    number, step = incarnation * INCARNATION, 0
    while True:
        ended = np.full(ENVS, step % 5 == 0)
        for env in range(ENVS):
            fill(obs[env], number)
            fill(final[env], number + 1)
        log.append(obs, np.full(ENVS, number), reward, ended, never, final)
        number, step = number + (9 if ended[0] else 1), step + 1


def check(arrays: ReplayArrays) -> None:
    for k, number in enumerate(arrays.action.tolist()):
        steps = 1 if arrays.discount[k] in (0.0, 0.5) and arrays.reward[k] == 1 else 2
        for row, expected in ((arrays.obs[k], number), (arrays.next_obs[k], number + steps)):
            assert row[0] == expected & 0xFFFFFFFF
            assert row[-1] == zlib.crc32(row[:-1].tobytes())
        assert arrays.reward[k] == (1 if steps == 1 else 1.5)


def draw_until(end_s: float, reader: ReplayReader, tree: PriorityTree) -> None:
    arrays, batches = reader.arrays(16), 0
    while time.monotonic() < end_s or batches < 10:  # a busy machine may take longer
        prioritized = batches % 2 == 1
        if not reader.draw(arrays, tree if prioritized else None, 0.5):
            continue
        check(arrays)
        if prioritized:
            reader.update(tree, arrays.log, arrays.row, np.float32(arrays.row % 7))
        batches += 1


@pytest.mark.parametrize("words", slow_but([16 * 1024], [3, 16 * 1024]))
def test_rows_of_killed_writers_are_whole_or_not_there(
    memory: Memory, children, words: int
) -> None:
    """RING-01: two writers, killed and replaced, and two readers."""
    fields = fields_of(words)
    regions = [memory(ReplayLog.nbytes(fields, CAPACITY, ENVS)) for _ in range(2)]
    for region in regions:
        ReplayLog.create(region, fields, CAPACITY, ENVS)
    end_s = time.monotonic() + SECONDS

    def read() -> None:
        logs = [ReplayLog.attach(region, fields, CAPACITY, ENVS) for region in regions]
        reader = ReplayReader(logs, steps=STEPS, gamma=0.5, seed=SEED)
        tree = PriorityTree(reader.leaves, 0.6, 0.1, SEED)
        draw_until(end_s, reader, tree)

    readers = [children.start(read) for _ in range(2)]
    rng, incarnation = np.random.default_rng(0), 0
    while time.monotonic() < end_s or incarnation < 3:
        incarnation += 1
        writers = [
            children.start(lambda region=region, n=incarnation: write_for_ever(region, fields, n))
            for region in regions
        ]
        time.sleep(float(rng.uniform(0.01, 0.1)))
        for pid in writers:
            children.kill(pid)
    assert [children.join(pid) for pid in readers] == [0, 0]


@pytest.mark.slow
@pytest.mark.parametrize("words", [64, 1024])
def test_rows_of_a_mirror_are_whole_or_not_there(memory: Memory, children, words: int) -> None:
    """The writer is killed and replaced now and then; who carries its rows may be behind."""
    fields = fields_of(words)
    source, mirror = (memory(ReplayLog.nbytes(fields, CAPACITY, ENVS)) for _ in range(2))
    for region in (source, mirror):
        ReplayLog.create(region, fields, CAPACITY, ENVS)
    end_s = time.monotonic() + SECONDS

    def carry() -> None:
        log, kind = ReplayLog.attach(mirror, fields, CAPACITY, ENVS), carrier_of(ReplayLog)
        assert kind is not None
        carrier = kind(ReplayLog.attach(source, fields, CAPACITY, ENVS))
        while True:
            for news in carrier.news():
                kind.take(log, news)
            time.sleep(0.001)  # so that it brings many rows at once, which are as many as are drawn

    def read() -> None:
        log = ReplayLog.attach(mirror, fields, CAPACITY, ENVS)
        reader = ReplayReader([log], steps=STEPS, gamma=0.5, seed=SEED)
        draw_until(end_s, reader, PriorityTree(reader.leaves, 0.6, 0.1, SEED))

    reader, courier, incarnation = children.start(read), children.start(carry), 0
    while time.monotonic() < end_s:
        incarnation += 1
        writer = children.start(lambda n=incarnation: write_for_ever(source, fields, n))
        time.sleep(0.1)
        children.kill(writer)
    writer = children.start(lambda: write_for_ever(source, fields, incarnation + 1))
    assert children.join(reader) == 0
    for pid in (courier, writer):
        children.kill(pid)


def test_successor_goes_on_behind_what_a_killed_writer_left(
    memory: Memory, children, eventually: Callable[[Callable[[], bool], float], None]
) -> None:
    fields = fields_of(1024)
    region = memory(ReplayLog.nbytes(fields, CAPACITY, ENVS))
    log = ReplayLog.create(region, fields, CAPACITY, ENVS)
    for incarnation in range(1, 15):
        before = log.published()
        pid = children.start(lambda n=incarnation: write_for_ever(region, fields, n))
        eventually(lambda: min(log.published()) > max(before) + 20, 20)  # noqa: B023
        children.kill(pid)
        committed = log.published()
        # The environments of a step are committed one by one: the last step may be in some only.
        assert max(committed) - min(committed) <= 2 * incarnation
        reader = ReplayReader([log], steps=STEPS, gamma=0.5, seed=SEED)
        arrays = reader.arrays(64)
        assert reader.draw(arrays)
        check(arrays)
        assert set((arrays.action // INCARNATION).tolist()) == {incarnation}


@pytest.mark.parametrize("pause_s", [0.0, 0.0005], ids=["full speed", "at times"])
def test_snapshots_beside_a_writer_have_no_gap_and_no_torn_row(
    memory: Memory,
    children,
    eventually: Callable[[Callable[[], bool], float], None],
    pause_s: float,
) -> None:
    """CKPT-10: numbers of the rows of each environment end at the cut and have no gap."""
    envs, capacity, words = 3, 400, 256
    fields = fields_of(words)
    region = memory(ReplayLog.nbytes(fields, capacity, envs))
    log = ReplayLog.create(region, fields, capacity, envs)

    def write() -> None:
        writer = ReplayLog.attach(region, fields, capacity, envs)
        obs, never = np.zeros((envs, words), np.uint32), np.zeros(envs, bool)
        reward, number = np.ones(envs, np.float32), 0
        while True:
            for env in range(envs):
                fill(obs[env], number)
            writer.append(obs, np.full(envs, number), reward, never, never)
            number += 1
            if pause_s:
                time.sleep(pause_s)

    pid = children.start(write)
    eventually(lambda: min(log.published()) > 100, 20)
    for _ in range(8):
        snapshot, stream = LogSnapshot(log), io.BytesIO()
        cut = log.native.spans()
        while piece := snapshot.read(20_000):
            stream.write(piece)
        stream.seek(0)
        other = memory(ReplayLog.nbytes(fields, capacity, envs))
        copy = ReplayLog.create(other, fields, capacity, envs)
        restore = LogRestore(copy, stream)
        while restore.read():
            pass
        spans = copy.native.spans()
        assert sum(commit - first for first, commit in spans) == snapshot.rows - snapshot.missing
        for env, (first, commit) in enumerate(spans):
            assert commit <= cut[env][1]
            rows = bytearray((commit - first) * copy.native.stride)
            assert copy.native.read(env, first, rows) == first
            table = np.frombuffer(rows, np.uint8).reshape(-1, copy.native.stride)
            obs = table[:, : 4 * words].copy().view(np.uint32)
            assert (obs[:, 0] == np.arange(first, commit)).all()
            assert all(row[-1] == zlib.crc32(row[:-1].tobytes()) for row in obs)
    children.kill(pid)
