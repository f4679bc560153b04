import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import launched, measure, round_trace
from benchmarks.null_algorithm import NullConfig

ROOT = Path(__file__).resolve().parent.parent
BENCHMARKS = ("ring", "ppo_throughput", "sampler_limit", "startup", "time_to_score")


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize("name", BENCHMARKS)
def test_last_line_of_quick_run_is_one_result(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{name}", "--quick"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=115,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    progress, last = done.stdout.splitlines()[:-1], done.stdout.splitlines()[-1]
    assert progress, "a benchmark says what it is doing"
    result = json.loads(last)
    assert result["name"] == name
    assert result["target"] > 0
    assert result["medians"] and all(value is not None for value in result["medians"].values())
    assert result["better"] in ("higher", "lower")
    assert result["machine"]["cores"] >= 1
    assert (result["ratio"] is None) == bool(result["skipped"])
    assert result["ratio"] is None or result["ratio"] > 0


def test_alternation_turns_the_order_every_round() -> None:
    called: list[str] = []

    def measured(name: str, value: float) -> float:
        called.append(name)
        return value

    found = measure.alternate(3, a=lambda: measured("a", 1.0), b=lambda: measured("b", 2.0))
    assert called == ["a", "b", "b", "a", "a", "b"]
    assert found == {"a": 1.0, "b": 2.0}


def test_medians_skip_rounds_without_a_figure() -> None:
    rounds = [{"a": 1.0, "b": None}, {"a": 5.0, "b": 7.0}, {"a": 2.0}]
    assert measure.medians(rounds) == {"a": 2.0, "b": 7.0}


def test_peer_that_is_not_installed_is_skipped_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert measure.installed("no-such-peer-of-fastloop") is None
    measure.print_result("x", None, 2.7, skipped=("no-such-peer is not installed",), rate_per_s=3.0)
    result = json.loads(capsys.readouterr().out)
    assert (result["ratio"], result["skipped"]) == (None, ["no-such-peer is not installed"])
    assert result["medians"] == {"rate_per_s": 3.0}


def test_large_figures_are_rounded_to_whole_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    measure.print_result("x", 1.23456, 1.0, small=0.123456, large=123456.7)
    result = json.loads(capsys.readouterr().out)
    assert result["ratio"] == 1.235
    assert result["medians"] == {"small": 0.1235, "large": 123457}


def test_parts_of_a_round_add_up_from_a_hand_made_trace(tmp_path: Path) -> None:
    events: list[dict[str, object]] = [
        {"ph": "M", "tid": tid, "name": "thread_name", "args": {"name": name}}
        for tid, name in ((1, "env-0"), (2, "env-1"), (3, "optimizer-0"))
    ]
    for index in range(round_trace.IGNORED_ROUNDS + 3):
        # learning 0 to 4000, orders 1000, env-0 5000 to 7000, env-1 6000 to 9000, report 1000
        for tid, state, begin, end in (
            (3, "learning", 0, 4000),
            (1, "stepping", 5000, 7000),
            (2, "stepping", 6000, 9000),
        ):
            ts, dur = 10_000.0 * index + begin, float(end - begin)
            events.append({"ph": "X", "tid": tid, "name": state, "ts": ts, "dur": dur})
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": events}))
    assert round_trace.round_parts(path) == {
        "round_ms": 10.0,
        "learning_ms": 4.0,
        "order_ms": 1.0,
        "collecting_ms": 4.0,
        "stepping_ms": 2.5,
        "report_ms": 1.0,
    }


def test_trace_without_rounds_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text('{"traceEvents": []}')
    with pytest.raises(RuntimeError, match="too short"):
        round_trace.round_parts(path)


def test_line_still_being_written_is_left_out(tmp_path: Path) -> None:
    folder = tmp_path / "name" / "time"
    folder.mkdir(parents=True)
    (folder / "metrics.jsonl").write_text('{"env_steps": 1}\n{"env_st')
    run = launched.Launched(process=None, started_s=0.0, directory=tmp_path)  # type: ignore[arg-type]
    assert run.lines("metrics.jsonl") == [{"env_steps": 1}]
    assert run.lines("events.jsonl") == []


def test_null_algorithm_commits_one_step_and_grants_as_many() -> None:
    assert NullConfig(name="null").updates_granted(1024) == 1
