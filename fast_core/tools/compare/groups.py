"""Which runs are of one configuration, and which of them count."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fast_core.config import yaml_text as config_yaml
from fast_core.config.alike import compared, told_apart, within
from fast_core.dashboard.configurations import Configuration, Configurations
from fast_core.errors import ConfigError
from fast_core.monitor.curves import Series, read_series
from fast_core.monitor.run_directory import RunDirectory
from fast_core.monitor.run_state import RunState, find_runs, read_state
from fast_core.system.surroundings import expanded
from fast_core.tools.sweep.file import folder_of


@dataclass(frozen=True)
class Member:
    """One run.

    Attributes:
        state: How it stands.
        seed: Its seed.
        series: The metric that is compared.
        stratum: The value of the key that is compared across; seeds are drawn within each.
        left_out: Why it does not count; empty if it does.
    """

    state: RunState
    seed: int
    series: Series
    stratum: str = ""
    left_out: str = ""


@dataclass(frozen=True)
class Group:
    """Runs that differ in nothing but their seeds, and the key that is compared across.

    Attributes:
        name: What tells it from the other groups.
        members: Every run, by seed.
    """

    name: str
    members: tuple[Member, ...]

    @property
    def counted(self) -> tuple[Member, ...]:
        """Those that count."""
        return tuple(member for member in self.members if not member.left_out)


def find(paths: Iterable[Path]) -> list[Path]:
    """Every run directory at and below the paths, each once; a sweep's file names its folder.

    Raises:
        ConfigError: There is none at or below one of them.
    """
    found: dict[Path, None] = {}
    for given in paths:
        path = expanded(given, "the run").absolute()
        if path.is_file() and path.suffix in (".yaml", ".yml"):
            path = given = folder_of(path)
        runs = sorted(find_runs(path)) if path.is_dir() else []
        runs = [run for run in runs if RunDirectory(run).config.is_file()]
        if not runs and path.is_dir() and (path / "config.yaml").is_file():
            runs = [path]  # renamed
        if not runs:
            runs = [RunDirectory.open(given).path]  # says what is there instead
        found.update(dict.fromkeys(runs))
    return list(found)


def group(
    runs: Sequence[Path], metric: str, at: int | None, across: str | None
) -> tuple[list[Group], list[tuple[Path, str]]]:
    """Sort runs by configuration.

    Args:
        runs: Their directories.
        metric: What is compared.
        at: Environment steps at which it is; None for the end of each run.
        across: A key in which the runs of one group may differ too.

    Returns:
        The groups, in the order of their first runs, and what could not be read and why.
    """
    members: dict[str, list[Member]] = {}
    configs: dict[str, Configuration] = {}
    unread: list[tuple[Path, str]] = []
    known, keys = Configurations(), dict[int, str]()
    strata: dict[int, str] = {}
    for path in runs:
        try:
            config = known.read(RunDirectory(path))
        except ConfigError as error:
            unread.append((path, str(error)))
            continue
        if id(config) not in keys:
            keys[id(config)] = config_yaml.inline(compared(config.leaves, across))
            strata[id(config)] = config_yaml.inline(_at(config, across))
        key = keys[id(config)]
        configs.setdefault(key, config)
        state, series = read_state(path), read_series(path, metric)
        seed = 0 if state.seed is None else state.seed
        why = _why_left_out(state, series, at)
        members.setdefault(key, []).append(Member(state, seed, series, strata[id(config)], why))
    names = told_apart(
        [
            (
                config.name if across is None else f"across {across}",
                compared(config.leaves, across),
            )
            for config in configs.values()
        ]
    )
    groups = [
        Group(name, _newest_of_each_seed(members[key]))
        for key, name in zip(configs, names, strict=True)
    ]
    return groups, unread


def _at(config: Configuration, across: str | None) -> object:
    """What a configuration has at and below a key."""
    return {key: value for key, value in config.leaves.items() if within(key, across)}


def _why_left_out(state: RunState, series: Series, at: int | None) -> str:
    """What has ended counts with where it ended, what has not where it has got to ``at``."""
    if not series.values.size:
        return "has no value" if state.state == "finished" else state.state
    if at is not None and series.env_steps[0] > at:
        return f"has no value before {series.env_steps[0]:,.0f} env steps"
    if state.state == "finished" or (at is not None and state.env_steps >= at):
        return ""
    return "" if at is not None and series.env_steps[-1] >= at else state.state


def _newest_of_each_seed(members: Sequence[Member]) -> tuple[Member, ...]:
    """The same seed twice is one sample: the newest run counts that can."""
    ordered = sorted(members, key=lambda m: (m.seed, not m.left_out, _age(m)), reverse=True)
    kept: list[Member] = []
    for member in ordered:
        if not member.left_out and any(
            (other.seed, other.stratum) == (member.seed, member.stratum) for other in kept
        ):
            member = replace(member, left_out="seed counted already")
        kept.append(member)
    return tuple(sorted(kept, key=lambda m: (m.seed, bool(m.left_out), _age(m))))


def _age(member: Member) -> tuple[float, str]:
    began = member.state.began
    return 0.0 if began is None else began.timestamp(), member.state.path.name
