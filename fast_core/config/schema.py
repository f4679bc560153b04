"""What the configuration types say of their keys: path, allowed values, default, meaning.

Error messages, the reference in docs/configuration.md and `fastloop config` are all made from
this, so they can't disagree with what is accepted.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from inspect import getdoc

import msgspec
from msgspec import inspect, structs

from fast_core.config import Section

REQUIRED = msgspec.NODEFAULT
ATTRIBUTES = "\n\nAttributes:\n"
_ATTRIBUTE = re.compile(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", re.MULTILINE)


@dataclass(frozen=True)
class Key:
    """One key of a section.

    Attributes:
        name: Its name in the section.
        attribute: What it is called there in Python, which reserves some names.
        annotation: Its type, as annotated.
        section: The type of the group of keys below it, or None for a value.
        items: The type of the groups that are its items, or None if it is no list of groups.
        named: The type of the groups below it that have names, or None if it has no such.
        optional: Whether null may stand for it.
        default: Its default, or `REQUIRED`.
        description: One sentence.
    """

    name: str
    attribute: str
    annotation: object
    section: type[Section] | None
    items: type[Section] | None
    named: type[Section] | None
    optional: bool
    default: object
    description: str

    @property
    def allowed(self) -> str:
        """The values it takes, in words that follow "must be"."""
        return describe(inspect.type_info(self.annotation))

    @property
    def shown(self) -> object:
        """The default as one would write it in YAML."""
        if self.items is None or not isinstance(self.default, tuple):
            return self.default
        return [_brief(item) for item in self.default]


@functools.cache  # a sweep reads a hundred configurations
def keys(section: type[Section]) -> Mapping[str, Key]:
    """Keys of a section by name, in the order of declaration."""
    told = attributes(section)
    return {f.encode_name: _key(f, told.get(f.name, "")) for f in structs.fields(section)}


def attributes(section: type[Section]) -> dict[str, str]:
    """What the docstrings of a section and its bases say of each key, by its name in Python."""
    told: dict[str, str] = {}
    for kind in reversed(section.__mro__):
        _, _, listed = (getdoc(kind) or "").partition(ATTRIBUTES)
        told |= {name: " ".join(text.split()) for name, text in _ATTRIBUTE.findall(listed)}
    return told


def paths(section: type[Section], prefix: str = "") -> Iterator[str]:
    """Dotted paths of all keys at and below a section."""
    for name, key in keys(section).items():
        yield prefix + name
        if key.section is not None:
            yield from paths(key.section, f"{prefix}{name}.")


def choices(annotation: object) -> list[object]:
    """Values that are listed one by one in a type, such as those of a `Literal` or a switch."""
    listed: list[object] = []
    for kind in _members(inspect.type_info(annotation)):
        if isinstance(kind, inspect.LiteralType):
            listed.extend(kind.values)
        elif isinstance(kind, inspect.BoolType):
            listed.extend((True, False))
    return listed


def takes_text(annotation: object) -> bool:
    """Whether any text is a valid value."""
    return any(
        isinstance(kind, inspect.StrType) and kind.pattern is None
        for kind in _members(inspect.type_info(annotation))
    )


def _key(field: structs.FieldInfo, told: str) -> Key:
    info = inspect.type_info(field.type)
    members = _members(info)
    sections = _sections(members)
    lists = [kind for kind in members if isinstance(kind, inspect.VarTupleType)]
    items = _sections([_bare(kind.item_type) for kind in lists])
    groups = [kind for kind in members if isinstance(kind, inspect.DictType)]
    named = _sections([_bare(kind.value_type) for kind in groups])
    default = field.default
    if field.default_factory is not msgspec.NODEFAULT:
        default = field.default_factory()
    return Key(
        name=field.encode_name,
        attribute=field.name,
        annotation=field.type,
        section=sections[0] if sections else None,
        items=items[0] if items else None,
        named=named[0] if named else None,
        optional=any(isinstance(kind, inspect.NoneType) for kind in members),
        default=default,
        description=_description(info, told),
    )


def _brief(item: Section) -> object:
    """A group as one would write it: the text that stands for it, if that says all."""
    text = getattr(item, item.shorthand)
    return text if item == type(item)(**{item.shorthand: text}) else msgspec.to_builtins(item)


def _sections(kinds: list[inspect.Type]) -> list[type[Section]]:
    """The group of keys among ``kinds``, if there is exactly one."""
    found = [kind.cls for kind in kinds if isinstance(kind, inspect.StructType)]
    return [kind for kind in found if issubclass(kind, Section)] if len(found) == 1 else []


def summary(section: type[object]) -> str:
    """The first line of what is said of a group."""
    return (section.__doc__ or "").partition("\n")[0]


def _bare(info: inspect.Type) -> inspect.Type:
    return _bare(info.type) if isinstance(info, inspect.Metadata) else info


def _members(info: inspect.Type) -> list[inspect.Type]:
    bare = _bare(info)
    return [_bare(kind) for kind in bare.types] if isinstance(bare, inspect.UnionType) else [bare]


def _description(info: inspect.Type, told: str) -> str:
    """What an annotation says of a key (an algorithm's of one's own may), or a docstring."""
    if isinstance(info, inspect.Metadata):
        said = str((info.extra_json_schema or {}).get("description", ""))
        return said or _description(info.type, told)
    return told or (summary(info.cls) if isinstance(info, inspect.StructType) else "")


def describe(info: inspect.Type) -> str:
    """Say in words which values a type takes; a title, where it has one, says it."""
    match info:
        case inspect.Metadata(extra_json_schema={"title": str(title)}):
            return title
        case inspect.Metadata(type=kind):
            return describe(kind)
        case inspect.UnionType(types=types):
            return ", or ".join(describe(kind) for kind in types)
        case inspect.LiteralType(values=values):
            return " or ".join(repr(value) for value in values)
        case inspect.IntType() as number:
            return f"an integer{_range(number)}"
        case inspect.FloatType() as number:
            return f"a number{_range(number)}"
        case inspect.BoolType():
            return "true or false"
        case inspect.StrType():
            return "text"
        case inspect.NoneType():
            return "null"
        case (
            inspect.ListType(item_type=item, min_length=least)
            | inspect.VarTupleType(item_type=item, min_length=least)
        ):
            some = " of at least one" if least else ""
            return f"a list{some}, each item {describe(item).replace(', or ', ' or ')}"
        case inspect.DictType(value_type=kind):
            return f"a group of keys with {describe(kind)} each"
        case inspect.StructType(cls=kind):
            return (
                "text or a group of keys" if getattr(kind, "shorthand", "") else "a group of keys"
            )
        case inspect.AnyType():
            return "any value"
        case other:
            return type(other).__name__.removesuffix("Type").lower()


def _range(number: inspect.IntType | inspect.FloatType) -> str:
    words = {"gt": "above", "ge": "of at least", "lt": "below", "le": "of at most"}
    limits = [
        f"{word} {getattr(number, name)}"
        for name, word in words.items()
        if getattr(number, name) is not None
    ]
    return " " + " and ".join(limits) if limits else ""
