"""Configurations side by side: their keys, flat, and in which of them they differ. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from fast_core.config import RunConfig
from fast_core.config.file import with_pickled

# Where a run lies, and which of its kind it is.
PLACE = frozenset({"name", "directory", "seed"})
# What a launch puts in the place of a key that was left open, beside every `auto`.
_FILLED = {"horizon_env_steps", "policy.measured", "policy.loaded"}
_MISSING = "(no such key)"


def leaves(config: RunConfig) -> dict[str, object]:
    """Every value by its dotted key, but for where the run and its files lie, and its seed."""
    config = with_pickled(config, lambda path: Path(path).name)
    return leaves_of(msgspec.to_builtins(config))


def leaves_of(tree: Mapping[str, object]) -> dict[str, object]:
    """`leaves` of a configuration as it stands in a run's file, which is not checked."""
    return {key: value for key, value in _flat(tree, "") if key not in PLACE}


def differences(wanted: RunConfig, found: RunConfig) -> dict[str, tuple[object, object]]:
    """Keys in which the configuration that a run wrote is not the one that was launched.

    Returns:
        (wanted, found) by dotted key; what a launch fills in is no difference.
    """
    asked, got = leaves(wanted), leaves(found)
    filled = {key for key, value in asked.items() if value == "auto"}
    filled |= {key for key in _FILLED if asked.get(key) is None}
    return {
        key: (asked.get(key, _MISSING), got.get(key, _MISSING))
        for key in asked | got
        if asked.get(key, _MISSING) != got.get(key, _MISSING)
        and not any(key == other or key.startswith(f"{other}.") for other in filled)
    }


def _flat(tree: Mapping[str, object], above: str) -> Iterator[tuple[str, object]]:
    for name, value in tree.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value
