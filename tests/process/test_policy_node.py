"""Policy nodes in real processes: the same results as inline, and no death that hangs or lies."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest
import yaml

from tests.forms import slow_but
from tests.process import handover_faults, slow_policy, test_spaces
from tests.process.harness import TOY, Launched, Workplace, digests, eventually, read_lines
from tests.process.test_control import said
from tests.process.test_equality import ENVS, SHARDS, STEPS, TASKS, finished

pytestmark = pytest.mark.process

NODE = "policy.placement=node"
FAULTY: dict[str, Any] = {
    **TOY,
    "environment": {"id": "fastloop/Toy-v0", "modules": ["toy_envs", "handover_faults"]},
    "policy": {"placement": "node"},
}


def last_line(launched: Launched) -> str:
    return launched.screen.strip().splitlines()[-1]


# --- the same bits -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "policies", "envs"),
    slow_but(
        [("continuous, normalised", 2, 2)],
        [("discrete, normalised", 1, 4), ("continuous, normalised", 2, 2)],
    ),
)
def test_processes_equal_inline_bit_for_bit(
    workplace: Workplace, name: str, policies: int, envs: int
) -> None:
    task = TASKS[name]
    reference = finished(workplace.launch("mode=inline", NODE, config=task))
    counts = (f"nodes.policy.count={policies}", f"nodes.env.count={envs}")
    launched = workplace.launch(NODE, *counts, "diagnostics.delay_ms=2", config=task)
    assert finished(launched) == reference


@pytest.mark.parametrize("name", slow_but(["stacked frames"], test_spaces.ELSEWHERE))
def test_every_kind_of_space_is_handed_over(workplace: Workplace, name: str) -> None:
    """With one group the batches are those of a policy beside the environments."""
    task = test_spaces.TASKS[name]
    inline = test_spaces.finished(workplace.launch("mode=inline", NODE, config=task))
    assert test_spaces.finished(workplace.launch(NODE, config=task)) == inline
    beside = test_spaces.finished(workplace.launch(config=task))
    assert test_spaces.finished(workplace.launch(NODE, "policy.groups=1", config=task)) == beside


def test_asynchronous_run_with_shared_passes_trains_to_its_end(workplace: Workplace) -> None:
    launched = workplace.launch(
        NODE, "scheduler.off_policy_degree=2", "diagnostics.delay_ms=2", config=TASKS["discrete"]
    )
    finished(launched)
    launched.assert_gone()


ECHO: dict[str, Any] = {
    "name": "echo",
    "environment": {"id": "fastloop/Ticket-v0", "modules": ["echo"]},
    "rollout": {"shards": 6, "envs_per_shard": 5, "steps": 7},
    "algorithm": {"name": "echo:EchoConfig"},
    "policy": {"placement": "node", "groups": 3},
    "nodes": {"env": {"count": 3}, "policy": {"count": 2, "max_batch": 4}},
    "scheduler": {"off_policy_degree": 3},
    "evaluation": {"every_env_steps": None},
    "checkpoint": {"every_updates": None, "at_end": False},
    "metrics": {"tensorboard": False, "interval_s": 0.01},
    "stop": {"updates": 200},
}


def test_every_row_has_the_answer_to_its_own_observation_and_who_gave_it(
    workplace: Workplace,
) -> None:
    """SCH-09, with passes over several groups and weights that change within a rollout."""
    launched = workplace.launch("diagnostics.delay_ms=2", config=ECHO).done()
    rows = [row["values"] for row in read_lines(launched.run / "metrics.jsonl")]
    differ = [value for row in rows for key, value in row.items() if "versions_differ" in key]
    assert any(differ), "weights changed within no rollout: nothing was tested"


# --- deaths --------------------------------------------------------------------------------------

POINTS = handover_faults.POINTS


@pytest.mark.parametrize("point", slow_but(POINTS[-1:], POINTS))
def test_node_killed_in_the_hand_over_is_the_first_cause(workplace: Workplace, point: str) -> None:
    launched = workplace.launch(config=FAULTY, environment={handover_faults.VARIABLE: point}).ends(
        1
    )
    node = point.partition(":")[0]
    assert f"First cause: node '{node}'" in launched.screen
    assert f"{node} was killed by SIGKILL" in last_line(launched)


@pytest.mark.slow
def test_stopped_policy_node_is_blamed_and_not_the_environments(workplace: Workplace) -> None:
    """Env nodes wait for their actions longer than a step may take."""
    launched = workplace.launch(
        "supervision.heartbeat_timeout_s=2", "environment.step_timeout_s=0.5", config=FAULTY
    )
    launched.await_training()
    os.kill(launched.node("policy-0"), signal.SIGSTOP)
    launched.ends(1)
    assert "no sign of life for 2 s (supervision.heartbeat_timeout_s)" in last_line(launched)
    assert "First cause: node 'policy-0'" in launched.screen


@pytest.mark.slow
def test_ctrl_c_ends_a_run_whose_policy_node_does_not_answer(workplace: Workplace) -> None:
    launched = workplace.launch(config=FAULTY)
    launched.await_training()
    os.kill(launched.node("policy-0"), signal.SIGSTOP)
    launched.interrupted()


# --- policy nodes that come and go ---------------------------------------------------------------

RESTARTS = "supervision.restarts={policy: 3, backoff_s: 0.1}"


def scaled(workplace: Workplace, launched: Launched, change: str) -> str:
    run = str(launched.run.relative_to(launched.home))
    return said(workplace, launched, "scale", run, change).removeprefix(f"{run}: ")


def come_and_go(workplace: Workplace, launched: Launched) -> None:
    """Two come, one is killed while the shards move on, two go."""
    assert scaled(workplace, launched, "policy=+2") == "it has 3 policy nodes"
    os.kill(launched.node("policy-0"), signal.SIGKILL)
    assert scaled(workplace, launched, "policy=-1") == "it has 2 policy nodes"
    assert scaled(workplace, launched, "policy=1") == "it has 1 policy node"


def check_came_and_went(launched: Launched) -> None:
    done = [event["what"] for event in launched.events()]
    whats = ("node added", "node lost", "node back", "node retired")
    assert [done.count(what) for what in whats] == [2, 1, 1, 2]
    last = read_lines(launched.run / "metrics.jsonl")[-1]["values"]
    assert last["scheduler/rows_dropped"] == 0
    launched.assert_gone()


@pytest.mark.slow
def test_run_whose_policy_nodes_come_go_and_die_equals_inline_bit_for_bit(
    workplace: Workplace,
) -> None:
    given = {**TASKS["discrete, normalised"], "stop": {"time_s": 60}}
    launched = workplace.launch(NODE, RESTARTS, "diagnostics.delay_ms=10", config=given)
    launched.await_training()
    come_and_go(workplace, launched)
    said(workplace, launched, "stop", str(launched.run.relative_to(launched.home)))
    assert launched.wait() == 128 + signal.SIGINT, launched.screen
    check_came_and_went(launched)
    found = digests(launched.run)
    stop = f"stop={{env_steps: {len(found) * SHARDS * ENVS * STEPS}}}"
    inline = workplace.launch("mode=inline", NODE, stop, config=given).done()
    assert found == digests(inline.run)


@pytest.mark.slow
def test_every_row_has_its_own_answer_although_policy_nodes_come_go_and_die(
    workplace: Workplace,
) -> None:
    """The learner of `echo` checks every row that it gets."""
    launched = workplace.launch(
        RESTARTS, "nodes.policy.count=1", "stop={time_s: 60}", "diagnostics.delay_ms=9", config=ECHO
    )
    launched.await_training()
    come_and_go(workplace, launched)
    said(workplace, launched, "stop", str(launched.run.relative_to(launched.home)))
    assert launched.wait() == 128 + signal.SIGINT, launched.screen
    check_came_and_went(launched)


@pytest.mark.slow
def test_shards_leave_a_slow_policy_node_although_one_dies_meanwhile(workplace: Workplace) -> None:
    launched = workplace.launch(
        RESTARTS,
        "environment.kwargs.step_s=0.0",
        "nodes.policy={count: 2, balance: true}",
        "rollout={shards: 8, envs_per_shard: 1, steps: 16}",
        "algorithm.act_s=0.002",
        "stop={time_s: 120}",
        config=FAULTY | {"algorithm": {**TOY["algorithm"], "name": "slow_policy:SlowConfig"}},
        environment={slow_policy.VARIABLE: "policy-1"},
    )

    def moved() -> list[str]:
        return launched.told("balance")

    launched.await_training()
    eventually(moved, "a shard that moves", within_s=60)
    os.kill(launched.node("policy-0"), signal.SIGKILL)
    eventually(lambda: len(moved()) >= 2, "a second one", within_s=60)
    said(workplace, launched, "stop", str(launched.run.relative_to(launched.home)))
    assert launched.wait() == 128 + signal.SIGINT, launched.screen
    assert all("from policy-1 to policy-0: a request takes" in why for why in moved()), moved()
    last = read_lines(launched.run / "metrics.jsonl")[-1]["values"]
    assert last["scheduler/rows_dropped"] == 0
    launched.assert_gone()


# --- placement auto ------------------------------------------------------------------------------


def chosen(launched: Launched) -> dict[str, Any]:
    policy = yaml.safe_load((launched.run / "config.yaml").read_text())["policy"]
    assert isinstance(policy, dict)
    return policy


@pytest.mark.slow
def test_auto_measures_decides_and_writes_it_down(workplace: Workplace) -> None:
    stop = "stop={env_steps: 64}"
    launched = workplace.launch("policy.placement=auto", "checkpoint.at_end=true", stop).done()
    policy = chosen(launched)
    assert policy["placement"] in ("env", "node")
    assert policy["measured"]["shard_us"] > 0
    assert policy["measured"]["act_node_us"] > 0
    (event,) = [event for event in launched.events() if event["what"] == "placement"]
    assert event["why"].startswith(policy["placement"])

    resumed = workplace.resume(launched, "stop.env_steps=128").done()
    assert chosen(resumed) == policy
    told = [event for event in resumed.events() if event["what"] == "placement"]
    assert len(told) == 1, "it is not measured again"
    resumed.assert_gone()


CASES = [(0.008, "node"), (0.0, "env")]


@pytest.mark.parametrize(("act_s", "placement"), slow_but(CASES[:1], CASES))
def test_auto_takes_policy_nodes_where_that_saves_time(
    workplace: Workplace, act_s: float, placement: str
) -> None:
    """8 steps of 2 ms and one pass of 8 ms in turn, or two passes while the other half steps."""
    launched = workplace.launch(
        "policy.placement=auto",
        "environment.kwargs.step_s=0.002",
        f"algorithm.act_s={act_s}",
        "rollout={shards: 1, envs_per_shard: 8, steps: 8}",
        "nodes.env.count=1",
        "stop={env_steps: 64}",
        config={**TOY, "algorithm": {**TOY["algorithm"], "name": "slow_policy:SlowConfig"}},
    ).done()
    assert chosen(launched)["placement"] == placement, chosen(launched)
    assert (launched.run / "logs" / "policy-0.log").exists() == (placement == "node")
    launched.assert_gone()


@pytest.mark.slow
def test_nothing_of_the_run_takes_the_cores_while_it_is_measured(workplace: Workplace) -> None:
    """The nodes import for seconds; that would be measured too."""
    launched = workplace.toy("", "policy.placement=auto", "stop={env_steps: 64}", step_s=0.05)
    launched.node("measure of")
    server = launched.node("fork server")
    forked = [process for process in launched.members() if process.parent == server]
    assert len(forked) <= len(["probe", "measure", "measure-policy"]), forked
    assert launched.wait() == 0, launched.screen


MEASUREMENTS = [
    ("measure of", "the measurement was killed by SIGKILL; its output is in"),
    ("measure-policy of", "measure-policy was killed by SIGKILL before the run began"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "cause"), slow_but(MEASUREMENTS[:1], MEASUREMENTS))
def test_end_of_a_measurement_costs_only_the_choice_and_is_told_as_it_was(
    workplace: Workplace, name: str, cause: str
) -> None:
    launched = workplace.toy("", "policy.placement=auto", "stop={env_steps: 64}", step_s=0.05)
    os.kill(eventually(lambda: launched.node(name), "the measurement"), signal.SIGKILL)
    assert launched.wait() == 0, launched.screen
    assert chosen(launched)["placement"] == "env"
    assert f"it could not be measured: {cause}" in launched.screen
    launched.assert_gone()


@pytest.mark.slow
def test_ctrl_c_while_it_is_measured_leaves_nothing(workplace: Workplace) -> None:
    launched = workplace.toy("", "policy.placement=auto", step_s=0.05)
    launched.node("measure of")
    launched.interrupted()


def test_inline_auto_puts_the_policy_beside_the_environments(workplace: Workplace) -> None:
    launched = workplace.launch(
        "policy.placement=auto", "mode=inline", "stop={env_steps: 64}"
    ).done()
    assert chosen(launched)["placement"] == "env"
