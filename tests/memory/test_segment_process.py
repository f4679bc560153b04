"""Segments between interpreters, under a small /dev/shm, and after kill -9."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from fast_core.memory import Segment

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[2]


def own_names() -> set[str]:
    """What FastLoop left in /dev/shm."""
    return {name for name in os.listdir("/dev/shm") if name.startswith("fl")}


def finished(
    program: str, *fds: int, within: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    """``program``, run in a fresh interpreter."""
    return subprocess.run(
        [*within, sys.executable, "-c", textwrap.dedent(program), *map(str, fds)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        pass_fds=fds,
        capture_output=True,
        text=True,
        timeout=60,
    )


def run_python(program: str, *fds: int, within: tuple[str, ...] = ()) -> str:
    """What it prints; whatever it writes to stderr is a failure."""
    done = finished(program, *fds, within=within)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_exit_of_an_attached_interpreter_takes_nothing_away() -> None:
    """SHM-01."""
    before = own_names()
    program = """
        import sys, zlib
        from multiprocessing import resource_tracker
        from fast_core.memory import Segment
        segment = Segment.attach(int(sys.argv[1]), 1 << 20)
        print(zlib.crc32(segment.buffer), resource_tracker._resource_tracker._pid)
    """
    with Segment.create(1 << 20, backing="posix") as segment:
        segment.buffer[:] = os.urandom(1 << 10) * 1024
        first = run_python(program, segment.fd)
        assert run_python(program, segment.fd) == first
        assert first.split()[1] == "None"  # no tracker was started
    assert own_names() <= before


def test_view_at_exit_ends_the_interpreter_without_a_signal() -> None:
    """SHM-06."""
    run_python("""
        import numpy as np
        from fast_core.memory import Ring, Segment
        segment = Segment.create(1 << 16)
        view = np.frombuffer(segment.buffer[: 1 << 15], np.uint8)
        ring = Ring.create(segment.buffer[1 << 15 :], 4, 8)
        place = ring.try_claim()
        segment.close()
        del segment
        view[:] = 1
        assert view.sum() == 1 << 15
        place[:] = b"12345678"
    """)


def test_error_with_living_views_is_the_one_reported() -> None:
    """SHM-07."""
    done = finished("""
        from fast_core.memory import Segment
        with Segment.create(4096) as segment:
            view = segment.buffer[:8]
            raise ValueError("boom")
    """)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "ValueError: boom"
    assert "exported" not in done.stderr


@pytest.mark.parametrize("backing", ["posix", "memfd"])
def test_nothing_is_left_after_kill_nine(children, backing: str) -> None:
    before = own_names()

    def create_and_die() -> None:
        segment = Segment.create(1 << 20, backing=backing)
        segment.touch()
        os.kill(os.getpid(), 9)

    assert children.join(children.start(create_and_die)) == -9
    assert own_names() <= before


# A private mount namespace whose /dev/shm has 64 MiB, like a container's.
SMALL_SHM = (
    "unshare", "-m", "sh", "-c",
    'mount -t tmpfs -o size=64m tmpfs /dev/shm && exec "$0" "$@"',
)  # fmt: skip


@pytest.fixture
def small_shm() -> Callable[[str], str]:
    try:
        allowed = subprocess.run([*SMALL_SHM, "true"], capture_output=True).returncode == 0
    except FileNotFoundError:
        allowed = False
    if not allowed:
        pytest.skip("needs unshare and the right to mount")
    return lambda program: run_python(program, within=SMALL_SHM)


def test_too_large_a_segment_is_an_ordinary_error_with_both_numbers(
    small_shm: Callable[[str], str],
) -> None:
    """SHM-02: never a bus error, and usage returns to its old value."""
    small_shm("""
        import os
        from fast_core.errors import SegmentError
        from fast_core.memory import Segment
        from fast_core.memory import segment as module
        free = os.statvfs("/dev/shm").f_bavail
        MIB = 1 << 20
        try:
            Segment.create(100 * MIB, backing="posix")
        except SegmentError as error:
            text = str(error)
        for words in ("100.0 MiB", "64.0 MiB", "memory.backing=memfd"):
            assert words in text, text
        # The same where the look beforehand saw more than there is at the reservation.
        module.check_fits = lambda *_: None
        try:
            Segment.create(100 * MIB, backing="posix")
        except SegmentError as error:
            text = str(error)
        assert "can't be reserved (posix)" in text and "100.0 MiB" in text, text
        assert os.statvfs("/dev/shm").f_bavail == free and os.listdir("/dev/shm") == []
        assert Segment.create(100 * MIB).backing == "memfd"
    """)


def test_run_goes_on_when_somebody_fills_dev_shm(small_shm: Callable[[str], str]) -> None:
    """SHM-02: the pages are reserved, so writing to them can't fail any more."""
    small_shm("""
        from fast_core.memory import Segment
        segment = Segment.create(40 << 20, backing="posix")
        try:
            with open("/dev/shm/other", "wb") as other:
                other.write(bytes(60 << 20))
        except OSError:
            pass
        segment.buffer[:] = b"x" * (40 << 20)
        assert segment.buffer[-1] == ord("x")
    """)


def test_auto_carries_more_than_dev_shm_has(small_shm: Callable[[str], str]) -> None:
    """SHM-03: 256 MiB under a 64 MiB /dev/shm; 100 000 transitions with equal checksums."""
    small_shm("""
        import os, zlib
        import numpy as np
        from fast_core.memory import Segment
        rows = (256 << 20) // 2048
        segment = Segment.create(256 << 20)
        assert segment.backing == "memfd"
        table = np.frombuffer(segment.buffer, np.uint8).reshape(rows, 2048)
        source = np.random.default_rng(0).integers(0, 256, (1000, 2048), np.uint8)
        for begin in range(0, 100_000, 1000):
            table[begin : begin + 1000] = source
        attached = Segment.attach(segment.fd, 256 << 20)
        copy = np.frombuffer(attached.buffer, np.uint8).reshape(rows, 2048)
        sums = {zlib.crc32(copy[begin : begin + 1000]) for begin in range(0, 100_000, 1000)}
        assert sums == {zlib.crc32(source)}
    """)
