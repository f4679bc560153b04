"""An environment in which nothing can be imported but what a page has said to install.

`pip install ".[NAME]"` in a script that runs here brings what the extra NAME brings.
"""

from __future__ import annotations

import contextlib
import json
import sys
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

from fast_core.system.extras import DISTRIBUTION

# Run by Python as it starts, for each process anew. A module counts as missing where it would be
# found: as if its files were not there, so `find_spec` says so too.
_HOOK = """
import json, pathlib
from importlib.machinery import PathFinder

here = pathlib.Path(__file__).parent
named = (here / "named.txt").read_text().split()
direct, brought = json.loads((here / "modules.json").read_text())
hidden = set(direct).difference(brought[""], *(brought[each] for each in named))
find = PathFinder.find_spec
PathFinder.find_spec = lambda name, *where: (
    None if name.partition(".")[0] in hidden else find(name, *where)
)
"""
# What a script calls pip: it notes the extras.
_PIP = """pip() {{
  [ "$1" = install ] || return 1
  grep -o '\\[[a-z0-9,]*\\]' <<<"$*" | tr -d '[]' | tr , '\\n' >> {folder}/named.txt
}}
"""


def prepare(folder: Path) -> str:
    """Write what hides modules into ``folder``, for PYTHONPATH; returns shell functions."""
    folder.mkdir()
    (folder / "named.txt").write_text("")
    (folder / "modules.json").write_text(json.dumps(_modules()))
    (folder / "sitecustomize.py").write_text(_HOOK)
    python = "".join(
        f'{name}() {{ "{sys.executable}" {with_}"$@"; }}\n'
        for name, with_ in (("python", ""), ("fastloop", "-m fast_core.tools.cli "))
    )
    return f"set -euo pipefail\n{python}{_PIP.format(folder=folder)}"


def _modules() -> tuple[list[str], dict[str, list[str]]]:
    """Top-level modules that extras name, and all that each brings; ``""`` is the base install."""
    of: dict[str, list[str]] = {}
    for module, distributions in metadata.packages_distributions().items():
        for name in distributions:
            of.setdefault(_plain(name), []).append(module)
    extras = {*(metadata.metadata(DISTRIBUTION).get_all("Provides-Extra") or [])}
    extras -= {"test", "bench"}  # of those who change FastLoop
    named = {extra: _required(DISTRIBUTION, extra) for extra in extras} | {"": {DISTRIBUTION}}

    def modules(names: set[str]) -> list[str]:
        return [module for name in names for module in of.get(name, ())]

    brought = {extra: modules(_with_needs(names)) for extra, names in named.items()}
    return modules(set().union(*named.values())), brought


def _with_needs(names: set[str]) -> set[str]:
    """Distributions, with those that they need."""
    found, new = set[str](), names
    while new:
        found |= new
        new = {each for name in new for each in _required(name, "")} - found
    return found


def _required(name: str, extra: str) -> set[str]:
    """What a distribution requires, with one of its extras; with extras of those too."""
    found = set[str]()
    with contextlib.suppress(metadata.PackageNotFoundError):
        for each in map(Requirement, metadata.requires(name) or []):
            if each.marker is None or each.marker.evaluate({"extra": extra}):
                inner = [_required(each.name, one) for one in each.extras]
                found = found.union({_plain(each.name)}, *inner)
    return found


def _plain(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")
