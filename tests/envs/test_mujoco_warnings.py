from __future__ import annotations

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import NoReturn

import pytest

from fast_core.config import EnvironmentConfig
from fast_core.envs import mujoco_warnings
from fast_core.envs.making import make_env
from fast_core.errors import ConfigError

mujoco = pytest.importorskip("mujoco")

# A ball so fast that the simulation becomes unstable in one step.
UNSTABLE = "<mujoco><worldbody><body><freejoint/><geom size='1'/></body></worldbody></mujoco>"


def test_warnings_go_to_the_log_once_and_into_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(mujoco_warnings, "_seen", set())
    with caplog.at_level(logging.WARNING):
        make_env(EnvironmentConfig(id="HalfCheetah-v5")).close()
        assert not caplog.records  # its model's own are of no use to anybody
        model = mujoco.MjModel.from_xml_string(UNSTABLE)
        for _ in range(2):
            data = mujoco.MjData(model)
            data.qvel[:] = 1e30
            mujoco.mj_step(model, data)
    assert len(caplog.records) == 1
    assert "unstable" in caplog.text
    assert not list(tmp_path.iterdir())


def test_what_it_can_not_draw_with_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str) -> NoReturn:
        raise AttributeError("'NoneType' object has no attribute 'glGetError'")

    monkeypatch.setenv("MUJOCO_GL", "osmesa")
    monkeypatch.setattr(mujoco_warnings, "importlib", SimpleNamespace(import_module=broken))
    with pytest.raises(ConfigError, match=r"MUJOCO_GL='osmesa'.*glGetError.*libosmesa6"):
        mujoco_warnings.catch_mujoco_warnings()
