"""The live table: a pure function from a view to something rich can draw."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import ROUNDED
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from fast_core.monitor.figures import (
    count,
    duration,
    evaluation_text,
    number,
    printable,
    share,
    stop_text,
)
from fast_core.monitor.progress_line import stop_rates
from fast_core.monitor.rates import nearest_stop
from fast_core.monitor.view import NodeView, ProgressView

_WIDE = 110
_STATE_STYLES = {"failed": "bold red", "dead": "bold red", "starting": "dim", "stopped": "dim"}


def live_table(
    view: ProgressView,
    env_steps_rate: float,
    updates_rate: float,
    *,
    tail: Sequence[str] = (),
    warnings: int = 0,
    width: int = 80,
    max_nodes: int = 12,
) -> RenderableType:
    """Draw one refresh.

    Args:
        view: What to show.
        env_steps_rate: Environment steps per second.
        updates_rate: Optimizer steps per second.
        tail: The last log lines.
        warnings: Warnings and errors logged so far.
        width: Columns of the terminal.
        max_nodes: Node rows to show; the rest is summed up in one.
    """
    parts: list[RenderableType] = [
        _progress(view, env_steps_rate, updates_rate, width),
        Text(),
        _figures(view, env_steps_rate, updates_rate),
    ]
    if view.nodes:
        parts += [Text(), _nodes(view.nodes, width, max_nodes)]
    if tail:
        parts.append(Text())
        parts += [
            Text(printable(line), style="dim", no_wrap=True, overflow="ellipsis") for line in tail
        ]
    return Panel(
        Group(*parts),
        title=_title(view),
        title_align="left",
        subtitle=_warnings(warnings),
        subtitle_align="right",
        box=ROUNDED,
        border_style="grey42",
        width=width,
        padding=(0, 1),
    )


def _title(view: ProgressView) -> Text:
    return Text.assemble(
        (printable(view.run_name), "bold cyan"),
        (f" · seed {view.seed} · {view.phase} · {duration(view.elapsed_s)}", "default"),
        no_wrap=True,
        overflow="ellipsis",
    )


def _warnings(warnings: int) -> Text | None:
    if not warnings:
        return None
    return Text(f"{count(warnings)} warning{'s' if warnings > 1 else ''}", style="yellow")


def _progress(
    view: ProgressView, env_steps_rate: float, updates_rate: float, width: int
) -> RenderableType:
    """The condition that will end the run as a bar, the others in words below."""
    nearest = nearest_stop(view.stops, stop_rates(view, env_steps_rate, updates_rate))
    if nearest is None:
        return Text("no stop condition", style="dim")
    stop, left = nearest
    left_text = "" if left is None else f"{duration(left)} left"
    label = Text(stop_text(stop))
    ending = Text.assemble((f" {share(stop.fraction):>5}", "bold"), (f"  {left_text}", "green"))
    bar_width = max(width - 6 - len(label) - len(ending), 8)
    line = Text.assemble(label, "  ", bar(stop.fraction, bar_width), ending)
    others = [stop_text(other) for other in view.stops if other is not stop]
    if not others:
        return line
    return Group(line, Text("or " + " · ".join(others), style="dim"))


def _figures(view: ProgressView, env_steps_rate: float, updates_rate: float) -> Table:
    lag = number(view.lag_mean)
    if view.lag_max is not None:
        lag += f" (max {view.lag_max})"
    columns = (
        (
            ("env steps/s", count(env_steps_rate)),
            ("updates/s", number(updates_rate)),
            ("updates", count(view.updates)),
        ),
        (
            ("return", number(view.mean_return)),
            ("length", number(view.mean_length)),
            ("episodes", count(view.episodes)),
        ),
        (
            ("evaluation", evaluation_text(view.evaluation)),
            ("best", evaluation_text(view.best)),
            ("policy lag", f"{lag}, degree {view.degree}"),
        ),
    )
    table = Table.grid(expand=True, padding=(0, 1))
    for ratio in (9, 9, 24):
        table.add_column(style="dim", no_wrap=True)
        table.add_column(ratio=ratio, no_wrap=True, style="bold")
    for row in zip(*columns, strict=True):
        table.add_row(*(cell for pair in row for cell in pair))
    return table


def _nodes(nodes: Sequence[NodeView], width: int, max_nodes: int) -> Table:
    table = Table(box=None, expand=True, padding=(0, 1), pad_edge=False, header_style="dim")
    table.add_column("node", no_wrap=True)
    table.add_column("state", no_wrap=True)
    table.add_column("busy", no_wrap=True)
    table.add_column("waiting", justify="right", no_wrap=True)
    table.add_column("note", ratio=1, no_wrap=True, overflow="ellipsis")
    table.add_column("pid", justify="right", no_wrap=True)
    bar_width = 16 if width >= _WIDE else 8
    shown = nodes if len(nodes) <= max_nodes else nodes[: max(max_nodes - 1, 1)]
    for node in shown:
        style = _STATE_STYLES.get(node.state, "")
        table.add_row(
            Text(node.name),
            Text(node.state, style=style),
            _busy(node.busy, bar_width),
            share(node.waiting),
            Text(printable(node.note), style="dim"),
            Text("" if node.pid is None else str(node.pid), style="dim"),
        )
    if len(shown) < len(nodes):
        table.add_row(*_rest(nodes[len(shown) :], bar_width))
    return table


def _rest(nodes: Sequence[NodeView], bar_width: int) -> tuple[RenderableType, ...]:
    """The nodes there is no room for: how many, their mean shares, the states that matter."""
    failed = sum(node.state in ("failed", "dead") for node in nodes)
    note = Text(f"{failed} failed", style="bold red") if failed else Text("mean", style="dim")
    busy = _mean([node.busy for node in nodes])
    waiting = share(_mean([node.waiting for node in nodes]))
    return (Text(f"+ {len(nodes)} more"), Text(), _busy(busy, bar_width), waiting, note, Text())


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _busy(fraction: float | None, bar_width: int) -> Text:
    return Text.assemble(bar(fraction or 0.0, bar_width), f" {share(fraction):>5}")


def bar(fraction: float, width: int) -> Text:
    """A bar of ``width`` characters, drawn to half of one; readable without colour too."""
    halves = int(min(max(fraction, 0.0), 1.0) * width * 2)
    drawn = "━" * (halves // 2) + "╸" * (halves % 2)
    return Text.assemble((drawn, "cyan"), ("─" * (width - len(drawn)), "grey35"))
