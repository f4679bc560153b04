"""A user's folder is found whatever it is called, and never stands in for what is installed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

from tests.forms import slow_but
from tests.process.harness import ROOT, TOY, Launched, Workplace, read_lines

pytestmark = pytest.mark.process

NAMES = ("algos", "benchmarks", "configs", "docs", "examples", "fastloop", "tests", "utils")
ENVIRONMENT = """
import gymnasium
from gymnasium.envs.classic_control.cartpole import CartPoleEnv

class Env(CartPoleEnv):
    pass

gymnasium.register("{name}-v0", entry_point="{name}.mine:Env", max_episode_steps=20)
"""
CODE = """
from fast_core.algos.ppo.config import PPOConfig
from fast_core.nodes.rollout_stage import RolloutStage

class Config(PPOConfig, frozen=True, kw_only=True):
    pass

class Stage(RolloutStage):
    def transform(self, rollout):
        self.log_figures({"rows": rollout.reward.size})
"""


def user_folder(home: Path, *, packages: bool) -> None:
    """Folders of every name, with an environment, an algorithm and a node in each."""
    for name in NAMES:
        (home / name).mkdir()
        (home / name / "mine.py").write_text(ENVIRONMENT.format(name=name))
        (home / name / "ppo.py").write_text(CODE)
        if packages:
            (home / name / "__init__.py").write_text("")


def installed(folder: Path) -> Path:
    """FastLoop as a wheel installs it, and beside it other people's packages of every name."""
    shutil.copytree(ROOT / "fast_core", folder / "fast_core")
    for name in NAMES:
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text("raise RuntimeError('not the one asked for')")
    return folder


def launch(workplace: Workplace, home: Path, path: Path, used: str, *overrides: str) -> Launched:
    config = {
        **TOY,
        "environment": {"id": f"{used}-v0", "modules": [f"{name}.mine" for name in NAMES]},
        "algorithm": {**TOY["algorithm"], "name": f"{used}.ppo:Config"},
        "nodes": {"env": {"count": 1}, "extra": [{"node": f"{used}.ppo:Stage", "name": "mine"}]},
        "stop": {"env_steps": 64},
    }
    (home / "run.yaml").write_text(yaml.safe_dump(config))
    code = "import sys, fast_core; from fast_core.tools.cli import main; "
    code += "print(fast_core.__file__); sys.exit(main())"
    (home / "start.py").write_text(code)
    arguments = ["-P", str(home / "start.py"), "launch", "run.yaml", *overrides]
    return workplace.start(arguments, home=home, environment={"PYTHONPATH": str(path)})


PLACES = [("checkout", False), ("checkout", True), ("wheel", False), ("wheel", True)]


@pytest.mark.parametrize(("place", "packages"), slow_but([PLACES[-1]], PLACES))
def test_folder_of_any_name_is_found(workplace: Workplace, place: str, packages: bool) -> None:
    home = workplace.folder()
    user_folder(home, packages=packages)
    path = ROOT if place == "checkout" else installed(workplace.folder())
    used = "algos" if packages else "benchmarks"
    launched = launch(workplace, home, path, used, *(["mode=inline"] if packages else [])).done()
    assert launched.screen.startswith(str(path / "fast_core"))
    rows = read_lines(launched.run / "metrics.jsonl")
    assert rows[-1]["values"]["mine/rows"] == 16.0


def test_folders_of_a_user_change_nothing_where_they_are_not_named(workplace: Workplace) -> None:
    """CartPole with our PPO, in a folder that holds algos/ppo/learner.py and the like."""
    home = workplace.folder()
    user_folder(home, packages=True)
    for path in home.glob("*/*.py"):
        path.write_text("raise RuntimeError('not asked for')")
    config = {**TOY, "environment": {"id": "CartPole-v1"}, "stop": {"env_steps": 64}}
    workplace.launch(config=config, home=home).done()
