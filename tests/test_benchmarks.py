import importlib
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks import (
    against_sb3,
    appo_throughput,
    bare_updates,
    dashboard,
    gops,
    launched,
    measure,
    policy,
    ppo_throughput,
    replay_memory,
    round_trace,
    sac_throughput,
    sampler_limit,
    startup,
)
from benchmarks import rounds as rounds_benchmark
from benchmarks.against_sb3 import Race
from benchmarks.null_algorithm import NullConfig
from benchmarks.own_network import PPO, PPO_RACE, SAC, SAC_RACE
from fast_core.algorithm.spec import EnvironmentSpec, SpaceSpec
from fast_core.config import EnvironmentConfig, RolloutConfig, RunConfig, StopConfig
from fast_core.config.algorithms import algorithm_config_type
from fast_core.config.file import load
from fast_core.envs.trying.probe import probe
from fast_core.run.columns import batch_fields
from fast_core.run.parts import parts_of
from fast_core.run.plan import RunPlan
from fast_core.system.threads import threads_kept

ROOT = Path(__file__).resolve().parent.parent
PENDULUM = rounds_benchmark.TASKS["pendulum"]
# They measure no longer here than a whole last line needs; what it says is no matter.
SHORTER: dict[str, dict[str, Any]] = {
    "ppo_throughput": {
        "RACE": replace(ppo_throughput.RACE, first_round=4, quick_last_round=8, peer_limit_s=4.0),
        "PROFILED_ROUNDS": 20,
    },
    "time_to_score": {"QUICK_SEEDS": 1, "CONFIG": Path("configs/ppo_pendulum.yaml")},
    "async_profiles": {
        "PROFILES": {"equal": (1, 1)},
        "DEGREES": {"0": "degree_0", "1": "degree_1"},
        "SETTLED_S": 0.5,
    },
    "gops": {
        "THREADS": ("1",),
        "CASES": {
            "cartpole": replace(gops.CASES["cartpole"], first=10, quick_last=300, quick_updates=10)
        },
    },
    "rounds": {
        "TASKS": {"pendulum": replace(PENDULUM, first=2_000, quick_last=6_000)},
        "LONGER": 2,
    },
    "startup": {"SETTINGS": startup.SETTINGS[:1], "QUICK_ROUNDS": 1},
    "ring": {
        "QUICK_ROUNDS": 1,
        "COUNTS": {64: (2_000, 200), 4 << 10: (1_000, 200), 100 << 10: (200, 50)},
        "LARGE_COUNT": 20,
        "TRIPS": 500,
    },
    "sampler_limit": {
        "QUICK_ROUNDS": 1,
        "QUICK_SECONDS": 0.4,
        "SETTLED_S": 0.2,
        "CONFIG": sampler_limit.CONFIG.replace("steps: 256", "steps: 16"),
    },
    "muzero": {"SECONDS": 0.02, "QUICK_ROUNDS": 1},
    # What is taken before learning has begun is as much of a figure.
    "replay_memory": {"QUICK_LARGE": 400_000, "SETTLED_ENV_STEPS": 100},
    "policy": {
        "TASKS": {"cartpole": policy.TASKS["cartpole"]},
        "QUICK_CALLS": 20,
        "QUICK_FRESH_ROUNDS": 1,
    },
}
# By their command, as users do: those that are short, and one that starts itself anew.
QUICK = ("optimizers", "overview", "embedding")


def check_result(name: str, printed: str) -> Any:
    progress, last = printed.splitlines()[:-1], printed.splitlines()[-1]
    assert progress, "a benchmark says what it is doing"
    result = json.loads(last)
    assert result["name"] == name
    assert result["target"] > 0
    assert result["medians"] and all(value is not None for value in result["medians"].values())
    assert result["better"] in ("higher", "lower")
    assert result["machine"]["cores"] >= 1
    assert (result["ratio"] is None) == bool(result["skipped"])
    return result


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", QUICK)
def test_last_line_of_quick_run_is_one_result(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{name}", "--quick"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=290,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    ratio = check_result(name, done.stdout)["ratio"]
    assert ratio is None or ratio > 0


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", SHORTER)
def test_last_line_of_shorter_run_is_one_result(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = importlib.import_module(f"benchmarks.{name}")
    for constant, value in SHORTER[name].items():
        monkeypatch.setattr(module, constant, value)
    monkeypatch.setattr(sys, "argv", [name, "--quick"])
    monkeypatch.delenv("FASTLOOP_GOPS", raising=False)
    with threads_kept():
        module.main()
    check_result(name, capsys.readouterr().out)


def test_last_line_of_sac_is_of_its_better_threads(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its race is run as that of ppo_throughput is, and its bare loop by a test of its own."""
    bare = {(1, False): 200.0, (2, False): 160.0, (1, True): 400.0, (2, True): 300.0}

    def alone(config: Path, threads: int, *overrides: str, seconds: float) -> float:
        return bare[threads, sac_throughput.BF16 in overrides]

    class Raced(Race):
        def fastloop_rate(self, last_round: int, *overrides: str) -> float:
            return 200.0 if overrides else 180.0

        def sb3_rates(self, last_round: int, limit_s: float) -> dict[str, float | None]:
            return {f"sb3_{n}_threads_env_steps_per_s": 100.0 / n for n in (1, 2)}

        def skipped(self) -> list[str]:
            return []

    race = Raced(**vars(sac_throughput.RACE))
    monkeypatch.setattr(sac_throughput, "RACE", race)
    monkeypatch.setattr(bare_updates, "run", alone)
    monkeypatch.setattr(sys, "argv", ["sac_throughput", "--quick"])
    sac_throughput.main()
    result = check_result("sac_throughput", capsys.readouterr().out)
    shares = (result["medians"][f"fastloop{kind}_bare_share"] for kind in ("", "_bf16"))
    assert (result["ratio"], result["medians"]["bf16_ratio"]) == (1.8, 2.0)
    assert tuple(shares) == (0.9, 0.5)


@pytest.mark.parametrize(("race", "own"), [(PPO_RACE, PPO), (SAC_RACE, SAC)], ids=["ppo", "sac"])
def test_networks_of_ones_own_race_as_the_built_in_ones(race: Race, own: tuple[str, ...]) -> None:
    """Those of ppo_throughput and sac_throughput, whose quick runs show that they can be run."""
    path = ROOT / race.config
    plain, changed = (load(path, lines, algorithm_config_type) for lines in ((), own))
    spec = probe(changed.environment, 0)
    assert changed.algorithm.examine(spec).modules and not plain.algorithm.examine(spec).modules
    assert changed.rollout == plain.rollout and changed.scheduler == plain.scheduler


def test_ratio_of_appo_is_that_which_is_farthest_from_its_target() -> None:
    found = {
        "cartpole_fastloop_env_steps_per_s": 170.0,
        "cartpole_sample_factory_env_steps_per_s": 10.0,
        "cartpole_sb3_1_threads_env_steps_per_s": 20.0,
        "cartpole_sb3_2_threads_env_steps_per_s": 34.0,
        "pong_fastloop_env_steps_per_s": 4.6,
        "pong_fastloop_bf16_env_steps_per_s": 16.0,
        "pong_sample_factory_env_steps_per_s": 4.0,
    }
    named = appo_throughput.ratios(found)
    assert named == {
        "cartpole_by_sample_factory": 17.0,
        "cartpole_by_sb3": 5.0,
        "pong_by_sample_factory": pytest.approx(1.15),
        "pong_bf16_by_sample_factory": 4.0,
    }
    assert appo_throughput.smallest_share(named) == 0.5
    assert appo_throughput.COMPARED.keys() == appo_throughput.TARGETS.keys()


@pytest.mark.parametrize(
    ("python", "why"),
    [
        (None, "does not name"),
        ("/no/such/python", "No such file"),
        (sys.executable, "does not import it"),
    ],
)
def test_sample_factory_is_skipped_with_a_sentence(
    monkeypatch: pytest.MonkeyPatch, python: str | None, why: str
) -> None:
    monkeypatch.delenv(appo_throughput.VARIABLE, raising=False)
    if python is not None:
        monkeypatch.setenv(appo_throughput.VARIABLE, python)
    found, said = appo_throughput.sample_factory_there()
    assert found is None
    assert why in said and appo_throughput.VARIABLE in said


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


def finished_run(folder: Path, spans: list[tuple[str, float, float]]) -> launched.Launched:
    """A run directory by hand: two rounds of 10 steps a second, of which learning takes 0.8 s."""
    directory = folder / "name" / "time"
    directory.mkdir(parents=True)
    (directory / "config.yaml").write_text("rollout: {steps: 10}\n")
    values = {"train/update_ms": 40.0}
    rows = [
        {
            "env_steps": 20 * second,
            "updates": 20 * second,
            "time_s": float(second),
            "values": values,
        }
        for second in range(5)
    ]
    (directory / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    events: list[dict[str, object]] = [
        {"ph": "M", "tid": 1, "name": "thread_name", "args": {"name": "env-0"}}
    ]
    events += [
        {"ph": "X", "tid": 1, "name": state, "ts": ts, "dur": dur} for state, ts, dur in spans
    ]
    (directory / "trace.json").write_text(json.dumps({"traceEvents": events}))
    return launched.Launched(process=None, started_s=0.0, directory=folder)  # type: ignore[arg-type]


def test_rest_of_a_round_is_what_learning_and_collecting_leave(tmp_path: Path) -> None:
    """A second: 20 updates of 40 ms, two rollouts of 50 ms, so 0.1 s for two hand-overs."""
    spans = [("stepping", 1e5 * k, 9e9 if k == 0 else 50e3) for k in range(4)]
    found = rounds_benchmark.account(finished_run(tmp_path, spans), first=20)
    assert (found.steps, found.updates, found.round_s) == (10, 10.0, 0.5)
    assert found.rest_s == pytest.approx(0.05)


def test_row_without_an_update_costs_no_learning(tmp_path: Path) -> None:
    run = finished_run(tmp_path, [("stepping", 1e5 * k, 9e9 if k == 0 else 50e3) for k in range(4)])
    (metrics,) = tmp_path.glob("*/*/metrics.jsonl")
    between = {"env_steps": 80, "updates": 80, "time_s": 4.0, "values": {}}
    metrics.write_text(metrics.read_text() + json.dumps(between) + "\n")
    assert rounds_benchmark.account(run, first=20).rest_s == pytest.approx(0.05)


def test_hand_over_is_what_rounds_of_any_length_have_once() -> None:
    """Rounds with 2 ms once and 0.1 ms around each update."""

    def account(updates: float) -> rounds_benchmark.Account:
        rest_s = 0.002 + 0.0001 * updates
        return rounds_benchmark.Account(1, updates, 0.01 * updates + rest_s, 0.01 * updates, 0.0)

    auto = account(10.0)
    overhead_s = rounds_benchmark.update_overhead_s(auto, account(40.0))
    assert overhead_s == pytest.approx(0.0001)
    assert rounds_benchmark.hand_over_s(auto, overhead_s) == pytest.approx(0.002)


def test_trace_without_the_state_is_an_error(tmp_path: Path) -> None:
    run = finished_run(tmp_path, [("learning", 0.0, 1.0)] * 20)
    with pytest.raises(RuntimeError, match="no 'stepping'"):
        rounds_benchmark.account(run, first=0)


def test_rate_is_of_the_rows_from_the_first_round_that_counts(tmp_path: Path) -> None:
    run = finished_run(tmp_path, [])
    race = against_sb3.Race("x", Path("x"), "x", 1.0, rows=10, first_round=4)
    assert [row["env_steps"] for row in race.settled(run)] == [40, 60, 80]
    assert race.rate(run) == 20.0


def test_least_of_a_transition_is_what_halfcheetah_declares() -> None:
    """17 float64 observed, 6 float32 acted, a float32 reward."""
    pytest.importorskip("mujoco")
    assert replay_memory.least_bytes() == 17 * 8 + 6 * 4 + 4


def pendulum_plan() -> RunPlan:
    from fast_core.algos.replay.sac_config import SACConfig

    config = RunConfig(
        name="bare",
        environment=EnvironmentConfig(id="Pendulum-v1"),
        rollout=RolloutConfig(shards=1, envs_per_shard=1, steps=1),
        algorithm=SACConfig(name="sac", hidden_sizes=(8,), batch_size=4),
        stop=StopConfig(env_steps=1),
    )
    bounds = {"low": (-1.0,) * 3, "high": (1.0,) * 3}
    environment = EnvironmentSpec(
        "Pendulum-v1",
        SpaceSpec("box", (3,), "float64", **bounds),
        SpaceSpec("box", (1,), "float32", low=(-2.0,), high=(2.0,)),
    )
    return RunPlan(config, environment, "", parts_of(config, 1), "numpy")


def test_bare_loop_has_batches_as_a_run_has_them() -> None:
    plan = pendulum_plan()
    batch = bare_updates.random_batch(plan)
    for field in batch_fields(plan):
        if field.name not in ("log", "row"):
            column = getattr(batch, field.name)
            assert (column.shape, column.dtype) == ((4, *field.shape), field.dtype), field.name


def test_rate_counts_whole_calls() -> None:
    calls: list[int] = []
    found = bare_updates.rate(lambda: calls.append(1), 0.02)
    assert 0 < found <= len(calls) / 0.02


@pytest.mark.timeout(120)
def test_benchmark_of_gops_goes_on_in_the_python_that_is_named_however_it_is_spelled() -> None:
    python = os.path.relpath(sys.executable, ROOT)
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.gops", "--help"],
        cwd=ROOT,
        env={**os.environ, "FASTLOOP_GOPS": python},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "--quick" in done.stdout


def test_page_has_no_share_where_runs_were_cut_before_they_had_a_rate(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(dashboard, "turn", lambda *given, **how: {"watched_tiles": 8.0})
    monkeypatch.setattr(sys, "argv", ["dashboard", "--quick"])
    dashboard.main()
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert result["ratio"] is None and result["medians"]["cartpole_watched_tiles"] == 8.0
