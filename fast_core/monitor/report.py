"""``report.html``: a run on one page, drawn from its directory alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path

from fast_core.monitor.figures import count, duration, number
from fast_core.monitor.journal import SUMMARY, Fact, JournalEntry, read_entries
from fast_core.monitor.metrics_file import read_rows
from fast_core.monitor.run_directory import RunDirectory
from fast_core.monitor.svg_chart import Point, svg_chart
from fast_core.system.durable import write_durably
from fast_core.system.regular_file import read_large

_RETURNS = "returns"
# Above all others, each with the spread of its episodes as a band.
_FIRST = {"rollout/return_mean": "training episodes", "eval/return_mean": "evaluation"}
_MEAN, _STD = "_mean", "_std"
_GROUPS = {
    _RETURNS: "Returns",
    "info": "Numbers of the info",
    "eval_info": "Numbers of the info in evaluation",
    "rollout": "Training episodes",
    "eval": "Evaluation",
    "evaluation": "Evaluation in other environments",
    "train": "Learning",
    "replay": "Replay",
    "scheduler": "Scheduling",
    "time": "Speed",
}
_SHOWN_ENTRIES = 300
_STYLE = """
:root{color-scheme:light dark;--ink:#1c2430;--soft:#667085;--page:#fff;--rule:#e4e7ec;
--line:#0e7490;--good:#15803d;--bad:#b42318;--fair:#b54708}
@media(prefers-color-scheme:dark){:root{--ink:#e6e9ef;--soft:#98a2b3;--page:#14181f;--rule:#2b323d;
--line:#22b8cf;--good:#4ade80;--bad:#f97066;--fair:#fdb022}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--page);
max-width:1120px;margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem;margin:0}h2{font-size:1.1rem;margin:2rem 0 .5rem}
.soft{color:var(--soft)}.finished{color:var(--good)}.failed{color:var(--bad)}
.interrupted,.unknown,.ended{color:var(--fair)}
dl{display:flex;flex-wrap:wrap;gap:.5rem 2rem}dt{color:var(--soft);font-size:.85rem}
dd{margin:0;font-size:1.1rem;font-variant-numeric:tabular-nums}
.charts{display:grid;grid-template-columns:repeat(auto-fill,minmax(300px,1fr));gap:1rem}
svg{width:100%;border:1px solid var(--rule);border-radius:6px}
svg text{font-size:10px;fill:var(--soft)}svg .title{font-size:12px;font-weight:600;fill:var(--ink)}
svg .last{font-size:12px;text-anchor:end;fill:var(--line)}svg .end{text-anchor:end}
svg .mid{text-anchor:middle}.grid{stroke:var(--rule)}
.band{fill:var(--line);opacity:.16}.returns{grid-template-columns:repeat(auto-fill,minmax(min(460px,100%),1fr))}
.line{fill:none;stroke:var(--line);stroke-width:1.5;stroke-linejoin:round}.dot{fill:var(--line)}
pre{overflow:auto;border:1px solid var(--rule);border-radius:6px;padding:.75rem;font-size:.8rem}
table{border-collapse:collapse;font-size:.85rem}td,th{padding:.15rem 1rem .15rem 0;text-align:left;
vertical-align:top}td:first-child{text-align:right;font-variant-numeric:tabular-nums}
"""


def write_report(run: RunDirectory) -> Path:
    """Write the report of a run, finished or not, and return its path.

    Raises:
        OSError: The directory can't be read or written.
    """
    write_durably(run.report, report_html(run).encode("utf-8", "backslashreplace"))
    return run.report


def report_html(run: RunDirectory) -> str:
    """The page: outcome, charts of every metric, crash, decisions, configuration.

    It loads nothing from elsewhere and runs no script, so it can be mailed and archived.
    """
    entries = list(read_entries(run.events))
    title = f"{run.path.parent.name} · {run.path.name}"
    sections = [
        f"<h1>{escape(title)}</h1>",
        _outcome(entries),
        _preformatted("What failed", run.crash),
        *_charts(_series(run.metrics)),
        _decisions(entries),
        _preformatted("Made with", run.versions),
        _preformatted("Configuration", run.config),
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>"
        f"<body><main>{''.join(sections)}</main></body></html>\n"
    )


def _outcome(entries: Sequence[JournalEntry]) -> str:
    end = _last_end(entries)
    if end is None:
        return '<p class="unknown">No end was recorded: the run goes on, or it was killed.</p>'
    # Without the launcher's summary there is the scheduler's own line: "finished: why".
    outcome = str(end.facts.get("outcome", "ended"))
    figures = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(text)}</dd></div>"
        for name, text in _end_figures(end.facts)
    )
    return (
        f'<p><strong class="{escape(outcome)}">{escape(outcome)}</strong>: {escape(end.why)}</p>'
        f"<dl>{figures}</dl>"
    )


def _last_end(entries: Sequence[JournalEntry]) -> JournalEntry | None:
    """The end of the last part of the run; None where a part began after it."""
    for entry in reversed(entries):
        if entry.what in ("start", "resume"):
            return None
        if entry.what in (SUMMARY, "end"):
            return entry
    return None


def _end_figures(facts: Mapping[str, Fact]) -> Iterable[tuple[str, str]]:
    shown = {
        "elapsed_s": ("time", duration),
        "env_steps": ("env steps", count),
        "updates": ("updates", count),
        "best_evaluation": ("best evaluation", number),
    }
    for name, (label, text) in shown.items():
        value = facts.get(name)
        if isinstance(value, int | float):
            yield label, text(value)


def _series(metrics: Path) -> dict[str, list[Point]]:
    series: dict[str, list[Point]] = defaultdict(list)
    for row in read_rows(metrics):
        for name, value in row.values.items():
            series[name].append((row.env_steps, value))
    return series


def _charts(series: Mapping[str, Sequence[Point]]) -> Iterable[str]:
    groups: dict[str, list[str]] = defaultdict(list)
    for name in sorted(series, key=lambda name: ("return" not in name, name)):
        if not (name.endswith(_STD) and name.removesuffix(_STD) + _MEAN in series):
            groups[_RETURNS if _heads(name) else name.partition("/")[0]].append(name)
    known = [group for group in _GROUPS if group in groups]
    for group in known + sorted(groups.keys() - _GROUPS.keys()):
        names = groups[group]
        if group == _RETURNS:
            names.sort(key=lambda name: ([*_FIRST, name].index(name), name))
        charts = "".join(
            svg_chart(
                _title(name),
                series[name],
                series.get(name.removesuffix(_MEAN) + _STD, ()),
            )
            for name in names
        )
        heading = escape(_GROUPS.get(group, group))
        yield (
            f'<h2>{heading} <span class="soft">over env steps</span></h2>'
            f'<div class="charts {escape(group)}">{charts}</div>'
        )
    if not groups:
        yield '<p class="soft">No metrics were written.</p>'


def _title(name: str) -> str:
    if _heads(name):
        return _FIRST.get(name) or f"evaluation in {name.split('/')[1]}"
    return name.partition("/")[2] or name


def _heads(name: str) -> bool:
    """Whether it stands above all others: training, evaluation, and those in other environments."""
    return name in _FIRST or (name.startswith("evaluation/") and name.endswith("/return_mean"))


def _decisions(entries: Sequence[JournalEntry]) -> str:
    if not entries:
        return ""
    rows = "".join(
        f"<tr><td>{entry.time_s:.1f} s</td><td>{escape(entry.what)}</td>"
        f"<td>{escape(entry.why)}</td></tr>"
        for entry in entries[-_SHOWN_ENTRIES:]
    )
    left_out = len(entries) - _SHOWN_ENTRIES
    more = f"<p>{left_out} earlier ones are in events.jsonl.</p>" if left_out > 0 else ""
    return (
        f"<h2>Decisions</h2><details><summary>{len(entries)} in order</summary>{more}"
        f"<table>{rows}</table></details>"
    )


def _preformatted(heading: str, path: Path) -> str:
    if not path.is_file():
        return ""
    text = read_large(path).decode("utf-8", "replace")
    # It may be wide, and is scrolled by keyboard then.
    named = f'tabindex="0" role="region" aria-label="{heading}"'
    return f"<h2>{heading}</h2><pre {named}>{escape(text)}</pre>"
