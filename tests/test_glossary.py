"""The glossary names only keys, metrics and files that there are."""

import re
from pathlib import Path

import pytest

from fast_core.config import RunConfig
from fast_core.config.schema import paths

PAGE = (Path(__file__).parents[1] / "docs" / "glossary.md").read_text("utf-8")
SOURCES = "".join(
    path.read_text("utf-8") for path in (Path(__file__).parents[1] / "fast_core").rglob("*.py")
)


def named(pattern: str) -> list[str]:
    return sorted(set(re.findall(rf"`({pattern})`", PAGE)))


@pytest.mark.parametrize("key", named(r"[a-z_]+\.[a-z_]+"))
def test_key_is_one(key: str) -> None:
    kept = key.endswith((".json", ".jsonl"))
    assert kept or key in set(paths(RunConfig))
    assert not kept or f'"{key}"' in SOURCES


@pytest.mark.parametrize("name", named(r"(?:scheduler|rollout|eval|train)/[a-z_]+"))
def test_metric_is_one(name: str) -> None:
    assert f'"{name}"' in SOURCES or f'"{name.partition("/")[2]}"' in SOURCES


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(([^)]+)\)", PAGE))))
def test_link_leads_somewhere(link: str) -> None:
    assert (Path(__file__).parents[1] / "docs" / link).is_file()


def test_glossary_is_read() -> None:
    assert len(named(r"[a-z_]+\.[a-z_]+")) > 10
