"""A group of keys of a configuration, and the values that keys take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from fast_core.algorithm import Blueprint

Value = Any  # whatever YAML can hold
Values = dict[str, Value]  # for code that is not ours


Count = Annotated[int, Meta(ge=1)]


Seconds = Annotated[float, Meta(gt=0)]


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of every group of keys; a key that is not a field is refused.

    Attributes:
        shorthand: The key that a text stands for where a list has it in place of a group.
    """

    shorthand: ClassVar[str] = ""


class AlgorithmConfig(Section, Blueprint, frozen=True, kw_only=True):
    """Base of every algorithm's own configuration type: its keys, and what a run asks of it.

    Attributes:
        came_later: What runs did that were made before a key existed: their own configuration
            has every key but those.
        name: Registered algorithm, or `package.module:Class`.
    """

    came_later: ClassVar[Mapping[str, object]] = {}

    name: str
