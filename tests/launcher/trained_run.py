"""A run directory with policies in it, made without training, and an environment that draws."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import gymnasium
import msgspec
import numpy as np

from fast_core.config import EvaluationConfig, RunConfig
from fast_core.config import file as config_file
from fast_core.launcher.checkpoints.store import CheckpointStore
from fast_core.launcher.prepare import identity, make_plan, resolve
from fast_core.messages.launching import CommitCheckpoint
from fast_core.monitor.run_directory import RunDirectory
from fast_core.policy.file import Origin, best_policy_path, describe, write_policy
from fast_core.system.state_file import save
from tests.nodes.stage import CARTPOLE, make_config

DRAWING = "FastLoopTest/Drawing-v0"
EPISODES, ENVS = 5, 2


class Drawing(gymnasium.Env[np.ndarray, np.int64]):
    """An episode's length comes from its seed; draws frames that show the step."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 25}
    observation_space = gymnasium.spaces.Box(-5, 5, (4,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, render_mode: str | None = None, breaks: bool = False) -> None:
        self.render_mode, self._breaks = render_mode, breaks
        self._step = self._length = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self._step, self._length = 0, int(self.np_random.integers(2, 6))
        return self._observe(), {}

    def step(self, action: Any) -> Any:
        self._step += 1
        reward = float(action) * 2.0**self._step + self._length
        return self._observe(), reward, self._step >= self._length, False, {}

    def render(self) -> Any:
        if self._breaks:
            raise RuntimeError("no context")
        return np.full((15, 18, 3), self._step, np.uint8)

    def _observe(self) -> np.ndarray:
        return self.np_random.uniform(-1, 1, 4).astype(np.float32)


gymnasium.register(DRAWING, Drawing)


def make_trained(
    folder: Path, environment: str = DRAWING, *, best: bool = True, checkpoints: int = 1
) -> RunDirectory:
    """A run whose policies are those that its learner begins with, of different seeds."""
    config = make_config(
        environment=msgspec.structs.replace(make_config().environment, id=environment),
        evaluation=EvaluationConfig(episodes=EPISODES, envs=ENVS),
    )
    spec = msgspec.structs.replace(CARTPOLE, id=environment)
    config = resolve(config, spec, 1)
    run = RunDirectory.create(str(folder), "made", datetime(2025, 1, 1))
    run.write_config(config_file.dumps(config))
    if best:
        learner = _learner(config, run, seed=99)
        origin = Origin(run="made", source="best", version=7, env_steps=448, mean_return=1.0)
        policy = describe(config, spec, learner.policy_parameters(), origin)
        write_policy(best_policy_path(run.path), policy)
    store = CheckpointStore(run.checkpoints, keep=9, identity=identity(config))
    for number in range(1, checkpoints + 1):
        partial = run.checkpoints / f"{number:012}.tmp"
        store.prepare(str(partial))
        save(partial / "learner.msgpack", {"algorithm": _learner(config, run, number).state_dict()})
        store.commit(
            CommitCheckpoint(
                checkpoint=number,
                version=10 * number,
                env_steps=number,
                files=("learner.msgpack",),
                scheduler=b"",
            ),
            str(partial),
        )
    return run


def _learner(config: RunConfig, run: RunDirectory, seed: int) -> Any:
    seeded = msgspec.structs.replace(config, seed=seed)
    spec = msgspec.structs.replace(CARTPOLE, id=config.environment.id)
    plan = make_plan(seeded, spec, str(run.path), None, None)
    return plan.blueprint.make_algorithm(spec, plan.learner_setup)
