"""What is printed when a run ends."""

from __future__ import annotations

import shlex
import textwrap

from fast_core.monitor.figures import count, duration, evaluation_text, number, times
from fast_core.monitor.progress_line import LONGEST
from fast_core.monitor.rates import per_second
from fast_core.monitor.view import RunSummary


def summary_rows(summary: RunSummary) -> list[tuple[str, str]]:
    """The end of a run as (label, text) rows; the first row is the outcome."""
    steps_rate = per_second(summary.session_env_steps, summary.session_s)
    updates_rate = per_second(summary.session_updates, summary.session_s)
    rows = [
        (summary.outcome, summary.text),
        ("time", duration(summary.elapsed_s)),
        ("env steps", f"{count(summary.env_steps)} ({count(steps_rate)}/s)"),
        ("updates", f"{count(summary.updates)} ({number(updates_rate)}/s)"),
    ]
    if summary.best is not None:
        at = f" at {count(summary.best.env_steps)} env steps"
        rows.append(("best evaluation", evaluation_text(summary.best) + at))
    if summary.last is not None and summary.last != summary.best:
        rows.append(("last evaluation", evaluation_text(summary.last)))
    for name, best in summary.others.items():
        rows.append((f"best in {name}", evaluation_text(best)))
    if summary.comebacks:
        often = times(summary.comebacks)
        redone = f"{count(summary.redone_env_steps)} env steps were trained again"
        rows.append(("came back", f"{often} after the death of an optimizer; {redone}"))
    if summary.begun_anew:
        text = f"a resume gave up {count(summary.begun_anew)} open episodes for new ones"
        rows.append(("not exact", text))
    if summary.deaths:
        died = ", ".join(f"{node} {times}" for node, times in sorted(summary.deaths.items()))
        total = sum(summary.deaths.values())
        plural = "s" if total > 1 else ""
        text = f"{count(total)} death{plural} of nodes ({died}), {count(summary.nodes_back)} back"
        rows.append(("restarts", text + _see(summary, "; see", "crash.txt")))
    if summary.warnings:
        rows.append(("warnings", count(summary.warnings) + _see(summary, ", see", "logs")))
    if summary.run_directory:
        rows.append(("run directory", summary.run_directory))
        rows.extend([("report", summary.report)] if summary.report else ())
        rows.extend(_next_steps(summary))
    return rows


def _see(summary: RunSummary, words: str, name: str) -> str:
    return f"{words} {summary.run_directory}/{name}" if summary.run_directory else ""


def summary_text(summary: RunSummary) -> str:
    """The summary as aligned plain lines."""
    rows = summary_rows(summary)
    width = max(len(label) for label, _ in rows)
    (outcome, text), *others = rows  # commands and paths are there to be copied, so not wrapped
    lines = textwrap.wrap(text, LONGEST - width - 2) or [""]
    rows = [(outcome, lines[0]), *(("", line) for line in lines[1:]), *others]
    return "\n".join(f"{label:<{width}}  {text}" for label, text in rows)


def _next_steps(summary: RunSummary) -> list[tuple[str, str]]:
    where = shlex.quote(summary.run_directory)
    rows = []
    if summary.page:  # which has ended with the run
        rows.append(("see its page", f"fastloop watch {where}"))
    if summary.checkpoint or summary.policy:
        rows.append(("evaluate it", f"fastloop eval {where}"))
    if not summary.checkpoint:
        rows.append(("checkpoint", "none was written, so there is nothing to resume"))
    elif summary.outcome == "finished":
        # The stop condition is met, so a bare resume would end at once.
        rows.append(("train on", f"fastloop resume {where} stop.KEY=VALUE"))
    else:
        rows.append(("go on", f"fastloop resume {where}"))
    return rows
