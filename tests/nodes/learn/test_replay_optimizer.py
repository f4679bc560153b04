"""The optimizer node of replay algorithms, on batches that the test fills in."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from fast_core.algorithm import ReplayBatch, UpdateReport
from fast_core.config import CheckpointConfig, DiagnosticsConfig, RunConfig
from fast_core.errors import ConfigError
from fast_core.memory import StatsColumn
from fast_core.messages import Event, Save, Saved, Snapshot, SnapshotTaken, Train, Trained
from fast_core.nodes.learn import replay_optimizer
from fast_core.nodes.learn.digest import digest
from fast_core.nodes.learn.replay_optimizer import ReplayOptimizerNode, learner_file
from fast_core.nodes.replay.batch_slots import FilledSlots
from fast_core.system.state_file import load
from tests.nodes.learn.test_stepping import Late
from tests.nodes.replay_stage import TICKET, replay_config
from tests.nodes.stage import Stage, drain


@dataclass
class Learning:
    """The first optimizer and what fills its slots."""

    stage: Stage
    node: ReplayOptimizerNode
    filled: FilledSlots
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(1))

    @classmethod
    def make(
        cls, folder: Path, config: RunConfig | None = None, checkpoint: Path | None = None
    ) -> Learning:
        stage = Stage(folder, config or replay_config(), checkpoint=checkpoint)
        node = stage.start(ReplayOptimizerNode, "optimizer-0")
        return cls(stage, node, FilledSlots(stage.plan, stage.memory, 0))

    def fill(self, *, drawn: bool = True) -> None:
        """Publish a batch of random rows."""
        arrays = self.filled.next
        for array in (arrays.obs, arrays.next_obs, arrays.reward):
            array[...] = self.rng.standard_normal(array.shape)
        arrays.discount[...], arrays.weight[...] = 0.9, 1.0
        self.filled.fill()
        self.filled.publish(drawn=drawn, env_steps=100)

    def grant(self, ticket: int, granted: int, *, oldest: int = 0, mean: float = 0.0) -> None:
        train = Train(ticket, (), TICKET * ticket, granted, oldest, mean)
        self.stage.hub.send("optimizer-0", train)

    def round(self, ticket: int, granted: int, **lag: float) -> Trained:
        """One ticket from its order to its answer."""
        self.grant(ticket, granted, **lag)  # type: ignore[arg-type]
        for _ in range(granted):
            self.fill()
            drain(self.node)
        drain(self.node)
        (event,) = self.stage.sent(Trained)
        return event


@pytest.fixture
def learning(tmp_path: Path) -> Learning:
    return Learning.make(tmp_path, replay_config(diagnostics=DiagnosticsConfig(digests=True)))


def script(learning: Learning, monkeypatch: pytest.MonkeyPatch, *reports: UpdateReport) -> None:
    """Let the learner report these, one after the other."""
    left = list(reports)

    def update(batch: ReplayBatch) -> UpdateReport:
        return left.pop(0)

    monkeypatch.setattr(learning.node.algorithm, "update", update)


def test_ticket_is_answered_when_all_its_steps_are_taken(learning: Learning) -> None:
    learning.grant(0, 3)
    for _ in range(2):
        learning.fill()
        drain(learning.node)
    assert learning.stage.events() == []
    assert learning.stage.weights()[0] == 0, "weights are published once for a ticket"
    learning.fill()
    drain(learning.node)
    (event,) = learning.stage.sent(Trained)
    assert (event.ticket, event.version, event.updates, event.skipped) == (0, 3, 3, 0)
    assert learning.stage.weights()[0] == 3
    assert learning.node.context.stats.words[StatsColumn.UPDATES] == 3
    assert learning.node.context.stats.words[StatsColumn.BATCHES] == 3


def test_ticket_without_a_grant_is_answered_at_once(learning: Learning) -> None:
    before = learning.stage.weights()
    event = learning.round(0, 0)
    assert (event.version, event.updates, event.skipped, event.metrics) == (0, 0, 0, {})
    assert (event.lag_mean, event.lag_max) == (0.0, 0)
    np.testing.assert_array_equal(learning.stage.weights()[1], before[1])


def test_tickets_are_answered_in_their_order(learning: Learning) -> None:
    """The second one grants nothing, and still waits for the first."""
    learning.grant(0, 1)
    learning.grant(1, 0)
    learning.grant(2, 1)
    drain(learning.node)
    assert learning.stage.events() == []
    learning.fill()
    drain(learning.node)
    assert [event.ticket for event in learning.stage.sent(Trained)] == [0, 1]


def test_batches_wait_for_the_ticket_that_grants_them(learning: Learning) -> None:
    learning.fill()
    drain(learning.node)
    assert not learning.filled.idle
    assert learning.round(0, 0).updates == 0
    assert not learning.filled.idle


def test_lag_is_that_of_the_weights_that_collected(learning: Learning) -> None:
    learning.round(0, 2)
    event = learning.round(1, 3, oldest=1, mean=1.5)
    assert event.lag_max == (2 - 1) + 2
    assert event.lag_mean == pytest.approx((2 - 1.5) + 1)


def test_metrics_are_means_over_the_steps_that_have_them(
    learning: Learning, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(
        learning,
        monkeypatch,
        UpdateReport(1, 0, {"loss": 1.0, "rare": 5.0}),
        UpdateReport(0, 1, {"loss": np.float32(3.0)}),  # type: ignore[dict-item]
    )
    event = learning.round(0, 2)
    assert (event.updates, event.skipped, event.version) == (1, 1, 1)
    assert (event.metrics["loss"], event.metrics["rare"]) == (2.0, 5.0)
    assert event.metrics["update_ms"] > 0
    assert event.metrics["batch_wait_ms"] >= 0


def test_no_step_is_begun_that_the_first_ticket_does_not_grant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights of a version have no step more in them, and a save finds nothing half done."""
    config = replay_config(replay={"slots": 4}, diagnostics=DiagnosticsConfig(digests=True))
    learning, plain = (Learning.make(tmp_path / name, config) for name in ("late", "plain"))
    late = Late(learning.node.algorithm, ahead=3, late=1)
    monkeypatch.setattr(learning.node.stepper, "_learner", late)
    looks: list[bool] = []
    monkeypatch.setattr(learning.node, "show", lambda: looks.append(learning.node.stepper.pending))
    events = []
    for each in (learning, plain):
        for ticket in range(2):
            each.grant(ticket, 2)
        each.stage.hub.send("optimizer-0", Save(1, str(tmp_path)))
        for _ in range(4):
            each.fill()
        drain(each.node)
        events.append(each.stage.events())
    ours, theirs = ([e for e in found if isinstance(e, Trained)] for found in events)
    assert [event.version for event in ours] == [2, 4]
    assert [event.digest for event in ours] == [event.digest for event in theirs]
    assert late.most == 2
    assert looks and not any(looks)
    assert isinstance(events[0][-1], Saved)


def test_who_rings_is_answered_while_a_device_is_at_a_step(
    learning: Learning, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Slow(Late):
        def finished(self) -> UpdateReport | None:
            asked.append(1)
            if len(asked) == 3:
                learning.stage.hub.send("optimizer-0", Snapshot(7))
                learning.node.context.doorbell.ring()  # as what receives messages does
            if len(asked) == 4:
                events.extend(learning.stage.events())
            return super().finished()

    asked: list[int] = []
    events: list[Event] = []
    slow = Slow(learning.node.algorithm, late=7)
    monkeypatch.setattr(learning.node.stepper, "_learner", slow)
    learning.grant(0, 1)
    learning.fill()
    drain(learning.node)
    assert [type(event) for event in events] == [SnapshotTaken]
    (event,) = learning.stage.events()
    assert isinstance(event, Trained) and event.updates == 1


class Clock:
    """Stands in for `time` in the node's module."""

    now_ms = 0.0

    def monotonic_ns(self) -> int:
        return 10**12 + int(self.now_ms * 1e6)


def test_waiting_for_batches_is_told_from_computing_and_from_having_nothing_to_do(
    learning: Learning, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(replay_optimizer, "time", clock)

    def update(batch: ReplayBatch) -> UpdateReport:
        clock.now_ms += 3
        return UpdateReport(1, 0)

    monkeypatch.setattr(learning.node.algorithm, "update", update)
    for ticket in range(2):
        learning.grant(ticket, 2)
        drain(learning.node)  # there is no batch yet
        clock.now_ms += 8
        learning.fill()
        learning.fill()
        drain(learning.node)
        clock.now_ms += 1000  # between two tickets nothing is waited for
        drain(learning.node)
        (event,) = learning.stage.sent(Trained)
        assert event.metrics["update_ms"] == pytest.approx(3)
        assert event.metrics["batch_wait_ms"] == pytest.approx(8 / 2)
    assert learning.node.context.stats.words[StatsColumn.BATCH_WAIT_NS] == 16_000_000


def test_ticket_whose_steps_are_all_skipped_keeps_the_published_version(
    learning: Learning, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(learning, monkeypatch, UpdateReport(0, 1), UpdateReport(0, 1))
    board, published = learning.stage.memory.weights(), []
    monkeypatch.setattr(type(board), "publish", lambda *args: published.append(args))
    event = learning.round(0, 2)
    assert (event.version, event.updates, event.skipped) == (0, 0, 2)
    assert published == []


@pytest.mark.parametrize("report", [UpdateReport(2, 0), UpdateReport(0, 0), UpdateReport(1, 1)])
def test_algorithm_that_does_not_take_one_step_for_a_batch_is_refused(
    learning: Learning, monkeypatch: pytest.MonkeyPatch, report: UpdateReport
) -> None:
    script(learning, monkeypatch, report)
    with pytest.raises(ConfigError, match="must take or skip one step with each batch"):
        learning.round(0, 1)


def test_snapshot_is_of_the_version_that_acts(learning: Learning) -> None:
    """Not of one in the middle of a ticket."""
    learning.round(0, 2)
    learning.grant(1, 2)
    learning.fill()
    drain(learning.node)
    learning.stage.hub.send("optimizer-0", Snapshot(7))
    drain(learning.node)
    assert learning.stage.events() == [SnapshotTaken("optimizer-0", 7, 2, TICKET)]
    flat = learning.stage.memory.parameters.empty()
    assert learning.stage.memory.evaluation().read_into(flat) == (2, TICKET)
    np.testing.assert_array_equal(flat, learning.stage.weights()[1])


def test_digest_covers_learner_and_batches(learning: Learning, tmp_path: Path) -> None:
    config = replay_config(diagnostics=DiagnosticsConfig(digests=True))
    equal, other = (Learning.make(tmp_path / name, config) for name in ("equal", "other"))
    other.rng = np.random.default_rng(2)
    first = [each.round(0, 1).digest for each in (learning, equal, other)]
    assert first[0] == first[1] != first[2]
    for each in (learning, equal):
        each.grant(1, 1)
        each.fill(drawn=False)
        drain(each.node)
    equal.filled.next.log[...] = 9
    again = []
    for each in (learning, equal):
        each.stage.events()
        again.append(each.round(2, 1).digest)
    assert again[0] != again[1], "rows of another environment"


# --- checkpoints ---------------------------------------------------------------------------------


def save_to(learning: Learning, directory: Path) -> None:
    directory.mkdir(exist_ok=True)
    learning.stage.hub.send("optimizer-0", Save(1, str(directory)))


def test_restored_learner_goes_on_as_the_saved_one(learning: Learning, tmp_path: Path) -> None:
    learning.round(0, 2)
    save_to(learning, tmp_path / "saved")
    drain(learning.node)
    assert learning.stage.events() == [Saved("optimizer-0", 1, ("learner.msgpack",))]
    config = learning.stage.plan.config
    restored = Learning.make(tmp_path / "again", config, tmp_path / "saved")
    assert restored.stage.weights()[0] == 2
    restored.rng = np.random.default_rng(5)
    learning.rng = np.random.default_rng(5)
    assert restored.round(1, 2).digest == learning.round(1, 2).digest


def test_save_waits_for_open_tickets(learning: Learning, tmp_path: Path) -> None:
    learning.grant(0, 1)
    save_to(learning, tmp_path / "saved")
    drain(learning.node)
    assert learning.stage.events() == []
    learning.fill()
    drain(learning.node)
    trained, saved = learning.stage.events()
    assert isinstance(trained, Trained)
    assert isinstance(saved, Saved)
    assert load(tmp_path / "saved" / "learner.msgpack")["version"] == 1


def make_ranks(
    folder: Path, checkpoint: Path | None = None, update: str = "allreduce"
) -> tuple[Stage, list[ReplayOptimizerNode], list[FilledSlots]]:
    config = replay_config(optimizers=2, update=update, checkpoint=CheckpointConfig())
    stage = Stage(folder, config, checkpoint=checkpoint)
    nodes = [stage.start(ReplayOptimizerNode, f"optimizer-{k}", k) for k in (0, 1)]
    return stage, nodes, [FilledSlots(stage.plan, stage.memory, rank) for rank in (0, 1)]


def fill(slots: FilledSlots) -> None:
    """Publish a batch of what lies there."""
    slots.next.weight[...] = 1.0
    slots.fill()
    slots.publish(drawn=True, env_steps=1)


def save_all(stage: Stage, nodes: list[ReplayOptimizerNode], directory: Path) -> Path:
    directory.mkdir()
    for rank, node in enumerate(nodes):
        stage.hub.send(f"optimizer-{rank}", Save(1, str(directory)))
        drain(node)
    return directory


def noise(node: ReplayOptimizerNode) -> object:
    return node.algorithm.state_dict()["random_state"]


def test_optimizers_that_average_stay_equal_but_for_their_noise(tmp_path: Path) -> None:
    stage, nodes, slots = make_ranks(tmp_path)
    assert noise(nodes[0]) != noise(nodes[1])
    stage.hub.send("optimizer-0", Train(0, (), 0, 2))
    rng = np.random.default_rng(0)
    for _ in range(2):
        for each in slots:
            each.next.obs[...] = rng.standard_normal(each.next.obs.shape)
            fill(each)
    while any(node.step() for node in nodes):
        pass
    (event,) = stage.sent(Trained)
    assert event.updates == 2
    states = [node.algorithm.state_dict() for node in nodes]
    assert states[0]["updates"] == states[1]["updates"] == 2
    for name, value in states[0]["parameters"].items():  # type: ignore[attr-defined]
        np.testing.assert_array_equal(value, states[1]["parameters"][name])  # type: ignore[index]


def test_every_optimizer_saves_and_restores_its_own_file(tmp_path: Path) -> None:
    stage, nodes, _ = make_ranks(tmp_path / "run")
    directory = save_all(stage, nodes, tmp_path / "saved")
    files = [event.files for event in stage.sent(Saved)]
    assert files == [("learner.msgpack",), ("learner-1.msgpack",)]
    _, restored, _ = make_ranks(tmp_path / "again", directory)
    assert [noise(node) for node in restored] == [noise(node) for node in nodes]
    (directory / learner_file(1)).unlink()
    _, fewer, _ = make_ranks(tmp_path / "third", directory)
    assert noise(fewer[1]) == noise(nodes[1]) != noise(fewer[0]), "as one that begins"


def test_optimizers_that_did_not_average_begin_to_as_the_first_one(tmp_path: Path) -> None:
    """With update async the others have never stepped: their moments and counters say nothing."""
    stage, nodes, slots = make_ranks(tmp_path / "run", update="async")
    fill(slots[0])
    stage.hub.send("optimizer-0", Train(0, (), 0, 1))
    drain(nodes[0])
    directory = save_all(stage, nodes, tmp_path / "saved")
    _, restored, _ = make_ranks(tmp_path / "again", directory)
    hashes = [digest(node.algorithm.shared_state()) for node in (nodes[0], *restored)]  # type: ignore[attr-defined]
    assert len(set(hashes)) == 1
    assert [noise(node) for node in restored] == [noise(node) for node in nodes]


def test_other_optimizer_saves_when_its_share_of_the_last_step_is_applied(tmp_path: Path) -> None:
    stage, nodes, slots = make_ranks(tmp_path / "run")
    directory = tmp_path / "saved"
    directory.mkdir()
    fill(slots[1])
    stage.hub.send("optimizer-1", Save(1, str(directory)))
    drain(nodes[1])
    assert stage.events() == []
    fill(slots[0])
    stage.hub.send("optimizer-0", Train(0, (), 0, 1))
    while any(node.step() for node in nodes):
        pass
    kinds = [(type(event), event.node) for event in stage.events()]  # type: ignore[union-attr]
    assert (Saved, "optimizer-1") in kinds
    assert load(directory / "learner-1.msgpack")["version"] == 1
