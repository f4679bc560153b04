"""The configuration written out for people and editors: Markdown, commented YAML, JSON Schema.

All three come from the configuration types, `docs/configuration.md` through
`fastloop config schema --markdown`.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from inspect import getdoc

import msgspec

from fast_core.config import (
    AlgorithmConfig,
    ExtraNodeConfig,
    RunConfig,
    Section,
    SinkConfig,
    StopConfig,
    WrapperConfig,
)
from fast_core.config.schema import ATTRIBUTES, REQUIRED, Key, attributes, keys, summary
from fast_core.config.yaml_text import inline

AlgorithmTypes = Mapping[str, type[AlgorithmConfig]]

_INTRO = """\
# Configuration reference

<!-- Made by `fastloop config schema --markdown`; a test compares. Edit the types instead. -->

A run is one YAML file that states only what differs from the defaults below. Any key can be
given on the command line too, after the file, and wins over it:

```
fastloop launch configs/ppo_cartpole.yaml seed=7 algorithm.learning_rate=1e-3
```

Without a file `fastloop train ppo --env CartPole-v1 seed=7` takes the defaults of an algorithm on
an environment, for a million env steps unless a key of `stop` says otherwise (Atari games with
`environment.atari` and four frames). `fastloop launch algorithm.name=ppo environment.id=ID` is the
same.

Values are YAML 1.2: `1e-4` is a number, `true` and `false` are the only switches, `null` is
nothing, and `on`, `yes` or `no` are text. A key that is not listed here is refused, with the
nearest one that is. `fastloop config explain KEY` says on the terminal what this page says of a
key or a group. `fastloop config validate FILE` comes to the verdict that a launch would come
to: a process makes the environment, steps it and tries the devices, and nothing is left. `--show`
prints the file with every default filled in, and `fastloop config defaults` prints a commented
file to begin with.
"""


def markdown(algorithms: AlgorithmTypes) -> str:
    """Write the reference of all keys; ``algorithms`` are configuration types by name."""
    parts = [_INTRO, *_groups(RunConfig, "", "The top level")]
    for name, kind in algorithms.items():
        parts.extend(_groups(kind, "algorithm", f"algorithm: {name}"))
    return "\n".join(parts)


def _groups(section: type[Section], path: str, title: str) -> Iterator[str]:
    described = keys(section)
    values = [key for key in described.values() if key.section is None]
    if values and section is not AlgorithmConfig:
        yield f"## {title}\n\n{summary(section)}\n\n{_table(values)}"
    for key in described.values():
        if key.section is not None:
            below = f"{path}.{key.name}" if path else key.name
            off = " (null: off, the default; {}: on)" if key.default is None else ""
            yield from _groups(key.section, below, below + off)
        if key.items is not None:
            below = f"{path}.{key.name}" if path else key.name
            yield from _groups(key.items, below, f"{below}, each item")


def _table(values: list[Key]) -> str:
    rows = ["| key | value | default | meaning |", "|---|---|---|---|"]
    for key in values:
        default = "required" if key.default is REQUIRED else f"`{inline(key.shown)}`"
        cells = [f"`{key.name}`", key.allowed, default, key.description]
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(rows) + "\n"


def template(name: str, algorithm: type[AlgorithmConfig]) -> str:
    """Write a commented YAML file with every default; required keys are left empty."""
    head = "# Every key with its default. Fill in what is marked as required; delete the rest.\n\n"
    return head + "".join(_lines(RunConfig, 0, name, algorithm))


def _lines(
    section: type[Section], depth: int, name: str, algorithm: type[AlgorithmConfig]
) -> Iterator[str]:
    indent = "  " * depth
    for key in keys(section).values():
        if key.section is not None and key.default is None:
            text = f"{summary(key.section)} null: off; {{}}: on with its defaults."
            yield from _comment(text, indent)
            yield f"{indent}{key.name}: null\n"
            continue
        if key.section is not None:
            kind = algorithm if key.section is AlgorithmConfig else key.section
            yield f"\n{indent}# {summary(kind)}\n{indent}{key.name}:\n"
            yield from _lines(kind, depth + 1, name, algorithm)
            continue
        yield from _comment(f"{key.description} Value: {key.allowed}.", indent)
        if issubclass(section, AlgorithmConfig) and key.name == "name":
            yield f"{indent}name: {name}\n"
        elif key.default is REQUIRED:
            yield f"{indent}{key.name}: # required\n"
        elif section is StopConfig and key.name == "env_steps":
            yield f"{indent}{key.name}: # required, or another of these\n"
        else:
            yield f"{indent}{key.name}: {inline(key.shown)}\n"


def _comment(text: str, indent: str) -> Iterator[str]:
    return (f"{indent}# {line}\n" for line in textwrap.wrap(text, 96 - len(indent)))


def _sections(kinds: Iterable[type[Section]]) -> Iterator[type[Section]]:
    """These and all that stand in them."""
    for kind in kinds:
        yield kind
        for key in keys(kind).values():
            yield from _sections(each for each in (key.section, key.items, key.named) if each)


def json_schema(algorithms: AlgorithmTypes) -> str:
    """Write a JSON Schema, for editors that complete and check YAML files."""
    types: list[type[Section]] = [RunConfig, *algorithms.values()]
    references, definitions = msgspec.json.schema_components(types, ref_template="#/$defs/{name}")
    for kind in _sections(types):
        definition = definitions[kind.__name__]
        definition["description"] = (getdoc(kind) or "").partition(ATTRIBUTES)[0]
        for name, key in keys(kind).items():
            if key.attribute in attributes(kind):
                definition["properties"][name]["description"] = key.description
    for name, reference in zip(algorithms, references[1:], strict=True):
        definition = definitions[reference["$ref"].rpartition("/")[2]]
        definition["properties"]["name"] = {"const": name}
    for kind in (WrapperConfig, ExtraNodeConfig, SinkConfig):
        name = kind.__name__
        definitions[name] = {"anyOf": [{"type": "string"}, definitions[name]]}
    changes = {k: v for k, v in definitions["EnvironmentConfig"].items() if k != "required"}
    others = definitions["EvaluationConfig"]["properties"]["environments"]
    others["additionalProperties"] = changes
    run = definitions["RunConfig"]
    run["properties"]["algorithm"] = {"anyOf": list(references[1:])}
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "FastLoop run configuration",
        **references[0],
        "$defs": definitions,
    }
    return json.dumps(schema, indent=2) + "\n"
