"""Progress on one line, for a log file or a pipe."""

from __future__ import annotations

from fast_core.monitor.figures import (
    count,
    cut,
    duration,
    evaluation_text,
    info_text,
    number,
    replay_text,
    share,
    stop_text,
)
from fast_core.monitor.rates import nearest_stop
from fast_core.monitor.view import ProgressView

LONGEST = 119


def progress_line(view: ProgressView, env_steps_rate: float, updates_rate: float) -> str:
    """One line of progress for a log file or a pipe; before the first step, what it waits for.

    It is no longer than `LONGEST`; what does not fit is left out, the least important first.
    """
    clock = f"[{duration(view.elapsed_s)}]"
    starting = [node.name for node in view.nodes if node.state == "starting"]
    if view.phase == "starting" and starting:
        waits = view.restoring or f"not ready yet: {', '.join(starting)}"
        return cut(f"{clock} starting · {waits}", LONGEST)
    parts = [] if view.phase == "training" else [view.phase]
    nearest = nearest_stop(view.stops, stop_rates(view, env_steps_rate, updates_rate))
    if nearest is None or nearest[0].name != "env_steps":
        parts.append(f"env steps {count(view.env_steps)}")
    if nearest is not None:
        stop, left = nearest
        left_text = "" if left is None else f", {duration(left)} left"
        parts.append(f"{stop_text(stop)} ({share(stop.fraction)}{left_text})")
    if view.mean_return is not None:
        parts.append(f"return {number(view.mean_return)}")
    if view.quarantined:
        parts.append(f"{share(view.quarantined)} of episodes quarantined")
    if view.evaluation is not None:
        parts.append(f"eval {evaluation_text(view.evaluation)}")
    parts += [f"eval {name} {number(each.mean)}" for name, each in view.others.items()]
    parts.append(f"{count(env_steps_rate)} steps/s")
    if view.info:
        parts.append(info_text(view.info))
    parts.append(f"{number(updates_rate)} updates/s")
    if view.rounds is not None and view.rounds.rows_dropped:
        parts.append(f"{count(view.rounds.rows_dropped)} rows dropped")
    if view.lag_mean:
        parts.append(f"lag {number(view.lag_mean)}")
    if view.replay is not None:
        parts += replay_text(view.replay, view.env_steps).split(", ")
    line = f"{clock} {parts[0]}"
    for part in parts[1:]:
        if len(line) + len(part) + 3 <= LONGEST:
            line += f" · {part}"
    return cut(line, LONGEST)


def stop_rates(view: ProgressView, env_steps_rate: float, updates_rate: float) -> tuple[float, ...]:
    """Growth per second of each of the view's stop conditions; a score has none."""
    known = {"env_steps": env_steps_rate, "updates": updates_rate, "time_s": 1.0, "score": 0.0}
    return tuple(known[stop.name] for stop in view.stops)
