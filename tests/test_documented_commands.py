"""Commands of the documentation can be typed, with what the page has said to install."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from fast_core.tools.command_line import WrongUse
from fast_core.tools.commands import program

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(?:bash|console)?\n(.*?)^```", re.DOTALL | re.MULTILINE)
LINE = re.compile(r"^(?:\$ )?fastloop (.*)$", re.MULTILINE)
INLINE = re.compile(r"`fastloop ([a-z]+ [^`\n]*)`")
# What stands for something else, and what a page says about a command behind it.
PLACEHOLDER = re.compile(r"\[[^]]*\]\.*|\s{2,}.*|\s[#|&>] .*")
# What a command needs, and the words by which a page says how to have it.
NEEDED = {
    r"-o \S*\.onnx": r"\.?\[onnx\]|extra `onnx`",
    r"--video": r"\[video\]|extra `video`|`video`",
    r"--dashboard|^watch|^demo screens": r"\[dashboard|extra `dashboard`",
    r"-o \S*\.png": r"\[plot\]|extra `plot`",
    r"ALE/|atari": r"atari[,\]]|extra `atari`",
}


def commands(page: Path, *, inline: bool = True) -> list[str]:
    """What a page says to type, ``inline`` in its sentences too."""
    text = page.read_text("utf-8")
    found = [line for block in FENCE.findall(text) for line in LINE.findall(block)]
    found += INLINE.findall(text) if inline else []
    return list(dict.fromkeys(each for line in found for each in _plain(line)))


def _plain(line: str) -> list[str]:
    several = [each.strip() for each in line.partition("   ")[0].split(" | ")]
    if all(each.split()[0] in program.commands for each in several):  # ps | stop RUN | save RUN
        return [PLACEHOLDER.sub("", each.replace("...", "")).strip() for each in several]
    return [PLACEHOLDER.sub("", line.replace("...", "")).strip()]


COMMANDS = [(page.name, line) for page in PAGES for line in commands(page)]


@pytest.mark.parametrize(("page", "line"), COMMANDS)
def test_command_can_be_typed(page: str, line: str) -> None:
    words = shlex.split(line)
    name = next((n for n in (" ".join(words[:2]), words[0]) if n in program.commands), None)
    assert name or words[0] in ("config", "demo"), f"{page}: there is no such command"
    if name is None:
        return
    command, given = program.commands[name], words[len(name.split()) :]
    try:
        parser = command.parser()
        if command.rest:
            parser.parse_args(given)
        else:
            assert parser.parse_known_intermixed_args(given)[1] == [], page
    except WrongUse as error:  # prose names commands without their arguments
        assert "required" in str(error) or "expected one argument" in str(error), (page, error)


def test_documentation_has_commands() -> None:
    assert len(COMMANDS) > 100


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_page_says_what_its_commands_need(page: Path) -> None:
    text = page.read_text("utf-8")
    for line in commands(page, inline=False):
        for needs, said in NEEDED.items():
            if re.search(needs, line):
                assert re.search(said, text), f"`fastloop {line}` needs {said}, not said there"
