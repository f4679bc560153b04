"""The arithmetic of ``policy.placement: auto``, by hand, and what it is asked with."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from fast_core.config import EnvNodesConfig, NodesConfig, PolicyConfig, PolicyNodesConfig
from fast_core.launcher.prepare import resolve
from fast_core.launcher.sizing.measuring import _times
from fast_core.launcher.sizing.placement import Shape, Timings, choose, rate_beside, rate_served
from fast_core.launcher.sizing.trial import shape_of, trial_plan, with_placement
from fast_core.run.structures import slots_per_shard
from tests.nodes.stage import CARTPOLE, make_config

SHAPE = Shape(shards=2, envs=10, groups=2, env_nodes=2, policy_nodes=1, policy_threads=1, cores=4)
WAITING = Timings(
    shard_us=10_000.0,
    shard_cpu_us=100.0,
    group_us=5000.0,
    group_cpu_us=50.0,
    act_beside_us=5000.0,
    act_node_us=2000.0,
    handover_us=100.0,
)


def test_beside_each_env_node_steps_and_acts_in_turn() -> None:
    """10 steps of 1 ms and a pass of 5 ms: 15 ms for the 10 rows of each of two nodes."""
    assert rate_beside(WAITING, SHAPE) == pytest.approx(20 / 15e-3)


def test_beside_the_node_with_most_shards_sets_the_pace() -> None:
    three = replace(SHAPE, shards=3)
    assert rate_beside(WAITING, three) == pytest.approx(30 / 30e-3)


def test_beside_what_computes_shares_the_cores() -> None:
    """Both nodes compute 15 ms on one core."""
    computing = replace(WAITING, shard_cpu_us=10_000.0)
    assert rate_beside(computing, replace(SHAPE, cores=1)) == pytest.approx(20 / 30e-3)


def test_served_stepping_sets_the_pace_where_acting_is_quick() -> None:
    """10 ms of steps and two halves of a hand-over."""
    quick = replace(WAITING, act_node_us=100.0)
    assert rate_served(quick, SHAPE) == pytest.approx(20 / 10.1e-3)


def test_served_acting_sets_the_pace_where_it_takes_longest() -> None:
    """Four groups, each a pass of 8 ms and half a hand-over; two policy nodes halve it."""
    slow = replace(WAITING, act_node_us=8000.0)
    shape = replace(SHAPE, cores=100)
    assert rate_served(slow, shape) == pytest.approx(20 / (4 * 8.05e-3))
    twice = replace(shape, policy_nodes=2)
    assert rate_served(slow, twice) == pytest.approx(20 / (2 * 8.05e-3))


def test_served_a_single_group_waits_for_everything() -> None:
    alone = replace(SHAPE, groups=1, shards=1, env_nodes=1)
    whole = replace(WAITING, group_us=10_000.0)
    assert rate_served(whole, alone) == pytest.approx(10 / (10e-3 + 2e-3 + 0.1e-3))


def test_served_threads_of_policy_nodes_count_as_cores() -> None:
    shape = replace(SHAPE, cores=1, policy_threads=4)
    one_us = 2 * 2 * (50.0 + 4 * 2000.0 + 100.0)
    assert rate_served(WAITING, shape) == pytest.approx(20e6 / one_us)


def test_beside_a_batch_that_is_stepped_at_once_counts_as_it_steps() -> None:
    """Threads of the simulator: 10 environments take little longer than 5, and no core is free."""
    threads = replace(WAITING, shard_us=1200.0, group_us=1000.0, shard_cpu_us=4000.0)
    assert rate_beside(threads, SHAPE) == pytest.approx(20 / 6.2e-3)
    assert rate_served(replace(threads, act_node_us=1.0), SHAPE) == pytest.approx(20 / 2.1e-3)
    assert rate_beside(threads, replace(SHAPE, cores=2)) == pytest.approx(20 / 9e-3)


def test_policy_nodes_must_be_worth_it() -> None:
    assert choose(WAITING, SHAPE).placement == "node"
    small = replace(WAITING, act_beside_us=20.0, act_node_us=15.0)
    chosen = choose(small, SHAPE)
    assert chosen.placement == "env"
    gain = replace(small, act_beside_us=300.0)
    assert rate_served(gain, SHAPE) > rate_beside(gain, SHAPE)
    assert choose(gain, SHAPE).placement == "env", "not for 2 percent"


def test_choice_is_written_into_the_configuration() -> None:
    config = make_config(policy=PolicyConfig(placement="auto"))
    chosen = choose(WAITING, SHAPE)
    policy = with_placement(config, chosen).policy
    assert policy.placement == "node"
    assert policy.measured == {
        "shard_us": 10_000.0,
        "shard_cpu_us": 100.0,
        "group_us": 5000.0,
        "group_cpu_us": 50.0,
        "act_beside_us": 5000.0,
        "act_node_us": 2000.0,
        "handover_us": 100.0,
        "env_expected_env_steps_per_s": 1333.0,
        "node_expected_env_steps_per_s": pytest.approx(20 / 10.1e-3, rel=1e-3),
    }
    assert chosen.why.startswith("node: 1,333 env steps/s expected beside")
    fallback = with_placement(config, "it died").policy
    assert (fallback.placement, fallback.measured) == ("env", None)


def test_shape_is_that_of_the_run_and_the_trial_is_the_smallest_run() -> None:
    config = make_config(
        policy=PolicyConfig(placement="node", groups=9),
        nodes=NodesConfig(
            env=EnvNodesConfig(count=2), policy=PolicyNodesConfig(count=3, threads=2)
        ),
    )
    resolved = resolve(config, CARTPOLE, 4)
    assert shape_of(resolved, 4) == Shape(
        shards=2, envs=2, groups=2, env_nodes=2, policy_nodes=3, policy_threads=2, cores=4
    )
    plan = trial_plan(resolved, CARTPOLE)
    assert plan.names.all == ("env-0", "policy-0", "optimizer-0", "metrics-0")
    assert slots_per_shard(plan) == 1
    assert plan.config.rollout == msgspec.structs.replace(config.rollout, shards=1, steps=1)
    slow = trial_plan(resolved, CARTPOLE, made_s=3.0)  # two environments of three seconds
    assert slow.start_timeout_s == plan.start_timeout_s + 2 * 3 * 2


def test_slow_calls_are_timed_once() -> None:
    calls: list[int] = []
    assert len(_times(lambda: calls.append(0), 0.0)) == len(calls) == 1


def test_unmeasured_auto_means_beside_the_environments() -> None:
    resolved = resolve(make_config(policy=PolicyConfig(placement="auto")), CARTPOLE, 2)
    assert resolved.policy.placement == "env"
