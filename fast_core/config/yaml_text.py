"""The YAML that configurations are written in: the scalars of YAML 1.2, no duplicate keys.

PyYAML reads YAML 1.1, where `1e-4` is text, `on` and `no` are booleans, `010` is eight and
`1:30` is ninety. In a configuration each of those trains something nobody asked for, so the
scalars are read by the 1.2 core schema here (plus `1_000_000`). Text is written so that both
kinds of reader get it back.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from fast_core.errors import ConfigError
from fast_core.system.text import encodable, error_text

_TAG = "tag:yaml.org,2002:"
_DIGITS = r"[0-9]+(?:_[0-9]+)*"
_INT = re.compile(rf"[-+]?{_DIGITS}\Z|0o[0-7]+\Z|0x[0-9a-fA-F]+\Z")
_FLOAT = re.compile(
    rf"[-+]?(?:\.[0-9]+|{_DIGITS}(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z"
    r"|[-+]?\.(?:inf|Inf|INF)\Z|\.(?:nan|NaN|NAN)\Z"
)

_OPENED = {
    "while parsing a flow mapping": "{",
    "while parsing a flow sequence": "[",
    "while scanning a quoted scalar": "quote",
}


MOST_BYTES = 1 << 20  # of a file; those of the largest sweeps have a twentieth
MOST_TEXT = 1 << 22  # characters, with what each alias stands for written out
_NODE = 40  # characters that a value weighs more than its text: 100,000 values are too many, too
MOST_LEVELS = 100
_MOST_DIGITS = 1000  # numbers by sixties are read in time that grows with their square


@dataclass(frozen=True)
class Document:
    """A parsed file.

    Attributes:
        tree: What the file says, nested dicts.
        lines: Line number (from 1) of every dotted key of the file; ``nodes.extra[0].name`` is a
            key of the first item of a list.
    """

    tree: dict[str, object]
    lines: dict[str, int]


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers = {}

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        # Duplicates are looked for here because constructing resolves merge keys (`<<`), which
        # may be overridden. The anchor is text or None, whatever the stubs say.
        node = super().compose_mapping_node(anchor)
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != f"{_TAG}merge":
                if key.value in seen:
                    problem = f"the key {key.value!r} is given twice"
                    raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
                seen.add(key.value)
        return node

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        base = 0 if node.value[:2] in ("0o", "0x") else 10  # 010 is ten
        return int(node.value, base)

    def construct_yaml_float(self, node: yaml.ScalarNode) -> float:
        return float(re.sub(r"\.(?=[iInN])", "", node.value))  # .inf, .nan


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: object) -> bool:
        return True  # A configuration is read by people: write a value twice, not an anchor.


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    # In double quotes what can't be seen is escaped, and a line break does not break the line.
    return dumper.represent_scalar(f"{_TAG}str", text, style=None if text.isprintable() else '"')


def _resolve(tag: str, pattern: re.Pattern[str], first: list[str]) -> None:
    _Loader.add_implicit_resolver(_TAG + tag, pattern, first)
    # The dumper keeps the 1.1 rules as well: text that either reader mistakes is quoted.
    _Dumper.add_implicit_resolver(_TAG + tag, pattern, first)


_resolve("null", re.compile(r"(?:~|null|Null|NULL|)\Z"), ["~", "n", "N", ""])
_resolve("bool", re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z"), list("tTfF"))
_resolve("int", _INT, list("-+0123456789"))
_resolve("float", _FLOAT, list("-+.0123456789"))
_resolve("merge", re.compile(r"<<\Z"), ["<"])
_Dumper.add_representer(str, _represent_text)
_Loader.add_constructor(f"{_TAG}int", _Loader.construct_yaml_int)
_Loader.add_constructor(f"{_TAG}float", _Loader.construct_yaml_float)


def _lines(node: yaml.Node, prefix: str, seen: set[int]) -> Iterator[tuple[str, int]]:
    if not isinstance(node, yaml.MappingNode) or id(node) in seen:
        return
    seen.add(id(node))
    for key, value in node.value:
        if isinstance(key, yaml.ScalarNode):
            yield prefix + key.value, key.start_mark.line + 1
            yield from _lines(value, f"{prefix}{key.value}.", seen)
            for index, item in enumerate(
                value.value if isinstance(value, yaml.SequenceNode) else ()
            ):
                place = f"{prefix}{key.value}[{index}]"
                yield place, item.start_mark.line + 1
                yield from _lines(item, f"{place}.", seen)


def read_bounded(loader: Any) -> tuple[Any, yaml.Node | None]:
    """What a loader of PyYAML reads, plain and as nodes; None for nothing.

    An alias is a few letters and stands for the same object again, so who writes out or walks
    through ten levels of them has ten thousand million.

    Raises:
        yaml.YAMLError: It is no YAML, too much or nested too deeply; nothing else.
    """
    try:
        node = loader.get_single_node()
        if node is None:
            return None, None
        _measure(node, {})
        return loader.construct_document(node), node
    except RecursionError as error:
        raise yaml.YAMLError("it is nested too deeply") from error
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        # What PyYAML raises at `!!bool maybe`, at `!!int ""` and at a number of too many digits.
        raise yaml.YAMLError(f"a value can't be read ({error_text(error)})") from error
    finally:
        loader.dispose()


def _measure(node: yaml.Node, known: dict[int, tuple[int, int]]) -> tuple[int, int]:
    """Characters and levels of a node with what each alias stands for written out.

    Raises:
        yaml.MarkedYAMLError: They are too many, or it is within itself.
    """
    if id(node) in known:
        size, levels = known[id(node)]
        _check(size > 0, node, "an alias stands within what it stands for")
        return size, levels
    if isinstance(node, yaml.ScalarNode):
        whole = encodable(node.value) == node.value
        _check(whole, node, "half a character, which no file can hold")
        number = node.tag in (f"{_TAG}int", f"{_TAG}float")
        _check(not number or len(node.value) <= _MOST_DIGITS, node, "a number has too many digits")
        return len(node.value) + _NODE, 1
    known[id(node)] = 0, 0  # it is being looked at
    pairs = isinstance(node, yaml.MappingNode)
    below = [each for pair in node.value for each in pair] if pairs else node.value
    found = [_measure(each, known) for each in below]
    size = _NODE + sum(each for each, _ in found)
    levels = 1 + max((each for _, each in found), default=0)
    _check(size <= MOST_TEXT, node, "it is too much with what its aliases stand for written out")
    _check(levels <= MOST_LEVELS, node, "it is nested too deeply")
    known[id(node)] = size, levels
    return size, levels


def _check(holds: bool, node: yaml.Node, problem: str) -> None:
    if not holds:
        raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)


def parse(text: str, source: str) -> Document:
    """Read a configuration file.

    Raises:
        ConfigError: It is not YAML, gives a key twice, or is not a group of keys.
    """
    try:
        tree, node = read_bounded(_Loader(text))
    except yaml.YAMLError as error:
        reason = why(error, text.splitlines())
        raise ConfigError(f"{source} is not a valid configuration: {reason}") from error
    if tree is None or node is None:
        return Document({}, {})
    if not isinstance(tree, dict):
        raise ConfigError(f"{source} must hold keys such as `name: my_run`; got {tree!r:.80}.")
    return Document(tree, dict(_lines(node, "", set())))


def parse_value(text: str) -> object:
    """Read one value of the command line; what is not YAML is text."""
    try:
        return read_bounded(_Loader(text))[0]
    except yaml.YAMLError:
        return text


def why(error: yaml.YAMLError, lines: Sequence[str] = ()) -> str:
    """A sentence for what PyYAML raised at ``lines``, which it quotes."""
    if not isinstance(error, yaml.MarkedYAMLError):
        return f"{error}."
    mark, began = error.problem_mark, error.context_mark
    where = f" (line {mark.line + 1}, column {mark.column + 1})" if mark else ""
    line = lines[mark.line].strip() if mark and mark.line < len(lines) else ""
    if mark and "'\\t'" in str(error.problem):
        return f"line {mark.line + 1} has a tab before {line!r}; YAML takes spaces alone."
    said = f"{error.problem or error.context}{where}"
    said += f": {line[:80]!r}" if line else ""
    opened = _OPENED.get(str(error.context)) if began else None
    if began and opened:
        return f"{said}. Is the {opened} of line {began.line + 1} closed?"
    return f"{said}."


def dump(tree: object) -> str:
    """Write plain data as YAML that `parse` reads back equal; keys keep their order."""
    return yaml.dump(tree, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)


def inline(value: object) -> str:
    """Write one value on one line, as it would stand in a file or on the command line."""
    text = yaml.dump(
        value, Dumper=_Dumper, default_flow_style=True, allow_unicode=True, width=1 << 30
    )
    return text.removesuffix("\n").removesuffix("\n...")
