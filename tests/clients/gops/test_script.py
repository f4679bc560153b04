"""`fastloop gops`: what a script finds, and what ends it."""

from __future__ import annotations

import multiprocessing
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from fast_core.clients.gops import install, script
from fast_core.errors import ConfigError
from fast_core.tools.cli import main

SEES = """
import multiprocessing, signal, sys, beside
assert __name__ == "__main__" and sys.argv[1:] == ["--seed", "3", "--help"], sys.argv
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
assert multiprocessing.cpu_count() > 100 and beside.cores() < 1000
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    given: list[Any] = []
    monkeypatch.setattr(script, "install", lambda **options: given.append(options) or ["one"])
    (tmp_path / "beside.py").write_text(
        "import multiprocessing\ndef cores():\n    return multiprocessing.cpu_count()\n"
    )
    return tmp_path


def test_script_finds_its_arguments_folder_and_cores(folder: Path) -> None:
    path = folder / "train.py"
    path.write_text(SEES)
    before = [*sys.argv], signal.getsignal(signal.SIGINT), multiprocessing.cpu_count
    assert main(["gops", "--off-policy-degree", "2", str(path), "--seed", "3", "--help"]) == 0
    sys.modules.pop("beside")
    assert str(folder) not in sys.path
    assert before == (sys.argv, signal.getsignal(signal.SIGINT), multiprocessing.cpu_count)


@pytest.mark.parametrize(
    ("text", "status", "said"),
    [
        ("raise KeyboardInterrupt", 130, "fastloop: interrupted"),
        ("raise SystemExit(3)", 3, ""),
        ("import sys; sys.exit('no such task')", 1, "no such task"),
        ("import sys; sys.exit()", 0, ""),
    ],
)
def test_script_ends_as_python_would_end_it(
    text: str, status: int, said: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder / "train.py"
    path.write_text(text)
    assert script.run_script(path, []) == status
    assert capsys.readouterr().err.strip() == said


def test_script_that_makes_no_trainer_is_said_to_have_run_without_fastloop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(script, "install", lambda **options: [])
    path = tmp_path / "play.py"
    path.write_text("print('played')")
    assert script.run_script(path, []) == 0
    told = capsys.readouterr()
    assert told.out == "played\n" and "play.py made none of the trainers" in told.err
    path.write_text("raise SystemExit('no such task')")
    assert script.run_script(path, []) == 1
    assert capsys.readouterr().err == "no such task\n", "it may have been about to make one"


def test_missing_script_is_named_before_gops_is_looked_for() -> None:
    with pytest.raises(ConfigError, match=r"there is no GOPS script 'nowhere.py' in /"):
        script.run_script(Path("nowhere.py"), [])


def test_missing_gops_and_unknown_options_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gops", None)
    with pytest.raises(ConfigError, match=r"GOPS can't be imported: there is no module 'gops'"):
        install()
    with pytest.raises(ConfigError, match=r"install\(\) knows off_policy_degree, .*; got 'degree'"):
        install(degree=1)
