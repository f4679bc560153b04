"""A comparison as lines for people, and what `fastloop compare` does with it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fast_core.monitor.figures import aligned, count, number, printable
from fast_core.system.surroundings import write_result
from fast_core.tools.compare import output as files
from fast_core.tools.compare.compare import Comparison, Row, compare
from fast_core.tools.compare.statistics import Statistics, median_reached


def compare_and_show(
    paths: Sequence[Path],
    *,
    output: Path | None = None,
    **asked: Any,
) -> int:
    """Compare runs as `compare` is ``asked`` to, print a table and write a file.

    Returns the exit status.
    """
    if output is not None:
        files.check(output)
    comparison = compare(paths, **asked)
    write_result(table(comparison))
    if output is not None:
        files.write(comparison, output)
        write_result(f"written to {output}")
    return 0


def table(comparison: Comparison) -> str:
    """The comparison as lines for people."""
    where = (
        "at the end of each run"
        if comparison.at is None
        else f"at {count(comparison.at)} env steps"
    )
    better = ", lower is better" if comparison.lower else ""
    lines = [f"{printable(comparison.metric)} {where}{better}", ""]
    head = ("", "", "n", "mean", "std", "min", "max", "IQM", "95 % interval")
    cells: list[tuple[str, ...]] = [head]
    # Of a return everybody knows which way is up; of other metrics only who says so.
    known = comparison.lower or comparison.metric.endswith("return_mean")
    best = "best" if known else "highest"
    for row in comparison.rows:
        for label, stats in (("final", row.final), (best, row.best)):
            name = printable(row.name) if label == "final" else ""
            cells.append((name, label, *_cells(stats)))
    lines += aligned(cells, range(2, len(head)))
    if comparison.score is not None:
        lines += ["", f"env steps to {number(comparison.score)}, median", ""]
        lines += aligned([_score_cells(row) for row in comparison.rows], range(1, 3))
    for note in comparison.notes:
        lines += ["", printable(note)]
    return "\n".join(lines)


def _cells(stats: Statistics) -> tuple[str, ...]:
    interval = (
        "-"
        if math.isnan(stats.interval[0])
        else f"{number(stats.interval[0])} to {number(stats.interval[1])}"
    )
    figures = (stats.mean, stats.std, stats.low, stats.high, stats.iqm)
    return str(stats.n), *("-" if math.isnan(f) else number(f) for f in figures), interval


def _score_cells(row: Row) -> tuple[str, ...]:
    reached = sum(math.isfinite(steps) for steps in row.steps_to)
    median = median_reached(row.steps_to)
    text = count(median) if math.isfinite(median) else "-"
    return printable(row.name), text, f"reached by {reached} of {len(row.steps_to)}"
