"""Every Python block of the pages listed here runs: in order, a fresh process for each page."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from tests.process.harness import ROOT, Workplace

pytestmark = pytest.mark.process

PAGES = (
    "README.md",
    "docs/python.md",
    "docs/policies.md",
    "docs/sweeps.md",
    "docs/callbacks.md",
    "docs/deploying.md",
    "docs/metrics.md",
    "docs/muzero.md",
    "docs/testing.md",
)


def blocks(page: str) -> str:
    """The page with everything blank but its Python, so that line numbers are the page's."""
    lines, inside = [], False
    for line in page.splitlines():
        fence = line.startswith("```")
        inside = line == "```python" if fence else inside
        lines.append(line if inside and not fence else "")
    return "\n".join(lines)


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_every_python_block_of_the_page_runs(name: str) -> None:
    code = blocks((ROOT / name).read_text(encoding="utf-8"))
    assert code.strip(), f"{name} has no Python block"
    with contextlib.closing(Workplace()) as workplace:
        home = workplace.folder()
        script = home / f"{Path(name).stem}_page.py"
        script.write_text(code)
        launched = workplace.start(["-W", "error", script.name], home=home)
        assert launched.wait(100) == 0, launched.screen
        launched.assert_gone()


def test_only_python_blocks_are_taken_at_their_lines() -> None:
    page = "text\n```python\nx = 1\n```\n```bash\nls\n```\n```python\ny = 2\n```\nend"
    assert blocks(page) == "\n\nx = 1\n\n\n\n\n\ny = 2\n\n"
