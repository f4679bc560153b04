"""Keys of the configuration that callbacks may change while a run goes on."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping

import msgspec

from fast_core.config import AlgorithmConfig, EnvironmentConfig, RunConfig, Value, Values, schema
from fast_core.config import file as config_file
from fast_core.errors import ConfigError
from fast_core.system.decoding import from_json

_KINDS = (bool, (int, float), str, list, dict)
ALGORITHM, ATTRIBUTES = "algorithm.", "environment.attributes."


def changeable(config: RunConfig) -> dict[str, Value]:
    """What may be changed, by key, and what the configuration says."""
    algorithm = config.algorithm
    values = {name: getattr(algorithm, name) for name in algorithm.changeable}
    found = {f"{ALGORITHM}{name}": msgspec.to_builtins(value) for name, value in values.items()}
    attributes = config.environment.attributes
    return found | {f"{ATTRIBUTES}{name}": value for name, value in attributes.items()}


def with_changes(algorithm: AlgorithmConfig, values: Mapping[str, Value]) -> AlgorithmConfig:
    """The algorithm's settings with ``values``, by key of the configuration; others are no matter.

    Raises:
        msgspec.ValidationError: A value is none of its key's.
    """
    kinds, changes = schema.keys(type(algorithm)), {}
    for key, value in values.items():
        if key.startswith(ALGORITHM):
            name = key.removeprefix(ALGORITHM)
            changes[name] = msgspec.convert(value, kinds[name].annotation)
    return msgspec.structs.replace(algorithm, **changes)


def attributes(config: RunConfig, changed: Mapping[str, Value]) -> Values:
    """What ``environment.attributes`` are with ``changed``, by key of the configuration."""
    given = config.environment.attributes
    return {name: changed.get(f"{ATTRIBUTES}{name}", value) for name, value in given.items()}


def evaluated(
    config: RunConfig, name: str | None, changed: Mapping[str, Value]
) -> EnvironmentConfig:
    """One of the environments that policies are evaluated in, with all of its attributes.

    ``name`` is that in ``evaluation.environments``, None for that of training. With
    ``evaluation.attributes: current`` attributes follow training's. One that gives a value of its
    own keeps it, whatever training's is; one of another id has nothing but its own.
    """
    training = config.environment
    found = attributes(config, changed if config.evaluation.attributes == "current" else {})
    if name is None:
        return msgspec.structs.replace(training, attributes=found)
    other = config.evaluation.environments[name]
    if other.id != training.id:
        return other
    return msgspec.structs.replace(other, attributes={**found, **other.attributes})


def checked(config: RunConfig, key: str, value: object) -> Value:
    """``value`` as it travels and is stored.

    Raises:
        ConfigError: The key is not changeable, or the value none of its.
    """
    known = changeable(config)
    if key not in known:
        raise ConfigError(_unknown(config, key, list(known)))
    plain = _plain(value)
    if key.startswith(ATTRIBUTES):
        return _checked_attribute(key, plain, known[key])
    kind = schema.keys(type(config.algorithm))[key.removeprefix(ALGORITHM)]
    try:
        if isinstance(plain, float) and not math.isfinite(plain):
            raise msgspec.ValidationError("not finite")
        algorithm = with_changes(config.algorithm, {key: plain})
    except msgspec.ValidationError as error:
        raise ConfigError(f"{key} must be {kind.allowed}; got {value!r}") from error
    config_file.validate(msgspec.structs.replace(config, algorithm=algorithm), "a callback")
    found: Value = msgspec.to_builtins(getattr(algorithm, kind.name))
    return found


def _checked_attribute(key: str, value: object, configured: Value) -> Value:
    """A value of the kind that the configuration gives; null may become anything."""
    try:
        plain: Value = from_json(msgspec.json.encode(value))  # any YAML, and finite
    except (TypeError, msgspec.MsgspecError) as error:
        raise ConfigError(
            f"{key} must be a number, text, true or false, or a list or group of those; "
            f"got {value!r}"
        ) from error
    if plain is None or (configured is not None and _kind(plain) != _kind(configured)):
        raise ConfigError(
            f"{key} must be of the kind of {configured!r}, which the configuration gives; "
            f"got {value!r}"
        )
    return plain


def _kind(value: object) -> object:
    """What a value of YAML is; true and false are no numbers, and all numbers are alike."""
    return next((kind for kind in _KINDS if isinstance(value, kind)), None)


def _plain(value: object) -> object:
    """A NumPy number or array, or a tensor, as Python has it."""
    tolist = getattr(value, "tolist", None)
    return tolist() if callable(tolist) else value


def _unknown(config: RunConfig, key: str, known: list[str]) -> str:
    near = difflib.get_close_matches(key, known, n=1)
    hint = f"Did you mean {near[0]!r}? " if near else ""
    declare = ""
    if key.startswith(ATTRIBUTES):
        declare = ". Attributes of the environment stand in environment.attributes, with the values"
        declare += " that they begin with"
    return (
        f"run.change() takes a key that may change while a run goes on; got {key!r}. {hint}"
        f"With algorithm.name {config.algorithm.name!r} these are: {', '.join(known) or 'none'}"
        f"{declare}"
    )
