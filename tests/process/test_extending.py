"""Nodes and algorithms of the user's own, in real runs."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.forms import slow_but
from tests.process.harness import TOY, Workplace, digests, eventually
from tests.process.recording import WHOLE

pytestmark = pytest.mark.process

TICKETS, SHARDS = 20, 3
BONUS: dict[str, Any] = {
    **TOY,
    "environment": {"id": "CartPole-v1"},
    "rollout": {"shards": SHARDS, "envs_per_shard": 2, "steps": 8},
    "algorithm": {"name": "ppo", "hidden_sizes": [4], "minibatch_size": 48, "epochs": 1},
    "nodes": {
        "env": {"count": 1},
        "extra": [
            {
                "node": "examples.exploration_bonus:CountBonus",
                "settings": {"cell": 0.5, "scale": 1.0},
            },
            {"node": "examples.exploration_bonus:NoveltyLog"},
        ],
    },
    "diagnostics": {"digests": True},
    "stop": {"env_steps": TICKETS * SHARDS * 16},
}


def novelties(run: Path) -> list[str]:
    return (run / "novelty.csv").read_text().splitlines()


def test_stage_gives_the_same_bits_inline_and_in_processes(workplace: Workplace) -> None:
    reference = workplace.launch("mode=inline", config=BONUS).done()
    expected = digests(reference.run)
    assert sorted(expected) == list(range(TICKETS))
    lines = novelties(reference.run)
    assert len(lines) == TICKETS * SHARDS
    assert [line.split(",")[0] for line in lines] == ["0", "1", "2"] * TICKETS
    without = workplace.launch("mode=inline", "nodes.extra=[]", config=BONUS).done()
    assert set(digests(without.run).values()).isdisjoint(expected.values())
    launched = workplace.launch("nodes.env.count=3", "diagnostics.delay_ms=3", config=BONUS).done()
    assert digests(launched.run) == expected
    assert novelties(launched.run) == lines
    launched.assert_gone()


@pytest.mark.slow
def test_resumed_stage_remembers_what_it_saw(workplace: Workplace) -> None:
    whole = workplace.launch("mode=inline", config=BONUS).done()
    half = f"stop.env_steps={TICKETS // 2 * SHARDS * 16}"
    launched = workplace.launch(half, config=BONUS).done()
    resumed = workplace.resume(launched, f"stop.env_steps={BONUS['stop']['env_steps']}").done()
    assert digests(resumed.run) == digests(whole.run)
    assert novelties(resumed.run) == novelties(whole.run)


def test_killed_stage_ends_the_run_with_its_name(workplace: Workplace) -> None:
    launched = workplace.launch("stop={time_s: 60}", config=BONUS)
    launched.await_training()
    os.kill(launched.node("countbonus"), signal.SIGKILL)
    launched.ends(1)
    assert "countbonus was killed by SIGKILL" in (launched.run / "crash.txt").read_text()


def test_node_that_does_not_fit_is_refused_before_anything_starts(workplace: Workplace) -> None:
    extra = "nodes.extra=[{node: 'examples.exploration_bonus:CountBonus'}]"
    launched = workplace.launch(extra, config=BONUS).ends(2)
    assert "emits Novelty, but no node consumes it" in launched.screen
    assert not list((launched.home / "runs").glob("*/*"))


# --- memory of one's own -------------------------------------------------------------------------


def recording(recorder: str) -> dict[str, Any]:
    nodes = [{"node": recorder}, {"node": "examples.trajectory_log:TrajectoryLog"}]
    return {**BONUS, "name": "recording", "nodes": {"env": {"count": 1}, "extra": nodes}}


def recorded(run: Path) -> np.ndarray:
    """The rollouts of the file: CartPole pays 1 for each step."""
    grid = (8, 2)
    columns = [("shard", "i8"), ("rollout", "i8"), ("obs", "f4", (9, 2, 4)), ("reward", "f4", grid)]
    rows = np.fromfile(run / "trajectories.bin", np.dtype(columns))
    assert (rows["reward"] == 1).all() and np.isfinite(rows["obs"]).all()
    return rows


def test_ring_of_ones_own_carries_every_rollout_to_another_process(workplace: Workplace) -> None:
    found = []
    for mode in ("inline", "process"):
        config = recording("examples.trajectory_log:Recorder")
        launched = workplace.launch(f"mode={mode}", config=config).done()
        found.append(recorded(launched.run))
        assert "ring full" not in launched.screen
    assert found[0].tobytes() == found[1].tobytes()
    named = list(zip(found[0]["rollout"].tolist(), found[0]["shard"].tolist(), strict=True))
    assert named == [(1 + ticket, shard) for ticket in range(TICKETS) for shard in range(SHARDS)]


@pytest.mark.parametrize("mode", slow_but({"process"}, ["process", "inline"]))
def test_viewer_of_ones_own_saves_what_it_sees(workplace: Workplace, mode: str) -> None:
    nodes = [{"node": "examples.pictures:Pictures", "settings": {"every_s": 0.2}}]
    page = {"enabled": True, "port": 0, "tiles": 2, "evaluation": False, "cpu_share": 1.0}
    config = {**BONUS, "nodes": {"env": {"count": 1}, "extra": nodes}, "dashboard": page}
    launched = workplace.launch(
        f"mode={mode}", "stop.env_steps=100000", "diagnostics.delay_ms=2", config=config
    )

    def saved() -> set[str]:
        found = (launched.home / "runs").glob("*/*/pictures/*.png")
        return {path.name.partition("-")[0] for path in found}

    eventually(lambda: saved() == {"tile0", "tile1"}, "a picture of each tile", 40)
    launched.signal(signal.SIGINT)
    assert launched.wait(60) == 130, launched.screen
    first = next((launched.run / "pictures").glob("*.png"))
    assert first.read_bytes().startswith(b"\x89PNG")
    launched.assert_gone()


def test_what_a_killed_node_published_stays_readable(workplace: Workplace) -> None:
    launched = workplace.launch(config=recording("recording:Dying")).ends(1)
    assert len(recorded(launched.run)) == WHOLE
    crash = (launched.run / "crash.txt").read_text()
    assert "dying was killed" in crash and "complete in trajectories" in crash
    launched.assert_gone()
