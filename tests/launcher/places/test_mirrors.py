"""What travels between the hosts of a run follows from its table and from where its nodes are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from fast_core.algos.replay.dqn_config import DQNConfig
from fast_core.config import (
    EnvNodesConfig,
    ExtraNodeConfig,
    NodesConfig,
    OptimizerNodeConfig,
    PolicyConfig,
    RunConfig,
)
from fast_core.errors import TopologyError
from fast_core.launcher.places.mirrors import HERE, held_at, mirrors
from fast_core.launcher.topology import node_classes
from fast_core.run.structures import structures
from tests.nodes.stage import make_config, make_run_plan

FAR = "b"
FIGURES = {"pulse", "spans", "stats", "works"}


def travelling(
    folder: Path, places: Mapping[str, str], config: RunConfig | None = None
) -> dict[tuple[str, str], set[str]]:
    """Names of what travels, by where from and where to."""
    config = config or make_config(nodes=NodesConfig(env=EnvNodesConfig(count=2)))
    plan = replace(make_run_plan(folder, config), places=places)
    nodes = node_classes(plan)
    found: dict[tuple[str, str], set[str]] = {}
    for row, source, target in mirrors(plan, nodes):
        found.setdefault((source, target), set()).add(row.name)
    return found


def figures(*nodes: str) -> set[str]:
    return {f"{family}/{node}" for family in FIGURES for node in nodes}


def test_on_one_host_nothing_does(tmp_path: Path) -> None:
    assert travelling(tmp_path, {}) == {}


def test_rollouts_come_and_weights_go_where_an_env_node_is_elsewhere(tmp_path: Path) -> None:
    """Also those of shards that it may come to execute; which it does is not in the plan."""
    shards = {f"rollouts/{k}" for k in range(2)} | {f"progress/{k}.0" for k in range(2)}
    assert travelling(tmp_path, {"env-1": FAR}) == {
        (FAR, HERE): shards | figures("env-1"),
        (HERE, FAR): {"weights"},
    }


def test_each_host_gets_what_its_own_nodes_read(tmp_path: Path) -> None:
    found = travelling(tmp_path, {"env-0": "a", "env-1": FAR, "evaluator-0": "c"})
    assert found[HERE, "a"] == found[HERE, FAR] == {"weights"}
    assert found[HERE, "c"] == {"evaluation"}
    assert found["c", HERE] == figures("evaluator-0")
    assert {"rollouts/0", "rollouts/1"} <= found["a", HERE] & found[FAR, HERE]
    assert set(found) == {(HERE, at) for at in "abc"} | {(at, HERE) for at in "abc"}


def test_logs_of_replay_come_and_what_its_node_asks_the_optimizer_stays(tmp_path: Path) -> None:
    config = make_config(
        algorithm=DQNConfig(hidden_sizes=(4,), batch_size=8),
        nodes=NodesConfig(env=EnvNodesConfig(count=2)),
    )
    found = travelling(tmp_path, {"env-0": FAR, "env-1": FAR}, config)
    families = {name.partition("/")[0] for name in found[FAR, HERE]}
    assert families == FIGURES | {"replay", "progress"}
    assert found[HERE, FAR] == {"weights"}


def test_host_has_what_its_nodes_write_or_read_and_nothing_else(tmp_path: Path) -> None:
    config = make_config(nodes=NodesConfig(env=EnvNodesConfig(count=2)))
    plan = replace(make_run_plan(tmp_path, config), places={"env-1": "b", "evaluator-0": "c"})
    nodes = node_classes(plan)
    held = {
        place: {row.name for row in structures(replace(plan, held=held_at(plan, nodes, place)))}
        for place in "bc"
    }
    bells = {f"doorbell/{name}" for name in plan.names.possible}
    shards = {f"{family}/{k}" for family in ("rollouts",) for k in range(2)}
    assert held["b"] - figures("env-1") == bells | shards | {"weights"} | {
        f"progress/{k}.0" for k in range(2)
    }
    assert held["c"] - figures("evaluator-0") == bells | {"evaluation"}


@pytest.mark.parametrize(
    ("places", "changes", "said"),
    [
        (
            {"env-0": FAR},
            {"policy": PolicyConfig(placement="node")},
            "'requests/0.0' is written by env-0 (b), env-1 (the launcher)",
        ),
        (
            {"optimizer-1": FAR},
            {
                "algorithm": DQNConfig(hidden_sizes=(4,), batch_size=8),
                "nodes": NodesConfig(
                    env=EnvNodesConfig(count=1), optimizer=OptimizerNodeConfig(count=2)
                ),
            },
            "step by step",
        ),
        (
            {"curiosity": FAR},
            {
                "nodes": NodesConfig(
                    env=EnvNodesConfig(count=1),
                    extra=(
                        ExtraNodeConfig(
                            node="examples.exploration_bonus:CountBonus", name="curiosity"
                        ),
                    ),
                )
            },
            "written by curiosity (b)",
        ),
    ],
)
def test_what_would_have_to_travel_and_can_not_is_refused(
    tmp_path: Path, places: dict[str, str], changes: dict[str, object], said: str
) -> None:
    with pytest.raises(TopologyError, match="Put these nodes on one host") as refusal:
        travelling(tmp_path, places, make_config(**changes))
    assert said in str(refusal.value)
