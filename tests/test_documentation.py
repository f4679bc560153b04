"""Configurations shown or shipped are judged as a launch would; links and paths lead somewhere."""

from __future__ import annotations

import re
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from fast_core.config import RunConfig
from fast_core.config import file as config_file
from fast_core.config import yaml_text as config_yaml
from fast_core.config.algorithms import REGISTRY, algorithm_config_type
from fast_core.config.reference import template
from fast_core.envs.trying.probe import probe
from fast_core.launcher.topology import check_topology
from fast_core.launcher.verdict import Findings, judge
from fast_core.tools.sweep.file import read_sweep

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "benchmarks" / "README.md", *(ROOT / "docs").glob("*.md")]
BLOCK = re.compile(r"^```ya?ml\n(.*?)^```", re.DOTALL | re.MULTILINE)
NAMED = re.compile(r"# (\w+\.yaml)\n")
BLOCKS = {
    f"{page.name}:{text[: found.start()].count(chr(10)) + 2}": found[1]
    for page in sorted(PAGES)
    for text in [page.read_text("utf-8")]
    for found in BLOCK.finditer(text)
}
SWEEPS = sorted((ROOT / "examples").glob("sweep_*.yaml"))
EXAMPLES = sorted({*(ROOT / "examples").glob("*.yaml")} - {*SWEEPS})
SHIPPED = sorted([*(ROOT / "configs").glob("*.yaml"), *EXAMPLES])
PROSE = [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s]+)\)")
PATH = re.compile(
    r"`((?:\.ci|algos|benchmarks|clients|configs|docs|examples|fast_core|tests)/[\w./-]+)(?::(\w+))?`"
)
WHOLE = {"name", "environment", "algorithm", "stop"}


def loads(text: str, *overrides: str, source: str = "text") -> RunConfig:
    return config_file.loads(text, overrides, algorithm_config_type, source=source)


def judged(config: RunConfig, folder: Path) -> None:
    """The verdict of a launch, with the environment made in this process."""
    id, backend = config.environment.id, config.environment.backend
    simulators = {"ale_py": "ALE/" in id, "envpool": backend == "envpool"}
    simulators |= {"mujoco": "HalfCheetah" in id, "stable_retro": "retro" in id}
    simulators |= dict.fromkeys(("textworld", "jericho"), "TextGame" in id)
    for module, needed in simulators.items():
        if needed and find_spec(module) is None:
            pytest.skip(f"{module} is not installed")
    judge(config, lambda: Findings(probe(config.environment, config.seed), config), str(folder))


def completed(tree: dict[str, object]) -> dict[str, object]:
    """A page shows the keys that it is about; the rest is what fits them."""
    nodes: Any = tree.get("nodes", {})
    base = {"name": "x", "environment": {"id": "CartPole-v1"}, "stop": {"env_steps": 100_000}}
    base["algorithm"] = {"name": "sac" if "optimizer" in nodes else "ppo"}
    return base | tree


@pytest.mark.parametrize("place", BLOCKS)
def test_configuration_in_the_documentation_is_one(place: str, tmp_path: Path) -> None:
    tree = config_yaml.parse(BLOCKS[place], place).tree
    if "config" in tree:
        shutil.copytree(ROOT / "configs", tmp_path, dirs_exist_ok=True)
        for other, text in BLOCKS.items():  # a page may show the configuration too
            if other.startswith(place.partition(":")[0]) and (named := NAMED.match(text)):
                (tmp_path / named[1]).write_text(text)
        (tmp_path / "sweep.yaml").write_text(BLOCKS[place])
        assert read_sweep(tmp_path / "sweep.yaml").variants
        return
    config = loads(config_yaml.dump(completed(tree)), source=place)
    check_topology(config)
    if tree.keys() >= WHOLE and not NAMED.match(BLOCKS[place]):  # else its page's test runs it
        judged(config, tmp_path)


def test_documentation_has_configurations() -> None:
    assert len(BLOCKS) >= 10


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_configuration_would_run(path: Path, tmp_path: Path) -> None:
    judged(config_file.load(path, [], algorithm_config_type), tmp_path)


@pytest.mark.parametrize("path", SWEEPS, ids=lambda path: path.stem)
def test_shipped_sweep_would_run(path: Path, tmp_path: Path) -> None:
    for variant in read_sweep(path).variants:
        judged(variant.config, tmp_path)


@pytest.mark.parametrize("name", REGISTRY)
def test_defaults_filled_in_as_told_would_run(name: str, tmp_path: Path) -> None:
    values = iter(
        ["mine", "CartPole-v1" if name in ("ppo", "dqn", "muzero") else "Pendulum-v1", "100_000"]
    )
    text = template(name, algorithm_config_type(name))
    filled = re.sub("# required.*", lambda _: next(values), text.partition("\n")[2])
    assert not list(values)
    judged(loads(filled), tmp_path)


def anchors(page: Path) -> set[str]:
    """What GitHub makes of a page's headings."""
    names: list[str] = []
    for title in re.findall(r"^#+ (.+)$", FENCED.sub("", page.read_text("utf-8")), re.MULTILINE):
        shown = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title).strip().lower()
        names.append(re.sub(r"[^\w\- ]", "", shown).replace(" ", "-"))
    return {
        f"{name}-{n}" if n else name
        for i, name in enumerate(names)
        for n in [names[:i].count(name)]
    }


def dead_links(page: Path) -> list[str]:
    """Links to files that there aren't, and to headings that the page at their end hasn't."""
    links = set(LINK.findall(FENCED.sub("", page.read_text("utf-8"))))
    parts = [link.partition("#") for link in sorted(links) if "://" not in link]
    ends = [(path, anchor, page.parent / path if path else page) for path, _, anchor in parts]
    return [
        f"{path}#{anchor}" if anchor else path
        for path, anchor, end in ends
        if not end.exists() or (anchor and anchor not in anchors(end))
    ]


@pytest.mark.parametrize("page", PROSE, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_of_the_page_lead_somewhere(page: Path) -> None:
    assert not dead_links(page)


def test_dead_links_between_pages_are_found(tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text(
        "# `a.b` and [c](d.md)\n```\n# no heading\n```\n## E\n## E\n"
    )
    page = tmp_path / "page.md"
    page.write_text("# Top\n[](#top) [](other.md#ab-and-c) [](other.md#e-1) [](https://x.y/z#dead)")
    assert not dead_links(page)
    links = ("#dead", "gone.md", "gone.md#e", "other.md#e-2", "other.md#no-heading")
    page.write_text("".join(f"[word]({link}) " for link in links))
    assert dead_links(page) == list(links)


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name)
def test_paths_and_names_on_the_page_exist(page: Path) -> None:
    for path, name in sorted(set(PATH.findall(page.read_text("utf-8")))):
        assert (ROOT / path).exists(), path
        if name:  # path:name is a function or class that begins at the left
            code = (ROOT / path).read_text("utf-8")
            assert re.search(rf"^(?:def|class) {name}\b", code, re.MULTILINE), f"{path}:{name}"


def test_pages_named_in_the_source_exist() -> None:
    for file in (
        f for name in ("fast_core", "algos", "clients") for f in (ROOT / name).rglob("*.py")
    ):
        for path in re.findall(r"docs/[\w.-]+\.md", file.read_text("utf-8")):
            assert (ROOT / path).is_file(), f"{file} names {path}"


def test_every_page_is_listed_in_the_readme() -> None:
    listed = (ROOT / "README.md").read_text("utf-8").partition("## Read on")[2]
    for page in (ROOT / "docs").glob("*.md"):
        assert f"(docs/{page.name})" in listed
