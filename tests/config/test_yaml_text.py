import math

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from fast_core.config.yaml_text import dump, inline, parse, parse_value
from fast_core.errors import ConfigError

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
trees = st.dictionaries(
    st.text(),
    st.recursive(
        scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8
    ),
)


def aliases(begins: str, ends: str, levels: int, each: int = 9) -> str:
    """A level is so many of the one below: nine times as much, in thirty letters more."""
    lines = [f"x0: &x0 {begins}{ends}"]
    for level in range(1, levels + 1):
        below = ", ".join([f"*x{level - 1}"] * each)
        lines.append(f"x{level}: &x{level} {begins}{below}{ends}")
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-4", 1e-4),
        ("1E6", 1e6),
        ("-.5", -0.5),
        ("3.", 3.0),
        (".inf", math.inf),
        ("-.Inf", -math.inf),
        ("1_000_000", 1_000_000),
        ("010", 10),
        ("0x1F", 31),
        ("0o17", 15),
        ("true", True),
        ("False", False),
        ("~", None),
        ("null", None),
        ("", None),
        # What a reader of YAML 1.1 would turn into something else:
        ("on", "on"),
        ("No", "No"),
        ("yes", "yes"),
        ("1:30", "1:30"),
        ("2024-01-01", "2024-01-01"),
        ("'1e-4'", "1e-4"),
        ('"true"', "true"),
        ("cuda:1", "cuda:1"),
        ("ALE/Pong-v5", "ALE/Pong-v5"),
        ("1e", "1e"),
        ("1_", "1_"),
        ("nan", "nan"),
    ],
)
def test_scalars_follow_yaml_1_2(text: str, value: object) -> None:
    read = parse_value(text)
    assert (type(read), read) == (type(value), value)


def test_nan_is_a_number() -> None:
    read = parse_value(".nan")
    assert isinstance(read, float) and math.isnan(read)


def test_text_that_is_not_yaml_is_text() -> None:
    assert parse_value("[1, 2") == "[1, 2"
    assert parse_value("@home") == "@home"
    assert parse_value("9" * 5000) == "9" * 5000  # Python refuses to read it as a number


@given(trees)
def test_what_is_written_is_read_back_equal(tree: dict[str, object]) -> None:
    assert parse(dump(tree), "x.yaml").tree == tree


@given(st.dictionaries(st.text(), st.text() | st.booleans()))
def test_other_yaml_readers_get_text_and_switches_back_too(tree: dict[str, object]) -> None:
    assert yaml.safe_load(dump(tree)) == tree


@given(scalars | st.lists(scalars))
def test_an_inline_value_stands_on_one_line_and_is_read_back_equal(value: object) -> None:
    text = inline(value)
    assert len(text.splitlines()) == 1
    assert parse_value(text) == value


@given(st.text())
def test_any_text_is_read_or_refused_as_configuration(text: str) -> None:
    try:
        tree = parse(text, "x.yaml").tree
    except ConfigError as error:
        assert "x.yaml" in str(error)
    else:
        assert isinstance(tree, dict)


@pytest.mark.parametrize(
    "text", ["a: 1\na: 2", "s:\n  a: 1\n  b: 2\n  a: 3", "{a: 1, 'a': 2}", "l: [{a: 1, a: 1}]"]
)
def test_duplicate_key_is_refused_with_its_line(text: str) -> None:
    with pytest.raises(ConfigError, match=r"x\.yaml.*'a' is given twice \(line \d, column \d+\)"):
        parse(text, "x.yaml")


def test_merged_keys_may_be_overridden() -> None:
    text = "base: &base {a: 1, b: 2}\nmore:\n  <<: *base\n  b: 3\nagain: *base"
    tree = parse(text, "x.yaml").tree
    assert tree["more"] == {"a": 1, "b": 3}
    assert tree["again"] == {"a": 1, "b": 2}


def test_lines_are_known_for_nested_keys() -> None:
    assert parse("a: 1\n\nb:\n  c: {d: 2}\n", "x").lines == {"a": 1, "b": 3, "b.c": 4, "b.c.d": 4}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: [1", "line 1"),
        ("a:\n\tb: 1", "line 2"),
        ("- a", "keys such as"),
        ("just text", "keys such as"),
        ("a: 1\n---\nb: 2", "document"),
        ("a: !!python/object/apply:os.getcwd []", "python"),
        ("a: " + "[" * 5000, "nested too deeply"),
        ("a: \x00", "x.yaml"),
    ],
)
def test_what_is_no_configuration_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        parse(text, "x.yaml")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: &a {b: *a}", "an alias stands within what it stands for"),
        ("a: &a [*a]", "an alias stands within what it stands for"),
        (aliases("[", "]", 8), "it is too much with what its aliases stand for"),
        (aliases("{k1: 1, <<: [", "]}", 8), "it is too much with what its aliases stand for"),
        (aliases("[", "]", 150, 1), "it is nested too deeply"),
        ("a: " + "[" * 150 + "]" * 150, "it is nested too deeply"),
        ("a: " + "[" * 50_000 + "]" * 50_000, "it is nested too deeply"),
        (f"a: {'1' * 1001}", "a number has too many digits"),
        ('a: "\\uD800"', "half a character"),
        ("a: !!bool maybe", "a value can't be read"),
        ("a: !!int ''", "a value can't be read"),
        ("a: !!timestamp never", "a value can't be read"),
    ],
)
def test_what_would_fill_memory_or_can_not_be_read_is_refused(text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        parse(text, "x.yaml")


def test_aliases_of_honest_files_are_read() -> None:
    text = "a: &a {b: [1, 2]}\nc: *a\nd: {<<: *a, e: 3}\n"
    tree = parse(text, "x.yaml").tree
    assert tree == {"a": {"b": [1, 2]}, "c": {"b": [1, 2]}, "d": {"b": [1, 2], "e": 3}}


def test_value_that_stands_twice_is_written_twice() -> None:
    sizes = [64, 64]
    assert dump({"a": sizes, "b": sizes}).count("64") == 4
