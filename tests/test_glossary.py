"""The glossary names only keys, metrics and files that there are."""

import re
from pathlib import Path

import pytest

from fast_core.config import RunConfig
from fast_core.config.algorithms import REGISTRY, algorithm_config_type
from fast_core.config.schema import paths

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "glossary.md").read_text("utf-8")
SOURCES = "".join(
    path.read_text("utf-8")
    for folder in ("fast_core", "algos", "clients")
    for path in (ROOT / folder).rglob("*.py")
)
KEYS = set(paths(RunConfig)).union(
    *(
        {f"algorithm.{key}" for key in algorithm_config_type(name).__struct_fields__}
        for name in REGISTRY
    )
)


def named(pattern: str) -> list[str]:
    return sorted(set(re.findall(rf"`({pattern})`", PAGE)))


@pytest.mark.parametrize("key", named(r"[a-z_]+\.[a-z_]+"))
def test_key_is_one(key: str) -> None:
    kept = key.endswith((".json", ".jsonl"))
    assert kept or key in KEYS
    assert not kept or f'"{key}"' in SOURCES


@pytest.mark.parametrize("name", named(r"(?:scheduler|rollout|eval|train)/[a-z_]+"))
def test_metric_is_one(name: str) -> None:
    assert f'"{name}"' in SOURCES or f'"{name.partition("/")[2]}"' in SOURCES


def test_glossary_is_read() -> None:
    assert len(named(r"[a-z_]+\.[a-z_]+")) > 10
