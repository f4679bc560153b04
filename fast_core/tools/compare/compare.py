"""Comparing runs: from their directories to figures and what to know before believing them."""

from __future__ import annotations

import difflib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fast_core.errors import ConfigError
from fast_core.monitor.curves import Band, Series, band
from fast_core.monitor.figures import count, number
from fast_core.monitor.run_state import RETURN, TRAINING_RETURN
from fast_core.tools.compare.groups import Group, find, group
from fast_core.tools.compare.statistics import Statistics, statistics

FEW = 3


@dataclass(frozen=True)
class Row:
    """What the runs of one configuration reach.

    Attributes:
        group: The runs.
        final: Statistics of their last values, or of those at the asked steps.
        best: Statistics of their highest values up to there, or lowest if those are better.
        steps_to: Environment steps of each run to the score that was asked for, infinity where
            it was not reached; empty if none was asked for.
        curve: All runs that count on one axis.
    """

    group: Group
    final: Statistics
    best: Statistics
    steps_to: tuple[float, ...]
    curve: Band

    @property
    def name(self) -> str:
        """What tells the configuration from the others."""
        return self.group.name


@dataclass(frozen=True)
class Comparison:
    """Runs side by side.

    Attributes:
        metric: What is compared.
        at: Environment steps at which it is; None for the end of each run.
        score: The score whose steps were asked for.
        rows: One for each configuration.
        notes: What to know before believing it, a sentence each.
        lower: Whether lower values are better.
    """

    metric: str
    at: int | None
    score: float | None
    rows: tuple[Row, ...]
    notes: tuple[str, ...]
    lower: bool = False


def compare(
    paths: Sequence[str | Path],
    *,
    metric: str | None = None,
    at: int | None = None,
    score: float | None = None,
    across: str | None = None,
    lower: bool = False,
) -> Comparison:
    """Compare runs that differ in more than their seeds.

    Args:
        paths: Run directories, or folders of runs, such as a sweep's.
        metric: A name of `metrics.jsonl`; the mean return of evaluations by default, or of
            training episodes where there are none.
        at: Compare at so many environment steps, what has got there; by default what has
            finished, at its end.
        score: Count the environment steps to this value too.
        across: Take runs that differ in this key, such as ``environment.kwargs``, as one
            configuration too: values must be on one scale, and seeds are drawn within each.
        lower: Take lower values for better, such as those of a cost.

    Raises:
        ConfigError: There are no runs, or no such metric or key.
    """
    runs = find([Path(path) for path in paths])
    chosen, groups, unread = _measured(runs, metric, at, across)
    limit = math.inf if at is None else at
    if across is not None and not any(m.stratum != "{}" for each in groups for m in each.members):
        raise ConfigError(f"these runs have no key {across!r} to compare across.")
    rows = tuple(_row(each, limit, score, lower=lower) for each in groups)
    notes = _notes(groups, at)
    notes += [f"{path} can't be read and is left out: {why}" for path, why in unread]
    return Comparison(chosen, at, score, rows, tuple(notes), lower)


def _measured(
    runs: Sequence[Path], metric: str | None, at: int | None, across: str | None
) -> tuple[str, list[Group], list[tuple[Path, str]]]:
    """The groups, with the first metric that any run has."""
    for chosen in (metric,) if metric is not None else (RETURN, TRAINING_RETURN):
        groups, unread = group(runs, chosen, at, across)
        members = [member for each in groups for member in each.members]
        if any(chosen in member.series.names for member in members):
            return chosen, groups, unread
    names = sorted({name for member in members for name in member.series.names})
    asked = metric or f"{RETURN} or {TRAINING_RETURN}"
    if not members and unread:
        path, why = unread[0]
        more = f" (and {len(unread) - 1} more)" if len(unread) > 1 else ""
        raise ConfigError(f"{path}{more} can't be read: {why}")
    if not names:
        raise ConfigError(
            f"there is no {asked} in these {len(runs)} runs: they have no metrics yet."
        )
    near = difflib.get_close_matches(asked, names, n=1, cutoff=0.5)
    hint = f"Did you mean {near[0]}?" if near else f"They have: {', '.join(names)}."
    raise ConfigError(f"there is no metric {asked!r} in these {len(runs)} runs. {hint}")


def _row(each: Group, limit: float, score: float | None, *, lower: bool) -> Row:
    strata: dict[str, list[Series]] = {}
    for member in each.counted:
        strata.setdefault(member.stratum, []).append(member.series)
    series = [member.series for member in each.counted]
    best = [[one.best(limit, lower=lower) for one in stratum] for stratum in strata.values()]
    return Row(
        each,
        statistics([[one.at(limit) for one in stratum] for stratum in strata.values()]),
        statistics(best),
        () if score is None else tuple(one.steps_to(score, lower=lower) for one in series),
        band(series),
    )


def _notes(groups: Sequence[Group], at: int | None) -> list[str]:
    notes = []
    few = [each.name for each in groups if len(each.counted) < FEW]
    if few:
        listed = "every configuration" if len(few) == len(groups) > 1 else ", ".join(few)
        notes.append(
            f"Fewer than {FEW} seeds: {listed}. So few say little about others, and their interval "
            "is too narrow."
        )
    for each in groups:
        for member in each.members:
            if member.left_out:
                reached = number(member.series.last) if member.series.values.size else "nothing"
                why = _standing(member.left_out, member.state.text)
                notes.append(
                    f"left out: {each.name} seed {member.seed}, {why}, {reached} at "
                    f"{count(member.state.env_steps)} env steps ({member.state.path})"
                )
    dropped = sum(member.series.left_out for each in groups for member in each.members)
    if dropped:
        notes.append(
            f"{count(dropped)} values are not known (NaN, infinity, or evaluations with "
            "quarantined episodes) and are left out."
        )
    unfinished = [m for each in groups for m in each.members if m.left_out == m.state.state]
    if at is None and unfinished and (least := _reached_by_all(groups)):
        notes.append(
            f"All that have values have one by {count(least)} env steps: `--at {least}` compares "
            "there."
        )
    return notes


def _standing(why: str, text: str) -> str:
    return f"{why}: {text}" if text and why in ("failed", "interrupted") else why


def _reached_by_all(groups: Sequence[Group]) -> int:
    """Environment steps at which every run that has values has one; 0 if there are none such."""
    series = [member.series for each in groups for member in each.members]
    known = [one.env_steps for one in series if one.values.size]
    least = min((steps[-1] for steps in known), default=0.0)
    return int(least) if all(steps[0] <= least for steps in known) else 0
