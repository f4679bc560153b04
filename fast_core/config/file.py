"""Read a run's configuration from YAML and the command line, and write it back.

Everything that is wrong is reported at once: the key, the value, what is allowed, the file and
line, and what to do. Nothing here imports torch or an environment.
"""

from __future__ import annotations

import difflib
import math
import reprlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from fast_core.config import AlgorithmConfig, EnvironmentConfig, RunConfig, Section
from fast_core.config import yaml_text as config_yaml
from fast_core.config.meant import key_meant, override_meant
from fast_core.config.rules import Problem, problems
from fast_core.config.schema import REQUIRED, Key, choices, keys, paths, takes_text
from fast_core.config.shipped import located
from fast_core.errors import ConfigError

S = TypeVar("S", bound=Section)
AlgorithmType = Callable[[str], type[AlgorithmConfig]]

COMMAND_LINE = "command line"
_OF_ITS_ID = ("kwargs", "pickled")  # of an environment: not another one's
_PICKLED = {"environment", "environment.pickled"}

_SWITCHES = {"yes": "true", "on": "true", "no": "false", "off": "false"}


def load(
    path: Path,
    overrides: Sequence[str],
    algorithm_type: AlgorithmType,
    *,
    resolved: bool = False,
) -> RunConfig:
    """Read a configuration file.

    Args:
        path: YAML file that mirrors `RunConfig`, or the name of one that comes with FastLoop; see
            `shipped.located`.
        overrides: ``dotted.key=value`` each, values in YAML; later ones win.
        algorithm_type: Gives the configuration type of an algorithm's name.
        resolved: Whether a run wrote it: a key that it lacks came later than the run.

    Raises:
        ConfigError: The file can't be read, or some keys or values are wrong (all are listed).
    """
    path = located(path)
    source = str(path)
    document = config_yaml.parse(read_text(path), source)
    if "config" in document.tree and "environment" not in document.tree:
        raise ConfigError(f"{source} is the file of a sweep. Run it with `fastloop sweep {path}`.")
    return beside(
        path.parent, read(document, overrides, algorithm_type, source=source, resolved=resolved)
    )


def beside(folder: Path, config: RunConfig) -> RunConfig:
    """The configuration with the whole path of what lies in ``folder`` beside its file."""
    return with_pickled(config, lambda name: str(folder.absolute() / name))


def with_pickled(config: RunConfig, path: Callable[[str], str]) -> RunConfig:
    """The configuration with ``path(...)`` of every file that belongs to a run.

    That is ``pickled`` wherever an environment has it, and what ``policy.from`` has loaded.
    """

    def moved(environment: EnvironmentConfig) -> EnvironmentConfig:
        if environment.pickled is None:
            return environment
        return msgspec.structs.replace(environment, pickled=path(environment.pickled))

    policy, evaluation = config.policy, config.evaluation
    if policy.loaded is not None and "file" in policy.loaded:
        loaded = {**policy.loaded, "file": path(str(policy.loaded["file"]))}
        policy = msgspec.structs.replace(policy, loaded=loaded)
    others = {name: moved(each) for name, each in evaluation.environments.items()}
    return msgspec.structs.replace(
        config,
        policy=policy,
        environment=moved(config.environment),
        evaluation=msgspec.structs.replace(evaluation, environments=others),
    )


def loads(
    text: str,
    overrides: Sequence[str],
    algorithm_type: AlgorithmType,
    *,
    source: str,
    resolved: bool = False,
) -> RunConfig:
    """Read a configuration from text; ``source`` names it in errors. See `load`."""
    document = config_yaml.parse(text, source)
    return read(document, overrides, algorithm_type, source=source, resolved=resolved)


def read(
    document: config_yaml.Document,
    overrides: Sequence[str],
    algorithm_type: AlgorithmType,
    *,
    source: str,
    resolved: bool = False,
    places: Mapping[str, str] = {},
    place: str = COMMAND_LINE,
) -> RunConfig:
    """Read a configuration from a parsed file, whose tree the overrides change. See `load`.

    ``places`` says where an override stands, by its dotted key; others in ``place``.
    """
    tree = document.tree
    algorithm = tree.get("algorithm")
    if resolved and isinstance(algorithm, dict) and isinstance(name := algorithm.get("name"), str):
        for key, value in algorithm_type(name).came_later.items():
            algorithm.setdefault(key, value)
    origins = _Origins(source, document.lines, places, place)
    _apply_all(overrides, tree, origins)
    environment, given = tree.get("environment"), origins.overrides
    if "environment.id" in given and not _PICKLED & given.keys() and isinstance(environment, dict):
        environment.pop("pickled", None)  # what it was is not meant any more
    config = _Conversion(origins, algorithm_type).whole(RunConfig, _inherited(tree))
    if broken := problems(config):
        raise _error([problem.text(origins.of(problem.key)) for problem in broken])
    return config


def from_tree(
    tree: Mapping[str, object],
    overrides: Sequence[str],
    algorithm_type: AlgorithmType,
    *,
    source: str,
) -> RunConfig:
    """Read a configuration from what YAML would hold, nested dicts. See `load`."""
    copied = plain(tree, "", source)
    assert isinstance(copied, dict)
    document = config_yaml.Document(copied, {})
    return read(document, overrides, algorithm_type, source=source, place="overrides")


def environment_from_tree(tree: Mapping[str, object], *, source: str) -> EnvironmentConfig:
    """The group ``environment`` alone. See `from_tree`."""

    def no_algorithm(name: str) -> type[AlgorithmConfig]:
        raise AssertionError("an environment has no algorithm")

    key = "environment"
    conversion = _Conversion(_Origins(source, {}), no_algorithm)
    return conversion.whole(EnvironmentConfig, plain(tree, key, source), key)


def plain(value: object, path: str, source: str) -> object:
    """A copy of what Python code gave, of nothing but what YAML can hold.

    Tuples become lists, NumPy's numbers Python's, paths text.

    Raises:
        ConfigError: Something in it can't be written in YAML; names its key.
    """
    if isinstance(value, Mapping):
        return {str(key): plain(v, _join(path, str(key)), source) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, f"{path}[{index}]", source) for index, item in enumerate(value)]
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "dtype") and getattr(value, "shape", None) == () and hasattr(value, "item"):
        value = value.item()
    if value is None or type(value) in (str, int, float, bool):
        return value
    raise ConfigError(
        f"{path} must be something that YAML can hold (text, numbers, true or false, lists and "
        f"groups of them); got {_show(value)} of type {type(value).__qualname__} ({source}). "
        f"{_where_it_goes(path, value)}"
    )


def _where_it_goes(path: str, value: object) -> str:
    """What to do with a Python object that is no value of a configuration."""
    if path.startswith("callbacks"):
        return "Callbacks that are objects go into train(..., callbacks=[...])."
    if isinstance(value, type) and not path.startswith("environment"):
        return (
            "Name the class: 'package.module:Class', in a module that processes can import. Only "
            "environment (or environment.id) may be a function or class."
        )
    return (
        "Only environment (or environment.id) may be a function or class; what that takes beside "
        "goes into functools.partial(THE_CLASS, NAME=VALUE)."
    )


def read_section(
    kind: type[S],
    document: config_yaml.Document,
    overrides: Sequence[str],
    algorithm_type: AlgorithmType,
    *,
    source: str,
) -> S:
    """Read a file that mirrors another type than `RunConfig`; it is refused in the same words."""
    origins = _Origins(source, document.lines)
    _apply_all(overrides, document.tree, origins)
    return _Conversion(origins, algorithm_type).whole(kind, document.tree)


def validate(config: RunConfig, source: str = "this configuration") -> None:
    """Check what no single type can: keys that depend on one another.

    Raises:
        ConfigError: At least one rule is broken; all that are broken are listed.
    """
    if broken := problems(config):
        raise _error([problem.text(source) for problem in broken])


def dumps(config: RunConfig) -> str:
    """Write every key of a configuration as YAML that `load` reads back equal.

    What belongs beside the file is named without its folder, so that both can be moved.
    """
    return config_yaml.dump(stated(with_pickled(config, lambda path: Path(path).name)))


def stated(config: RunConfig) -> dict[str, object]:
    """Every key of a configuration, as the nested dicts that `from_tree` reads.

    Each of ``evaluation.environments`` has only what differs from ``environment``, so that it goes
    on following that where it did.
    """
    tree: dict[str, Any] = msgspec.to_builtins(config)
    others = tree["evaluation"]["environments"]
    tree["evaluation"]["environments"] = {
        name: _without_rest(whole, tree["environment"]) for name, whole in others.items()
    }
    return tree


def read_text(path: Path) -> str:
    """The text of a configuration file.

    Raises:
        ConfigError: It can't be read.
    """
    try:
        most = config_yaml.MOST_BYTES
        with path.open("rb") as file:  # a pipe too: who names one has it written
            data = file.read(most + 1)
        if len(data) > most:
            raise ConfigError(f"{path} has more than the {most:,} bytes of a configuration.")
        return data.decode()
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} must be UTF-8 text; {error}. Save it as UTF-8.") from error
    except OSError as error:
        raise ConfigError(f"{path} can't be read: {error.strerror}.") from error


@dataclass
class _Origins:
    """Where each value came from.

    Attributes:
        source: Name of the file.
        lines: Line of every key in the file.
        places: Where an override stands, by dotted key.
        place: Where the others are given.
        overrides: Text of every override by dotted key.
    """

    source: str
    lines: dict[str, int]
    places: Mapping[str, str] = field(default_factory=dict)
    place: str = COMMAND_LINE
    overrides: dict[str, str] = field(default_factory=dict)

    def of(self, path: str) -> str:
        """Say where the value at ``path`` stands, or where it should."""
        for key in self.overrides:
            if path == key or path.startswith((f"{key}.", f"{key}[")):
                return self.places.get(key, self.place)
        below = [key for key in self.overrides if key.startswith(f"{path}.")]
        given = self.places.get(below[0], self.place) if below else ""
        if path in self.lines:
            place = f"{self.source}, line {self.lines[path]}"
            return f"{place}, and {given}" if below else place
        return given or self.source


def _apply_all(overrides: Sequence[str], tree: dict[str, object], origins: _Origins) -> None:
    for index, override in enumerate(overrides):
        path, _, raw = (part.strip() for part in override.partition("="))
        if not raw or not all(path.split(".")):
            raise ConfigError(
                f"an override must look like `section.key=value`; got {override!r} "
                f"({origins.place}). {override_meant(overrides, index)}"
            )
        _apply(path, raw, tree, origins)


def _apply(path: str, raw: str, tree: dict[str, object], origins: _Origins) -> None:
    names = path.split(".")
    group = tree
    for depth, name in enumerate(names[:-1], start=1):
        below = group.get(name)
        if below is None:
            below = group[name] = {}
        if not isinstance(below, dict):
            raise ConfigError(
                f"{path} can't be set: {'.'.join(names[:depth])} is {_show(below)}, not a group "
                f"of keys ({origins.of('.'.join(names[:depth]))})."
            )
        group = below
    group[names[-1]] = config_yaml.parse_value(raw)
    for key in [key for key in origins.overrides if key.startswith(f"{path}.")]:
        del origins.overrides[key]  # The whole group was replaced.
    origins.overrides[path] = raw


def _inherited(tree: dict[str, object]) -> dict[str, object]:
    """The tree with what each of ``evaluation.environments`` does not state, from ``environment``.

    ``tree`` stays as it is: whoever changes ``environment`` there later changes those too. What
    can't be converted is left as it is, for the conversion to say so.
    """
    training, evaluation = tree.get("environment"), tree.get("evaluation")
    if not isinstance(training, dict) or not isinstance(evaluation, dict):
        return tree
    others = evaluation.get("environments")
    if not isinstance(others, dict):
        return tree
    whole = {name: _with_rest(given, training) for name, given in others.items()}
    return {**tree, "evaluation": {**evaluation, "environments": whole}}


def _with_rest(given: object, training: Mapping[str, object]) -> object:
    """One of ``evaluation.environments`` with what it does not state."""
    if given is not None and not isinstance(given, dict):
        return given
    stated = dict(given or {})
    # Attributes are put together where they are used: what is its own stays as it is there.
    inherited = {key: value for key, value in training.items() if key != "attributes"}
    for key in _OF_ITS_ID:
        whole, part = inherited.get(key), stated.get(key)
        if "id" in stated:
            inherited.pop(key, None)
        elif isinstance(whole, dict) and isinstance(part, dict):
            stated[key] = {**whole, **part}
    return {**inherited, **stated}


def _without_rest(whole: dict[str, Any], training: dict[str, Any]) -> dict[str, object]:
    """What `_with_rest` makes one of ``evaluation.environments`` of again."""
    stated = _differing(whole, training)
    stated["attributes"] = whole["attributes"]
    if whole["id"] == training["id"] and training["kwargs"].keys() <= whole["kwargs"].keys():
        stated["kwargs"] = _differing(whole["kwargs"], training["kwargs"])
    else:
        stated |= {key: whole[key] for key in ("id", *_OF_ITS_ID)}
    return stated


def _differing(own: dict[str, Any], others: dict[str, Any]) -> dict[str, Any]:
    """Entries that the others have not, or not like that; 1 is another value than 1.0."""
    return {k: v for k, v in own.items() if k not in others or repr(v) != repr(others[k])}


class _Conversion:
    """One pass over the tree that converts what it can and notes all that it can't."""

    def __init__(self, origins: _Origins, algorithm_type: AlgorithmType) -> None:
        self.errors: list[str] = []
        self._origins = origins
        self._algorithm_type = algorithm_type
        self._known = list(paths(RunConfig))

    def whole(self, kind: type[S], tree: object, path: str = "") -> S:
        """Convert all of it.

        Raises:
            ConfigError: Something in it is wrong; all is listed.
        """
        made = self.section(kind, tree, path)
        if self.errors or not isinstance(made, kind):
            raise _error(self.errors)
        return made

    def section(self, kind: type[Section], tree: object, path: str) -> Section | None:
        """Convert a group of keys; None if anything in it is wrong."""
        if tree is None:
            tree = {}  # The key stands there with everything below it commented out.
        if not isinstance(tree, dict):
            needed = [key.name for key in keys(kind).values() if key.default is REQUIRED]
            inside = f"{needed[0]}: {tree}" if needed and isinstance(tree, str) else "KEY: VALUE"
            self._wrong(path, "must be a group of keys", tree, f"Give its keys: {{{inside}}}.")
            return None
        if kind is AlgorithmConfig:
            found = self._algorithm(tree, path)
            if found is None:
                return None
            kind = found
        before = len(self.errors)
        known = keys(kind)
        values = {key.name: self._value(key, tree, _join(path, key.name)) for key in known.values()}
        for name in tree:
            if name not in known:
                of = str(values["name"]) if issubclass(kind, AlgorithmConfig) else ""
                hint = key_meant(str(name), path, list(known), self._known, of)
                self._wrong(
                    _join(path, str(name)), "is not a key of the configuration", tree[name], hint
                )
        return self._build(kind, values, path) if len(self.errors) == before else None

    def _value(self, key: Key, tree: dict[str, object], path: str) -> object:
        if key.section is not None and not (key.optional and tree.get(key.name) is None):
            if key.name in tree or key.default is REQUIRED:
                return self.section(key.section, tree.get(key.name), path)
            return key.default
        if key.name not in tree:
            if key.default is REQUIRED:
                self.errors.append(
                    f"{path} is required ({self._origins.of(path)}). {key.description}"
                )
            return key.default
        if key.items is not None:
            return self._items(key.items, tree[key.name], path)
        if key.named is not None:
            return self._named(key.named, tree[key.name], path)
        return self._leaf(key, tree[key.name], path)

    def _items(self, kind: type[Section], value: object, path: str) -> object:
        """Convert a list of groups of keys; a text may stand for a group (`Section.shorthand`)."""
        if not isinstance(value, list):
            hint = "Begin each with `- `, or write [FIRST, SECOND]."
            self._wrong(path, "must be a list of groups of keys", value, hint)
            return None
        if kind.shorthand:
            value = [{kind.shorthand: v} if isinstance(v, str) else v for v in value]
        return tuple(self.section(kind, item, f"{path}[{i}]") for i, item in enumerate(value))

    def _named(self, kind: type[Section], value: object, path: str) -> object:
        """Convert groups of keys by name."""
        if value is None:
            return {}
        if not isinstance(value, dict):
            self._wrong(path, "must be a group of names", value, "Indent them below it.")
            return None
        if any(error.startswith("environment.") for error in self.errors):
            return {}  # they inherit it, and it would be said again of each
        return {str(n): self.section(kind, item, _join(path, str(n))) for n, item in value.items()}

    def _leaf(self, key: Key, value: object, path: str) -> object:
        candidates = [value]
        if isinstance(value, float) and value.is_integer():
            candidates.append(int(value))  # 1e6 env steps
        if path in self._origins.overrides:
            candidates.append(self._origins.overrides[path])  # name=2024 is text where text fits
        for candidate in candidates:
            try:
                converted: object = msgspec.convert(candidate, key.annotation)
            except (msgspec.ValidationError, RecursionError):
                continue
            if _finite(converted):
                return converted
        self._wrong(path, f"must be {key.allowed}", value, _remedy(key, value))
        return None

    def _algorithm(self, tree: dict[str, object], path: str) -> type[AlgorithmConfig] | None:
        key = keys(AlgorithmConfig)["name"]
        name = self._value(key, tree, _join(path, key.name))
        if not isinstance(name, str):
            return None
        try:
            kind = self._algorithm_type(name)
        except ConfigError as error:
            self.errors.append(f"{error} ({self._origins.of(_join(path, key.name))})")
            return None
        self._known.extend(paths(kind, f"{path}."))
        return kind

    def _build(self, kind: type[Section], values: dict[str, object], path: str) -> Section | None:
        known = keys(kind)
        try:
            return kind(**{known[name].attribute: value for name, value in values.items()})
        except (ValueError, TypeError) as error:  # a type's own rules, in its __post_init__
            self.errors.append(f"{path}: {error} ({self._origins.of(path)})")
            return None

    def _wrong(self, path: str, must: str, value: object, remedy: str) -> None:
        problem = Problem(path or "the configuration", must, remedy, _show(value))
        self.errors.append(problem.text(self._origins.of(path)))


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _finite(value: object) -> bool:
    """Whether no number is infinite or NaN; what a group of free keys holds is its owner's."""
    if isinstance(value, tuple | list):
        return all(_finite(item) for item in value)
    return not isinstance(value, float) or math.isfinite(value)


def _show(value: object) -> str:
    short = reprlib.Repr()
    short.maxstring = short.maxother = 80
    return short.repr(value)


def _remedy(key: Key, value: object) -> str:
    if near := difflib.get_close_matches(
        str(value), [str(item) for item in choices(key.annotation)]
    ):
        return f"Did you mean {near[0]!r}?"
    if str(value).lower() in _SWITCHES and True in choices(key.annotation):
        return f"Write {_SWITCHES[str(value).lower()]}."
    if takes_text(key.annotation) and not isinstance(value, dict | list) and value is not None:
        return "Put it in quotes if that is the text."
    if key.default is REQUIRED:
        return "Change it."
    return f"Change it, or leave it out for the default, {config_yaml.inline(key.shown)}."


def _error(errors: Sequence[str]) -> ConfigError:
    if len(errors) == 1:
        return ConfigError(errors[0])
    listed = "".join(f"\n  - {error}" for error in errors)
    return ConfigError(f"the configuration has {len(errors)} errors:{listed}")
