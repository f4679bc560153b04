"""What is left to do of a sweep is seen from its run directories."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from fast_core.config.algorithms import algorithm_config_type
from fast_core.config.file import load
from fast_core.errors import ConfigError, SegmentError
from fast_core.monitor.run_directory import RunDirectory
from fast_core.monitor.run_lock import RunLock
from fast_core.monitor.run_state import find_runs
from fast_core.tools.sweep import tasks
from fast_core.tools.sweep.file import Sweep, read_sweep
from fast_core.tools.sweep.run import sweep
from fast_core.tools.sweep.tasks import RunConfigs, others, tasks_of
from tests.tools.made_runs import CONFIG, made_run

SLOW = "algorithm.gamma=0.5"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "many.yaml"
    keys = {"seeds": 2, "directory": str(tmp_path / "runs")}
    path.write_text(yaml.safe_dump({"config": yaml.safe_load(CONFIG), **keys}))
    return path


def made(planned: Sweep, *changes: str, **how: object) -> Path:
    return made_run(planned.folder, *changes, **how)


def settled(planned: Sweep) -> dict[int, str]:
    found = {}
    for task in tasks_of(planned):
        task.settle()
        task.check(RunConfigs())
        found[task.seed] = task.status
    return found


def test_what_has_not_finished_is_left_to_do(file: Path) -> None:
    planned = read_sweep(file)
    assert settled(planned) == {0: "waiting", 1: "waiting"}
    made(planned, values=[1.0])
    made(planned, "seed=1", outcome="interrupted")
    assert settled(planned) == {0: "finished", 1: "waiting"}
    made(planned, "seed=1")
    assert settled(planned) == {0: "finished", 1: "finished"}


def test_run_that_another_process_trains_is_waited_for(file: Path) -> None:
    planned = read_sweep(file)
    lock = RunDirectory(made(planned, outcome=None)).lock()
    assert settled(planned)[0] == "elsewhere"
    lock.close()
    assert settled(planned)[0] == "waiting"


def test_run_that_never_had_a_configuration_is_begun_anew(file: Path) -> None:
    planned = read_sweep(file)
    (made(planned) / "config.yaml").unlink()
    assert settled(planned)[0] == "waiting"


def test_seeds_are_told_apart(file: Path) -> None:
    planned = read_sweep(file, ["seeds=[1,11]"])
    made(planned, "seed=11")
    assert settled(planned) == {1: "waiting", 11: "finished"}


def test_finished_sweep_has_nothing_to_do(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    planned = read_sweep(file)
    made(planned)
    made(planned, "seed=1")
    made(planned, "seed=2")
    result = sweep(file)
    assert result.exit_code == 0
    assert [(run.seed, run.status) for run in result.runs] == [(0, "finished"), (1, "finished")]
    shown = capsys.readouterr().out
    assert "2 of 2 runs finished" in shown
    assert "1 run in" in shown and "left alone" in shown


def test_sweep_is_carried_out_by_one_process_at_a_time(file: Path) -> None:
    planned = read_sweep(file)
    made(planned)
    made(planned, "seed=1")
    lock = RunLock(planned.folder / "lock")
    with pytest.raises(ConfigError, match=f"being carried out by process {os.getpid()}"):
        sweep(file)
    lock.close()
    assert sweep(file).exit_code == 0


def test_more_seeds_and_values_extend_a_sweep(file: Path) -> None:
    made(read_sweep(file, ["grid.algorithm.gamma=[0.5]"]), SLOW, "name=gamma=0.5")
    planned = read_sweep(file, ["grid.algorithm.gamma=[0.5,0.6]", "seeds=1"])
    statuses = []
    for task in tasks_of(planned):
        task.settle()
        task.check(RunConfigs())
        statuses.append(task.status)
    assert statuses == ["finished", "waiting"]
    assert others(planned, find_runs(planned.folder)) == 0


def test_changed_sweep_is_refused_with_the_key_and_changes_nothing(file: Path) -> None:
    path = made(read_sweep(file))
    with pytest.raises(ConfigError, match=r"gamma is 0.5 in the sweep.*made with 0.99") as error:
        sweep(file, [SLOW])
    assert str(path) in str(error.value)
    assert not (path.parents[1] / "sweep.yaml").exists()


def test_configurations_are_judged_before_there_is_a_folder(file: Path) -> None:
    """Of one environment the first is launched for a moment, the others are not."""
    keys = ["config.algorithm.name=dqn", "config.stop.env_steps=5000"]
    with pytest.raises(SegmentError, match=r"capacity=1000000000000: .*Lower replay.capacity"):
        sweep(file, [*keys, "grid.replay.capacity=[2000,1000000000000]"])
    assert not (file.parent / "runs").exists()


def test_what_a_launch_fills_in_is_no_change(file: Path) -> None:
    planned = read_sweep(file)
    filled = ["nodes.env.count=2", "nodes.optimizer.threads=1", "policy.backend=numpy"]
    made(planned, *filled, "horizon_env_steps=1000", "rollout.steps=32")
    settled(planned)


def test_environment_from_python_lies_beside_what_is_launched(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[list[str]] = []
    monkeypatch.setattr(tasks, "Child", lambda arguments, *_: started.append(arguments))
    (tmp_path / "environment.pkl").write_bytes(b"code")
    (first, *_) = tasks_of(read_sweep(file, ["environment.pickled=environment.pkl"]))
    first.start([0], 0)
    given = load(Path(started[0][1]), [], algorithm_config_type).environment.pickled
    assert given is not None and Path(given).parent == first.folder
    assert Path(given).read_bytes() == b"code"
