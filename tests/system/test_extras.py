"""What messages say of missing packages can be typed where FastLoop is installed as it is here."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fast_core.system import extras

ROOT = Path(__file__).parents[2]
SOURCES = {
    path: path.read_text("utf-8")
    for top in ("fast_core", "algos")
    for path in sorted((ROOT / top).rglob("*.py"))
}
SETUP = (ROOT / "setup.py").read_text("utf-8")


def test_clone_installs_in_its_own_folder_and_a_wheel_by_the_name_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert extras.to_install("onnx") == f"`pip install -e '.[onnx]'` in {ROOT}"
    monkeypatch.setattr(extras, "_FOLDER", tmp_path)  # site-packages
    assert extras.to_install("onnx") == "`pip install 'fastloop-rl[onnx]'`"
    assert f'name="{extras.DISTRIBUTION}"' in SETUP


def test_extras_that_are_named_are_there() -> None:
    named = {
        name for text in SOURCES.values() for name in re.findall(r"to_install\([\"'](\w+)", text)
    }
    assert {"onnx", "atari", "dashboard"} <= named
    assert [name for name in sorted(named) if f'"{name}": ' not in SETUP] == []


def test_no_message_names_the_packages_of_an_extra_or_somebody_elses_distribution() -> None:
    # What no extra brings, FastLoop itself or GOPS, and the extra of a checkout's benchmarks.
    free = r"torch|pandas|pygame-ce|gymnasium>=|\.`|-e \.`|-e '\.\[(\{|bench)|\{DIST|\{name"
    for path, text in SOURCES.items():
        found = re.findall(rf"pip install '?(?!'|{free}).*", text)
        assert not found, (path, found)
        assert not re.search(r"\bimport fastloop\b|from fastloop\b|fastloop\[", text), path
