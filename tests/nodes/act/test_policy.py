"""Env and policy nodes that hand over to one another, each step of either made by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fast_core.algorithm.spec import EnvironmentSpec
from fast_core.config import (
    EnvironmentConfig,
    EnvNodesConfig,
    NodesConfig,
    PolicyConfig,
    PolicyNodesConfig,
    RolloutConfig,
    RunConfig,
    SchedulerConfig,
)
from fast_core.errors import FastLoopError
from fast_core.memory import StatsColumn
from fast_core.messages import Collect, Leave, Left, RolloutReady, Save, Serve, Stop
from fast_core.nodes.act.policy import Inquirer, PolicyNode
from fast_core.nodes.collect.asking import GroupRollout, Line
from fast_core.nodes.collect.env import EnvNode
from fast_core.nodes.node import NodeState
from fast_core.policy.checked import CheckedPolicy
from fast_core.run.mail import Reply
from tests.nodes.counting import COSTLY, CountingConfig, CountingPolicy
from tests.nodes.stage import CARTPOLE, Stage, make_config, order, stacked

SHARDS, ENVS, STEPS = 2, 5, 12
Actors = Mapping[int, int]
Columns = dict[int, dict[str, np.ndarray[Any, Any]]]


def config(
    *,
    groups: int = 2,
    degree: int = 0,
    max_batch: int | None = None,
    policies: int = 1,
    remembers: bool = False,
    declares: bool = False,
    placement: str = "node",
) -> RunConfig:
    return make_config(
        environment=EnvironmentConfig(id=COSTLY if declares else "CartPole-v1"),
        rollout=RolloutConfig(shards=SHARDS, envs_per_shard=ENVS, steps=STEPS),
        algorithm=CountingConfig(remembers=remembers, declares=declares),
        policy=PolicyConfig(placement=placement, groups=groups),  # type: ignore[arg-type]
        scheduler=SchedulerConfig(off_policy_degree=degree),
        nodes=NodesConfig(
            env=EnvNodesConfig(count=1),
            policy=PolicyNodesConfig(count=policies, max_batch=max_batch),
        ),
    )


class Pair:
    """An env node with all shards, and the policy nodes of the run."""

    def __init__(
        self,
        folder: Path,
        given: RunConfig,
        environment: EnvironmentSpec = CARTPOLE,
        checkpoint: Path | None = None,
    ) -> None:
        self.stage = Stage(folder, given, environment=environment, checkpoint=checkpoint)
        self.stage.publish()
        self.env = self.stage.start(EnvNode, "env-0")
        self.policies = [
            PolicyNode(self.stage.context(name, rank))
            for rank, name in enumerate(self.stage.plan.names.policy)
        ]
        self.stage.assign()
        self.env.step()

    def order(
        self,
        number: int = 1,
        *,
        version: int = 0,
        shards: int = SHARDS,
        actors: Actors | None = None,
    ) -> None:
        """``actors`` are ranks of policy nodes by shard, where they are not those of the start."""
        usual = max(len(self.policies), 1)
        orders = tuple(
            order(shard, number, version=version, actor=(actors or {}).get(shard, shard % usual))
            for shard in range(shards)
        )
        self.stage.hub.send("env-0", Collect(orders))

    def run(self) -> list[RolloutReady]:
        """Step all nodes in turn until none has anything to do."""
        for _ in range(1000):
            worked = [node.step() for node in (self.env, *self.policies)]
            if not any(worked):
                return self.stage.sent(RolloutReady)
        raise AssertionError("always something to do")

    def collect(self, number: int = 1) -> Columns:
        """The columns of every shard's next rollout, copied."""
        self.order(number)
        assert len(self.run()) == SHARDS
        return self.columns(number)

    def columns(self, number: int) -> Columns:
        """The same of rollouts that have been collected."""
        found: Columns = {}
        for shard in range(SHARDS):
            slot = self.stage.memory.rollouts(shard).slot(0)
            assert slot.committed() == number
            found[shard] = {name: column.copy() for name, column in slot.items()}
        return found

    def left(self) -> list[Left]:
        """Let all nodes work, and return which shards were left meanwhile."""
        for _ in range(3):
            for node in (self.env, *self.policies):
                node.step()
        return self.stage.sent(Left)

    def words(self, name: str) -> memoryview:
        return self.stage.memory.stats(name).words

    def acting(self, rank: int = 0) -> CountingPolicy:
        checked = self.policies[rank]._current.policy
        assert isinstance(checked, CheckedPolicy)
        assert isinstance(checked.policy, CountingPolicy)
        return checked.policy


Make = Callable[..., Pair]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    numbers = count()

    def make_one(
        environment: EnvironmentSpec = CARTPOLE, checkpoint: Path | None = None, **changes: Any
    ) -> Pair:
        folder = tmp_path / f"pair-{next(numbers)}"
        return Pair(folder, config(**changes), environment, checkpoint)

    return make_one


# --- what is collected ---------------------------------------------------------------------------


@pytest.mark.parametrize("environment", [CARTPOLE, stacked(3)], ids=["single", "stacked"])
@pytest.mark.parametrize("remembers", [False, True])
@pytest.mark.parametrize("groups", [1, 2, 9])
@pytest.mark.parametrize("declares", [False, True])
def test_rollouts_equal_those_of_a_policy_beside_the_environments(
    make: Make, environment: EnvironmentSpec, remembers: bool, groups: int, declares: bool
) -> None:
    beside = make(environment, remembers=remembers, declares=declares, placement="env")
    served = make(environment, remembers=remembers, declares=declares, groups=groups)
    for number in range(1, 5):
        expected, got = beside.collect(number), served.collect(number)
        for shard, columns in expected.items():
            for name, column in columns.items():
                if name == "final_obs":  # it is only written where an episode ends
                    ended = columns["terminated"] | columns["truncated"]
                    column, found = column[ended], got[shard][name][ended]
                else:
                    found = got[shard][name]
                assert np.array_equal(found, column), (number, shard, name)


def test_episodes_of_all_groups_are_reported_once(make: Make) -> None:
    pair, ended, returns = make(), 0, 0
    for number in range(1, 9):
        pair.order(number)
        ready = pair.run()
        returns += sum(len(event.episode_returns) for event in ready)
        for shard in range(SHARDS):
            slot = pair.stage.memory.rollouts(shard).slot(0)
            ended += int((slot["terminated"] | slot["truncated"]).sum())
    assert returns == ended > 0


def test_env_node_has_no_policy_of_its_own(make: Make) -> None:
    """A convolutional one would cost it torch, 2.5 s and 200 MB."""
    assert make().env._current == {}


def test_checkpoint_goes_on_with_other_groups(make: Make, tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    pair = make(stacked(3), remembers=True, groups=2)
    pair.collect(1)
    pair.stage.hub.send("env-0", Save(1, str(folder)))
    pair.env.step()
    pair.run()
    expected = pair.collect(2)
    changes: list[dict[str, Any]] = [{"groups": 3}, {"groups": 2}, {"placement": "env"}]
    for change in changes:
        got = make(stacked(3), folder, remembers=True, **change).collect(2)
        for shard in range(SHARDS):
            for name in ("obs", "action", "state", "behaviour_log_prob", "frame_age"):
                assert np.array_equal(got[shard][name], expected[shard][name]), (change, name)


# --- taking turns --------------------------------------------------------------------------------


def lines(pair: Pair) -> dict[tuple[int, int], Inquirer]:
    context = pair.policies[0].context
    return {
        (shard, group): Inquirer(context, shard, group)
        for shard in range(SHARDS)
        for group in range(pair.stage.plan.groups)
    }


def steps_taken(pair: Pair) -> dict[tuple[int, int], int]:
    """How many steps each group has taken of its rollout."""
    return {
        (collection.order.shard, group._group.index): group._step
        for collection in pair.env._open
        for group in collection.groups
    }


def test_every_group_asks_at_once(make: Make) -> None:
    pair = make()
    pair.order()
    assert pair.env.step()
    assert all(inquirer.asks() for inquirer in lines(pair).values())
    assert not pair.env.step(), "it only waits"


@pytest.mark.parametrize("answered", [(0, 0), (0, 1), (1, 1)])
def test_group_with_actions_steps_while_the_others_wait(
    make: Make, answered: tuple[int, int]
) -> None:
    pair = make()
    pair.order()
    pair.env.step()
    everybody = pair.policies[0]._inquirers
    pair.policies[0]._inquirers = [lines(pair)[answered]]
    for _ in range(3):
        assert pair.policies[0].step()
        assert pair.env.step()
        assert not pair.env.step()
    expected = dict.fromkeys(steps_taken(pair), 0) | {answered: 3}
    assert steps_taken(pair) == expected
    pair.policies[0]._inquirers = everybody
    assert len(pair.run()) == SHARDS


def test_waiting_for_actions_counts_as_waiting(make: Make) -> None:
    """So that a policy node that hangs isn't blamed on environments."""
    pair = make()
    states = []
    pair.order()
    while not states or pair.env._open:
        pair.env.step()
        pair.env.step()
        states.append(pair.words("env-0")[StatsColumn.STATE])
        pair.policies[0].step()
        pair.policies[0].step()
    assert set(states[1:]) <= {NodeState.WAITING, NodeState.STARTING}
    assert len(states) >= STEPS


def test_stop_is_obeyed_between_two_groups(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    pair = make()
    pair.order()
    pair.env.step()
    pair.policies[0].step()
    take_step = GroupRollout._take_step

    def take_step_and_stop(group: GroupRollout) -> None:
        take_step(group)
        pair.stage.hub.send("env-0", Stop("interrupted"))

    monkeypatch.setattr(GroupRollout, "_take_step", take_step_and_stop)
    pair.env.step()
    assert sorted(steps_taken(pair).values()) == [0, 0, 0, 1]
    for shard in range(SHARDS):
        assert pair.stage.memory.rollouts(shard).slot(0).committed() == 0


# --- forward passes ------------------------------------------------------------------------------


def test_at_degree_0_every_group_has_a_pass_of_its_own(make: Make) -> None:
    pair = make()
    pair.collect()
    assert set(pair.acting().batches) == {2, 3}
    words = pair.words("policy-0")
    assert words[StatsColumn.BATCHES] == words[StatsColumn.REQUESTS] == 2 * SHARDS * STEPS
    assert words[StatsColumn.ROWS] == SHARDS * ENVS * STEPS
    assert pair.words("env-0")[StatsColumn.REQUESTS] == words[StatsColumn.REQUESTS]


def test_above_degree_0_all_that_wait_share_a_pass(make: Make) -> None:
    pair = make(degree=1)
    pair.collect()
    assert set(pair.acting().batches) == {SHARDS * ENVS}
    assert pair.words("policy-0")[StatsColumn.BATCHES] == STEPS


@pytest.mark.parametrize(("most", "batches"), [(1, {2, 3}), (5, {5}), (7, {7, 3}), (100, {10})])
def test_passes_have_at_most_max_batch_rows(make: Make, most: int, batches: set[int]) -> None:
    """But for a group that is larger by itself, which is not cut."""
    pair = make(degree=1, max_batch=most)
    pair.collect()
    assert set(pair.acting().batches) == batches


def test_shared_passes_give_every_group_its_own_rows(make: Make) -> None:
    merged = make(stacked(3), degree=1, remembers=True)
    alone = make(stacked(3), degree=0, remembers=True)
    for number in range(1, 4):
        expected, got = alone.collect(number), merged.collect(number)
        for shard in range(SHARDS):
            for name in ("obs", "action", "state", "behaviour_log_prob"):
                assert np.array_equal(got[shard][name], expected[shard][name]), name


def test_policy_nodes_share_the_shards_out(make: Make) -> None:
    pair = make(policies=2)
    pair.collect()
    for name in ("policy-0", "policy-1"):
        assert pair.words(name)[StatsColumn.ROWS] == ENVS * STEPS


def test_rows_bear_the_version_that_acted(make: Make) -> None:
    pair = make(degree=1)
    pair.order()
    for _ in range(4):
        pair.env.step()
        pair.policies[0].step()
    pair.stage.publish(5, 0.25)
    ready = pair.run()
    assert [event.version for event in ready] == [0, 0], "the oldest that acted"
    slot = pair.stage.memory.rollouts(0).slot(0)
    assert slot["policy_version"].min(axis=1).tolist() == [0] * 4 + [5] * (STEPS - 4)
    assert slot["behaviour_log_prob"][:, 0].tolist() == [0.0] * 4 + [0.25] * (STEPS - 4)


def test_request_for_weights_that_were_not_published_fails(make: Make) -> None:
    pair = make()
    pair.order(version=3)
    pair.env.step()
    with pytest.raises(FastLoopError, match=r"needs weights of version 3 or newer.*are 0"):
        pair.policies[0].step()


# --- replies that nobody waits for ---------------------------------------------------------------


def asked(pair: Pair, line: Line, first: float) -> None:
    request = line.request
    line.ask(np.full_like(request["obs"], first), np.full_like(request["noise"], 0.9), None, 0)


def test_late_reply_to_an_earlier_incarnation_never_reaches_a_row(make: Make) -> None:
    """The policy node took the request, then the shard moved, then it answers."""
    pair = make()
    shard = pair.env._shards[0]
    old = Line(pair.env.context, shard, shard.groups[0])
    inquirer = lines(pair)[0, 0]
    asked(pair, old, 1.0)
    inquirer.take()

    shard.incarnation = 2
    new = Line(pair.env.context, shard, shard.groups[0])
    output = pair.acting().act(inquirer.request["obs"], noise=old.request["noise"], explore=True)
    inquirer.answer(output, output.action, slice(0, inquirer.rows), 0)
    assert not new.answered(), "before it has asked"
    asked(pair, new, 2.0)
    assert not new.answered()
    assert pair.words("env-0")[StatsColumn.LATE_REPLIES] == 1
    assert inquirer.asks()
    inquirer.take()
    inquirer.answer(output, output.action, slice(0, inquirer.rows), 7)
    assert new.answered()
    assert new.reply.words.version == 7


def test_late_reply_after_the_new_request_is_ignored_too(make: Make) -> None:
    pair = make()
    shard = pair.env._shards[0]
    old, inquirer = Line(pair.env.context, shard, shard.groups[0]), lines(pair)[0, 0]
    asked(pair, old, 1.0)
    inquirer.take()
    shard.incarnation = 2
    new = Line(pair.env.context, shard, shard.groups[0])
    asked(pair, new, 2.0)
    output = pair.acting().act(inquirer.request["obs"], noise=old.request["noise"], explore=True)
    inquirer.answer(output, output.action, slice(0, inquirer.rows), 0)
    assert not new.answered()
    assert not new.answered(), "it is counted once"
    assert pair.words("env-0")[StatsColumn.LATE_REPLIES] == 1
    assert inquirer.asks(), "the new request is still open"


@pytest.mark.parametrize(("further", "incarnation"), [(1, 1), (0, 9)])
def test_reply_is_late_if_its_number_or_its_incarnation_does_not_fit(
    make: Make, further: int, incarnation: int
) -> None:
    pair = make()
    shard = pair.env._shards[0]
    line = Line(pair.env.context, shard, shard.groups[0])
    asked(pair, line, 1.0)
    line.reply.publish(line.number + further, Reply(incarnation, 0))
    assert not line.answered()
    assert pair.words("env-0")[StatsColumn.LATE_REPLIES] == 1


def test_numbers_go_on_where_a_shard_moved(make: Make) -> None:
    pair = make()
    pair.collect()
    shard = pair.env._shards[0]
    assert Line(pair.env.context, shard, shard.groups[0]).number == STEPS


def test_policy_node_that_takes_over_answers_what_is_open(make: Make) -> None:
    pair = make()
    pair.order()
    pair.env.step()
    first = pair.policies[0]
    context = first.context
    pair.policies = [PolicyNode(context)]
    assert len(pair.run()) == SHARDS
    assert first.context.stats.words[StatsColumn.REQUESTS] == 2 * SHARDS * STEPS
    assert not PolicyNode(context).step(), "nothing is answered twice"


# --- shards that come to another policy node -----------------------------------------------------


def test_shard_that_another_policy_node_acts_for_is_answered_by_it_alone(make: Make) -> None:
    """Which of them acts is no part of what is collected."""
    beside, served = make(policies=2), make(policies=2)
    assert served.stage.plan.names.policy_of(1) == "policy-1"
    expected = [beside.collect(number) for number in (1, 2, 3)]
    assert same(served.collect(1), expected[0])
    hub, before = served.stage.hub, served.words("policy-1")[StatsColumn.REQUESTS]
    hub.send("policy-1", Leave(1))
    assert served.left() == [Left("policy-1", 1)]
    served.order(2, actors={1: 0})
    for _ in range(20):
        served.env.step()
        served.policies[1].step()
    assert served.words("policy-1")[StatsColumn.REQUESTS] == before, "it acts for it no more"
    hub.send("policy-0", Serve((1,)))
    assert len(served.run()) == SHARDS
    assert same(served.columns(2), expected[1])
    assert served.words("policy-1")[StatsColumn.REQUESTS] == before
    hub.send("policy-0", Leave(1))
    assert served.left() == [Left("policy-0", 1)]
    hub.send("policy-1", Serve((1,)))
    assert same(served.collect(3), expected[2])
    assert served.words("env-0")[StatsColumn.LATE_REPLIES] == 0


def same(one: Columns, other: Columns) -> bool:
    return all(
        np.array_equal(column, other[shard][name])
        for shard, columns in one.items()
        for name, column in columns.items()
        if name != "final_obs"  # it is only written where an episode ends
    )


def test_policy_node_that_may_come_acts_for_nobody_before_it_is_told(make: Make) -> None:
    pair = make()
    assert pair.stage.plan.names.actors == ("policy-0", "policy-1")
    added = PolicyNode(pair.stage.context("policy-1", 1))
    pair.order()
    pair.env.step()
    assert not added.work()
