"""What optimizers publish for those who want to know what the policy thinks."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from fast_core.algorithm.parameters import ParameterPack
from fast_core.algorithm.spec import EnvironmentSpec, SpaceSpec
from fast_core.algos.replay.sac_config import SACConfig
from fast_core.config import DashboardConfig, DiagnosticsConfig, RunConfig
from fast_core.dashboard.insight import Insights
from fast_core.dashboard.source import Insight
from fast_core.memory import Structure, Trace, WeightBoard
from fast_core.nodes.learn import insights
from fast_core.nodes.learn.replay_optimizer import ReplayOptimizerNode
from fast_core.nodes.replay.batch_slots import FilledSlots
from fast_core.run.frame import Frame
from fast_core.run.structures import insights as insight_board
from fast_core.run.tiles import tiles
from fast_core.run.watching import STALE_NS, Watching, watching_words
from tests.nodes.learn.test_optimizer import Pair
from tests.nodes.learn.test_replay_optimizer import Learning
from tests.nodes.replay_stage import replay_config
from tests.nodes.stage import CARTPOLE, Stage, drain, make_config, make_run_plan

PENDULUM = EnvironmentSpec(
    id="Pendulum-v1",
    observation=SpaceSpec("box", (3,), "float32", low=(-8.0,), high=(8.0,)),
    action=SpaceSpec("box", (1,), "float32", low=(-2.0,), high=(2.0,)),
)
SHOWN = DashboardConfig(enabled=True)


def staged(
    folder: Path,
    config: RunConfig,
    environment: EnvironmentSpec = CARTPOLE,
    *,
    watched: bool = True,
) -> Stage:
    """A stage in a run that can be watched."""
    plan = make_run_plan(folder, config, environment=environment)
    words = watching_words(len(tiles(config)))
    own = Structure("watching", Trace, (words,), "dashboard", "the last values")
    found = (own, cast(Structure, insight_board(plan))) if watched else ()
    return Stage(folder, config, environment=environment, own=found)


@dataclass
class Looking:
    """A viewer of a stage, whose clock stands still."""

    stage: Stage
    now_ns: int = 10 * STALE_NS
    watching: Watching = field(init=False)

    def __post_init__(self) -> None:
        self.watching = Watching(self.stage.memory.at(Trace, "watching").words)

    def look(self, *, insight: bool = True) -> None:
        self.watching.want({0: 1}, self.now_ns, insight=insight)

    def published(self) -> int:
        return self.stage.memory.at(WeightBoard, "insights").published()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """What the optimizer's clock says in ``now_ns``."""
    said = SimpleNamespace(now_ns=10 * STALE_NS)
    said.monotonic_ns = lambda: said.now_ns
    monkeypatch.setattr(insights, "time", said)
    return said


def make_pair(folder: Path, *, watched: bool = True) -> Pair:
    shown = SHOWN if watched else DashboardConfig()
    config = make_config(diagnostics=DiagnosticsConfig(digests=True), dashboard=shown)
    return Pair.on(staged(folder, config, watched=watched))


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return make_pair(tmp_path)


def frame_of(obs: Any, action: Any, state: Any = ()) -> Frame:
    return Frame(
        taken_ns=1, shard=0, env=0, episode=3, seed=5, step=7, version=2, incarnation=1, total=1.0,
        fps=5.0, note="", picture=None, obs=np.asarray(obs), action=np.asarray(action),
        state=np.asarray(state, np.float32),
    )  # fmt: skip


def said_of(insight: Insights, frame: Frame) -> Insight | None:
    """What is said once the networks are built."""
    insight.of(frame)
    if insight._maker is not None:
        insight._maker.join()
    return insight.of(frame)


def test_nothing_is_published_while_nobody_looks(pair: Pair, clock: SimpleNamespace) -> None:
    viewer = Looking(pair.stage)
    pair.round(0)
    viewer.look(insight=False)
    pair.round(1)
    viewer.look()
    clock.now_ns += STALE_NS + 1
    pair.round(2)
    assert viewer.published() == -1


def test_who_looks_is_given_what_changed_at_most_once_a_second(
    pair: Pair, clock: SimpleNamespace
) -> None:
    viewer, counts = Looking(pair.stage), []
    for ticket, later_ns in enumerate((0, 999_999_999, 1, 1_000_000_000)):
        clock.now_ns = viewer.now_ns = clock.now_ns + later_ns
        viewer.look()
        pair.round(ticket)
        counts.append(viewer.published())
    clock.now_ns = viewer.now_ns = clock.now_ns + 2_000_000_000
    viewer.look()
    drain(pair.optimizer)
    assert [*counts, viewer.published()] == [0, 0, 1, 2, 2], "the last one changed nothing"


def test_publication_that_takes_long_is_as_rare_as_that(
    pair: Pair, clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    viewer, counts = Looking(pair.stage), []
    algorithm: Any = pair.optimizer.algorithm
    parameters = algorithm.insight_parameters

    def slow() -> Any:
        clock.now_ns += 50_000_000
        return parameters()

    monkeypatch.setattr(algorithm, "insight_parameters", slow)
    for ticket, later_ns in enumerate((0, 4_900_000_000, 100_000_000)):
        clock.now_ns = viewer.now_ns = clock.now_ns + later_ns
        viewer.look()
        pair.round(ticket)
        counts.append(viewer.published())
    assert counts == [0, 0, 1]


def test_published_are_the_policys_and_the_values_parameters_of_one_moment(
    pair: Pair, clock: SimpleNamespace
) -> None:
    Looking(pair.stage).look()
    pair.round(0)
    plan, algorithm = pair.stage.plan, pair.optimizer.algorithm
    fields = plan.blueprint.insight_fields(plan.environment)
    pack = ParameterPack((*plan.blueprint.policy_fields(plan.environment), *fields))
    found, wanted = pack.empty(), pack.empty()
    pair.stage.memory.at(WeightBoard, "insights").read_into(found)
    assert fields[-1].name == "reward.inverse_std"
    pack.pack([*algorithm.policy_parameters(), *algorithm.insight_parameters()], wanted)  # type: ignore[attr-defined]
    np.testing.assert_array_equal(found, wanted)


def test_training_is_the_same_whether_somebody_looks_or_not(
    tmp_path: Path, clock: SimpleNamespace
) -> None:
    digests = []
    for number in range(3):
        pair = make_pair(tmp_path / str(number), watched=number > 0)
        viewer = Looking(pair.stage) if number == 2 else None
        seen = []
        for ticket in range(3):
            if viewer is not None:
                clock.now_ns = viewer.now_ns = clock.now_ns + 1_000_000_000
                viewer.look()
            seen.append(pair.round(ticket).digest)
        if viewer is not None:
            assert viewer.published() == 2
        digests.append(seen)
    assert digests[0] == digests[1] == digests[2]


def test_learner_that_raises_is_asked_no_more_and_trains_on(
    pair: Pair, clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    viewer = Looking(pair.stage)
    calls = []

    def broken() -> Any:
        calls.append(1)
        raise RuntimeError("no critic")

    monkeypatch.setattr(pair.optimizer.algorithm, "insight_parameters", broken)
    with caplog.at_level(logging.ERROR, "fastloop"):
        for ticket in range(2):
            clock.now_ns = viewer.now_ns = clock.now_ns + 2_000_000_000
            viewer.look()
            assert pair.round(ticket).updates == 2
    assert calls == [1]
    assert "no more insights are published: RuntimeError: no critic" in caplog.text


def test_learner_without_what_its_blueprint_names_trains_on(
    pair: Pair, clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    from fast_core.algos.rollouts.learner import RolloutLearner

    monkeypatch.delattr(RolloutLearner, "insight_parameters")
    viewer = Looking(pair.stage)
    with caplog.at_level(logging.ERROR, "fastloop"):
        clock.now_ns = viewer.now_ns = clock.now_ns + 2_000_000_000
        viewer.look()
        assert pair.round(0).updates == 2
    assert "no more insights are published: AttributeError" in caplog.text
    assert "insight_parameters" in caplog.text


def test_frame_is_thought_about_as_the_learner_does(pair: Pair, clock: SimpleNamespace) -> None:
    insight = Insights(pair.stage.plan, pair.stage.memory)
    frame = frame_of(np.array([0.1, -0.2, 0.03, 0.4], np.float32), np.int64(1))
    assert said_of(insight, frame) is None, "nothing is published yet"
    Looking(pair.stage).look()
    pair.round(0)
    learner: Any = pair.optimizer.algorithm
    statistics = learner._statistics
    vector = (frame.obs - statistics._mean) * statistics._inverse_std
    learner._core._obs = SimpleNamespace(vector=vector[None].astype(np.float32), mask=None)
    wanted = learner._core.values(0, 1)[0] / statistics._rewards.inverse_std[0]
    said = said_of(insight, frame)
    assert said is not None
    assert said.value == pytest.approx(wanted, rel=1e-5, abs=1e-5)
    assert sum(said.probabilities) == pytest.approx(1)
    assert {key: getattr(said, key) for key in ("type", "tile", "at", "episode", "taken")} == {
        "type": "insight", "tile": 0, "at": 7, "episode": 3, "taken": 1,
    }  # fmt: skip
    assert [getattr(said, key) for key in ("q", "q_std", "mean", "std", "actions")] == [None] * 5


def test_critics_of_replay_learners_are_shown_between_steps(
    tmp_path: Path, clock: SimpleNamespace
) -> None:
    sac = SACConfig(hidden_sizes=(4,), batch_size=8, random_warmup=False)
    stage = staged(tmp_path, replay_config(algorithm=sac, dashboard=SHOWN), PENDULUM)
    node = stage.start(ReplayOptimizerNode, "optimizer-0")
    learning = Learning(stage, node, FilledSlots(stage.plan, stage.memory, 0))
    viewer = Looking(stage)
    viewer.look()
    learning.grant(0, 3)
    for step in range(4):
        clock.now_ns = viewer.now_ns = clock.now_ns + 2_000_000_000
        viewer.look()
        if step < 3:
            learning.fill()
        drain(node)
        assert viewer.published() == step, "before the ticket is answered, too"
    frame = frame_of(np.array([0.1, 0.2, 0.3], np.float32), np.array([1.0], np.float32))
    said = said_of(Insights(stage.plan, stage.memory), frame)
    learner: Any = node.algorithm
    column = np.array([[0.1], [0.2], [0.3], [0.5]], np.float32)
    assert said is not None
    assert said.q == [pytest.approx(learner._critics.forward(column).min(), rel=1e-5)]
    assert said.taken == [1.0]
    assert said.std[0] > 0.1


@pytest.mark.parametrize("mode", ["process", "inline"])
def test_thinker_that_raises_is_said_once(tmp_path: Path, caplog: Any, mode: Any) -> None:
    stage = staged(tmp_path, make_config(dashboard=SHOWN, mode=mode))

    class Broken:
        def load(self, parameters: Any) -> None:
            """Take them."""

        def think(self, obs: Any, action: Any, state: Any) -> Any:
            raise ValueError("no thought")

    insight = Insights(stage.plan, stage.memory)
    frame = frame_of(np.zeros(4, np.float32), np.int64(0))
    assert said_of(insight, frame) is None
    size = stage.memory.at(WeightBoard, "insights").payload_bytes
    stage.memory.at(WeightBoard, "insights").publish(0, bytes(size))
    insight._thinker = Broken()
    with caplog.at_level(logging.ERROR, "fastloop"):
        assert [insight.of(frame) for _ in range(3)] == [None] * 3
    assert caplog.text.count("ValueError: no thought") == 1
