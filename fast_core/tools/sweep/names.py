"""What the runs of a sweep are called: after what differs. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from fast_core.config import yaml_text as config_yaml
from fast_core.config.alike import short_keys

_UNSAFE = re.compile(r"[^\w.\-+=,]+")
_LONGEST_VALUE = 60


def labels(
    variants: Sequence[tuple[str, Mapping[str, object]]], alone: str, longest: int
) -> list[str]:
    """A name for each variant that can be a folder's, different from all others'.

    Args:
        variants: The name that was given, or nothing, and the keys that are changed.
        alone: The name where nothing is changed.
        longest: Characters that a name may have.
    """
    short = short_keys(key for _, changes in variants for key in changes)
    found: list[str] = []
    for given, changes in variants:
        parts = [given] if given else []
        parts += [f"{short[key]}={_value(value)}" for key, value in changes.items()]
        text = _UNSAFE.sub("_", ",".join(parts) or alone).lstrip(".")
        found.append(_unused(text[: longest - 10] or "_", found))
    return found


def _value(value: object) -> str:
    if isinstance(value, dict):
        return ",".join(f"{key}={_value(item)}" for key, item in value.items())[:_LONGEST_VALUE]
    if isinstance(value, list):
        return "-".join(map(_value, value))[:_LONGEST_VALUE]
    return config_yaml.inline(value)[:_LONGEST_VALUE]


def _unused(text: str, taken: Sequence[str]) -> str:
    number, name = 1, text
    while name in taken:
        number += 1
        name = f"{text}_{number}"
    return name
