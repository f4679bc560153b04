"""A shard whose env node died: another one begins it anew, the optimizer skips what was left."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

from fast_core.config import PolicyConfig, SupervisionConfig
from fast_core.config_rules import problems
from fast_core.envs import ProgressWord
from fast_core.errors import SegmentError
from fast_core.events import Assign, Collect, RolloutReady, Train, Trained
from fast_core.nodes.env import EnvNode
from fast_core.nodes.optimizer import OptimizerNode
from tests.nodes.stage import Stage, drain, make_config, order, ref


def make_stage(folder: Path, *, checkpoint: Path | None = None) -> Stage:
    config = make_config(supervision=SupervisionConfig(env_restarts=1))
    return Stage(folder, config, checkpoint=checkpoint)


def make_nodes(stage: Stage) -> tuple[OptimizerNode, EnvNode, EnvNode]:
    optimizer = OptimizerNode(stage.context("optimizer-0"))
    optimizer.setup()
    first, second = (EnvNode(stage.context(f"env-{rank}", rank)) for rank in range(2))
    for rank, node in enumerate((first, second)):
        node.setup()
        stage.hub.send(f"env-{rank}", Assign(rank, 1))
    return optimizer, first, second


def test_record_that_a_dead_node_left_is_skipped(tmp_path: Path) -> None:
    stage = make_stage(tmp_path)
    optimizer, first, second = make_nodes(stage)
    stage.hub.send("env-0", Collect((order(0),)))
    stage.hub.send("env-1", Collect((order(1),)))
    drain(first)
    drain(second)  # it dies now: complete, its record is published, its report lost
    stage.hub.send("env-0", Assign(1, 2, taken_over=True))
    stage.hub.send("env-0", Collect((order(1, incarnation=2),)))
    drain(first)
    reports = [event for event in stage.events() if isinstance(event, RolloutReady)]
    assert [(e.node, e.shard, e.incarnation) for e in reports][-1] == ("env-0", 1, 2)
    again = msgspec.structs.replace(ref(1), incarnation=2)
    stage.hub.send("optimizer-0", Train(0, (ref(0), again), 0, 2))
    drain(optimizer)
    (event,) = stage.events()
    assert isinstance(event, Trained)
    assert len(stage.memory.records(1)) == 0
    for node in (optimizer, first, second):
        node.close()
    stage.close()


def test_record_of_a_later_incarnation_is_a_fault(tmp_path: Path) -> None:
    stage = make_stage(tmp_path)
    optimizer, first, second = make_nodes(stage)
    stage.hub.send("env-0", Collect((order(0),)))
    stage.hub.send("env-0", Assign(1, 2, taken_over=True))
    stage.hub.send("env-0", Collect((order(1, incarnation=2),)))
    drain(first)
    stage.hub.send("optimizer-0", Train(0, (ref(0), ref(1)), 0, 2))
    with pytest.raises(SegmentError, match="but its env node published"):
        drain(optimizer)
    for node in (optimizer, first, second):
        node.close()
    stage.close()


def test_shard_taken_over_begins_anew_even_where_the_run_was_resumed(tmp_path: Path) -> None:
    """The checkpoint has no file of the shard here, so reading it would fail."""
    stage = make_stage(tmp_path, checkpoint=tmp_path)
    node = EnvNode(stage.context("env-0"))
    node.handle(Assign(1, 2, taken_over=True))
    node.handle(Assign(0, 5, taken_over=True))
    node.close()
    stage.close()


def test_shard_taken_over_draws_other_numbers(tmp_path: Path) -> None:
    actions = []
    for incarnation in (2, 3):
        stage = make_stage(tmp_path)
        optimizer, first, second = make_nodes(stage)
        stage.hub.send("env-0", Assign(1, incarnation, taken_over=True))
        stage.hub.send("env-0", Collect((order(1, incarnation=incarnation),)))
        drain(first)
        actions.append(stage.memory.rollouts(1).slot(0)["action"].copy())
        for node in (optimizer, first, second):
            node.close()
        stage.close()
    assert not np.array_equal(*actions)


def test_shard_taken_over_goes_on_with_the_episodes_after_those_that_were_begun(
    tmp_path: Path,
) -> None:
    stage = make_stage(tmp_path)
    optimizer, first, second = make_nodes(stage)
    progress = stage.memory.progress(1)[ProgressWord.EPISODE :][:2]
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
    for node in (optimizer, first, second):
        node.close()
    stage.close()


@pytest.mark.parametrize("placement", ["node", "auto"])
def test_deaths_are_survived_only_with_policies_in_the_env_nodes(placement: str) -> None:
    config = make_config(
        supervision=SupervisionConfig(env_restarts=1),
        policy=PolicyConfig(placement=placement),  # type: ignore[arg-type]
    )
    (problem,) = problems(config)
    assert problem.key == "supervision.env_restarts"
