from __future__ import annotations

import gc
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fast_core.errors import SegmentError
from fast_core.memory import MemoryAvailable, Segment, segment_name
from fast_core.memory.segment import Backing, Chosen, check_fits, choose_backing

MIB, GIB = 1 << 20, 1 << 30
BACKINGS: list[Backing] = ["posix", "memfd"]


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def mappings() -> int:
    with open("/proc/self/maps") as maps:
        return sum("/dev/shm" in line or "memfd:fastloop" in line for line in maps)


@pytest.mark.parametrize("backing", BACKINGS)
def test_fresh_segment_is_zero_reserved_and_nameless(backing: Backing) -> None:
    before = set(os.listdir("/dev/shm"))
    with Segment.create(3 * MIB + 5, backing=backing) as segment:
        made = set(os.listdir("/dev/shm")) - before
        assert [name for name in made if name.startswith("fl")] == []
        assert segment.buffer.nbytes == 3 * MIB + 5
        assert not any(segment.buffer[:4096]) and segment.buffer[-1] == 0
        assert os.fstat(segment.fd).st_blocks * 512 >= 3 * MIB + 5
        assert segment.backing == backing


@pytest.mark.parametrize("backing", BACKINGS)
def test_attached_segment_shares_bytes_and_leaves_the_descriptor_alone(backing: Backing) -> None:
    with Segment.create(8192, backing=backing) as segment:
        attached = Segment.attach(segment.fd, 8192)
        segment.buffer[100] = 7
        assert attached.buffer[100] == 7
        attached.close()
        os.fstat(segment.fd)  # still open
        assert segment.buffer[100] == 7


@pytest.mark.parametrize("backing", BACKINGS)
def test_close_frees_descriptor_and_mapping_and_can_be_called_twice(backing: Backing) -> None:
    gc.collect()  # what other tests left
    before = descriptors(), mappings()
    segment = Segment.create(8192, backing=backing)
    assert (descriptors(), mappings()) == (before[0] + 1, before[1] + 1)
    segment.close()
    segment.close()
    assert (descriptors(), mappings()) == before
    for use in (lambda: segment.buffer, lambda: segment.fd, segment.touch):
        with pytest.raises(SegmentError, match="closed"):
            use()


def test_view_keeps_the_mapping_alive_after_close() -> None:
    """SHM-06: old data, never a signal; and no descriptor is kept for it."""
    gc.collect()  # what other tests left
    before = descriptors(), mappings()
    segment = Segment.create(8192)
    view = np.frombuffer(segment.buffer, np.uint8)[10:20]
    view[:] = 5
    segment.close()
    del segment
    gc.collect()
    assert view.tolist() == [5] * 10
    assert (descriptors(), mappings()) == (before[0], before[1] + 1)
    del view
    assert mappings() == before[1]


def test_first_error_is_reported_while_a_view_lives() -> None:
    """SHM-07."""
    with pytest.raises(ValueError, match="boom"), Segment.create(8192) as segment:
        view = segment.buffer[:10]
        raise ValueError("boom")
    with pytest.raises(SegmentError, match="closed"):
        segment.touch()
    assert bytes(view) == bytes(10)


def test_a_thousand_regions_cost_one_descriptor_and_one_mapping() -> None:
    """SHM-04, SHM-05."""
    gc.collect()  # what other tests left
    before = descriptors(), mappings()
    with Segment.create(1000 * 64) as segment:
        views = [np.frombuffer(segment.buffer[k * 64 : (k + 1) * 64]) for k in range(1000)]
        assert (descriptors(), mappings()) == (before[0] + 1, before[1] + 1)
        assert len(views) == 1000
        del views


@pytest.mark.parametrize("backing", BACKINGS)
def test_touch_changes_no_byte(backing: Backing) -> None:
    with Segment.create(5 * 4096 + 12, backing=backing) as segment:
        segment.buffer[:] = bytes(range(256)) * 80 + bytes(12)
        segment.touch()
        assert bytes(segment.buffer) == bytes(range(256)) * 80 + bytes(12)


@given(run=st.text(max_size=200), counter=st.integers(0, 16**13 - 1))
@settings(max_examples=50, deadline=None, database=None)
def test_name_of_any_run_fits_thirty_bytes(run: str, counter: int) -> None:
    """SHM-09."""
    name = segment_name(run, counter)
    assert len(name.encode()) <= 30
    assert name[0] == "/" and "/" not in name[1:]


def test_a_hundred_thousand_names_of_a_run_differ() -> None:
    names = {segment_name("\u0440\u0430\u043d" * 60, counter) for counter in range(100_000)}
    assert len(names) == 100_000
    assert segment_name("a", 1) != segment_name("b", 1)


@pytest.mark.parametrize("counter", [-1, 16**13])
def test_counter_that_does_not_fit_a_name_is_refused(counter: int) -> None:
    with pytest.raises(SegmentError, match=f"got {counter}"):
        segment_name("run", counter)


@pytest.mark.parametrize(
    ("backing", "chosen"), [("auto", "memfd"), ("posix", "posix"), ("memfd", "memfd")]
)
def test_auto_takes_memory_that_never_has_a_name(backing: Backing, chosen: str) -> None:
    assert choose_backing(backing) == chosen


def test_auto_takes_posix_where_there_are_no_memory_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fast_core.memory.segment.has_memfd", lambda: False)
    assert choose_backing("auto") == "posix"


@pytest.mark.parametrize(
    ("available", "backing", "words"),
    [
        (MemoryAvailable(50 * MIB, None, GIB), "posix", ["100.0 MiB", "50.0 MiB", "RAM"]),
        (MemoryAvailable(GIB, 30 * MIB, GIB), "memfd", ["100.0 MiB", "30.0 MiB", "the cgroup"]),
        (MemoryAvailable(GIB, None, 64 * MIB), "posix", ["64.0 MiB", "memory.backing=memfd"]),
    ],
)
def test_refusal_has_both_numbers_and_the_remedy(
    available: MemoryAvailable, backing: Chosen, words: list[str]
) -> None:
    with pytest.raises(SegmentError) as refusal:
        check_fits(100 * MIB, backing, available)
    assert [word for word in words if word not in str(refusal.value)] == []


def test_what_fits_is_not_refused() -> None:
    check_fits(100 * MIB, "memfd", MemoryAvailable(100 * MIB, 100 * MIB, 64 * MIB))
    check_fits(100 * MIB, "posix", MemoryAvailable(100 * MIB, None, 100 * MIB))


def test_private_memory_has_to_fit_beside_a_segment() -> None:
    available = MemoryAvailable(110 * MIB, None, 100 * MIB)
    check_fits(100 * MIB, "posix", available, 10 * MIB)
    with pytest.raises(
        SegmentError, match=r"100\.0 MiB .* and 11\.0 MiB .* beside it; RAM has 110"
    ):
        check_fits(100 * MIB, "memfd", available, 11 * MIB)


def test_more_than_the_machine_has_is_refused_before_anything_is_taken() -> None:
    before = descriptors()
    with pytest.raises(SegmentError, match=r"needs 1048576\.0 GiB"):
        Segment.create(1 << 50)
    assert descriptors() == before


@pytest.mark.parametrize("nbytes", [0, -1])
def test_segment_without_bytes_is_refused(nbytes: int) -> None:
    with pytest.raises(SegmentError, match=f"got {nbytes}"):
        Segment.create(nbytes)


def test_unknown_backing_is_refused() -> None:
    with pytest.raises(SegmentError, match="got 'disk'"):
        Segment.create(4096, backing="disk")  # type: ignore[arg-type]


def test_attach_refuses_a_bad_descriptor_and_more_bytes_than_there_are() -> None:
    with Segment.create(4096) as segment:
        fd = segment.fd
        with pytest.raises(SegmentError, match=r"asked to attach 8193 bytes .* has 4096"):
            Segment.attach(fd, 8193)
    with pytest.raises(SegmentError, match=f"descriptor {fd} "):
        Segment.attach(fd, 4096)


def test_reservation_can_be_interrupted_and_gives_everything_back() -> None:
    before, calls = descriptors(), []

    def interrupt() -> None:
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Segment.create(200 * MIB, between=interrupt)
    assert descriptors() == before
