"""Going on from a checkpoint when something is in the way: nothing is broken that was whole."""

from __future__ import annotations

import json
import os
import pty
import resource
import signal
import subprocess
import sys
from typing import Any

import pytest
import yaml

from fast_core.launcher.checkpoints.store import newest_valid
from tests.forms import slow_but
from tests.process.harness import ROOT, TOY, Launched, Workplace, eventually

pytestmark = pytest.mark.process

CARTPOLE: dict[str, Any] = {
    **TOY,
    "environment": {"id": "CartPole-v1"},
    "checkpoint": {"every_updates": 4, "keep": 1},
    "stop": {"env_steps": 320},
}


SAC: dict[str, Any] = {
    **CARTPOLE,
    "environment": {"id": "Pendulum-v1"},
    "rollout": {"shards": 1, "envs_per_shard": 2, "steps": 8},
    "algorithm": {"name": "sac", "hidden_sizes": [4], "batch_size": 4},
    "replay": {"capacity": 2000, "learning_starts": 16},
    "nodes": {"env": {"count": 1}},
    "scheduler": {"replay_ratio": 0.25},
    "checkpoint": {"every_updates": 40, "keep": 1},
}


def checkpoints(launched: Launched) -> list[str]:
    folder = launched.run / "checkpoints"
    return sorted(path.name for path in folder.iterdir() if path.name.isdecimal())


@pytest.mark.slow
def test_refused_resume_leaves_the_run_as_it_was(workplace: Workplace) -> None:
    first = workplace.launch(config=CARTPOLE).done()
    config = (first.run / "config.yaml").read_text()
    refused = workplace.resume(first, "algorithm.hidden_sizes=[7]", "stop.env_steps=640").ends(2)
    assert "must have the configured parameters" in refused.screen.splitlines()[-1]
    assert "Traceback" not in refused.screen
    assert (first.run / "config.yaml").read_text() == config
    workplace.resume(first, "stop.env_steps=640").done()
    assert "640" in (first.run / "config.yaml").read_text()
    assert not list(first.run.glob("crash*"))  # nothing has failed


@pytest.mark.slow
def test_new_run_goes_on_from_another_that_still_trains(workplace: Workplace) -> None:
    """The other one drops checkpoints all the time; the new one keeps what it began with."""
    endless = ("stop.env_steps=null", "stop.time_s=60", "diagnostics.delay_ms=2")
    source = workplace.launch(*endless, config=CARTPOLE)
    source.await_training()
    eventually(lambda: checkpoints(source), "a checkpoint")
    for _ in range(2):
        given = ("stop.updates=1", "--resume", str(source.run))
        new = workplace.launch(*given, config=CARTPOLE).done()
        assert len(checkpoints(new)) == 1
        assert not list((source.run / "checkpoints").glob("*.damaged"))
    source.interrupted()


def test_full_disk_costs_checkpoints_and_not_the_run(workplace: Workplace) -> None:
    """A limit on the size of files stands for it, at one node after the other."""
    endless = ("stop.env_steps=null", "stop.time_s=60")
    launched = workplace.launch(*endless, config=SAC)
    launched.await_training()
    folder = launched.run / "checkpoints"
    eventually(lambda: checkpoints(launched), "a checkpoint")
    for node in ("optimizer-0", "replay-0", "env-0"):
        pid = launched.node(node)
        limits = resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        failed = f"could not be written: {node}: [Errno 27] File too large"
        eventually(lambda text=failed: text in launched.screen, failed)
        before = checkpoints(launched)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, limits)
        eventually(lambda old=before: checkpoints(launched) > old, "one that finds room again")
    seen = launched.screen.count(failed)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    # One that had its files by then may be whole, and the last that Ctrl-C wants.
    eventually(lambda: launched.screen.count(failed) > seen, "one that finds none")
    launched.signal(signal.SIGINT)
    assert launched.wait() == 130, launched.screen
    assert f"Ctrl-C; the last checkpoint {failed}" in launched.screen
    assert not list(folder.glob("*.tmp"))
    assert newest_valid(folder)[1].env_steps > 0
    launched.assert_gone()


@pytest.mark.slow
def test_run_whose_environments_do_not_come_back_goes_on_with_new_episodes(
    workplace: Workplace,
) -> None:
    """It repeats as long as the probe looks, and drifts later."""
    first = workplace.toy("drift", "stop={env_steps: 1440}", at=40).done()
    refused = workplace.resume(first, "stop.env_steps=3200", "checkpoint.exact=require").ends(2)
    assert "the observation differs from the saved one" in refused.screen
    assert "checkpoint.exact is 'require'" in refused.screen
    again = workplace.resume(first, "stop.env_steps=3200").done()
    assert again.screen.count("this resume is not exact: with it, 4 open episodes") == 1
    assert "not exact" in again.screen.partition("\nfinished")[2]
    never = workplace.resume(first, "stop.env_steps=4800", "checkpoint.exact=never").done()
    assert "8 open episodes of the run were given up" in never.screen
    never.assert_gone()


@pytest.mark.slow
def test_terminal_that_takes_nothing_does_not_stop_the_run(workplace: Workplace) -> None:
    """A paused pager, Ctrl-S: the run goes on, ends, and hears Ctrl-C meanwhile."""
    home = workplace.folder()
    arguments = ["launch", str(ROOT / "configs/ppo_cartpole.yaml"), f"directory={home}"]
    limits = ["stop.score=null", "stop.env_steps=4096", "metrics.tensorboard=false"]
    main, terminal = pty.openpty()  # nobody ever reads it
    try:
        os.set_blocking(terminal, False)
        with pytest.raises(BlockingIOError):
            while True:
                os.write(terminal, b"x" * 1024)
        os.set_blocking(terminal, True)
        process = subprocess.Popen(
            [sys.executable, "-m", "fast_core.tools.cli", *arguments, *limits],
            stdin=subprocess.DEVNULL,
            stdout=terminal,
            stderr=subprocess.DEVNULL,
            cwd=ROOT,
            env={**os.environ, "TERM": "xterm-256color"},
        )
        try:
            assert process.wait(40) == 0
        finally:
            process.kill()
            process.wait()
    finally:
        os.close(main)
        os.close(terminal)


@pytest.mark.slow
def test_device_that_is_not_there_is_named(workplace: Workplace) -> None:
    launched = workplace.launch("nodes.optimizer.device=cuda:7", config=CARTPOLE).ends(2)
    last = launched.screen.splitlines()[-1]
    assert "nodes.optimizer.device" in last and "'cuda:7'" in last
    assert not list((launched.home / "runs").glob("*/*")), "nothing has begun"
    arguments = ["config", "validate", str(launched.home / "config.yaml")]
    checked = workplace.fastloop([*arguments, "nodes.optimizer.device=cuda:7"]).ends(2)
    assert checked.screen.splitlines() == [last]
    assert not (checked.home / "runs").exists(), "and nothing is left"


def test_seed_that_is_too_large_is_refused(workplace: Workplace) -> None:
    launched = workplace.launch(f"seed={2**63}", config=CARTPOLE).ends(2)
    assert "seed" in launched.screen


def test_error_text_that_is_no_unicode_is_shown_all_the_same(workplace: Workplace) -> None:
    launched = workplace.toy("surrogate").ends(1)
    assert r"caf\udce9" in launched.screen.splitlines()[-1], launched.screen


LARGE = [
    (CARTPOLE, "rollout.steps=400000000", "rollouts"),
    (SAC, "replay.capacity=1000000000000", "replay"),
]


@pytest.mark.parametrize(("config", "large", "part"), LARGE, ids=["rollouts", "replay"])
def test_run_whose_memory_does_not_fit_is_refused_with_the_arithmetic(
    workplace: Workplace, config: dict[str, Any], large: str, part: str
) -> None:
    """SHM-02, FT-11: before any node has begun."""
    last = workplace.launch(large, config=config).ends(2).screen.splitlines()[-1]
    assert "GiB" in last and f"In MiB: {part} " in last, last
    assert large.partition("=")[0] in last


def test_run_without_a_standard_output_trains(workplace: Workplace) -> None:
    home = workplace.folder()
    config = home / "config.yaml"
    config.write_text(yaml.safe_dump(CARTPOLE))
    command = f"exec {sys.executable} -m fast_core.tools.cli launch {config} >&-"
    done = subprocess.run(["bash", "-c", command], cwd=home, stderr=subprocess.PIPE, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_policy_can_be_evaluated_without_an_evaluation_on_file(workplace: Workplace) -> None:
    launched = workplace.launch(config=CARTPOLE).done()
    assert "evaluate it" in launched.screen
    result = json.loads(
        workplace.fastloop(["eval", str(launched.run), "--episodes=2"]).done().screen
    )
    assert (result["policy"], result["episodes"]) == ("newest", 2)
    assert result["env_steps"] == 320


@pytest.mark.parametrize(
    ("fault", "words"),
    slow_but([("segfault", "SIGSEGV")], [("sleep", "Timeout"), ("segfault", "SIGSEGV")]),
)
def test_environment_that_hangs_or_crashes_in_its_first_steps_is_found(
    workplace: Workplace, fault: str, words: str
) -> None:
    launched = workplace.toy(fault, "environment.step_timeout_s=1", at=7).ends(1)
    assert words in launched.screen
    assert "toy_envs.py" in launched.screen  # the stack says where
    assert "environment.step_timeout_s" in launched.screen.splitlines()[-1]
    launched.assert_gone()


def test_refused_launch_leaves_no_run_directory(workplace: Workplace) -> None:
    """Nor one that begins from another run."""
    source = workplace.launch(config=CARTPOLE).done()
    from_it = ("--resume", str(source.run))
    wrong = "environment.id=NoSuch-v0"
    for given in ((wrong,), (wrong, *from_it), ("seed=7", *from_it)):
        new = workplace.launch(*given, config=CARTPOLE)
        assert new.wait() != 0
        assert not list((new.home / "runs").glob("*/*"))
