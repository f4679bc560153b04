"""FastLoop inside GOPS, shown on a small package of the same interfaces."""

from __future__ import annotations

import importlib
import os
import runpy
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from fast_core.clients.gops import install  # noqa: E402
from fast_core.clients.gops.ray_stand_in import STAND_IN  # noqa: E402
from fast_core.errors import ConfigError, NodeFailed  # noqa: E402
from tests.clients.gops.runs import STANDIN, Runs, different, networks  # noqa: E402
from tests.forms import slow_but  # noqa: E402
from tests.process.harness import GONE_WITHIN_S, eventually, processes  # noqa: E402

NEVER = 10**6
QUICK = ("DSACT", 40)
Make = Callable[..., Any]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Makes a trainer as a script does: GOPS's own with ``ours=False``."""
    monkeypatch.syspath_prepend(STANDIN)
    threads = torch.get_num_threads()

    def made(*, ours: bool = True, folder: str = "run", **changes: Any) -> Any:
        script = runpy.run_path(str(STANDIN / "example.py"))
        install(serial=ours)
        folder = str(tmp_path / folder)
        args = script["DEFAULTS"] | script["FIXED"] | {"save_folder": folder} | changes
        args = called("gops.utils", "init_args")(script["create_env"](**args), **args)
        create = {n: called("gops.create_pkg", f"create_{n}") for n in PARTS}
        parts = [create[name](**args) for name in PARTS[:-1]]
        return create["trainer"](*parts, **args)

    yield made
    torch.set_num_threads(threads)
    STAND_IN.real = None
    for name in [*sys.modules]:
        if name.split(".")[0] in ("gops", "ray"):
            del sys.modules[name]


PARTS = ("alg", "sampler", "buffer", "evaluator", "trainer")


def called(package: str, name: str) -> Any:
    return getattr(importlib.import_module(f"{package}.{name}"), name)


def children() -> list[int]:
    return [each.pid for each in processes() if each.parent == os.getpid()]


@pytest.fixture
def nothing_is_left() -> Iterator[None]:
    before = children()
    yield
    eventually(lambda: children() == before, "no process is left", GONE_WITHIN_S)


# --- in one process ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("algorithm", "updates"), slow_but([QUICK], [QUICK, ("DSACT", 200), ("TD3", 200)])
)
def test_degree_0_equals_the_serial_trainer(
    algorithm: str, updates: int, make: Make, tmp_path: Path
) -> None:
    how = {"algorithm": algorithm, "max_iteration": updates, "eval_interval": NEVER}
    for ours in (False, True):
        make(ours=ours, folder=str(ours), **how).train()
    saved = [networks(tmp_path / str(ours), updates) for ours in (False, True)]
    assert different(*saved) == []
    first = networks(tmp_path / "True", 0)
    assert different(first, saved[0]), "it trained"


def test_samples_of_the_policy_reach_an_algorithm_without_a_buffer(
    make: Make, tmp_path: Path
) -> None:
    how = {"trainer": "on_serial_trainer", "sampler_name": "on_sampler", "algorithm": "PPO"}
    how |= {"max_iteration": 30, "sample_batch_size": 16, "eval_interval": NEVER}
    for ours in (False, True):
        make(ours=ours, folder=str(ours), **how).train()
    assert different(*(networks(tmp_path / str(ours), 30) for ours in (False, True))) == []


ON = {"trainer": "on_serial_trainer", "sampler_name": "on_sampler", "eval_interval": NEVER}


SHARED = {**ON, "algorithm": "PPO", "max_iteration": 3, "sample_batch_size": 16}


def test_rows_that_ppo_learns_from_are_shared_out_among_samplers(make: Make) -> None:
    samplers = make(num_samplers=2, **SHARED)._samplers
    assert [each.recipe.keywords["sample_batch_size"] for each in samplers] == [8, 8]
    with pytest.raises(ConfigError, match=r"got 16 and 3. Take 15 or 18 rows"):
        make(num_samplers=3, **SHARED)


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.usefixtures("nothing_is_left")
def test_ppo_learns_from_all_rows_of_all_samplers(make: Make) -> None:
    trainer = make(num_samplers=2, **SHARED)
    given: list[int] = []
    own = trainer._alg.compute
    trainer._alg.compute = lambda data: given.append(len(data["rew"])) or own(data)
    trainer.train()
    assert given == [16, 16, 16] and trainer.result.stats.env_steps_collected == 48


def test_run_leaves_files_where_gops_users_look(make: Make, tmp_path: Path) -> None:
    make(max_iteration=20, apprfunc_save_interval=10, eval_interval=NEVER).train()
    found = {path.name for path in (tmp_path / "run").rglob("*") if path.is_file()}
    assert found >= {"config.json", "apprfunc_0.pkl", "apprfunc_10.pkl", "apprfunc_20.pkl"}
    assert any(name.startswith("events.out.tfevents.") for name in found)


def test_sampler_in_one_process_leaves_the_algorithm_its_random_numbers(make: Make) -> None:
    how = {"max_iteration": 2, "eval_interval": NEVER, "seed": 5, "off_policy_degree": 0}
    make(trainer="off_async_trainer", num_samplers=1, fused_optimizers=True, **how).train()
    assert torch.initial_seed() == 5 + 300


def test_adam_is_fused_on_request_alone(make: Make) -> None:
    for fused in (False, True):
        trainer = make(max_iteration=2, eval_interval=NEVER, fused_optimizers=fused)
        trainer.train()
        groups = trainer.networks.policy_optimizer.param_groups
        assert [bool(group["fused"]) for group in groups] == [fused]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"off_policy_degree": "many"}, "off_policy_degree must be"),
        ({"num_samplers": 0, "off_policy_degree": 1}, "num_samplers must be"),
    ],
)
def test_what_is_not_supported_is_named(changes: Any, says: str, make: Make) -> None:
    with pytest.raises(ConfigError, match=says):
        make(**changes)


def test_stand_in_that_is_measured_is_dsac(make: Make) -> None:
    """Its critic learns the reward of steps that end; policy and targets move every other time."""
    alg = make(ours=False, algorithm="DSAC", value_learning_rate=1e-2).alg
    parts = {name: getattr(alg.networks, name) for name in ("q", "policy", "q_target")}
    rows = {"obs": torch.randn(32, 2), "act": torch.rand(32, 1), "obs2": torch.randn(32, 2)}
    batch = {**rows, "rew": torch.full((32,), 1.5), "done": torch.ones(32)}
    moved, values = [], []
    for iteration in range(1, 120):
        before = {name: [p.clone() for p in part.parameters()] for name, part in parts.items()}
        values.append(alg.local_update(batch, iteration)["DSAC/value"])
        after = {name: [*part.parameters()] for name, part in parts.items()}
        moved.append([n for n in parts if not all(map(torch.equal, before[n], after[n]))])
    assert moved[:2] == [["q"], ["q", "policy", "q_target"]]
    assert values[-1] == pytest.approx(1.5, abs=0.3) and abs(values[0] - 1.5) > 0.5


# --- with processes ------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.usefixtures("nothing_is_left")
def test_samplers_in_processes_bring_additional_info(make: Make, tmp_path: Path) -> None:
    trainer = make(
        trainer="off_async_trainer", num_samplers=2, off_policy_degree=2, samples_per_round=2
    )
    buffer = trainer._store._buffers[0]
    trainer.train()
    assert trainer.iteration == 200 and trainer.result.chosen_degree == 2
    rows = {name: column[: buffer.size] for name, column in buffer.buf.items()}
    assert buffer.size > 64 + 200 and np.ptp(rows["obs"]) > 0
    for place, obs in (("wind", "obs"), ("next_wind", "obs2")):
        assert (rows[place][:, :2] == rows[obs]).all()
        assert rows[place][:, 2].max() == 20 - (place == "wind")
    found = {path.name for path in (tmp_path / "run").rglob("*") if path.is_file()}
    assert found >= {"apprfunc_200.pkl", "iter50.npy"}
    assert any(name.endswith("_opt.pkl") for name in found)


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.usefixtures("nothing_is_left")
def test_error_in_a_sampler_comes_with_its_traceback_and_process(make: Make) -> None:
    trainer = make(env_id="broken", trainer="off_async_trainer", eval_interval=NEVER)
    with pytest.raises(NodeFailed) as failed:
        trainer.train()
    text = str(failed.value)
    assert "collector-0 (process " in text and "old_gym.py" in text
    assert "ZeroDivisionError: the wind went out" in text


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.timeout(600)  # two programs, which take minutes to import Torch on a busy machine
def test_script_runs_unchanged_and_ends_with_ctrl_c(tmp_path: Path) -> None:
    runs = Runs(path=(STANDIN,))
    how = ("--apprfunc_save_interval", "20", "--save_folder")
    said = runs.fastloop(STANDIN / "example.py", *how, tmp_path / "done", "--max_iteration", "40")
    assert "Training is finished!" in said
    assert len(networks(tmp_path / "done", 40)) > 0
    several = ("--trainer", "off_async_trainer", "--num_algs", "2", "--max_iteration", str(NEVER))
    command = ("-m", "fast_core.tools.cli", "gops", STANDIN / "example.py", *how, tmp_path / "cut")
    running = runs.start(*command, *several, start_new_session=True)
    try:
        eventually(lambda: [*(tmp_path / "cut").rglob("apprfunc_20.pkl")], "it trains", 240.0)
        os.killpg(running.pid, signal.SIGINT)
        said, _ = running.communicate(timeout=60.0)
    finally:
        running.kill()
    assert running.returncode == 130 and "interrupted" in said and "Traceback" not in said, said
    eventually(
        lambda: not [each for each in processes() if each.session == running.pid],
        "no process is left",
        GONE_WITHIN_S,
    )
