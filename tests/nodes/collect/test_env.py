"""The env node and its shards, driven by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fast_core.config import EnvNodesConfig, EvaluationConfig, NodesConfig
from fast_core.errors import CheckpointError, EnvironmentFailed, FastLoopError
from fast_core.memory import StatsColumn
from fast_core.messages import Assign, Collect, RolloutReady, Save, Saved, Stop
from fast_core.nodes.collect.env import EnvNode
from fast_core.nodes.collect.shard import shard_file
from fast_core.nodes.node import NodeState
from fast_core.run import parts
from tests.nodes.stage import Stage, drain, make_config, order
from tests.process.two_learners import two


@pytest.fixture
def node(stage: Stage) -> EnvNode:
    stage.publish()
    made = stage.start(EnvNode, "env-0")
    stage.assign()
    return made


def collect(stage: Stage, node: EnvNode, *orders: object) -> list[RolloutReady]:
    stage.hub.send("env-0", Collect(orders))  # type: ignore[arg-type]
    drain(node)
    return stage.sent(RolloutReady)


def test_environment_is_tried_out_within_the_limit_of_each_call(stage: Stage) -> None:
    stage.publish()
    states, node = [], EnvNode(stage.context("env-0"))
    enter = node.enter

    def note(state: NodeState, doing: str, *, least_ns: int = 0) -> None:
        states.append((state, doing.partition(" ")[0]))
        enter(state, doing, least_ns=least_ns)

    node.enter = note  # type: ignore[method-assign]
    node.setup()
    node.close()
    calls = [(NodeState.TRYING, what) for what in ("resetting", "stepping", "closing")]
    assert states[:4] == [*calls, (NodeState.STARTING, "building")]


def test_rollout_is_committed_and_announced(stage: Stage, node: EnvNode) -> None:
    (ready,) = collect(stage, node, order(1, rollout_id=7))
    assert (ready.shard, ready.rollout_id, ready.slot, ready.version) == (1, 7, 0, 0)
    slot = stage.memory.rollouts(1).slot(0)
    assert (slot.committed(), slot.incarnation) == (7, 1)
    assert stage.memory.rollouts(0).slot(0).committed() == 0


def test_rows_follow_one_another(stage: Stage, node: EnvNode) -> None:
    collect(stage, node, order(0))
    slot = stage.memory.rollouts(0).slot(0)
    last = slot["obs"][-1].copy()
    assert slot["obs"].shape == (9, 2, 4)
    assert not np.array_equal(slot["obs"][0], slot["obs"][1])
    collect(stage, node, order(0, 2))
    assert np.array_equal(slot["obs"][0], last), "goes on where the last rollout ended"


def test_behaviour_log_prob_belongs_to_the_policy_that_acted(stage: Stage, node: EnvNode) -> None:
    """All parameters zero: both actions are equally likely."""
    collect(stage, node, order(0))
    slot = stage.memory.rollouts(0).slot(0)
    assert slot["behaviour_log_prob"] == pytest.approx(np.log(0.5))
    assert set(np.unique(slot["action"])) == {0, 1}
    assert (slot["policy_version"] == 0).all()


def test_newest_weights_act(stage: Stage, node: EnvNode) -> None:
    stage.publish(5)
    (ready,) = collect(stage, node, order(0, version=5))
    assert ready.version == 5
    assert (stage.memory.rollouts(0).slot(0)["policy_version"] == 5).all()
    assert stage.memory.stats("env-0").snapshot().version == 5


def test_order_for_weights_that_were_not_published_fails(stage: Stage, node: EnvNode) -> None:
    with pytest.raises(FastLoopError, match=r"needs weights of version 3 or newer.*are 0"):
        collect(stage, node, order(0, version=3))


def test_order_for_another_incarnation_fails(stage: Stage, node: EnvNode) -> None:
    with pytest.raises(FastLoopError, match=r"incarnation 2 of shard 0.*holds incarnation 1"):
        collect(stage, node, order(0, incarnation=2))


def test_finished_episodes_are_reported_once(stage: Stage, node: EnvNode) -> None:
    returns: list[float] = []
    lengths: list[int] = []
    ended = 0
    for number in range(1, 11):
        (ready,) = collect(stage, node, order(0, number))
        slot = stage.memory.rollouts(0).slot(0)
        ended += int((slot["terminated"] | slot["truncated"]).sum())
        returns += ready.episode_returns
        lengths += ready.episode_lengths
    assert ended == len(returns) == len(lengths) > 0
    assert returns == [float(length) for length in lengths], "CartPole pays 1 a step"


def test_stop_in_the_middle_leaves_an_open_rollout_unpublished(
    stage: Stage, node: EnvNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = node._current[""].policy
    act, calls = policy.act, []

    def act_until_stopped(*args: object, **kwargs: object) -> object:
        calls.append(0)
        if len(calls) == 3:
            stage.hub.send("env-0", Stop("interrupted"))
        return act(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(policy, "act", act_until_stopped)
    stage.hub.send("env-0", Collect((order(0), order(1))))
    node.run()
    assert len(calls) == 3
    assert stage.memory.rollouts(0).slot(0).committed() == 0
    assert not any(isinstance(event, RolloutReady) for event in stage.events())


def test_env_steps_are_counted(stage: Stage, node: EnvNode) -> None:
    collect(stage, node, order(0), order(1))
    words = node.context.stats.words
    assert words[StatsColumn.ENV_STEPS] == 2 * 2 * 8


def test_shard_not_built_in_setup_is_built_when_assigned(tmp_path: Path) -> None:
    stage = Stage(tmp_path, make_config(nodes=NodesConfig(env=EnvNodesConfig(count=2))))
    stage.publish()
    node = stage.start(EnvNode, "env-0")
    stage.hub.send("env-0", Assign(1, 3))
    (ready,) = collect(stage, node, order(1, incarnation=3))
    assert (ready.shard, ready.incarnation) == (1, 3)


def test_shard_restored_from_its_file_goes_on_exactly(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    config = make_config(nodes=NodesConfig(env=EnvNodesConfig(count=1)))
    stage = Stage(tmp_path, config)
    stage.publish()
    node = stage.start(EnvNode, "env-0")
    collect(stage, node, order(0), order(1))
    stage.hub.send("env-0", Save(1, str(folder)))
    drain(node)
    (saved,) = stage.sent(Saved)
    assert set(saved.files) == {shard_file(folder, shard).name for shard in (0, 1)}
    collect(stage, node, order(0, 2), order(1, 2))

    other = Stage(tmp_path / "other", config, checkpoint=folder)
    other.publish()
    resumed = other.start(EnvNode, "env-0")
    other.assign()
    collect(other, resumed, order(0, 2), order(1, 2))
    for shard in (0, 1):
        ours = stage.memory.rollouts(shard).slot(0)
        theirs = other.memory.rollouts(shard).slot(0)
        for field in ("obs", "action", "reward", "terminated", "truncated"):
            assert np.array_equal(ours[field], theirs[field]), (shard, field)


def test_missing_shard_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    other = Stage(tmp_path / "home", checkpoint=tmp_path / "empty")
    with pytest.raises(CheckpointError, match="can't read the state of shard 0"):
        other.start(EnvNode, "env-0")


def test_shards_use_streams_of_their_own(stage: Stage, node: EnvNode) -> None:
    collect(stage, node, order(0), order(1))
    first, second = (stage.memory.rollouts(shard).slot(0) for shard in (0, 1))
    assert not np.array_equal(first["obs"][0], second["obs"][0])
    assert not np.array_equal(first["action"], second["action"])


def test_each_shard_is_acted_in_by_the_policy_of_its_learner_which_a_failure_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "learns_of", two)
    stage = Stage(tmp_path, make_config(evaluation=EvaluationConfig(every_env_steps=None)))
    for version, key in enumerate(("", "b")):
        memory = stage.memory.of(stage.plan.of(key))
        memory.weights().publish(version, memory.parameters.empty())
    node = stage.start(EnvNode, "env-0")
    stage.assign()
    ready = collect(stage, node, order(0), order(1))
    assert [(event.shard, event.version) for event in ready] == [(0, 0), (1, 1)]

    def fail(*_: object) -> bool:
        raise EnvironmentFailed("it broke", {"shard": "0"})

    monkeypatch.setattr(node._shards[1], "collect", fail)
    with pytest.raises(EnvironmentFailed) as failed:
        collect(stage, node, order(1, 2))
    assert failed.value.context == {"shard": "0", "learner": "b"}
