"""The optimizer node, driven by hand on rollouts that a real env node collected."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from fast_core.algorithm import UpdateReport
from fast_core.config import DiagnosticsConfig
from fast_core.errors import CheckpointError, SegmentError
from fast_core.messages import Collect, Save, Saved, Snapshot, SnapshotTaken, Train, Trained
from fast_core.monitor.checkpoint_files import LEARNER_FILE
from fast_core.nodes.collect.env import EnvNode
from fast_core.nodes.learn.digest import digest
from fast_core.nodes.learn.optimizer import OptimizerNode
from fast_core.nodes.node import NodeState
from fast_core.system.state_file import load, save
from tests.nodes.stage import Stage, drain, make_config, order, ref


@dataclass
class Pair:
    """An optimizer and an env node on one stage."""

    stage: Stage
    optimizer: OptimizerNode
    env: EnvNode

    def collect(self, rollout_id: int) -> None:
        self.stage.hub.send("env-0", Collect((order(0, rollout_id), order(1, rollout_id))))
        drain(self.env)

    def train(self, ticket: int) -> Trained:
        rollout_id = ticket + 1
        train = Train(ticket, (ref(0, rollout_id), ref(1, rollout_id)), 32 * ticket, 2)
        self.stage.hub.send("optimizer-0", train)
        drain(self.optimizer)
        (event,) = self.stage.sent(Trained)
        return event

    def round(self, ticket: int) -> Trained:
        self.collect(ticket + 1)
        return self.train(ticket)

    @classmethod
    def on(cls, stage: Stage) -> Pair:
        """Both, ready, with all shards at the env node."""
        optimizer = stage.start(OptimizerNode, "optimizer-0")
        env = stage.start(EnvNode, "env-0")
        stage.assign()
        return cls(stage, optimizer, env)


def waits_for_disk(monkeypatch: pytest.MonkeyPatch, stage: Stage, node: str) -> list[NodeState]:
    """The state that is shown of a node each time that a disk takes its time."""
    states, flush = list[NodeState](), os.fsync

    def slow(descriptor: int) -> None:
        states.append(NodeState(stage.memory.stats(node).snapshot().state))
        flush(descriptor)

    monkeypatch.setattr(os, "fsync", slow)
    return states


@pytest.mark.parametrize("node", ["optimizer-0", "env-0"])
def test_slow_disk_is_no_hang(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, node: str) -> None:
    pair = make_pair(tmp_path)
    pair.collect(1)
    states = waits_for_disk(monkeypatch, pair.stage, node)
    pair.stage.hub.send(node, Save(1, str(tmp_path)))
    drain(pair.optimizer)
    drain(pair.env)
    assert set(states) == {NodeState.WRITING}


def make_pair(folder: Path, checkpoint: Path | None = None) -> Pair:
    config = make_config(diagnostics=DiagnosticsConfig(digests=True))
    return Pair.on(Stage(folder, config, checkpoint=checkpoint))


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return make_pair(tmp_path)


def test_first_weights_are_published_before_it_is_ready(pair: Pair) -> None:
    version, flat = pair.stage.weights()
    assert version == 0
    assert np.any(flat != 0)


def test_training_counts_versions_and_publishes_them(pair: Pair) -> None:
    _, before = pair.stage.weights()
    event = pair.round(0)
    assert (event.ticket, event.updates, event.skipped, event.version) == (0, 2, 0, 2)
    version, after = pair.stage.weights()
    assert version == 2
    assert not np.array_equal(before, after)
    assert pair.round(1).version == 4


def test_round_without_a_committed_update_keeps_the_published_version(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Early stop at the first minibatch, or a round that is not finite."""
    before = pair.stage.weights()
    skipped = UpdateReport(updates=0, skipped=2)
    monkeypatch.setattr(pair.optimizer.algorithm, "update", lambda batch: skipped)
    trained = pair.round(0)
    assert (trained.version, trained.updates, trained.skipped) == (0, 0, 2)
    version, flat = pair.stage.weights()
    assert version == before[0]
    np.testing.assert_array_equal(flat, before[1])
    assert pair.collect(2) is None  # and the env node goes on with it


def test_lag_counts_updates_since_the_rows_were_made(pair: Pair) -> None:
    """Two updates a ticket: the first row's lag is 0, the last one's 1."""
    event = pair.round(0)
    assert (event.lag_mean, event.lag_max) == (0.5, 1)
    pair.collect(2)
    assert pair.train(1).lag_max == 1


@pytest.mark.parametrize(
    ("rollout_id", "incarnation"), [(None, 1), (2, 1), (9, 1), (1, 2)], ids=str
)
def test_slot_that_does_not_hold_the_rollout_is_refused(
    pair: Pair, rollout_id: int | None, incarnation: int
) -> None:
    """A number is given out again after a death, so it says nothing without the incarnation."""
    if rollout_id is not None:
        pair.collect(1)
        pair.stage.memory.rollouts(0).slot(0).commit(rollout_id, incarnation)
    found = "rollout 0 of" if rollout_id is None else f"rollout {rollout_id} of .* {incarnation};"
    with pytest.raises(SegmentError, match=f"rollout 1 of incarnation 1 of shard 0.*{found}"):
        pair.train(0)


def test_digest_is_of_the_whole_state_and_changes_with_training(pair: Pair) -> None:
    first = pair.round(0)
    assert first.digest == digest(pair.optimizer.algorithm.state_dict())
    assert pair.round(1).digest != first.digest


def test_snapshot_is_of_the_version_at_its_place_in_the_channel(pair: Pair) -> None:
    pair.round(0)
    pair.stage.hub.send("optimizer-0", Snapshot(9))
    drain(pair.optimizer)
    assert pair.stage.events() == [SnapshotTaken("optimizer-0", 9, 2, 32)]
    flat = pair.stage.memory.parameters.empty()
    assert pair.stage.memory.evaluation().read_into(flat) == (2, 32)
    assert np.array_equal(flat, pair.stage.weights()[1])
    pair.round(1)
    pair.stage.memory.evaluation().read_into(flat)
    _, trained = pair.stage.weights()
    assert not np.array_equal(flat, trained), "training on leaves the snapshot alone"


def test_restored_learner_equals_the_saved_one(pair: Pair, tmp_path: Path) -> None:
    pair.round(0)
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    for name in ("optimizer-0", "env-0"):
        pair.stage.hub.send(name, Save(1, str(folder)))
    drain(pair.optimizer)
    drain(pair.env)
    assert Saved("optimizer-0", 1, (LEARNER_FILE,)) in pair.stage.events()
    other = make_pair(tmp_path / "home", folder)
    state = other.optimizer.algorithm.state_dict()
    assert digest(state) == digest(pair.optimizer.algorithm.state_dict())
    assert other.stage.weights()[0] == 2
    assert np.array_equal(other.stage.weights()[1], pair.stage.weights()[1])
    assert other.round(1).digest == pair.round(1).digest


def test_learner_file_keeps_every_type_and_bit(tmp_path: Path) -> None:
    state: dict[str, object] = {
        "float": 0.1,
        "none": None,
        "flag": True,
        "large": 2**100,
        "text": "adam",
        "nested": {"list": [1, 2.5, "x"]},
        "nan": np.array([np.nan, -0.0, 1e-45], np.float32),
        "int": np.arange(3, dtype=np.int64),
        "empty": np.zeros((0, 4), np.float64),
    }
    path = tmp_path / "learner"
    save(path, state)
    found = load(path)
    assert digest(found) == digest(state)
    assert type(found["flag"]) is bool
    assert type(found["large"]) is int
    assert found["nan"].tobytes() == state["nan"].tobytes()  # type: ignore[attr-defined]


def test_learner_file_keeps_tensors(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    state = {"half": torch.tensor([[1.5, -2.0]], dtype=torch.bfloat16), "step": torch.tensor(3)}
    save(tmp_path / "learner", state)
    found = load(tmp_path / "learner")
    assert all(torch.equal(found[name], value) for name, value in state.items())
    assert found["half"].dtype is torch.bfloat16  # type: ignore[attr-defined]
    assert digest(found) == digest(state)


def test_learner_file_refuses_what_it_can_not_keep(tmp_path: Path) -> None:
    structured = np.zeros(2, [("a", np.int64)])
    for value, what in (
        ({1, 2}, "a set, which"),
        (np.array([None, {}]), "a ndarray, which"),
        (structured, "a ndarray, which"),
        ({(1, 2): 0}, "keys must be text"),
    ):
        with pytest.raises(TypeError, match=rf"state_dict\(\)\['x'\]\[1\] .*{what}"):
            save(tmp_path / "learner", {"x": [0, value]})


@pytest.mark.parametrize("cut", [1, 10, 1000])
def test_damaged_learner_file_is_an_error(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "learner"
    save(path, {"x": np.zeros(1000)})
    path.write_bytes(path.read_bytes()[:-cut])
    with pytest.raises(CheckpointError, match="can't read the learner's state"):
        load(path)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"x": 1}, {"x": 1.0}),
        ({"x": 1}, {"y": 1}),
        ({"x": np.zeros(2, np.float32)}, {"x": np.zeros(2, np.float64)}),
        ({"x": np.zeros((2, 1))}, {"x": np.zeros((1, 2))}),
        ({"x": np.array([0.0])}, {"x": np.array([-0.0])}),
        ({"x": [[1], [2]]}, {"x": [[1, 2], []]}),
        ({"x": None}, {"x": "None"}),
    ],
)
def test_digests_of_different_states_differ(one: object, other: object) -> None:
    assert digest(one) != digest(other)
    assert digest(one) == digest(one)
