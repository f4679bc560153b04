"""A shard whose env node died: another one begins it anew, and nobody takes what was left."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, NoReturn

import msgspec
import numpy as np
import pytest

from fast_core.config import EnvironmentConfig, PolicyConfig, RolloutConfig, SupervisionConfig
from fast_core.envs import EnvBatch, make_batch
from fast_core.envs.stepping.open_episodes import OpenEpisodes
from fast_core.errors import EnvironmentFailed
from fast_core.messages import Assign, Collect, RolloutReady, Save, Train, Trained
from fast_core.nodes.collect.env import EnvNode
from fast_core.nodes.collect.shard import Shard
from fast_core.nodes.learn.optimizer import OptimizerNode
from fast_core.nodes.node import NodeState
from fast_core.system.progress import ProgressWord
from tests.nodes.stage import Stage, drain, make_config, order, ref


def make_stage(
    folder: Path,
    *,
    checkpoint: Path | None = None,
    backend: Literal["gymnasium", "gymnasium_vector"] = "gymnasium",
) -> Stage:
    config = make_config(
        environment=EnvironmentConfig(id="CartPole-v1", backend=backend),
        supervision=SupervisionConfig(env_restarts=1),
    )
    return Stage(folder, config, checkpoint=checkpoint)


def make_nodes(stage: Stage) -> tuple[OptimizerNode, EnvNode, EnvNode]:
    optimizer = stage.start(OptimizerNode, "optimizer-0")
    first, second = (stage.start(EnvNode, f"env-{rank}", rank) for rank in range(2))
    for rank in range(2):
        stage.assign(f"env-{rank}", rank)
    return optimizer, first, second


def test_rollout_that_a_dead_node_left_is_replaced(tmp_path: Path) -> None:
    stage = make_stage(tmp_path)
    optimizer, first, second = make_nodes(stage)
    stage.hub.send("env-0", Collect((order(0),)))
    stage.hub.send("env-1", Collect((order(1),)))
    drain(first)
    drain(second)  # it dies now: the rollout is committed, its report lost
    stage.hub.send("env-0", Assign(1, 2, taken_over=True))
    stage.hub.send("env-0", Collect((order(1, incarnation=2),)))
    drain(first)
    reports = stage.sent(RolloutReady)
    assert [(e.node, e.shard, e.incarnation) for e in reports][-1] == ("env-0", 1, 2)
    again = msgspec.structs.replace(ref(1), incarnation=2)
    stage.hub.send("optimizer-0", Train(0, (ref(0), again), 0, 2))
    drain(optimizer)
    assert len(stage.sent(Trained)) == 1


def test_shard_taken_over_begins_anew_even_where_the_run_was_resumed(tmp_path: Path) -> None:
    """The checkpoint has no file of the shard here, so reading it would fail."""
    stage = make_stage(tmp_path, checkpoint=tmp_path)
    node = EnvNode(stage.context("env-0"))
    node.handle(Assign(1, 2, taken_over=True))
    node.handle(Assign(0, 5, taken_over=True))
    node.close()


def test_node_that_takes_over_is_seen_to_begin_environments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That may hang, or hold the GIL for long, as at the start of a run."""
    stage = make_stage(tmp_path)
    node = EnvNode(stage.context("env-0"))
    seen = []

    def build(*args: object, **kwargs: object) -> NoReturn:
        seen.append((NodeState(node.context.stats.snapshot().state), node.doing))
        raise EnvironmentFailed("no licence", {})

    monkeypatch.setattr("fast_core.nodes.collect.env.Shard", build)
    node.enter(NodeState.WAITING, "waiting for work")
    with pytest.raises(EnvironmentFailed):
        node.handle(Assign(1, 2, taken_over=True))
    assert seen == [(NodeState.STARTING, "building the environments of shard 1")]
    node.close()


def test_shard_taken_over_is_made_as_it_was_when_its_run_is_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a constructor draws depends on the incarnation, and its episodes on what it drew."""
    made: list[int] = []

    def note(*args: object, incarnation: int, **kwargs: object) -> EnvBatch:
        made.append(incarnation)
        return make_batch(*args, incarnation=incarnation, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr("fast_core.nodes.collect.env_group.make_batch", note)
    stage = make_stage(tmp_path)
    node = EnvNode(stage.context("env-0"))
    node.handle(Assign(0, 1))
    node.handle(Assign(1, 3, taken_over=True))
    node.handle(Save(1, str(tmp_path)))
    node.close()
    resumed = EnvNode(make_stage(tmp_path, checkpoint=tmp_path).context("env-0"))
    resumed.setup()
    resumed.handle(Assign(1, 4))
    assert made == [1, 3, 1, 3]
    resumed.handle(Save(2, str(tmp_path)))
    resumed.close()
    again = EnvNode(make_stage(tmp_path, checkpoint=tmp_path).context("env-0"))
    again.handle(Assign(1, 5))
    assert made[4:] == [3]
    again.close()


def test_shard_taken_over_draws_other_numbers(tmp_path: Path) -> None:
    actions = []
    for incarnation in (2, 3):
        stage = make_stage(tmp_path)
        _, first, _ = make_nodes(stage)
        stage.hub.send("env-0", Assign(1, incarnation, taken_over=True))
        stage.hub.send("env-0", Collect((order(1, incarnation=incarnation),)))
        drain(first)
        actions.append(stage.memory.rollouts(1).slot(0)["action"].copy())
    assert not np.array_equal(*actions)


@pytest.mark.parametrize("backend", ["gymnasium", "gymnasium_vector"])
def test_shard_taken_over_goes_on_with_the_episodes_after_those_that_were_begun(
    tmp_path: Path, backend: Literal["gymnasium", "gymnasium_vector"]
) -> None:
    stage = make_stage(tmp_path, backend=backend)
    _, first, second = make_nodes(stage)
    progress = stage.memory.progress(1)[ProgressWord.BEGUN :][:2]
    stage.hub.send("env-1", Collect((order(1),)))
    drain(second)
    played = stage.memory.rollouts(1).slot(0)["obs"][0].copy()
    progress[1] += 7
    before = progress.tolist()
    stage.hub.send("env-0", Assign(1, 2, taken_over=True))
    drain(first)
    assert progress.tolist() == [episode + 1 for episode in before]
    stage.hub.send("env-0", Collect((order(1, incarnation=2),)))
    drain(first)
    begun = stage.memory.rollouts(1).slot(0)["obs"][0]
    assert not (begun == played).all(axis=1).any()


class Killed(BaseException):
    """The process is gone: nothing after this runs."""


class Fate:
    """Lets a process pass so many points, and notes the seeds with which it begins episodes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left, self.seeds = 10**6, list[int]()
        begin = OpenEpisodes.begin

        def begin_or_die(episodes: OpenEpisodes, place: int, episode: int, start: int) -> int:
            self.pass_point()
            self.seeds.append(begin(episodes, place, episode, start))
            self.pass_point()
            return self.seeds[-1]

        def make_or_die(*args: object, **kwargs: object) -> EnvBatch:
            self.pass_point()
            made = make_batch(*args, **kwargs)  # type: ignore[arg-type]
            self.pass_point()
            return made

        monkeypatch.setattr(OpenEpisodes, "begin", begin_or_die)
        monkeypatch.setattr("fast_core.nodes.collect.env_group.make_batch", make_or_die)

    def pass_point(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Killed


@pytest.mark.parametrize("backend", ["gymnasium", "gymnasium_vector"])
def test_no_episode_is_begun_twice_wherever_one_successor_after_another_dies(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    backend: Literal["gymnasium", "gymnasium_vector"],
) -> None:
    """What an incarnation has begun stays known until the next one has begun what follows."""
    config = make_config(
        environment=EnvironmentConfig(id="CartPole-v1", backend=backend),
        rollout=RolloutConfig(shards=1, envs_per_shard=4, steps=8),
        policy=PolicyConfig(placement="node", groups=2),
    )
    fate, stage, deaths = Fate(monkeypatch), Stage(tmp_path, config), 0
    counters = stage.memory.stats("env-0").words, stage.memory.works("env-0")
    first = Shard(stage.plan, stage.memory, 0, 1, *counters)
    first.begin()
    first.groups[1].reset()
    first.close()
    while True:
        fate.left = deaths
        try:
            last = Shard(stage.plan, stage.memory, 0, 2 + deaths, *counters, taken_over=True)
            last.begin()
        except Killed:
            deaths += 1
        else:
            break
    last.close()
    assert deaths == 2 * 2 + 4 * 2, "before and after each group is made, and each episode begins"
    assert len(set(fate.seeds)) == len(fate.seeds)
