"""Every node keeps what `fast_core.testing` asks of those of a user's own."""

from __future__ import annotations

from typing import Any

import pytest

from examples.exploration_bonus import CountBonus, Novelty, NoveltyLog
from examples.replay_census import CensusNode
from examples.trajectory_log import Recorder, TrajectoryLog
from fast_core.config import NodesConfig, PartConfig, PolicyConfig
from fast_core.nodes.act.evaluator import EvaluatorNode
from fast_core.nodes.act.policy import PolicyNode
from fast_core.nodes.collect.env import EnvNode
from fast_core.nodes.learn.optimizer import OptimizerNode
from fast_core.nodes.learn.replay_optimizer import ReplayOptimizerNode
from fast_core.nodes.metrics import MetricsNode
from fast_core.nodes.replay.node import ReplayNode
from fast_core.testing import check_node
from tests.nodes.replay_stage import replay_config
from tests.nodes.stage import make_config

CENSUS = PartConfig(part="examples.replay_census:Census")
NODES: dict[str, dict[str, Any]] = {
    "env": {"node": EnvNode},
    "env, replay": {"node": EnvNode, "config": replay_config()},
    "policy": {"node": PolicyNode, "config": make_config(policy=PolicyConfig(placement="node"))},
    "optimizer": {"node": OptimizerNode},
    "optimizer, replay": {"node": ReplayOptimizerNode, "config": replay_config()},
    "optimizers": {"node": ReplayOptimizerNode, "config": replay_config(optimizers=2)},
    "replay": {"node": ReplayNode, "config": replay_config()},
    "evaluator": {"node": EvaluatorNode},
    "metrics": {"node": MetricsNode},
    "stage": {
        "node": CountBonus,
        "settings": {"cell": 0.5, "scale": 2.0},
        "beside": [NoveltyLog],
    },
    "log": {
        "node": NoveltyLog,
        "messages": [Novelty("countbonus", 0, 3, 0.5)],
        "beside": [CountBonus],
    },
    "recorder": {"node": Recorder, "settings": {"places": 4}, "beside": [TrajectoryLog]},
    "reader": {"node": TrajectoryLog, "beside": [Recorder]},
    "follower": {"node": CensusNode, "config": replay_config(nodes=NodesConfig(parts=(CENSUS,)))},
}


@pytest.mark.parametrize("name", NODES)
def test_node_keeps_its_contract(name: str) -> None:
    case = dict(NODES[name])
    check_node(case.pop("node"), **case)
