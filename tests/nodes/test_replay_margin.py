"""A checkpoint's rows on a slow disk: the writers wait, and nothing is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from fast_core.messages import Save, Saved
from fast_core.run import replay_files
from tests.nodes.replay_stage import ReplayStage, replay_config


def test_draws_wait_before_rows_that_are_being_saved_could_be_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Env nodes collect a ticket only when the one before was learned from."""
    monkeypatch.setattr(replay_files, "PIECE_BYTES", 1)  # a row of each log at a time
    config = replay_config(replay={"capacity": 400})
    stage = ReplayStage.make(tmp_path, config)
    stage.collect(200)  # 100 rows of each environment can be drawn
    (tmp_path / "saved").mkdir()
    stage.stage.hub.send("replay-0", Save(1, str(tmp_path / "saved")))
    cuts, tickets, learned = stage.logs[0].native.spans(), 0, True
    stage.node.step()
    while not any(isinstance(event, Saved) for event in stage.stage.events()):
        if learned:
            stage.collect()
            stage.grant(tickets, 1)
            tickets, learned = tickets + 1, False
        stage.node.step()
        learned = stage.answer() or learned
    assert tickets > 4
    restored = ReplayStage.make(tmp_path, config, tmp_path / "saved")
    assert restored.logs[0].native.spans() == cuts == [(100, 200)] * 2
