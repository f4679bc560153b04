"""What `fastloop demo screens` does: many environments, played at random, on a page."""

from __future__ import annotations

import shutil
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fast_core.config import RunConfig, yaml_text
from fast_core.config import file as config_file
from fast_core.config.algorithms import algorithm_config_type
from fast_core.errors import RunFailed
from fast_core.launcher import Outcome
from fast_core.launcher.run import launch

EMULATED = "Airstriker-Genesis-v0"  # comes with stable-retro
FOR_EVER_S = 1e9
_GAMES = "fast_core.clients.games"
OWN: dict[str, dict[str, Any]] = {
    "fastloop/ColorLines-v0": {"modules": [f"{_GAMES}.color_lines"], "action_mask": "moves"},
    "fastloop/ConnectFour-v0": {"modules": [f"{_GAMES}.connect_four"], "action_mask": "moves"},
    "fastloop/Drift-v0": {"modules": [f"{_GAMES}.drift_task"]},
    "fastloop/Recall-v0": {"modules": [f"{_GAMES}.memory_task"]},
    "fastloop/TicTacToe-v0": {"modules": [f"{_GAMES}.tic_tac_toe"], "action_mask": "moves"},
}
STEPS = 16


def first_there() -> str:
    """The most colourful environment of which the simulator is installed."""
    if find_spec("cv2") is not None:
        if find_spec("stable_retro") is not None:
            return EMULATED
        if find_spec("ale_py") is not None:
            return "ALE/Breakout-v5"
    return "CartPole-v1"


def environment_of(id: str) -> dict[str, Any]:
    """The group ``environment`` for an id alone: with what games need to be played at their pace.

    Beside Gymnasium's ids it may be a game of stable-retro.
    """
    if id.startswith("ALE/"):
        return {"id": id, "atari": {}}
    if id.startswith("MiniGrid-"):
        return {"id": id, "modules": ["minigrid"], "wrappers": ["minigrid.wrappers:ImgObsWrapper"]}
    console = id.rpartition("-v")[0].rpartition("-")[2]
    if console in ("Genesis", "Nes", "Snes", "Sms", "GameBoy", "Atari2600") and "/" not in id:
        return {"id": "fast_core.clients.games.retro:RetroGame", "kwargs": {"game": id}}
    return {"id": id, **OWN.get(id, {})}


def config_of(
    id: str, tiles: int, directory: str, overrides: list[str], seconds: float | None = None
) -> RunConfig:
    """Random play in ``tiles`` processes of one environment each, on a page; nothing is kept.

    Raises:
        ConfigError: An override is no key, or its value is not allowed.
    """
    environment = environment_of(id)
    paced = ["fast_core.envs.wrappers:Paced"]
    tree = {
        "name": "screens",
        "directory": directory,
        "environment": {**environment, "wrappers": [*environment.get("wrappers", ()), *paced]},
        "rollout": {"shards": tiles, "envs_per_shard": 1, "steps": STEPS},
        "nodes": {"env": {"count": tiles}},
        "scheduler": {"off_policy_degree": 1},
        "algorithm": {"name": "random"},
        "evaluation": {"every_env_steps": None},
        "checkpoint": {"every_updates": None, "at_end": False, "exact": "never"},
        "metrics": {"tensorboard": False},
        "dashboard": {"enabled": True, "tiles": tiles, "fps": 10.0, "cpu_share": 0.3},
        "stop": {"time_s": seconds or FOR_EVER_S},
    }
    text = yaml_text.dump(tree)
    return config_file.loads(text, overrides, algorithm_config_type, source="fastloop demo screens")


def screens(
    id: str | None, tiles: int, overrides: list[str], *, seconds: float | None, keep: Path | None
) -> Outcome:
    """Show it until Ctrl-C, or for so many seconds.

    Args:
        id: Environment, see `environment_of`; by default the `first_there`.
        tiles: How many.
        overrides: Keys of the configuration, as for a launch.
        seconds: How long.
        keep: Folder for the run directory; by default it is gone afterwards, unless it failed.

    Raises:
        FastLoopError: It could not be started.
    """
    directory = str(keep or tempfile.mkdtemp(prefix="fastloop-screens-"))
    kept = keep is not None
    try:
        config = config_of(id or first_there(), tiles, directory, overrides, seconds)
        outcome = launch(config, kept=kept)
        kept = kept or outcome.reason == "failed"
        return outcome
    except RunFailed:
        kept = True  # what it says names files
        raise
    finally:
        if not kept:
            shutil.rmtree(directory, ignore_errors=True)
