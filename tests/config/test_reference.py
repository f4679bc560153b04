import json
from pathlib import Path
from typing import Annotated, Any

import pytest
from msgspec import Meta, inspect

from fast_core.config import AlgorithmConfig, RunConfig, WrapperConfig
from fast_core.config.algorithms import REGISTRY, algorithm_config_type
from fast_core.config.file import loads
from fast_core.config.reference import json_schema, markdown, template
from fast_core.config.schema import describe, keys, paths
from fast_core.errors import ConfigError

REFERENCE = Path(__file__).parents[2] / "docs" / "configuration.md"


class Fake(AlgorithmConfig, frozen=True, kw_only=True):
    """A made-up algorithm.

    Attributes:
        label: What it is called,
            in the end.
    """

    gain: Annotated[float, Meta(gt=0, description="How much | how far.")] = 0.5
    label: str | None = None


ALGORITHMS: dict[str, type[AlgorithmConfig]] = {"fake": Fake}


def test_reference_page_is_current() -> None:
    registered = {name: algorithm_config_type(name) for name in REGISTRY}
    assert REFERENCE.read_text(encoding="utf-8") == markdown(registered), (
        "run `fastloop config schema --markdown > docs/configuration.md`"
    )


def test_reference_has_a_row_for_every_value() -> None:
    text = markdown(ALGORITHMS)
    assert "| `gain` | a number above 0 | `0.5` | How much \\| how far. |" in text
    assert "| `label` | text, or null | `null` | What it is called, in the end. |" in text
    assert "| `id` | text | required | Gymnasium environment id, a class as" in text
    for path in paths(RunConfig):
        name = path.rpartition(".")[2]
        heading = f"## {path}" in text
        assert f"| `{name}` |" in text or heading or path in ("nodes", "algorithm")


def test_reference_explains_groups_that_are_off_and_items_of_lists() -> None:
    text = markdown(ALGORITHMS)
    assert "## environment.atari (null: off, the default; {}: on)\n" in text
    assert "## nodes.extra, each item\n" in text
    assert "| `node` | text | required |" in text


def test_every_key_of_a_run_has_a_description() -> None:
    registered = [algorithm_config_type(name) for name in REGISTRY]
    sections = [RunConfig, *registered]
    while sections:
        for key in keys(sections.pop()).values():
            assert key.description, key.name
            sections += [below for below in (key.section, key.items) if below is not None]


def test_template_is_a_configuration_once_what_is_required_is_filled_in() -> None:
    text = template("fake", Fake)
    with pytest.raises(ConfigError, match="name must be text; got None"):
        loads(text, [], ALGORITHMS.__getitem__, source="template")
    required = ["name=x", "environment.id=CartPole-v1", "stop.updates=1"]
    minimal = "algorithm: {name: fake}"
    assert loads(text, required, ALGORITHMS.__getitem__, source="template") == loads(
        minimal, required, ALGORITHMS.__getitem__, source="minimal"
    )
    assert "  # How much | how far. Value: a number above 0.\n  gain: 0.5\n" in text
    assert max(map(len, text.splitlines())) <= 100


def test_json_schema_knows_sections_ranges_and_algorithms() -> None:
    schema = json.loads(json_schema(ALGORITHMS))
    run = schema["$defs"]["RunConfig"]
    assert schema["$ref"] == "#/$defs/RunConfig"
    assert run["additionalProperties"] is False
    assert run["properties"]["algorithm"] == {"anyOf": [{"$ref": "#/$defs/Fake"}]}
    assert schema["$defs"]["WrapperConfig"]["anyOf"][0] == {"type": "string"}
    assert schema["$defs"]["Fake"]["description"] == "A made-up algorithm."
    fake = schema["$defs"]["Fake"]["properties"]
    described = [fake[key]["description"] for key in ("gain", "label")]
    assert described == ["How much | how far.", "What it is called, in the end."]
    assert fake["name"] == {"const": "fake"}
    assert fake["gain"]["exclusiveMinimum"] == 0


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (Annotated[int, Meta(ge=1, le=9)], "an integer of at least 1 and of at most 9"),
        (Annotated[float, Meta(gt=0, lt=1)], "a number above 0 and below 1"),
        (dict[str, int], "a group of keys with an integer each"),
        (dict[str, Any], "a group of keys with any value each"),
        (tuple[WrapperConfig, ...], "a list, each item text or a group of keys"),
        (list[str], "a list, each item text"),
        (Fake, "a group of keys"),
        (bool | None, "true or false, or null"),
        (bytes, "bytes"),
        (float | Annotated[str, Meta(title="a word")], "a number, or a word"),
    ],
)
def test_types_are_described_in_words(kind: object, words: str) -> None:
    assert describe(inspect.type_info(kind)) == words
