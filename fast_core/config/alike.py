"""Which configurations train alike, and what tells those apart that do not. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from fast_core.config import yaml_text

# What says how a run is computed, kept and shown, not what is learned or how that is measured.
_NO_MATTER = (
    "mode",
    "nodes.env.count",
    "nodes.policy.threads",
    "nodes.optimizer.threads",
    "policy.measured",
    "checkpoint.",
    "memory.",
    "metrics.",
    "supervision.",
    "dashboard.",
    "diagnostics.",
)
_SHOWN = 4


def compared(leaves: Mapping[str, object], across: str | None = None) -> dict[str, object]:
    """What decides what a run learns, of the values of a configuration by dotted key.

    ``across`` is left out, with all below it.
    """
    return {
        key: value
        for key, value in leaves.items()
        if not key.startswith(_NO_MATTER) and not within(key, across)
    }


def within(key: str, above: str | None) -> bool:
    """Whether a dotted key is another one or stands below it."""
    return above is not None and (key == above or key.startswith(f"{above}."))


def told_apart(configs: Sequence[tuple[str, Mapping[str, object]]]) -> list[str]:
    """A name for each: its own, and behind one that several have what differs among those.

    ``configs`` are (name, what `compared` gives).
    """
    namesakes: dict[str, list[Mapping[str, object]]] = {}
    for name, tree in configs:
        namesakes.setdefault(name, []).append(tree)
    short = {name: short_keys(_different(trees)) for name, trees in namesakes.items()}
    found = []
    for name, tree in configs:
        keys = short[name]
        parts = [f"{keys[key]}={yaml_text.inline(tree[key])}" for key in keys if key in tree]
        more = f", and {len(parts) - _SHOWN} more keys" if len(parts) > _SHOWN else ""
        found.append(f"{name}: {', '.join(parts[:_SHOWN])}{more}" if parts else name)
    return found


def short_keys(keys: Iterable[str]) -> dict[str, str]:
    """As much of the end of each dotted key as tells it from all others."""
    different = list(dict.fromkeys(keys))
    found: dict[str, str] = {}
    for key in different:
        names = key.split(".")
        for length in range(1, len(names) + 1):
            ends = Counter(".".join(other.split(".")[-length:]) for other in different)
            found[key] = ".".join(names[-length:])
            if ends[found[key]] == 1:
                break
    return found


def _different(trees: Sequence[Mapping[str, object]]) -> list[str]:
    if len(trees) < 2:
        return []
    keys = dict.fromkeys(key for tree in trees for key in tree)
    found = [key for key in keys if len({repr(tree.get(key)) for tree in trees}) > 1]
    if "stop.env_steps" in found and "horizon_env_steps" in found:
        found.remove("horizon_env_steps")  # which follows it where nothing else says it
    return found
