"""LightZero itself, unchanged, trains its CartPole MuZero; where an environment has it."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.process.harness import GONE_WITHIN_S, ROOT, eventually, processes

PYTHON = os.environ.get("FASTLOOP_LIGHTZERO")
SCRIPT = Path(__file__).with_name("shortened.py")

pytestmark = [
    pytest.mark.skipif(PYTHON is None, reason="FASTLOOP_LIGHTZERO names no Python that has it"),
    pytest.mark.process,
    pytest.mark.slow,
    pytest.mark.timeout(900),
]


CARTPOLE = "zoo.classic_control.cartpole.config.cartpole_"
PENDULUM = "zoo.classic_control.pendulum.config.pendulum_cont_"


def start(
    folder: Path, *options: str, script: Path = SCRIPT, its: tuple[str, ...] = ()
) -> subprocess.Popen[str]:
    assert PYTHON is not None
    return subprocess.Popen(
        [PYTHON, "-m", "fast_core.tools.cli", "lightzero", *options, str(script), *its],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "OMP_NUM_THREADS": "1",
            "TMPDIR": str(folder),
            "COLUMNS": "200",  # its log breaks lines anywhere
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def scalars(folder: Path) -> dict[str, Any]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(folder / "log" / "serial"))
    found.Reload()
    return {name: found.Scalars(name) for name in found.Tags()["scalars"]}


@pytest.mark.parametrize("how", [(), ("--backend", "thread"), ("--own-loop",)])
def test_its_cartpole_is_trained_and_leaves_what_its_users_look_for(
    tmp_path: Path, how: tuple[str, ...]
) -> None:
    run = start(tmp_path, *how)
    output, _ = run.communicate()
    assert run.returncode == 0, output
    left = tmp_path / "shortened"
    files = {path.relative_to(left).as_posix() for path in left.rglob("*") if path.is_file()}
    assert files >= {
        "total_config.py",
        "log/learner/learner_logger.txt",
        "log/collector/collector_logger.txt",
        "log/evaluator/evaluator_logger.txt",
        "ckpt/ckpt_best.pth.tar",
        "ckpt/iteration_0.pth.tar",
    }
    assert len([name for name in files if "tfevents" in name]) == 1
    written = scalars(left)
    assert {"evaluator_iter/reward_mean", "learner_iter/total_loss_avg"} <= written.keys()
    assert "Buffer/memory_usage/game_segment_buffer" in written
    if how != ("--own-loop",):
        assert "asynchronous training ended" in output and "async, degree 1" in output


@pytest.mark.parametrize(
    ("config", "entry"),
    [
        (f"{CARTPOLE}efficientzero_config", "train_muzero"),
        (f"{CARTPOLE}efficientzero_config", "train_muzero_segment"),
        (f"{CARTPOLE}gumbel_muzero_config", "train_muzero"),
        (f"{CARTPOLE}sampled_efficientzero_config", "train_muzero"),
        (f"{PENDULUM}sampled_muzero_config", "train_muzero"),
        (f"{CARTPOLE}unizero_config", "train_unizero"),
        (f"{CARTPOLE}unizero_config", "train_unizero_segment"),
        (f"{PENDULUM}sampled_unizero_config", "train_unizero"),
    ],
)
def test_each_kind_of_policy_is_trained_and_tells_how_was_collected(
    tmp_path: Path, config: str, entry: str
) -> None:
    run = start(tmp_path, script=SCRIPT.with_name("families.py"), its=(config, entry))
    output, _ = run.communicate()
    assert run.returncode == 0, output
    written = scalars(tmp_path / "family")
    temperatures = written["learner_iter/collect_mcts_temperature_avg"]
    assert temperatures and {each.value for each in temperatures} == {0.25}
    epsilons = written.get("learner_iter/collect_epsilon_avg")
    assert epsilons is None or {each.value for each in epsilons} == {0.5}


def test_ctrl_c_ends_all_of_it(tmp_path: Path) -> None:
    run = start(tmp_path)
    try:
        log = tmp_path / "shortened" / "log" / "collector" / "collector_logger.txt"
        deadline_s = time.monotonic() + 300
        while not log.exists():
            assert time.monotonic() < deadline_s and run.poll() is None
            time.sleep(0.1)
        started = [each.pid for each in processes() if each.parent == run.pid]
        assert len(started) >= 2
        run.send_signal(signal.SIGINT)
        output, _ = run.communicate(timeout=60)
    finally:
        run.kill()
    assert run.returncode == 130 and "fastloop: interrupted" in output

    def gone() -> bool:
        return not {each.pid for each in processes()} & set(started)

    eventually(gone, "no process of it is left", GONE_WITHIN_S)
    assert [path.name for path in tmp_path.glob("tmp*")] == [], "W&B removes its folders"


def test_segments_with_environments_in_processes_train_with_reanalysis(tmp_path: Path) -> None:
    run = start(tmp_path, its=("segments",))
    output, _ = run.communicate()
    assert run.returncode == 0, output
    assert "asynchronous training ended" in output and "Traceback" not in output, output
    assert "reanalyzes" in output
    assert [path.name for path in tmp_path.glob("tmp*")] == []
