"""A comparison as a file: a picture of the curves, or the figures."""

from __future__ import annotations

import csv
import importlib.util
import io
import math
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec

from fast_core.errors import ConfigError
from fast_core.monitor.svg_chart import COLORS, Curve, svg_curves
from fast_core.system.durable import write_durably
from fast_core.system.extras import to_install
from fast_core.tools.compare.compare import Comparison, Row


def check(path: Path) -> None:
    """Refuse a file that can't be written, before anything is read.

    Raises:
        ConfigError: Its ending is unknown, its folder is not there, or a library is missing.
    """
    if path.suffix not in _WRITERS:
        raise ConfigError(
            f"-o must end in {', '.join(_WRITERS)}; got {str(path)!r}. .svg needs nothing else."
        )
    if not path.absolute().parent.is_dir():
        raise ConfigError(f"-o {str(path)!r}: there is no folder {str(path.parent)!r}. Make it.")
    if path.suffix == ".png" and importlib.util.find_spec("matplotlib") is None:
        raise ConfigError(
            f"a .png needs matplotlib: run {to_install('plot')}. Or write an .svg, which every "
            "browser shows."
        )


def write(comparison: Comparison, path: Path) -> None:
    """Write the file that the ending of ``path`` asks for.

    Raises:
        OSError: The disk is full, say.
    """
    write_durably(path, _WRITERS[path.suffix](comparison))


def _svg(comparison: Comparison) -> bytes:
    curves = []
    for row in comparison.rows:
        axis = row.curve.env_steps.tolist()
        points = list(zip(axis, row.curve.mean.tolist(), strict=True))
        spread = list(zip(axis, row.curve.std.tolist(), strict=True))
        curves.append(Curve(_legend(row), points, spread))
    return svg_curves(_title(comparison), curves).encode()


def _png(comparison: Comparison) -> bytes:
    from matplotlib.figure import Figure

    figure: Any = Figure(figsize=(8, 5))
    axes = figure.subplots()
    for index, row in enumerate(comparison.rows):
        curve, color = row.curve, COLORS[index % len(COLORS)]
        axes.plot(curve.env_steps, curve.mean, color=color, label=_legend(row))
        low, high = curve.mean - curve.std, curve.mean + curve.std
        axes.fill_between(curve.env_steps, low, high, color=color, alpha=0.16, linewidth=0)
    axes.set_title(_title(comparison), loc="left", fontsize="medium")
    axes.set_xlabel("env steps")
    axes.grid(alpha=0.3)
    axes.legend(loc="upper left", bbox_to_anchor=(0, -0.14), frameon=False)  # below, however long
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=150, bbox_inches="tight")
    return image.getvalue()


def _csv(comparison: Comparison) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["configuration", "env_steps", "mean", "std", "n"])
    for row in comparison.rows:
        curve = row.curve
        for steps, mean, std, n in zip(
            curve.env_steps, curve.mean, curve.std, curve.n, strict=True
        ):
            writer.writerow([row.name, int(steps), float(mean), float(std), int(n)])
    return text.getvalue().encode()


def _json(comparison: Comparison) -> bytes:
    tree = {
        "metric": comparison.metric,
        "at": comparison.at,
        "score": comparison.score,
        "lower": comparison.lower,
        "configurations": [_json_row(row, comparison.lower) for row in comparison.rows],
        "notes": list(comparison.notes),
    }
    return msgspec.json.format(msgspec.json.encode(_finite(tree))) + b"\n"


def _json_row(row: Row, lower: bool) -> dict[str, object]:
    curve = row.curve
    return {
        "name": row.name,
        "final": asdict(row.final),
        "best": asdict(row.best),
        "steps_to_score": list(row.steps_to),
        "runs": [
            {
                "path": str(member.state.path),
                "seed": member.seed,
                "state": member.state.state,
                "env_steps": member.state.env_steps,
                "last": member.series.last,
                "best": member.series.best(lower=lower),
                "left_out": member.left_out,
            }
            for member in row.group.members
        ],
        "curve": {
            "env_steps": curve.env_steps.tolist(),
            "mean": curve.mean.tolist(),
            "std": curve.std.tolist(),
            "n": curve.n.tolist(),
        },
    }


def _finite(value: object) -> object:
    """JSON has neither NaN nor infinity: null."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _title(comparison: Comparison) -> str:
    return f"{comparison.metric}, mean and standard deviation over seeds, by env steps"


def _legend(row: Row) -> str:
    n = len(row.group.counted)
    return f"{row.name} ({n} seed{'' if n == 1 else 's'})"


_WRITERS: dict[str, Callable[[Comparison], bytes]] = {
    ".svg": _svg,
    ".png": _png,
    ".csv": _csv,
    ".json": _json,
}
