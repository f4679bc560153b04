"""Figures as people read them."""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence

from fast_core.monitor.view import EvaluationView, ReplayView, RoundsView, StopCondition

_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
UNKNOWN = "-"
_STOP_WORDS = {"env_steps": "env steps", "updates": "updates", "time_s": "time", "score": "score"}


def count(value: float) -> str:
    """A whole number with thousands separated: ``240,128``."""
    return f"{value:,.0f}"


def times(value: int) -> str:
    """How often: ``once``, ``3 times``."""
    return "once" if value == 1 else f"{count(value)} times"


def number(value: float | None) -> str:
    """A measured number at a steady width: ``213.4``, ``0.0123``, ``1.2e+07``; a dash if None."""
    if value is None:
        return UNKNOWN
    size = abs(value)
    if size == 0:
        return "0.0"
    if not math.isfinite(value):
        return f"{value}"
    if size >= 1e7 or size < 1e-4:
        return f"{value:.1e}"
    if size >= 10_000:
        return f"{value:,.0f}"
    if size >= 0.995:
        return f"{value:,.{1 if size >= 10 else 2}f}"
    return f"{value:.3g}"


def share(value: float | None) -> str:
    """A fraction as a percentage without a decimal, held between 0 and 100."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    return f"{100 * min(max(value, 0.0), 1.0):.0f} %"


def duration(seconds: float | None) -> str:
    """A time in its two largest units: ``0.8 s``, ``12 s``, ``2 min 05 s``, ``3 h 20 min``."""
    if seconds is None or not math.isfinite(seconds):
        return UNKNOWN
    if seconds < 9.95:
        return f"{max(seconds, 0.0):.1f} s"
    whole = round(seconds)
    if whole < _MINUTE:
        return f"{whole} s"
    if whole < _HOUR:
        return f"{whole // _MINUTE} min {whole % _MINUTE:02d} s"
    if whole < _DAY:
        return f"{whole // _HOUR} h {whole % _HOUR // _MINUTE:02d} min"
    return f"{whole // _DAY} d {whole % _DAY // _HOUR:02d} h"


def printable(text: str) -> str:
    """Text of a stranger without control characters, which could repaint a terminal."""
    return "".join(char if char.isprintable() or char == "\t" else "�" for char in text)


def cut(text: str, longest: int) -> str:
    """Text that is no longer than so many characters, with dots where it was."""
    return text if len(text) <= longest else text[: longest - 3] + "..."


def aligned(rows: Sequence[tuple[str, ...]], numbers: Container[int]) -> list[str]:
    """Rows of a table as lines; columns of ``numbers`` are set to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if index in numbers else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def stop_text(stop: StopCondition) -> str:
    """``env steps 240,128 / 500,000`` and the like."""
    word = _STOP_WORDS[stop.name]
    if stop.name == "time_s":
        return f"{word} {duration(stop.current)} / {duration(stop.limit)}"
    if stop.name == "score":
        return f"{word} {number(stop.current)} / {number(stop.limit)}"
    return f"{word} {count(stop.current or 0)} / {count(stop.limit)}"


def evaluation_text(evaluation: EvaluationView | None) -> str:
    """``475.0 ± 12.1 (v3200)``, or a dash; with the share of episodes that can't count."""
    if evaluation is None:
        return UNKNOWN
    mean, std = number(evaluation.mean), number(evaluation.std)
    result = UNKNOWN if math.isnan(evaluation.mean) else f"{mean} ± {std}"
    return f"{result} (v{evaluation.version}){quarantined_text(evaluation.quarantined)}"


def others_text(others: Mapping[str, EvaluationView]) -> str:
    """``eval test 12.5 ± 1.00 (v32), windy 3.20 ± 0.5 (v32)``."""
    return "eval " + ", ".join(f"{name} {evaluation_text(each)}" for name, each in others.items())


def quarantined_text(part: float) -> str:
    """``, 12 % quarantined``, nothing without any: a remark on episodes before it."""
    return f", {share(part)} quarantined" if part else ""


def info_text(info: Mapping[str, float]) -> str:
    """``info: cost 0.5, is_success 0.92``."""
    return "info: " + ", ".join(f"{printable(name)} {number(info[name])}" for name in sorted(info))


def rounds_text(rounds: RoundsView) -> str:
    """``rounds 12 collected, 11 merged, 10 trained, busy 60 % / 97 %, ESS 0.98, clipped 8 %``.

    Busy are env nodes and the learner; ESS is the effective sample size, as a share of the rows.
    """
    parts = [
        f"rounds {count(rounds.collected)} collected, {count(rounds.merged)} merged",
        f"{count(rounds.trained)} trained",
    ]
    if rounds.collecting is not None:
        parts.append(f"busy {share(rounds.collecting)} / {share(rounds.training)}")
    if rounds.ess is not None:
        parts.append(f"ESS {number(rounds.ess)}")
    if rounds.clip_fraction is not None:
        parts.append(f"clipped {share(rounds.clip_fraction)}")
    return ", ".join(parts)


def losses_text(rounds: RoundsView) -> str:
    """``4,096 rows dropped, 1 env node lost, 3 stale messages``; empty without any."""
    parts = []
    if rounds.rows_dropped:
        parts.append(f"{count(rounds.rows_dropped)} rows dropped")
    if rounds.env_nodes_lost:
        parts.append(f"{rounds.env_nodes_lost} env node{'s' * (rounds.env_nodes_lost > 1)} lost")
    if rounds.stale_events:
        word = "stale messages" if rounds.stale_events > 1 else "stale message"
        parts.append(f"{count(rounds.stale_events)} {word}")
    if rounds.coalesced:
        parts.append(f"{rounds.evaluations} evaluations and {rounds.coalesced} coalesced")
    return ", ".join(parts)


def replay_text(replay: ReplayView, env_steps: int) -> str:
    """``replay 12,345 / 50,000 rows, 0.5 updates per env step, ...``."""
    parts = [f"replay {count(replay.rows)} / {count(replay.capacity)} rows"]
    if env_steps < replay.learning_from:
        parts.append(f"learns from {count(replay.learning_from)} env steps on")
    if replay.updates_per_env_step is not None:
        parts.append(f"{number(replay.updates_per_env_step)} updates per env step")
    if replay.age is not None:
        parts.append(f"mean age {count(replay.age)} env steps")
    if replay.staleness is not None and replay.staleness_max:
        parts.append(f"gradients {number(replay.staleness)} stale (max {replay.staleness_max})")
    if replay.refused_values:
        parts.append(f"{count(replay.refused_values)} priorities refused")
    if replay.empty_batches:
        parts.append(f"{count(replay.empty_batches)} batches without rows")
    return ", ".join(parts)


def more_digits(before: int, now: int) -> bool:
    """Whether it is time to say a count again: at the first, then ten times more rarely."""
    return before == 0 or len(str(before)) < len(str(now))
