"""How the tests of learning train a configuration, and read what it reached."""

from __future__ import annotations

import json
from pathlib import Path

from fast_core.config import file as config_file
from fast_core.config.algorithms import algorithm_config_type
from fast_core.launcher.run import launch
from tests.process.harness import read_lines

CONFIGS = Path(__file__).parents[2] / "configs"


def train(folder: Path, name: str, *overrides: str) -> Path:
    """Train in ``folder``; the run directory."""
    given = [f"directory={json.dumps(str(folder))}", "metrics.tensorboard=false", *overrides]
    config = config_file.load(CONFIGS / name, given, algorithm_config_type)
    assert launch(config).status == 0
    (run,) = (folder / config.name).iterdir()
    return run


def evaluations(run: Path, name: str | None = None) -> list[tuple[int, float]]:
    """Env steps and mean return of each evaluation, or in that one of its environments."""
    key = "eval/return_mean" if name is None else f"evaluation/{name}/return_mean"
    rows = [row for row in read_lines(run / "metrics.jsonl") if key in row["values"]]
    return [(row["env_steps"], row["values"][key]) for row in rows]
