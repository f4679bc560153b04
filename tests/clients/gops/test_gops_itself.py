"""GOPS's own example scripts under FastLoop: `.ci/gops` runs this where GOPS can be imported."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

pytest.importorskip("torch")

from tests.clients.gops.runs import Runs, different, networks

PYTHON = os.environ.get("FASTLOOP_GOPS")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1_200),
    pytest.mark.skipif(PYTHON is None, reason="FASTLOOP_GOPS names no Python that has GOPS"),
]


@pytest.fixture
def gops(tmp_path: Path) -> Runs:
    """Without the server that scripts start, and without their search for an older one to end."""
    for name in ("tensorboard", "lsof"):
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
    return Runs(python=str(PYTHON), bin=tmp_path / "bin")


def example(gops: Runs, name: str) -> Path:
    asked = "import gops; print(gops.__path__[0])"
    folder = Path(gops.run("-c", asked).splitlines()[-1])
    return next((folder.parent / "example_train").glob(f"*/{name}.py"))


@pytest.mark.parametrize(
    ("script", "updates", "arguments"),
    [
        ("td3_mlp_pendulum_offserial", 300, ()),
        ("sac_mlp_cartpoleconti_async", 300, ()),
        ("ddpg_mlp_cartpoleconti_async", 200, ("--num_algs", "2")),
        ("ppo_mlp_pendulum_onserial", 2, ("--num_repeat", "2")),
    ],
)
def test_example_runs_unchanged(
    script: str, updates: int, arguments: tuple[str, ...], gops: Runs, tmp_path: Path
) -> None:
    folder = tmp_path / "results"
    how = ("--max_iteration", str(updates), "--save_folder", str(folder), *arguments)
    said = gops.fastloop(example(gops, script), *how, cwd=tmp_path)
    assert "Training is finished!" in said and "Plot & Save are finished!" in said
    assert len(networks(folder, updates)) > 0
    assert (folder / "config.json").exists()
    assert [*(folder / "data").glob("*.csv")] and [*(folder / "figure").iterdir()]


@pytest.mark.parametrize("script", ["dsact_mlp_mujoco_offserial", "td3_mlp_mujoco_offserial"])
def test_parameters_equal_those_of_its_serial_trainer(
    script: str, gops: Runs, tmp_path: Path
) -> None:
    path = example(gops, script)
    how = ("--env_id", "gym_pendulum", "--max_iteration", "200", "--buffer_warm_size", "500")
    gops.run(path, *how, "--save_folder", tmp_path / "own", cwd=tmp_path)
    gops.fastloop(path, *how, "--save_folder", tmp_path / "fastloop", cwd=tmp_path)
    assert different(*(networks(tmp_path / name, 200) for name in ("own", "fastloop"))) == []
    assert different(networks(tmp_path / "own", 0), networks(tmp_path / "own", 200))


@pytest.mark.parametrize("script", ["dsact_mlp_mujoco_offserial", "td3_mlp_mujoco_offserial"])
def test_gradients_of_a_copy_train_as_the_algorithm_itself(
    script: str, gops: Runs, tmp_path: Path
) -> None:
    how = ("--env_id", "gym_pendulum", "--save_folder", tmp_path / "made")
    said = gops.run(Path(__file__).with_name("remote_form.py"), example(gops, script), *how)
    told = json.loads(said.splitlines()[-1])
    assert told["differ"] == [] and told["ages"] == 0 and told["trained"] > 40
