from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fast_core.monitor.svg_chart import Point, svg_chart, tick_text, ticks

FINITE = st.floats(allow_nan=False, allow_infinity=False, width=32)


def line_of(svg: str) -> list[tuple[str, float, float]]:
    """The commands of the chart's line: (M or L, x, y)."""
    path = next(
        element.attrib["d"]
        for element in ElementTree.fromstring(svg).iter()
        if element.attrib.get("class") == "line"
    )
    return [
        (kind, float(x), float(y)) for kind, x, y in re.findall(r"([ML])([\d.]+) ([\d.]+)", path)
    ]


def test_points_are_placed_by_step_and_value() -> None:
    line = line_of(svg_chart("a", [(0, 0.0), (50, 10.0), (100, 5.0)]))
    assert [kind for kind, _, _ in line] == ["M", "L", "L"]
    xs, ys = [x for _, x, _ in line], [y for _, _, y in line]
    assert xs[1] - xs[0] == pytest.approx(xs[2] - xs[1])
    assert ys[0] - ys[1] == pytest.approx(2 * (ys[0] - ys[2]), abs=0.2)
    assert ys[1] < ys[2] < ys[0]


def test_value_that_is_missing_or_not_finite_breaks_the_line() -> None:
    points: list[Point] = [(0, 1.0), (1, 2.0), (2, None), (3, 3.0), (4, math.nan), (5, 1), (6, 2)]
    svg = svg_chart("a", points)
    assert [kind for kind, _, _ in line_of(svg)] == ["M", "L", "M", "M", "L"]
    assert svg.count('class="dot"') == 1


def test_chart_without_a_finite_value_says_so() -> None:
    assert "no finite value" in svg_chart("a", [(0, None), (1, math.inf)])
    assert "no finite value" in svg_chart("a", [])


def test_long_series_is_thinned_but_keeps_its_extremes_and_its_end() -> None:
    points: list[Point] = [(step, math.sin(step / 500)) for step in range(20_000)]
    points[12_345] = (12_345, 50.0)
    points[7_777] = (7_777, -50.0)
    line = line_of(svg_chart("a", points))
    assert len(line) <= 301
    ys = [y for _, _, y in line]
    assert (min(ys), max(ys)) == (
        min(y for _, _, y in line_of(svg_chart("a", points[12_000:12_400] + points[7_700:7_800]))),
        max(y for _, _, y in line_of(svg_chart("a", points[12_000:12_400] + points[7_700:7_800]))),
    )
    assert line[-1][1] == pytest.approx(326.0)


def test_values_beyond_any_axis_break_the_line_too() -> None:
    points: list[Point] = [(0, 1e308), (1, -1e308), (2, 1.0), (3, 2.0)]
    svg = svg_chart("a", points, [(2, 1e308), (3, math.nan)])
    assert [kind for kind, _, _ in line_of(svg)] == ["M", "L"]
    assert "inf" not in svg and "nan" not in svg


def labels(svg: str) -> list[str]:
    """What stands at the y axis, from below."""
    return re.findall(r'<text class="end"[^>]*>([^<]*)</text>', svg)


def test_spread_is_a_band_round_the_line_and_inside_the_frame() -> None:
    svg = svg_chart("a", [(0, 5.0), (10, 6.0), (20, None), (30, 7.0)], [(0, 1.0), (10, 4.0)])
    (outline,) = re.findall(r'<polygon class="band" points="([^"]*)"', svg)
    band = [tuple(map(float, point.split(","))) for point in outline.split()]
    (_, x, y), (_, _, other), *_ = line_of(svg)
    assert len(band) == 4
    assert band[0][0] == band[-1][0] == x
    assert band[-1][1] - y == pytest.approx(y - band[0][1], abs=0.2)
    assert (band[2][1] - other) == pytest.approx(4 * (band[3][1] - y), abs=0.5)
    assert all(29.9 <= y <= 166.1 for _, y in band)
    assert "band" not in svg_chart("a", [(0, 5.0), (10, 6.0)])


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.0, ["0", "0.5", "1"]),
        (3.0, ["0", "1", "2", "3"]),
        (-0.2, ["-0.2", "-0.15", "-0.1", "-0.05", "0"]),
    ],
)
def test_constant_value_is_flat_between_round_ticks(value: float, expected: list[str]) -> None:
    noise = value * 1e-9
    svg = svg_chart("a", [(step, value + noise * (step % 2)) for step in range(5)])
    assert len({y for _, _, y in line_of(svg)}) == 1
    assert labels(svg) == expected


def test_labels_of_near_ticks_differ() -> None:
    shown = labels(svg_chart("a", [(0, 12_345.6), (1, 12_345.9)]))
    assert len(set(shown)) == len(shown) >= 3


def test_title_is_escaped() -> None:
    svg = svg_chart('<script>"&', [(0, 1.0)])
    assert "<script>" not in svg
    ElementTree.fromstring(svg)


@given(st.lists(st.tuples(st.integers(0, 10**9), st.none() | FINITE), max_size=20))
def test_any_series_gives_well_formed_svg_inside_its_frame(
    points: list[tuple[int, float | None]],
) -> None:
    svg = svg_chart("a", sorted(points, key=lambda point: point[0]))
    ElementTree.fromstring(svg)
    if "no finite value" not in svg:
        assert all(51.9 <= x <= 326.1 and 29.9 <= y <= 166.1 for _, x, y in line_of(svg))


def test_ticks_are_round_and_reach_over_the_values() -> None:
    assert ticks(0.0, 10.0) == [0.0, 5.0, 10.0]
    assert ticks(0.3, 9.6) == [0.0, 5.0, 10.0]
    assert ticks(12.0, 500.0) == [0.0, 200.0, 400.0, 600.0]
    assert ticks(3.0, 3.0) == [3.0]


@given(FINITE, FINITE)
def test_ticks_are_few_rising_and_cover_any_range(a: float, b: float) -> None:
    low, high = min(a, b), max(a, b)
    found = ticks(low, high)
    assert 1 <= len(found) <= 8
    assert found == sorted(found)
    if high - low > 1e-6 * max(abs(low), abs(high)) and high - low > 1e-300:
        assert found[0] <= low + 1e-6 * (high - low) and found[-1] >= high - 1e-6 * (high - low)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (0.02, "0.02"),
        (250_000, "250k"),
        (1.5e6, "1.5M"),
        (-2e9, "-2G"),
        (1e15, "1e+15"),
    ],
)
def test_tick_text(value: float, text: str) -> None:
    assert tick_text(value) == text
