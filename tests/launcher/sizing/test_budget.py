"""Cores and threads: how few or how many there are, and who gets them (RES-01, RES-03, MH-03)."""

from __future__ import annotations

import pytest

from fast_core.algorithm.spec import EnvironmentSpec, SpaceSpec
from fast_core.algos.replay.dqn_config import DQNConfig
from fast_core.algos.replay.sac_config import SACConfig
from fast_core.config import (
    EnvNodesConfig,
    NodesConfig,
    OptimizerNodeConfig,
    PolicyConfig,
    PolicyNodesConfig,
    RolloutConfig,
    RunConfig,
    SchedulerConfig,
)
from fast_core.launcher.prepare import budget
from fast_core.launcher.sizing.budget import (
    FLOPS_PER_THREAD,
    THREADED_UPDATE_FLOPS,
    CoreBudget,
    core_budget,
)
from fast_core.system.resources import Cores
from tests.nodes.stage import make_config

SMALL, LARGE = 1e6, 1e12


def divided(cores: int | Cores, *, flops: float = SMALL, **changes: object) -> CoreBudget:
    rollout = RolloutConfig(shards=8, envs_per_shard=2, steps=8)
    config: RunConfig = make_config(**{"rollout": rollout, **changes})
    granted = cores if isinstance(cores, int) else cores.granted
    return core_budget(config, granted, update_flops=flops)


def nodes(**changes: object) -> NodesConfig:
    return NodesConfig(**changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("cores", "env_nodes"),
    [
        (Cores(8, (0,)), 1),
        (Cores(8, (0, 2, 5)), 3),  # RES-03: no whole sockets
        (Cores(64, tuple(range(64)), quota=1.5), 1),  # the half would only be throttled
        (Cores(64, tuple(range(64)), allotment=5), 5),  # MH-03
        (Cores(64, tuple(range(64))), 8),  # no more than shards
    ],
)
def test_env_nodes_are_as_many_as_cores_granted_at_most_one_per_shard(
    cores: Cores, env_nodes: int
) -> None:
    found = divided(cores, flops=LARGE)
    assert found.env_nodes == env_nodes
    assert found.env_threads == 1
    assert found.learner_threads == cores.granted


def test_more_env_nodes_than_cores_compute_on_one_thread_each() -> None:
    """RES-01: 8 env nodes on 2 cores."""
    found = divided(2, nodes=nodes(env=EnvNodesConfig(count=8)))
    assert (found.env_nodes, found.env_threads, found.learner_threads) == (8, 1, 1)
    assert "nodes.env.count" in found.reasons[0]


def test_threads_that_the_user_set_are_respected() -> None:
    """RES-01."""
    optimizer = OptimizerNodeConfig(threads=3)
    config = make_config(nodes=nodes(optimizer=optimizer))
    found = core_budget(config, 2, update_flops=SMALL, node_threads=2)
    assert (found.env_threads, found.learner_threads) == (2, 3)
    assert "OMP_NUM_THREADS" in found.reasons[1]


def test_more_threads_than_cores_are_warned_of() -> None:
    found = divided(2, nodes=nodes(optimizer=OptimizerNodeConfig(threads=3)))
    (warning,) = found.warnings
    assert warning.startswith("nodes.optimizer.threads is 3, but 2 cores are granted")
    assert divided(3, nodes=nodes(optimizer=OptimizerNodeConfig(threads=3))).warnings == ()


@pytest.mark.parametrize(
    ("flops", "threads"),
    [
        (THREADED_UPDATE_FLOPS - 1, 1),
        (THREADED_UPDATE_FLOPS, 2),
        (5 * FLOPS_PER_THREAD, 5),
        (LARGE, 8),
    ],
)
def test_learner_takes_threads_with_the_size_of_an_update(flops: float, threads: int) -> None:
    assert divided(8, flops=flops).learner_threads == threads


def test_learner_from_replay_takes_one_thread_on_a_cpu() -> None:
    config = make_config(algorithm=DQNConfig(network="nature_cnn"))
    pictures = SpaceSpec("box", (4, 84, 84), "uint8", low=(0.0,), high=(255.0,))
    seeing = EnvironmentSpec("Pong", pictures, SpaceSpec("discrete", (), "int64", n=6), frames=4)
    found = budget(config, seeing, 8)
    assert found.learner_threads == 1
    assert found.reasons[-1].endswith("divides a batch among optimizers instead.")
    numbers = SpaceSpec("box", (376,), "float32", low=(-1.0,), high=(1.0,))
    wide = make_config(algorithm=DQNConfig(hidden_sizes=(1024, 1024)))
    assert budget(wide, EnvironmentSpec("Wide", numbers, seeing.action), 8).learner_threads == 1


@pytest.mark.parametrize(("degree", "threads"), [(0, 8), (1, 5), (50, 5)])
def test_learner_takes_all_cores_only_while_env_nodes_wait(degree: int, threads: int) -> None:
    found = divided(
        8,
        flops=LARGE,
        nodes=nodes(env=EnvNodesConfig(count=3)),
        scheduler=SchedulerConfig(off_policy_degree=degree),
    )
    assert found.learner_threads == threads


@pytest.mark.parametrize(
    ("cores", "env_nodes", "threads"),
    [(2, 2, 2), (2, 1, 1), (4, 3, 4), (4, 2, 2), (8, 8, 8), (8, 5, 8), (8, 4, 4), (1, 1, 1)],
)
def test_learner_shares_the_cores_of_env_nodes_that_leave_less_than_half(
    cores: int, env_nodes: int, threads: int
) -> None:
    """On fewer it would take longer than a round at degree 0, in which it has all of them."""
    found = divided(
        cores,
        flops=LARGE,
        nodes=nodes(env=EnvNodesConfig(count=env_nodes)),
        scheduler=SchedulerConfig(off_policy_degree=4),
    )
    assert found.learner_threads == threads
    assert ("shares theirs" in found.reasons[-1]) == (2 * env_nodes > cores)


@pytest.mark.parametrize(
    ("policy", "threads"),
    [
        (PolicyNodesConfig(), 6),
        (PolicyNodesConfig(count=4), 1),
        (PolicyNodesConfig(count=8), 1),
        (PolicyNodesConfig(threads=2), 2),
        (PolicyNodesConfig(device="cuda"), 1),
    ],
)
def test_policy_nodes_share_what_env_nodes_leave(policy: PolicyNodesConfig, threads: int) -> None:
    found = divided(
        8,
        policy=PolicyConfig(placement="node"),
        nodes=nodes(env=EnvNodesConfig(count=2), policy=policy),
    )
    assert found.policy_threads == threads


def test_policies_beside_environments_have_no_nodes() -> None:
    found = divided(8)
    assert found.policy_threads == 0
    assert len(found.reasons) == 3


# --- several optimizers, and the replay ----------------------------------------------------------


def learning(count: int, **changes: object) -> NodesConfig:
    optimizer = OptimizerNodeConfig(count=count, **changes)  # type: ignore[arg-type]
    return nodes(optimizer=optimizer, env=EnvNodesConfig(count=3))


@pytest.mark.parametrize(
    ("cores", "degree", "count", "threads"),
    [(8, 0, 2, 4), (8, 0, 3, 2), (8, 1, 2, 2), (2, 0, 2, 1), (2, 0, 5, 1)],
)
def test_optimizers_share_the_cores_of_the_learner(
    cores: int, degree: int, count: int, threads: int
) -> None:
    found = divided(
        cores,
        flops=LARGE,
        nodes=learning(count),
        scheduler=SchedulerConfig(off_policy_degree=degree),
    )
    assert found.learner_threads == threads
    assert f"in each of {count} optimizers" in found.reasons[-1]
    assert found.reasons[-1].endswith("shared evenly.")


@pytest.mark.parametrize(("update", "threads"), [("allreduce", 2), ("async", 4)])
def test_optimizer_that_averages_computes_only_its_share_of_an_update(
    update: str, threads: int
) -> None:
    found = divided(16, flops=4 * FLOPS_PER_THREAD, nodes=learning(2, update=update))
    assert found.learner_threads == threads


def test_more_optimizers_than_cores_are_warned_of() -> None:
    (warning,) = divided(2, nodes=learning(3)).warnings
    assert warning.startswith("nodes.optimizer.count is 3 with 1 thread each, but 2 cores are")
    assert divided(3, nodes=learning(3)).warnings == ()
    (warning,) = divided(3, nodes=learning(2, threads=2)).warnings
    assert "is 2 with 2 threads each, but 3 cores" in warning
    assert "or nodes.optimizer.threads" in warning
    (warning,) = divided(1, nodes=learning(2, threads=2)).warnings
    assert warning.startswith("nodes.optimizer.threads is 2")


def test_replay_node_takes_no_core_from_the_learner() -> None:
    """It computes little; at degree 0 the env nodes do nothing meanwhile."""
    with_replay = divided(2, flops=LARGE, algorithm=SACConfig())
    assert (with_replay.env_nodes, with_replay.learner_threads) == (2, 2)
    assert "replay node" in with_replay.reasons[2]
    assert with_replay.reasons[3].startswith("2 learner threads of 2 cores: at off_policy_degree 0")
    assert not any("replay" in reason for reason in divided(2, flops=LARGE).reasons)
