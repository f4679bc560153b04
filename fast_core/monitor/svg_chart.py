"""Line charts as SVG, a small one for a page and one of several lines; pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape
from typing import NamedTuple

from fast_core.monitor.figures import number

_WIDTH, _HEIGHT = 340, 190
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 14, 30, 24
_LARGE_WIDTH, _LARGE_HEIGHT, _LEGEND = 760, 380, 18
_MOST_POINTS = 300
# Okabe and Ito's, which the colour-blind tell apart; the yellow is too light for a line.
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
_STYLE = (
    "svg{background:#fff;font-family:system-ui,sans-serif}text{font-size:11px;fill:#667085}"
    ".title{font-size:14px;font-weight:600;fill:#1c2430}.name{font-size:12px;fill:#1c2430}"
    ".end{text-anchor:end}.mid{text-anchor:middle}.grid{stroke:#e4e7ec}.band{opacity:.16}"
    ".line{fill:none;stroke-width:1.8;stroke-linejoin:round}"
)
_TICKS = 4

_LARGEST = 1e300
_SAME = 1e-6  # values that differ by a smaller share are one value

Point = tuple[float, float | None]
_Spread = tuple[float, float | None, float]  # a point and how far its band reaches to both sides


class Curve(NamedTuple):
    """One line of a chart of several.

    Attributes:
        name: Stands in the legend.
        points: (env steps, value) in order; a value that is None or not finite breaks the line.
        spread: (env steps, half the height of a band round the value), where it is known.
    """

    name: str
    points: Sequence[Point]
    spread: Sequence[Point] = ()


class _Frame(NamedTuple):
    """Where an axis begins and ends, in values and on the page."""

    width: float
    height: float
    bottom: float
    x_low: float
    x_high: float
    y_low: float
    y_high: float

    def place(self, x: float, y: float) -> tuple[float, float]:
        across = (x - self.x_low) / (self.x_high - self.x_low) if self.x_high > self.x_low else 0.5
        up = (y - self.y_low) / (self.y_high - self.y_low) if self.y_high > self.y_low else 0.5
        return (
            _LEFT + across * (self.width - _LEFT - _RIGHT),
            self.height - self.bottom - up * (self.height - _TOP - self.bottom),
        )


def svg_chart(title: str, points: Sequence[Point], spread: Sequence[Point] = ()) -> str:
    """Draw a value over env steps.

    Args:
        title: Written above the chart.
        points: See `Curve`, as ``spread``.
        spread: Half the height of a band round the value.

    Returns:
        An ``<svg>`` element styled by the page's classes.
    """
    drawn = _drawn(Curve("", points, spread))
    values = [y for _, y, _ in drawn if y is not None]
    body = _drawing([drawn], [""], _WIDTH, _HEIGHT, _BOTTOM) if values else _nothing(_WIDTH)
    last = f" {number(values[-1])}" if values else ""
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(title + last)}">'
        f"{_text(_LEFT, 16, title, 'title')}{_text(_WIDTH - _RIGHT, 16, last, 'last')}{body}</svg>"
    )


def svg_curves(title: str, curves: Sequence[Curve]) -> str:
    """Draw several values over env steps, with a legend; a document of its own."""
    drawn = [_drawn(curve) for curve in curves]
    colors = [COLORS[index % len(COLORS)] for index in range(len(curves))]
    bottom = _BOTTOM + _LEGEND * len(curves) + 10
    height = _LARGE_HEIGHT + bottom
    known = any(y is not None for points in drawn for _, y, _ in points)
    body = (
        _drawing(drawn, colors, _LARGE_WIDTH, height, bottom) if known else _nothing(_LARGE_WIDTH)
    )
    legend = []
    for index, (curve, color) in enumerate(zip(curves, colors, strict=True)):
        y = height - _LEGEND * (len(curves) - index) + 6
        legend.append(f'<path d="M{_LEFT} {y - 4:.1f}h20" style="stroke:{color};stroke-width:3"/>')
        legend.append(_text(_LEFT + 28, y, curve.name, "name"))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_LARGE_WIDTH} {height}" '
        f'width="{_LARGE_WIDTH}" height="{height}" role="img" aria-label="{escape(title)}">'
        f"<style>{_STYLE}</style>{_text(_LEFT, 18, title, 'title')}{body}{''.join(legend)}</svg>\n"
    )


def _drawn(curve: Curve) -> Sequence[_Spread]:
    halves = {x: abs(_drawable(half) or 0.0) for x, half in curve.spread}
    return _thinned([(x, _drawable(y), halves.get(x, 0.0)) for x, y in curve.points])


def _nothing(width: float) -> str:
    return _text(width / 2, 100, "no finite value", "mid")


def _drawable(value: float | None) -> float | None:
    """None for what no axis can reach, also where twice the value is infinite."""
    return value if value is not None and abs(value) < _LARGEST else None


def _drawing(
    curves: Sequence[Sequence[_Spread]],
    colors: Sequence[str],
    width: float,
    height: float,
    bottom: float,
) -> str:
    """Axes and lines; a color is empty where the page's classes say it."""
    xs = [x for points in curves for x, _, _ in points]
    x_low, x_high = min(xs), max(xs)
    x_ticks = ticks(x_low, x_high)
    low, high = _reach(
        [
            bound
            for points in curves
            for _, y, half in points
            if y is not None
            for bound in (y - half, y + half)
        ]
    )
    y_ticks = ticks(low, high)
    frame = _Frame(
        width, height, bottom, x_low, x_high, min(y_ticks[0], low), max(y_ticks[-1], high)
    )
    parts = []
    for tick in y_ticks:
        y = frame.place(x_low, tick)[1]
        parts.append(f'<path class="grid" d="M{_LEFT} {y:.1f}H{width - _RIGHT}"/>')
        parts.append(_text(_LEFT - 6, y + 3.5, tick_text(tick, _step(y_ticks)), "end"))
    for tick in x_ticks:
        if x_low <= tick <= x_high:
            text = tick_text(tick, _step(x_ticks))
            x = frame.place(tick, frame.y_low)[0]
            parts.append(_text(x, height - bottom + _BOTTOM - 6, text, "mid"))
    for points, color in zip(curves, colors, strict=True):
        parts.append(_curve(frame, points, color))
    return "".join(parts)


def _curve(frame: _Frame, points: Sequence[_Spread], color: str) -> str:
    parts = []
    fill, stroke = (f' style="{name}:{color}"' if color else "" for name in ("fill", "stroke"))
    for run in _unbroken(points):
        if any(half for _, _, half in run):
            upper = [frame.place(x, y + half) for x, y, half in run]
            lower = [frame.place(x, y - half) for x, y, half in reversed(run)]
            outline = " ".join(f"{x:.1f},{y:.1f}" for x, y in upper + lower)
            parts.append(f'<polygon class="band"{fill} points="{outline}"/>')
    places = [None if y is None else frame.place(x, y) for x, y, _ in points]
    return "".join([*parts, _line(places, fill, stroke)])


def _reach(values: Sequence[float]) -> tuple[float, float]:
    """What the chart must show; one value alone is shown against zero, and zero against one."""
    low, high = min(values), max(values)
    if high - low > _SAME * max(abs(low), abs(high)):
        return low, high
    only = values[0]
    return (min(only, 0.0), max(only, 0.0)) if only else (0.0, 1.0)


def _step(ticks: Sequence[float]) -> float:
    return ticks[1] - ticks[0] if len(ticks) > 1 else 0.0


def _unbroken(points: Sequence[_Spread]) -> Iterator[list[tuple[float, float, float]]]:
    """Stretches without a missing value."""
    stretch: list[tuple[float, float, float]] = []
    for x, y, half in points:
        if y is not None:
            stretch.append((x, y, half))
        elif stretch:
            yield stretch
            stretch = []
    if stretch:
        yield stretch


def _line(places: Sequence[tuple[float, float] | None], fill: str, stroke: str) -> str:
    """One path, lifted where there is no value; a lone point becomes a dot."""
    commands, dots = [], []
    for index, at in enumerate(places):
        if at is None:
            continue
        before = places[index - 1] if index else None
        after = places[index + 1] if index + 1 < len(places) else None
        commands.append(f"{'M' if before is None else 'L'}{at[0]:.1f} {at[1]:.1f}")
        if before is None and after is None:
            dots.append(f'<circle class="dot"{fill} cx="{at[0]:.1f}" cy="{at[1]:.1f}" r="2.5"/>')
    return f'<path class="line"{stroke} d="{"".join(commands)}"/>' + "".join(dots)


def _thinned(points: Sequence[_Spread]) -> Sequence[_Spread]:
    """At most about 300 points: of each stretch the lowest and the highest, in their order."""
    if len(points) <= _MOST_POINTS:
        return points
    kept: list[_Spread] = []
    stretch = math.ceil(len(points) / (_MOST_POINTS / 2))
    for start in range(0, len(points), stretch):
        part = points[start : start + stretch]
        known = [index for index, (_, y, _) in enumerate(part) if y is not None]
        if not known:
            kept.append(part[0])
            continue
        extremes = {
            min(known, key=lambda index: part[index][1] or 0.0),
            max(known, key=lambda index: part[index][1] or 0.0),
        }
        kept += [part[index] for index in sorted(extremes)]
    if kept[-1] != points[-1]:
        kept.append(points[-1])
    return kept


def ticks(low: float, high: float) -> list[float]:
    """Round numbers (1, 2 or 5 times a power of ten) that reach from below low to above high."""
    span = high - low
    if span <= 0:
        return [low]
    rough = span / _TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [index * step for index in range(first, last + 1)]


def tick_text(value: float, step: float = 0.0) -> str:
    """A tick's label, short: ``0``, ``250k``, ``1.5M``, ``0.02``; told from others a step away."""
    if abs(value) < step / 2:
        return "0"  # a sum of steps that rounding has left beside it
    digits = 4 if not step else max(4, 1 + math.ceil(math.log10(abs(value) / step)))
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if limit <= abs(value) < 1e12:
            return f"{value / limit:.{digits}g}{unit}"
    return f"{value:.{digits}g}"


def _text(x: float, y: float, text: str, name: str) -> str:
    return f'<text class="{name}" x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>'
