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
    info_text,
    losses_text,
    number,
    others_text,
    printable,
    quarantined_text,
    replay_text,
    rounds_text,
    share,
    stop_text,
)
from fast_core.monitor.node_table import ABREAST, FRAME, GAP, bar, node_table
from fast_core.monitor.progress_line import stop_rates
from fast_core.monitor.rates import nearest_stop
from fast_core.monitor.view import ProgressView

_SHORTEST_BAR = 8


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
        _figures(view, env_steps_rate, updates_rate, width),
    ]
    if view.nodes:
        parts += [Text(), node_table(view.nodes, width, max_nodes)]
    if tail:
        parts.append(Text())
        parts += [_line(printable(line), style="dim") for line in tail]
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
    doing = view.restoring or view.phase
    return Text.assemble(
        (printable(view.run_name), "bold cyan"),
        (f" · seed {view.seed} · {doing} · {duration(view.elapsed_s)}", "default"),
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
    label = _line(stop_text(stop))
    ending = Text.assemble((f" {share(stop.fraction):>5}", "bold"), (f"  {left_text}", "green"))
    room = width - FRAME - len(ending)
    beside = room - len(label) - GAP
    if beside >= _SHORTEST_BAR:
        lines = [Text.assemble(label, " " * GAP, bar(stop.fraction, beside), ending)]
    else:
        drawn = Text.assemble(bar(stop.fraction, max(room, 1)), ending)
        drawn.no_wrap = True
        lines = [label, drawn]
    others = [stop_text(other) for other in view.stops if other is not stop]
    if others:
        lines.append(_line("or " + " · ".join(others), style="dim"))
    return Group(*lines)


def _line(text: str, style: str = "") -> Text:
    """Text that is cut where the terminal ends."""
    return Text(text, style=style, no_wrap=True, overflow="ellipsis")


def _figures(
    view: ProgressView, env_steps_rate: float, updates_rate: float, width: int
) -> RenderableType:
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
            ("episodes", count(view.episodes) + quarantined_text(view.quarantined)),
        ),
        (
            ("evaluation", evaluation_text(view.evaluation)),
            ("best", evaluation_text(view.best)),
            ("policy lag", f"{lag}, degree {view.degree}{_chosen(view)}"),
        ),
    )
    table = Table.grid(expand=True, padding=(0, 1))
    if width >= ABREAST:
        for ratio in (9, 9, 24):
            table.add_column(style="dim", no_wrap=True)
            table.add_column(ratio=ratio, no_wrap=True, style="bold")
        for row in zip(*columns, strict=True):
            table.add_row(*(cell for pair in row for cell in pair))
    else:
        table.add_column(style="dim", no_wrap=True)
        table.add_column(ratio=1, no_wrap=True, style="bold", overflow="ellipsis")
        for label, figure in (pair for column in columns for pair in column):
            table.add_row(label, figure)
    lines = [] if view.replay is None else [_line(replay_text(view.replay, view.env_steps))]
    lines += [_line(text) for text in _rounds(view)]
    if view.others:
        lines.append(_line(others_text(view.others)))
    if view.info:
        lines.append(_line(info_text(view.info)))
    if view.cores:
        lines.append(_line(view.cores, style="dim"))
    return Group(table, *lines)


def _chosen(view: ProgressView) -> str:
    return " (auto)" if view.rounds is not None and view.rounds.way == "auto" else ""


def _rounds(view: ProgressView) -> list[str]:
    """How collecting and training keep up, and what was lost, in one line each."""
    if view.rounds is None:
        return []
    texts = (rounds_text(view.rounds), losses_text(view.rounds))
    return [text for text in texts if text]


def fixed_rows(view: ProgressView, width: int) -> int:
    """Rows of the table that are not nodes, log lines included."""
    lines = (view.replay is not None) + bool(view.others) + bool(view.info) + len(_rounds(view))
    return (15 if width >= ABREAST else 22) + lines
