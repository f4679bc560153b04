"""An environment that raises past `Exception` has failed, as any other that raises."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from fast_core.config import EnvironmentConfig
from fast_core.envs.instance import Instance
from fast_core.envs.making import make_env
from fast_core.envs.stepping.gymnasium_batch import GymnasiumBatch
from fast_core.errors import ConfigError, EnvironmentFailed
from fast_core.system.seeding import Role
from tests.envs.driver import Driver


class Leaving(gymnasium.Env[Any, Any]):
    """Calls ``sys.exit`` in ``where``, or takes itself for a terminal."""

    def __init__(self, where: str = "", interrupt: bool = False) -> None:
        self.observation_space = Box(-1.0, 1.0, (1,), np.float32)
        self.action_space = Discrete(2)
        self._where, self._interrupt = where, interrupt
        self._leave("init")

    def _leave(self, where: str) -> None:
        if where == self._where and self._interrupt:
            raise KeyboardInterrupt
        if where == self._where:
            sys.exit("the licence has expired")

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self._leave("reset")
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        self._leave("step")
        return np.zeros(1, np.float32), 0.0, False, False, {}

    def close(self) -> None:
        self._leave("close")


gymnasium.register("FastLoopTest/Leaving-v0", entry_point=Leaving)


def config(where: str, *, interrupt: bool = False) -> EnvironmentConfig:
    kwargs = {"where": where, "interrupt": interrupt}
    return EnvironmentConfig(id="FastLoopTest/Leaving-v0", kwargs=kwargs)


@pytest.mark.parametrize(
    ("interrupt", "text"), [(False, "SystemExit: the licence has"), (True, "KeyboardInterrupt: ")]
)
@pytest.mark.parametrize("where", ["init", "reset", "step", "close"])
def test_leaving_is_a_failure_of_the_batch(where: str, interrupt: bool, text: str) -> None:
    with pytest.raises(EnvironmentFailed, match=text):
        batch = GymnasiumBatch(config(where, interrupt=interrupt), seed=0, shard=0, envs=2)
        Driver(batch, 2).run([np.zeros(2, np.int64)])
        batch.close()


def test_leaving_is_a_failure_of_a_checked_step() -> None:
    made = Instance(config("step"), seed=0, role=Role.PROBE, shard=0, index=0, incarnation=1)
    row = memoryview(np.zeros(1, np.float32))
    with pytest.raises(EnvironmentFailed, match=r"in step 1 .*SystemExit: the licence has expired"):
        made.checked_step(row, 0, number=1, episode=0, seed=0)  # type: ignore[arg-type]
    made.close()


def test_module_that_leaves_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "leaving_script.py").write_text("raise SystemExit('no main guard')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    wrong = EnvironmentConfig(id="CartPole-v1", modules=("leaving_script",))
    with pytest.raises(ConfigError, match="'leaving_script', which can't be imported: SystemExit"):
        make_env(wrong)
