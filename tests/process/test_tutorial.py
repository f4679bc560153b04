"""The tutorial, typed as it stands: its files written, its commands run, in an empty folder.

With nothing installed but what it says by then.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
import yaml

from tests.process.harness import ROOT, Workplace
from tests.process.only_installed import prepare

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(300)]

PAGE = (ROOT / "docs" / "tutorial.md").read_text("utf-8")
BLOCK = re.compile(r"^```(python|yaml|bash)\n(.*?)^```", re.DOTALL | re.MULTILINE)
AGAIN = re.compile(r"^(fastloop launch \w+(?:\.yaml)?\n)", re.MULTILINE)  # so that there are two
FILE = re.compile(r"# (\S+)\n")


def test_every_file_and_command_works(workplace: Workplace) -> None:
    home, hiding = workplace.folder(), workplace.folder() / "hiding"
    commands = [prepare(hiding)]
    for kind, text in BLOCK.findall(PAGE):
        if kind == "bash":
            commands.append(AGAIN.sub(r"\1\1", text))
        else:
            name = FILE.match(text)
            assert name is not None, f"no file name in the first line:\n{text}"
            (home / name[1]).write_text(text)
    (home / "all.sh").write_text("\n".join(commands))
    code = "import subprocess, sys; sys.exit(subprocess.call(['bash', 'all.sh']))"
    path = f"{hiding}{os.pathsep}{ROOT}"
    launched = workplace.start(["-c", code], home=home, environment={"PYTHONPATH": path}).done(
        within_s=280
    )
    runs = {path.parent.parent.name for path in home.glob("runs/*/*/report.html")}
    assert runs >= {"ppo_cartpole", "parking", "from_python", "fourier"}
    assert (home / "seeds.svg").read_text().startswith("<svg")
    assert "#include" in (home / "parking.h").read_text()
    assert (hiding / "named.txt").read_text().split() == ["onnx"]
    launched.assert_gone()


def test_configurations_are_what_they_show() -> None:
    for kind, text in BLOCK.findall(PAGE):
        if kind == "yaml":
            assert yaml.safe_load(text)["name"] == Path(FILE.match(text)[1]).stem  # type: ignore[index]


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(([a-z][^)#]*)\)", PAGE))))
def test_link_leads_somewhere(link: str) -> None:
    assert (ROOT / "docs" / link).is_file()
