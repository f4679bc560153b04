"""One worker against several: what runs, what counts, and what is said of it."""

from __future__ import annotations

import json
import signal
import tempfile
from pathlib import Path
from typing import Any

import pytest

from fast_core.config import RunConfig
from fast_core.config import file as config_file
from fast_core.config.algorithms import algorithm_config_type
from fast_core.errors import ConfigError, FastLoopError
from fast_core.tools import parallel
from fast_core.tools.parallel import (
    Asked,
    Plan,
    RunFigures,
    RunWatch,
    median,
    random_play,
    result,
    side,
    table,
)

TEXT = """
name: it
environment: {id: CartPole-v1}
rollout: {shards: 8, envs_per_shard: 2, steps: 16}
algorithm: {name: ppo, minibatch_size: 64, learning_rate_schedule: linear}
evaluation: {envs: 4}
stop: {env_steps: 1000}
"""
ONE = RunFigures(1, 1000.0, 3600.0, 100 * 2**20, 1.5)
MANY = RunFigures(8, 1800.0, 7200.0, 300 * 2**20, 2.0)


def config(*overrides: str) -> RunConfig:
    return config_file.loads(TEXT, overrides, algorithm_config_type, source="text")


@pytest.mark.parametrize(("workers", "steps"), [(1, 128), (4, 32), (8, 16), (3, 43)])
def test_both_sides_train_on_rounds_of_as_many_rows(workers: int, steps: int) -> None:
    made = side(config(), workers, "there")
    assert (made.rollout.shards, made.nodes.env.count, made.rollout.steps) == (
        workers,
        workers,
        steps,
    )
    assert made.horizon == 1000 and made.stop.env_steps is None
    assert made.evaluation.every_env_steps is None and not made.checkpoint.at_end
    assert (made.directory, made.dashboard.enabled) == ("there", False)


def test_random_play_is_a_run_too() -> None:
    made = side(random_play("CartPole-v1", ["seed=4"]), 6, "there")
    assert (made.algorithm.name, made.seed, made.rollout.shards) == ("random", 4, 6)


class Stub:
    """A run's process of which nothing is known but whether it lives."""

    pid = 0

    def __init__(self, status: int | None = None) -> None:
        self._status = status

    def status(self) -> int | None:
        return self._status


def watched(folder: Path, rows: list[tuple[int, float]]) -> RunWatch:
    log = folder / "log"
    log.write_text("its last words\n")
    run = folder / "it" / "now"
    run.mkdir(parents=True)
    lines = [
        json.dumps({"env_steps": steps, "updates": 0, "time_s": at, "values": {}})
        for steps, at in rows
    ]
    (run / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    given: Any = Stub(1)
    return RunWatch(config(f"directory={folder}"), given, log)


def test_rates_are_from_the_end_of_a_round_to_that_of_another(tmp_path: Path) -> None:
    times = [(0, 0.1), (10, 1.0), (10, 1.1), (20, 2.0), (30, 3.0), (40, 4.0), (50, 5.0), (50, 5.1)]
    watch = watched(tmp_path, times)
    watch.until(1.05)
    assert [row.env_steps for row in watch.rows] == [10, 20, 30, 40, 50]
    watch.until(4.5, rounds_after=watch.rows[0])
    with pytest.raises(FastLoopError, match=r"ended with 1:\n.*last words"):
        watch.until(4.5, rounds_after=watch.rows[1])  # not four rounds yet


def test_what_is_found_is_the_median_and_the_spread() -> None:
    slow, fast = (RunFigures(8, rate, 1.0, 1.0, 1.0) for rate in (900.0, 3000.0))
    found = result(config(), Plan(3, 5.0), [ONE] * 3, [slow, MANY, fast], 0.0)
    assert median([slow, MANY, fast]).env_steps_per_s == 1800
    spread = (found["speedup_lowest"], found["speedup"], found["speedup_highest"])
    assert spread == (0.9, 1.8, 3.0)
    assert found["speedup_per_core"] == 1.8 / min(8, found["cores"])


def test_words_are_honest_about_cores() -> None:
    found = result(config(), Plan(3, 5.0), [ONE], [MANY], 0.5) | {"cores": 2}
    shown = table(found)
    assert "env steps/s          1,000      1,800   1.80" in shown
    assert "episodes/h           3,600      7,200   2.00" in shown
    assert "memory, MiB            100        300   3.00" in shown
    assert "8 workers and the learner share 2 cores" in shown
    assert "One worker alone keeps 1.5 cores busy" in shown
    assert "Other work" not in shown and "no episode ended" not in shown
    crowded = table(found | {"cores": 16, "load_before": 40.0, "speedup_per_core": 1.5})
    assert "Other work was going on (load 40 on 16 cores" in crowded
    assert "more than the cores allow" in crowded and "more than the cores allow" not in shown
    assert "learner share" not in crowded


@pytest.mark.parametrize(
    "asked", [Asked(["ppo_cartpole", "ppo_pendulum"]), Asked(["ppo_cartpole"], env="CartPole-v1")]
)
def test_one_thing_is_compared(asked: Asked) -> None:
    with pytest.raises(ConfigError, match="one configuration, or --env ID; got 'ppo_cartpole' and"):
        asked.config()


def test_folder_is_gone_after_ctrl_c(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*given: object) -> RunFigures:
        assert len(list(tmp_path.iterdir())) == 1
        signal.raise_signal(signal.SIGINT)
        raise AssertionError("it goes on")

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(parallel, "measure", interrupted)
    before = signal.signal(signal.SIGINT, lambda *_: None)  # `fastloop` would be gone at once
    try:
        assert parallel.run(Asked(["ppo_cartpole"]), as_json=False) == 130
    finally:
        signal.signal(signal.SIGINT, before)
    assert list(tmp_path.iterdir()) == []
