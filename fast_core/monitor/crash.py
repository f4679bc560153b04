"""The text of a failure: what came after it in a line each, then its first cause, last."""

from __future__ import annotations

from collections.abc import Sequence

from fast_core.messages import Failed, NodeExited
from fast_core.monitor.figures import cut, printable

SCHEDULER = "scheduler"  # what it says, not a node
# The last line of a failure that the run survived begins so.
WENT_ON = "The run went on"
_SHOWN = 20
_LINE = 160


def crash_report(
    first: Failed,
    secondary: Sequence[Failed | NodeExited] = (),
    *,
    incarnation: int = 1,
    run_directory: str = "",
) -> str:
    """Explain a failed run; the same text goes to the screen and to ``crash.txt``.

    Args:
        first: The first cause. A node that was killed has no traceback; that is said.
        secondary: Failures that followed, in order.
        incarnation: Which life of the node failed.
        run_directory: Where the run lies, named in the text when given.
    """
    lines = [*_followed(secondary)]
    decided = first.node == SCHEDULER  # no process, and nothing of it failed
    who = (
        "the scheduler ended the run"
        if decided
        else f"node {first.node!r} (incarnation {incarnation}) failed"
    )
    lines.append(f"First cause: {who}.")
    facts = {"doing": first.doing or "unknown", **first.context}
    if run_directory:
        facts["run"] = run_directory
    width = max(len(name) for name in facts)
    lines += [f"  {name:<{width}}  {_one_line(text)}" for name, text in facts.items()]
    lines.append("")
    if first.traceback.strip():
        lines.append(f"Traceback of node {first.node!r}:")
        lines += [printable(line) for line in first.traceback.rstrip().splitlines()]
    elif not decided:
        lines.append("The node left no traceback.")
    error = [printable(line) for line in first.error.strip().splitlines()] or ["unknown error"]
    if lines[-len(error) :] != error:
        lines += error
    return "\n".join(lines) + "\n"


def survived_report(
    first: Failed, *, incarnation: int, run_directory: str = "", again: bool = True
) -> str:
    """Explain a death that a run survives, for ``crash.txt``; the node comes back if ``again``."""
    report = crash_report(first, incarnation=incarnation, run_directory=run_directory)
    return report + went_on(f"{first.node} was started anew" if again else f"without {first.node}")


def went_on(how: str) -> str:
    """What follows the report of a failure that the run survived."""
    return f"{WENT_ON}: {how}.\n\n"


def _followed(secondary: Sequence[Failed | NodeExited]) -> list[str]:
    if not secondary:
        return []
    lines = [f"Failed afterwards ({len(secondary)}), most likely because of the first cause:"]
    for event in secondary[:_SHOWN]:
        text = event.error if isinstance(event, Failed) else event.cause or "exited"
        lines.append(cut(f"  {event.node}: {_one_line(text)}", _LINE))
    if len(secondary) > _SHOWN:
        lines.append(f"  ... and {len(secondary) - _SHOWN} more")
    return [*lines, ""]


def _one_line(text: str) -> str:
    return printable(" ".join(text.split()))
