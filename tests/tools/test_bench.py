"""`fastloop bench`: finding benchmarks, running them as processes, the table."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import sys
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks import suite
from benchmarks.suite import Benchmark, Outcome, Result, describe, find, read_result, run, table

GOOD = '''"""What against what, in ``code``.

More.
"""
import sys
TARGET = 1 / 4
print("working", *sys.argv[1:])
print('{"name": "good", "ratio": 0.2, "target": 0.25, "better": "lower", "skipped": []}')
def main() -> None:
    print_result("good", 1, TARGET, better="lower")
'''
BAD = '"""Breaks."""\nTARGET = 2\nprint("working")\nraise SystemExit("no luck")\n'
SILENT = '"""Says nothing."""\nTARGET = 2\nprint("no result")\n'
INTERRUPTED = '''"""Interrupts the suite and leaves a mark when it is interrupted itself."""
import os, pathlib, signal, time
TARGET = 1
try:
    os.kill(os.getppid(), signal.SIGNUM)
    time.sleep(60)
except KeyboardInterrupt:
    pathlib.Path("interrupted").touch()
'''
STUBBORN = '''"""Interrupts the suite, and once more instead of ending."""
import os, pathlib, signal, time
TARGET = 1
signal.signal(signal.SIGINT, lambda *_: os.kill(os.getppid(), signal.SIGINT))
pathlib.Path("stubborn").write_text(str(os.getpid()))
os.kill(os.getppid(), signal.SIGINT)
time.sleep(600)
'''
HELPER = "def helper(): ...\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = tmp_path / "benchmarks"
    made.mkdir()
    (made / "__init__.py").touch()
    for name, text in (("good", GOOD), ("helper", HELPER)):
        (made / f"{name}.py").write_text(text)
    monkeypatch.setattr(suite, "FOLDER", made)
    monkeypatch.setattr(suite.find, "__defaults__", (made,))
    monkeypatch.setenv("COLUMNS", "200")
    return made


def add(folder: Path, name: str, text: str) -> None:
    (folder / f"{name}.py").write_text(text)


def test_a_benchmark_is_a_module_with_a_target() -> None:
    assert describe("good", GOOD) == Benchmark("good", "What against what, in code.", 0.25, "lower")
    assert describe("x", "TARGET = 3\n") == Benchmark("x", "", 3.0, "higher")
    assert describe("helper", HELPER) is None


def test_every_benchmark_of_the_checkout_has_a_target_and_says_what_it_compares() -> None:
    found = find()
    names = {benchmark.name for benchmark in found}
    assert {"ring", "ppo_throughput", "sampler_limit", "startup", "time_to_score"} <= names
    assert {"sac_throughput", "gops", "rounds", "replay_memory"} <= names
    assert not names & {"measure", "suite", "launched", "peer_sb3", "gops_trainer", "bare_updates"}
    for benchmark in found:
        assert benchmark.compares and benchmark.target > 0, benchmark


@pytest.mark.parametrize(
    ("ratio", "better", "met"),
    [
        (2.0, "higher", True),
        (1.9, "higher", False),
        (2.0, "lower", True),
        (2.1, "lower", False),
        (None, "higher", None),
    ],
)
def test_target_is_met_on_its_better_side(ratio: float | None, better: str, met: object) -> None:
    line = {"name": "x", "ratio": ratio, "target": 2.0, "better": better, "skipped": [], "more": 1}
    result = read_result(json.dumps(line))
    assert result is not None
    assert result.met is met


@pytest.mark.parametrize("line", ["", "text", "{}", '{"name": "x"}', "[1]"])
def test_what_is_no_result_is_none(line: str) -> None:
    assert read_result(line) is None


def test_table_says_what_was_met_missed_failed_and_not_compared() -> None:
    benchmark = Benchmark("b", "", 2.0, "higher")

    def outcome(ratio: float | None, *skipped: str) -> Outcome:
        return Outcome(benchmark, 3.4, Result("b", ratio, 2.0, "higher", list(skipped)), "{}")

    outcomes = [
        outcome(2.5),
        outcome(1.5),
        outcome(None, "sb3 is not installed"),
        Outcome(benchmark, 0.2, None, "ended with status 1: [oops]"),
    ]
    stream = io.StringIO()
    Console(file=stream, width=120).print(table(outcomes))
    lines = [" ".join(line.split()) for line in stream.getvalue().splitlines()]
    assert lines == [
        "benchmark ratio target met took note",
        "b 2.5 at least 2 yes 3 s",
        "b 1.5 at least 2 no 3 s",
        "b - at least 2 not compared 3 s sb3 is not installed",
        "b - at least 2 failed 0 s ended with status 1: [oops]",
    ]


def test_unknown_name_is_refused_with_those_there_are(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["goood"], quick=False, only_list=False, as_json=False) == 2
    assert "no benchmark goood; there are good" in capsys.readouterr().err


@pytest.mark.process
def test_benchmarks_run_as_processes_and_pass_their_lines_on(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add(folder, "zbad", BAD)
    add(folder, "zsilent", SILENT)
    assert run([], quick=True, only_list=False, as_json=False) == 1
    shown = capsys.readouterr().out
    assert "  working --quick\n" in shown
    assert '{"name"' not in shown
    rows = [line.split()[:5] for line in shown.splitlines()]
    assert ["good", "0.2", "at", "most", "0.25"] in rows
    assert "failed" in shown and "status 1: no luck" in shown and "no result" in shown


@pytest.mark.process
def test_missed_target_is_no_failure_and_json_is_all_of_standard_output(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add(folder, "good", GOOD.replace('"ratio": 0.2', '"ratio": 0.9'))
    assert run(["good"], quick=False, only_list=False, as_json=True) == 0
    captured = capsys.readouterr()
    (line,) = captured.out.splitlines()
    result = json.loads(line)
    assert (result["name"], result["ratio"], result["met"]) == ("good", 0.9, False)
    assert "working" in captured.err


@pytest.mark.process
@pytest.mark.parametrize(("name", "status"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)])
def test_signal_ends_the_benchmark_and_the_suite(folder: Path, name: str, status: int) -> None:
    add(folder, "interrupted", INTERRUPTED.replace("SIGNUM", name))
    number = signal.Signals[name]
    before = signal.signal(number, signal.SIG_IGN)
    try:
        names = ["interrupted", "good"]
        assert run(names, quick=False, only_list=False, as_json=False) == status
        assert signal.getsignal(number) is signal.SIG_IGN
    finally:
        signal.signal(number, before)
    assert (folder.parent / "interrupted").exists()


@pytest.mark.process
def test_second_signal_ends_at_once_and_leaves_nothing(folder: Path) -> None:
    """It comes while one that ignores the first is waited for."""
    add(folder, "stubborn", STUBBORN)
    assert run(["stubborn"], quick=False, only_list=False, as_json=False) == 130
    with pytest.raises(ProcessLookupError):
        os.kill(int((folder.parent / "stubborn").read_text()), 0)


@pytest.mark.parametrize(("setting", "plain"), [("1", True), ("", False)])
def test_no_color_means_no_style_at_all(
    setting: str, plain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", setting)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr(sys, "stdout", stream := io.StringIO())
    monkeypatch.setattr(stream, "isatty", lambda: True)
    console = suite.make_console()
    console.print("text", style="dim")
    assert ("\x1b[" not in stream.getvalue()) is plain


def test_what_is_not_installed_is_said_before_anything_runs(capsys, monkeypatch):
    lacking = Benchmark("x", "a with b", 1.0, "higher", ("msgspec", "no-such-peer"))
    also = Benchmark("y", "a with c", 1.0, "higher", ("no-such-peer",))
    assert lacking.missing == ("no-such-peer",)
    said = suite.missing_text([lacking, also])
    assert said.startswith("not installed: no-such-peer (x, y). pip install")
    assert suite.missing_text([Benchmark("x", "", 1.0, "higher", ("msgspec",))]) == ""
    said_before: list[str] = []

    def run_one(benchmark: Benchmark, **_: object) -> Outcome:
        said_before.append(capsys.readouterr().err)
        return Outcome(benchmark, 0.0, None, "was not run")

    monkeypatch.setattr(suite, "find", lambda: [lacking])
    monkeypatch.setattr(suite, "run_one", run_one)
    run([], quick=True, only_list=False, as_json=True)
    assert "not installed: no-such-peer (x)" in said_before[0]


def test_peers_are_read_from_the_source_without_importing_it():
    found = describe("x", '"""A."""\nTARGET = 2\nPEERS = ("cpprb", "torchrl")\nimport nothing\n')
    assert found is not None
    assert found.peers == ("cpprb", "torchrl")


def test_bars_of_the_page_are_those_of_the_benchmarks():
    page = (suite.FOLDER / "README.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \|.*\| ([\d./]+ or \w+)[^|]*\|$", page, re.M))
    bars = {}
    for each in find():
        target = "1/3" if each.target == 1 / 3 else f"{each.target:g}"
        bars[each.name] = f"{target} or {'more' if each.better == 'higher' else 'less'}"
    assert rows == bars
