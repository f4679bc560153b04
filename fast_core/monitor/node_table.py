"""The nodes' part of the live table: as many columns as the terminal has room for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

from fast_core.monitor.figures import printable, share
from fast_core.monitor.view import NodeView

ROOMY = 110  # columns of the terminal from which there is room to spare
ABREAST = 76  # from which all figures fit beside one another
FRAME = 4  # columns of border and padding
GAP = 2  # between two columns
_NOTE = 12  # columns that a note may claim
_STATE_STYLES = {
    "failed": "bold red",
    "dead": "bold red",
    "starting": "dim",
    "stopped": "dim",
    "away": "dim",
}


@dataclass(frozen=True)
class _Column:
    """One column of the nodes' table; where the terminal is narrow, the least goes first."""

    head: str
    cells: tuple[Text, ...]
    right: bool = False
    rank: int = 0
    stretches: bool = False

    @property
    def width(self) -> int:
        """Columns of the terminal that it needs; a stretching one is cut, but not its head."""
        widest = max((cell.cell_len for cell in self.cells), default=0)
        return max(len(self.head), min(widest, _NOTE) if self.stretches else widest)


def node_table(nodes: Sequence[NodeView], width: int, max_nodes: int) -> Table:
    """A row for each node; those beyond ``max_nodes`` are summed up in the last one."""
    bar_width = 16 if width >= ROOMY else 8 if width >= ABREAST else 0
    shown = nodes if len(nodes) <= max_nodes else nodes[: max(max_nodes - 1, 1)]
    rows = [_row(node, bar_width) for node in shown]
    if len(shown) < len(nodes):
        rows.append(_rest(nodes[len(shown) :], bar_width))
    cells = list(zip(*rows, strict=True))
    columns = (
        _Column("node", cells[0], rank=0),
        _Column("state", cells[1], rank=1),
        _Column("busy", cells[2], rank=2),
        _Column("waiting", cells[3], right=True, rank=4),
        _Column("threads", cells[4], right=True, rank=5),
        _Column("note", cells[5], rank=3, stretches=True),
        _Column("pid", cells[6], right=True, rank=6),
    )
    table = Table(box=None, expand=True, padding=(0, 1), pad_edge=False, header_style="dim")
    fitting = _fitting(columns, width - FRAME)
    for column in fitting:
        table.add_column(
            column.head,
            justify="right" if column.right else "left",
            no_wrap=True,
            overflow="ellipsis",
            ratio=1 if column.stretches else None,
        )
    for row in zip(*(column.cells for column in fitting), strict=True):
        table.add_row(*row)
    return table


def _fitting(columns: Sequence[_Column], width: int) -> list[_Column]:
    """As many as fit, the most important first, in the order in which they stand."""
    kept: set[int] = set()
    left = width + GAP
    for column in sorted(columns, key=lambda column: column.rank):
        left -= column.width + GAP
        if left < 0 and kept:
            break
        kept.add(column.rank)
    return [column for column in columns if column.rank in kept]


def _row(node: NodeView, bar_width: int) -> tuple[Text, ...]:
    return (
        Text(printable(node.name)),
        Text(node.state, style=_STATE_STYLES.get(node.state, "")),
        _busy(node.busy, bar_width),
        Text(share(node.waiting)),
        Text("" if node.threads is None else str(node.threads)),
        Text(printable(node.note), style="dim"),
        Text("" if node.pid is None else str(node.pid), style="dim"),
    )


def _rest(nodes: Sequence[NodeView], bar_width: int) -> tuple[Text, ...]:
    """The nodes there is no room for: how many, their mean shares, the states that matter."""
    failed = sum(node.state in ("failed", "dead") for node in nodes)
    state = Text(f"{failed} failed", style="bold red") if failed else Text("mean", style="dim")
    busy = _mean([node.busy for node in nodes])
    waiting = Text(share(_mean([node.waiting for node in nodes])))
    more = Text(f"+ {len(nodes)} more")
    return (more, state, _busy(busy, bar_width), waiting, Text(), Text(), Text())


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _busy(fraction: float | None, bar_width: int) -> Text:
    figure = f"{share(fraction):>5}"
    return (
        Text.assemble(bar(fraction or 0.0, bar_width), f" {figure}") if bar_width else Text(figure)
    )


def bar(fraction: float, width: int) -> Text:
    """A bar of ``width`` characters, drawn to half of one; readable without colour too."""
    halves = int(min(max(fraction, 0.0), 1.0) * width * 2)
    drawn = "━" * (halves // 2) + "╸" * (halves % 2)
    return Text.assemble((drawn, "cyan"), ("─" * (width - len(drawn)), "grey35"))
