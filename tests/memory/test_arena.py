from __future__ import annotations

import pytest

from fast_core.errors import SegmentError
from fast_core.memory import Arena, Layout, Ring, Segment


def new_layout(extra: int = 0) -> Layout:
    layout = Layout()
    layout.add("stats", 100)
    layout.add("ring", Ring.nbytes(4, 8) + extra)
    layout.add("big", 5000, 4096)
    return layout


def test_regions_are_aligned_and_disjoint() -> None:
    layout = new_layout()
    table = layout.describe()
    assert [region.offset % 64 for region in table] == [0, 0, 0]
    assert layout["big"].offset % 4096 == 0
    ends = [64] + [region.offset + region.nbytes for region in table]
    for region, end in zip(table, ends, strict=False):
        assert region.offset >= end
    assert layout.nbytes >= ends[-1]


def test_layouts_are_told_apart_by_name_size_and_order() -> None:
    def layout(*regions: tuple[str, int]) -> Layout:
        made = Layout()
        for name, nbytes in regions:
            made.add(name, nbytes)
        return made

    with Segment.create(4096) as segment:
        Arena.create(layout(("a", 64), ("b", 64)), segment)
        Arena.attach(layout(("a", 64), ("b", 64)), segment)
        for other in ((("b", 64), ("a", 64)), (("a", 65), ("b", 64)), (("a", 64),)):
            with pytest.raises(SegmentError, match="another plan"):
                Arena.attach(layout(*other), segment)


@pytest.mark.parametrize(
    ("name", "nbytes", "align", "message"),
    [
        ("stats", 8, 64, "already in the layout"),
        ("x", 0, 64, "at least 1 byte; got 0"),
        ("x", 8, 32, "at least 64; got 32"),
        ("x", 8, 96, "power of two"),
    ],
)
def test_region_without_sense_is_refused(name: str, nbytes: int, align: int, message: str) -> None:
    with pytest.raises(SegmentError, match=message):
        new_layout().add(name, nbytes, align)


def test_attached_arena_shares_the_regions() -> None:
    layout = new_layout()
    with Segment.create(layout.nbytes) as segment:
        Arena.create(layout, segment)
        with Segment.attach(segment.fd, layout.nbytes) as mapped:
            other = Arena.attach(new_layout(), mapped)
            Arena.create(layout, segment).region("big")[:3] = b"abc"
            assert bytes(other.region("big")[:3]) == b"abc"
            assert other.region("ring").nbytes == Ring.nbytes(4, 8)


def test_unknown_region_names_the_known_ones() -> None:
    with pytest.raises(SegmentError, match=r"no region 'rings'.*stats, ring, big"):
        new_layout()["rings"]


def test_attach_refuses_a_different_layout_and_an_empty_segment() -> None:
    layout = new_layout()
    with Segment.create(layout.nbytes + 64) as segment:
        with pytest.raises(SegmentError, match="never created"):
            Arena.attach(layout, segment)
        Arena.create(layout, segment)
        with pytest.raises(SegmentError, match="another plan"):
            Arena.attach(new_layout(extra=8), segment)
        segment.buffer[8] ^= 1
        with pytest.raises(SegmentError, match="layout version"):
            Arena.attach(layout, segment)


def test_create_refuses_a_segment_that_is_too_small() -> None:
    layout = new_layout()
    with (
        Segment.create(layout.nbytes - 1) as segment,
        pytest.raises(SegmentError, match=f"needs {layout.nbytes} bytes"),
    ):
        Arena.create(layout, segment)
