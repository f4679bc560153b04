"""A sweep's file: what is to be run. Everything in it is checked before anything starts."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Literal

from msgspec.structs import replace as replaced

from fast_core.config import Count, RunConfig, Section, Values
from fast_core.config import file as config_file
from fast_core.config import yaml_text as config_yaml
from fast_core.config.algorithms import algorithm_config_type, imports_only
from fast_core.config.rules import NAME_LENGTH
from fast_core.config.schema import keys
from fast_core.config.shipped import located
from fast_core.errors import ConfigError
from fast_core.monitor.run_directory import SWEEP_FILE
from fast_core.system.surroundings import expanded
from fast_core.tools.sweep.names import labels

_SHOWN = 5  # errors of combinations
# What each run gets from the sweep, so that no list of values can give it.
_OWN = {
    "seed": "Use `seeds`.",
    "name": "A run is named after what differs.",
    "directory": "All runs land in the sweep's folder; `directory` beside `grid` moves it.",
}


class SweepConfig(Section, frozen=True, kw_only=True):
    """A sweep: which runs, and how many at once.

    Attributes:
        name: Name of the sweep; its runs land in `<directory>/<name>`.
        directory: Folder for the sweep's; the configuration's by default.
        config: The configuration that all runs share: a path, relative to this file, or its keys.
        seeds: How many seeds, counted from the configuration's `seed`, or a list.
        grid: Lists of values by dotted key; every combination is run.
        variants: Groups of dotted keys that change together; each is run with every combination of
            `grid`. A `name` in a group names its runs.
        jobs: Runs at once; auto takes what cores and memory allow.
    """

    name: str | None = None
    directory: str | None = None
    config: Any
    seeds: Count | tuple[int, ...] = 1
    grid: Values = {}
    variants: tuple[dict[str, Any], ...] = ()
    jobs: Literal["auto"] | Count = "auto"


@dataclass(frozen=True)
class Variant:
    """What one or more seeds have in common.

    Attributes:
        name: Its folder's name in the sweep's.
        config: Its configuration; the seed is the first run's.
    """

    name: str
    config: RunConfig


@dataclass(frozen=True)
class Sweep:
    """What is to be run.

    Attributes:
        name: Its name.
        folder: Where everything of it lies, absolute.
        variants: The configurations.
        seeds: Each variant is run with each of them.
        jobs: Runs at once, or ``"auto"``.
        text: A file of the whole sweep that needs no other.
    """

    name: str
    folder: Path
    variants: tuple[Variant, ...]
    seeds: tuple[int, ...]
    jobs: int | Literal["auto"]
    text: str


def read_sweep(path: Path, overrides: Sequence[str] = ()) -> Sweep:
    """Read a sweep and make its configurations.

    Args:
        path: Its file, or the folder of a sweep that was begun.
        overrides: ``key=value`` each; keys of a sweep change it, all others the configuration
            that its runs share.

    Raises:
        ConfigError: Something of it is wrong.
    """
    begun = path.is_dir()
    file = path / SWEEP_FILE if begun else path
    if begun and not file.is_file():
        raise ConfigError(
            f"no sweep in {str(path)!r}: it has no {SWEEP_FILE}. Give a sweep's file."
        )
    source = str(file)
    document = config_yaml.parse(config_file.read_text(file), source)
    if "config" not in document.tree and {"environment", "algorithm"} & document.tree.keys():
        raise ConfigError(
            f"{source} is the configuration of one run, not a sweep. Write a file with "
            f"`config: {file.name}` and `seeds: 3`, say, beside it, and give that."
        )
    if begun:  # wherever it was moved to
        where = path.resolve()
        document.tree.update(name=where.name, directory=str(where.parent))
    own, others = _divided(overrides)
    config = config_file.read_section(
        SweepConfig, document, own, algorithm_config_type, source=source
    )
    name = config.name or file.stem
    base, base_source = _base(config.config, document, source)
    base.tree.setdefault("name", name)
    shared = config_file.read(base, others, algorithm_config_type, source=base_source)
    _put_beside(base.tree, Path(base_source).parent)
    config_file.validate(replaced(shared, name=name), source)
    directory = config.directory or shared.directory
    folder = expanded(directory, "directory") / name
    combinations = list(_combinations(config, document.lines, source))
    _refuse_in_vain(others, combinations)
    variants = _variants(combinations, base, base_source, shared.name, str(folder.absolute()))
    seeds = _seeds(config.seeds, shared.seed)
    whole = {
        "name": name,
        "directory": directory,
        "config": base.tree,
        "seeds": list(seeds),
        "grid": dict(_flat(config.grid, source)),  # each key in one spelling
        "variants": list(config.variants),
        "jobs": config.jobs,
    }
    text = config_yaml.dump({key: value for key, value in whole.items() if value not in ({}, [])})
    return Sweep(name, folder.absolute(), variants, seeds, config.jobs, text)


def folder_of(file: Path) -> Path:
    """Where everything of a sweep lies; nothing that its configuration names is imported.

    Raises:
        ConfigError: Something of its file is wrong.
    """
    source = str(file)
    document = config_yaml.parse(config_file.read_text(file), source)
    config = config_file.read_section(SweepConfig, document, (), imports_only(), source=source)
    base, _ = _base(config.config, document, source)
    directory = config.directory or str(base.tree.get("directory", "runs"))
    return (expanded(directory, "directory") / (config.name or file.stem)).absolute()


@dataclass(frozen=True)
class _Combination:
    """Keys that one variant changes, where each stands, and the variant's name if it has one."""

    changes: Mapping[str, object]
    places: Mapping[str, str]
    name: str


def _divided(overrides: Sequence[str]) -> tuple[list[str], list[str]]:
    """Those of the sweep, and those of the configuration."""
    own: list[str] = []
    others: list[str] = []
    known = keys(SweepConfig)
    for override in overrides:
        first = override.partition("=")[0].strip().partition(".")[0]
        (own if first in known else others).append(override)
    return own, others


def _base(
    given: object, document: config_yaml.Document, source: str
) -> tuple[config_yaml.Document, str]:
    """The configuration that all runs share, and where it stands."""
    if isinstance(given, dict):
        prefix = "config."
        lines = {
            key.removeprefix(prefix): line
            for key, line in document.lines.items()
            if key.startswith(prefix)
        }
        return config_yaml.Document(copy.deepcopy(given), lines), source
    if not isinstance(given, str) or not given:
        raise ConfigError(
            f"config must be a path or a group of keys; got {given!r:.80} ({source}). "
            "Give the path of a configuration, relative to this file, or a name that "
            "`fastloop init --list` shows."
        )
    path = located(Path(expanded(given, "config")), Path(source).parent)
    return config_yaml.parse(config_file.read_text(path), str(path)), str(path)


def _put_beside(tree: Mapping[str, object], folder: Path) -> None:
    """Give an environment that is a Python object, which lies in ``folder``, its whole path."""
    evaluation = tree.get("evaluation")
    others = evaluation.get("environments") if isinstance(evaluation, dict) else None
    found = [tree.get("environment"), *(others.values() if isinstance(others, dict) else ())]
    for environment in found:
        if isinstance(environment, dict) and isinstance(environment.get("pickled"), str):
            environment["pickled"] = str(folder.absolute() / environment["pickled"])


def _combinations(
    config: SweepConfig, lines: Mapping[str, int], source: str
) -> Iterator[_Combination]:
    def place(key: str) -> str:
        return f"{source}, line {lines[key]}" if key in lines else config_file.COMMAND_LINE

    axes = {key: (values, place(f"grid.{key}")) for key, values in _flat(config.grid, source)}
    for key, (_, where) in axes.items():
        _check_key(key, where)
    grid_places = {key: where for key, (_, where) in axes.items()}
    for index, group in enumerate(config.variants or ({},)):
        changes = dict(group)
        name = changes.pop("name", "")
        if not isinstance(name, str):
            raise ConfigError(f"the name of variant {index} must be text; got {name!r} ({source}).")
        places = {key: place(f"variants[{index}].{key}") for key in changes}
        for key, where in places.items():
            _check_key(key, where)
            if key in axes:
                raise ConfigError(
                    f"{key} is given in variants ({where}) and in grid ({axes[key][1]}). "
                    "Take it out of one of them."
                )
        for values in product(*(values for values, _ in axes.values())):
            both = {**changes, **dict(zip(axes, values, strict=True))}
            yield _Combination(both, {**places, **grid_places}, name)


def _refuse_in_vain(overrides: Sequence[str], combinations: Sequence[_Combination]) -> None:
    """Refuse overrides of keys that every combination sets."""
    for override in overrides:
        key, _, value = (part.strip() for part in override.partition("="))
        if all(key in each.changes for each in combinations):
            raise ConfigError(
                f"{override!r} changes nothing: every run of the sweep has its own {key}, by grid "
                f"or variants. Give grid.{key}=[{value}] for that value alone."
            )


def _flat(
    tree: Mapping[str, object], source: str, above: str = ""
) -> Iterator[tuple[str, list[object]]]:
    """The lists of a grid by dotted key; keys may be nested too."""
    for name, value in tree.items():
        key = f"{above}{name}"
        if isinstance(value, dict) and value:
            yield from _flat(value, source, f"{key}.")
        elif not isinstance(value, list) or not value:
            raise ConfigError(
                f"grid: {key} must be a list of values; got {value!r:.80} ({source}). Write "
                f"`{key}: [{config_yaml.inline(value)}]`, or set it in the configuration."
            )
        elif len({config_yaml.inline(one) for one in value}) < len(value):
            raise ConfigError(f"grid: {key} has a value twice; got {value!r:.80} ({source}).")
        else:
            yield key, value


def _check_key(key: str, where: str) -> None:
    if (remedy := _OWN.get(key)) is not None:
        raise ConfigError(f"{key} can't differ within a sweep ({where}). {remedy}")


def _variants(
    combinations: Sequence[_Combination],
    base: config_yaml.Document,
    source: str,
    base_name: str,
    folder: str,
) -> tuple[Variant, ...]:
    """Every combination as a configuration; all that is wrong is told once."""
    named = labels([(each.name, each.changes) for each in combinations], base_name, NAME_LENGTH)
    variants: list[Variant] = []
    errors: dict[str, None] = {}
    for name, combination in zip(named, combinations, strict=True):
        tree = copy.deepcopy(base.tree) | {"name": name, "directory": folder}
        changes = [
            f"{key}={config_yaml.inline(value)}" for key, value in combination.changes.items()
        ]
        try:
            config = config_file.read(
                config_yaml.Document(tree, base.lines),
                changes,
                algorithm_config_type,
                source=source,
                places=combination.places,
            )
        except ConfigError as error:
            errors.setdefault(str(error))
        else:
            same = (v.name for v in variants if replaced(v.config, name=name) == config)
            if (other := next(same, None)) is not None:
                errors.setdefault(
                    f"variants {other!r} and {name!r} are one configuration, which would be "
                    "trained twice and counted once. Take one of them out."
                )
            variants.append(Variant(name, config))
    if errors:
        shown = [*errors][:_SHOWN]
        more = len(errors) - len(shown)
        raise ConfigError(
            "\n".join([*shown, *([f"... and {more} more like these"] if more else [])])
        )
    return tuple(variants)


def _seeds(given: int | tuple[int, ...], first: int) -> tuple[int, ...]:
    seeds = tuple(range(first, first + given)) if isinstance(given, int) else given
    if not seeds or len(set(seeds)) < len(seeds) or min(seeds) < 0 or max(seeds) >= 2**63:
        raise ConfigError(
            f"seeds must be a number of at least 1, or a list of different numbers from 0 on; got "
            f"{list(seeds)!r:.80}."
        )
    return seeds
