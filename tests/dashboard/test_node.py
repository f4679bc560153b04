"""The node that serves the page of a run."""

from __future__ import annotations

from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from fast_core.config import DashboardConfig
from fast_core.dashboard.node import Dashboard
from fast_core.monitor.run_directory import RunDirectory
from fast_core.monitor.screens.served import Served
from tests.nodes.stage import Stage, make_config


def test_page_is_served_though_its_address_can_not_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    said: list[Served] = []

    def full(served: Served, path: Path) -> None:
        said.append(served)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Served, "write", full)
    config = make_config(dashboard=DashboardConfig(enabled=True, port=0), mode="inline")
    stage = Stage(tmp_path, config)
    node = Dashboard(stage.context("dashboard"))
    node.setup()
    headers = {"Authorization": f"Bearer {said[0].token}"}
    with urlopen(Request(f"{said[0].url}api/state", headers=headers)) as answer:
        assert answer.status == 200
    node.close()
    assert "No space left on device" in caplog.text
    assert not RunDirectory(tmp_path).dashboard.exists()
