"""One key of the configuration, or a group of them, explained on the terminal."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping

from fast_core.config import AlgorithmConfig, RunConfig, Section
from fast_core.config.meant import key_meant
from fast_core.config.schema import REQUIRED, Key, keys, paths, summary
from fast_core.config.yaml_text import inline
from fast_core.errors import ConfigError

AlgorithmTypes = Mapping[str, type[AlgorithmConfig]]
_WIDTH = 100


def explain(path: str, algorithms: AlgorithmTypes) -> str:
    """What a key means, what it takes and its default; of a group or an algorithm, its keys.

    Args:
        path: Dotted, as in an override; the name of an algorithm; or empty for the top level.
        algorithms: Configuration types by name.

    Raises:
        ConfigError: There is no such key; says what is near.
    """
    if path in algorithms:
        return _group(f"algorithm, with name: {path}", algorithms[path])
    names = re.sub(r"\[\d+\]", "", path).split(".") if path else []
    kinds: dict[str, type[Section]] = {"": RunConfig}  # by algorithm, where that matters
    found: dict[str, Key] = {}
    named = False  # the next name is one that a user gives
    for depth, name in enumerate(names):
        if named:
            named = False
            continue
        found = {of: keys(kind)[name] for of, kind in kinds.items() if name in keys(kind)}
        if not found:
            group = ".".join(names[:depth])
            siblings = [*dict.fromkeys(each for kind in kinds.values() for each in keys(kind))]
            known = {*paths(RunConfig)}.union(
                *(paths(kind, "algorithm.") for kind in algorithms.values())
            )
            raise ConfigError(
                f"{path} is not a key of the configuration. "
                f"{key_meant(name, group, siblings, sorted(known))}"
            )
        named = next(iter(found.values())).named is not None
        kinds = {of: kind for of, key in found.items() if (kind := _below(key)) is not None}
        if AlgorithmConfig in kinds.values():
            kinds = {**algorithms}
    if len(kinds) == 1:
        return _group(path or "the top level", next(iter(kinds.values())))
    if kinds:
        ours = ", ".join(algorithms)
        return (
            "algorithm: its keys depend on algorithm.name. `fastloop config explain NAME` lists "
            f"them, of {ours}.\n"
        )
    return _leaf(path, found)


def _below(key: Key) -> type[Section] | None:
    return key.section or key.items or key.named


def _group(title: str, kind: type[Section]) -> str:
    lines = [f"{title}: {summary(kind)}\n"]
    for key in keys(kind).values():
        below = _below(key)
        head = key.name if below else f"{key.name} ({_default(key)})"
        said = key.description or (summary(below) if below else "")
        lines.append(_filled(f"  {head}: {said}"))
    return "\n".join(lines) + "\n"


def _leaf(path: str, found: Mapping[str, Key]) -> str:
    said: dict[tuple[str, str, str], list[str]] = {}
    for of, key in found.items():
        said.setdefault((key.description, key.allowed, _default(key)), []).append(of)
    lines = [path]
    for (description, allowed, default), algorithms in said.items():
        if algorithms != [""]:
            lines += ["", _filled(f"  with {', '.join(algorithms)}:")]
        lines += [_filled(f"  {description}"), _filled(f"  value: {allowed}")]
        lines.append(f"  default: {default}")
    return "\n".join(lines) + "\n"


def _default(key: Key) -> str:
    return "required" if key.default is REQUIRED else inline(key.shown)


def _filled(text: str) -> str:
    return textwrap.fill(text, _WIDTH, subsequent_indent="    ", break_on_hyphens=False)
