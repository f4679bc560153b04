"""The layout of one run's memory: the same in every process, and nothing overlaps."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import numpy as np
import pytest

from fast_core.algorithm.parameters import ParameterPack
from fast_core.algorithm.spec import FieldSpec
from fast_core.algos.replay.dqn_config import DQNConfig
from fast_core.config import (
    DashboardConfig,
    NodesConfig,
    OptimizerNodeConfig,
    PolicyConfig,
    ReplayConfig,
    RolloutConfig,
    SchedulerConfig,
    StopConfig,
)
from fast_core.errors import ConfigError, SegmentError
from fast_core.memory import EXECUTOR, ReplayReader, drawn_arrays, memory_available
from fast_core.run.mail import Drawn, Learnt, Reply
from fast_core.run.memory import RunMemory, layout_of
from fast_core.run.needs import arithmetic, private_nbytes
from fast_core.run.plan import RunPlan
from fast_core.run.structures import structures
from tests.closing import until_the_end
from tests.nodes.stage import make_config, make_run_plan


def test_everybody_computes_the_same_layout(tmp_path: Path) -> None:
    first, second = (layout_of(structures(make_run_plan(tmp_path))) for _ in range(2))
    assert first.describe() == second.describe()


def test_attached_memory_is_the_created_one(tmp_path: Path) -> None:
    plan = make_run_plan(tmp_path)
    memory = until_the_end(RunMemory.create(plan))
    other = until_the_end(RunMemory.attach(plan, memory.segment.fd))
    memory.weights().publish(3, np.full_like(memory.parameters.empty(), 7))
    flat = other.parameters.empty()
    assert other.weights().read_into(flat) == 3
    assert (flat == 7).all()
    memory.rollouts(1).slot(0)["reward"][...] = 5
    assert (other.rollouts(1).slot(0)["reward"] == 5).all()
    assert (other.rollouts(0).slot(0)["reward"] == 0).all()
    memory.progress(1)[0] = 9
    assert other.progress(1)[0] == 9
    assert other.progress(0)[0] == 0
    memory.stats("env-1").words[0] = 4
    states = {name: row.snapshot().state for name, row in other.all_stats().items()}
    assert states == {name: 4 * (name == "env-1") for name in plan.names.all}
    seen = other.doorbell("env-0").value()
    memory.doorbell("env-0").ring()
    assert other.doorbell("env-0").value() == seen + 1


def test_other_plan_does_not_attach(tmp_path: Path) -> None:
    memory = until_the_end(RunMemory.create(make_run_plan(tmp_path)))
    other = make_config(rollout=RolloutConfig(shards=3, envs_per_shard=2, steps=8))
    with pytest.raises(SegmentError):
        RunMemory.attach(make_run_plan(tmp_path, other), memory.segment.fd)


def test_groups_and_their_policy_node_have_mailboxes_only_if_they_need_them(tmp_path: Path) -> None:
    beside = structures(make_run_plan(tmp_path))
    assert not any(row.family in ("requests", "replies") for row in beside)
    policy = PolicyConfig(placement="node", groups=2)
    plan = make_run_plan(tmp_path, make_config(policy=policy))
    writers = {row.name: row.writer for row in structures(plan)}
    for name in ("0.0", "0.1", "1.0", "1.1"):
        assert writers[f"requests/{name}"] == EXECUTOR
        assert writers[f"replies/{name}"] == "whoever acts for the shard"
    memory = until_the_end(RunMemory.create(plan))
    other = until_the_end(RunMemory.attach(plan, memory.segment.fd))
    memory.request(1, 0)["obs"][...] = 3
    assert (other.request(1, 0)["obs"] == 3).all()
    assert (other.request(1, 1)["obs"] == 0).all()
    memory.reply(0, 1).publish(1, Reply(2, 3))
    assert other.reply(0, 1).number() == 1
    assert other.reply(0, 0).number() == 0


def test_there_is_a_slot_for_each_ticket_ahead(tmp_path: Path) -> None:
    plan = make_run_plan(tmp_path, make_config(scheduler=SchedulerConfig(off_policy_degree=2)))
    memory = until_the_end(RunMemory.create(plan))
    assert len(memory.rollouts(0)) == 3


def test_rollouts_hold_what_the_plan_says(tmp_path: Path) -> None:
    memory = until_the_end(RunMemory.create(make_run_plan(tmp_path)))
    slot = memory.rollouts(0).slot(0)
    shapes = {name: (array.shape, str(array.dtype)) for name, array in slot.items()}
    assert shapes == {
        "obs": ((9, 2, 4), "float32"),
        "action": ((8, 2), "int64"),
        "behaviour_log_prob": ((8, 2), "float32"),
        "reward": ((8, 2), "float32"),
        "terminated": ((8, 2), "bool"),
        "truncated": ((8, 2), "bool"),
        "quarantined": ((8, 2), "bool"),
        "final_obs": ((8, 2, 4), "float32"),
        "policy_version": ((8, 2), "int64"),
    }


def replay_plan(
    folder: Path, count: int = 1, update: str = "allreduce", degree: int = 0
) -> RunPlan:
    """2 shards of 2 environments and 8 steps that learn from 403 rows in batches of 12."""
    return make_run_plan(
        folder,
        make_config(
            algorithm=DQNConfig(name="dqn", hidden_sizes=(4,), batch_size=12),
            replay=ReplayConfig(capacity=403, learning_starts=50, slots=3),
            nodes=NodesConfig(optimizer=OptimizerNodeConfig(count=count, update=update, threads=1)),
            scheduler=SchedulerConfig(off_policy_degree=degree),
        ),
    )


def regions_of(plan: RunPlan) -> dict[str, str]:
    """Writers of all regions but those that every run has."""
    ours = ("rollouts", "replay", "batches", "results", "gradients", "networks")
    return {row.name: row.writer for row in structures(plan) if row.family in ours}


def test_run_that_replays_has_logs_and_batches_in_the_place_of_rollouts(tmp_path: Path) -> None:
    regions = regions_of(replay_plan(tmp_path))
    assert regions == {
        **{f"replay/{shard}": EXECUTOR for shard in range(2)},
        **{f"batches/0.{slot}": "replay-0" for slot in range(3)},
        **{f"results/0.{slot}": "optimizer-0" for slot in range(3)},
    }
    rollouts = regions_of(make_run_plan(tmp_path))
    assert set(rollouts) == {"rollouts/0", "rollouts/1"}


@pytest.mark.parametrize(("update", "kinds"), [("allreduce", 4), ("async", 2)])
def test_several_optimizers_have_batches_and_gradients_of_their_own(
    tmp_path: Path, update: str, kinds: int
) -> None:
    plan = replay_plan(tmp_path, 2, update)
    regions = regions_of(plan)
    for rank in range(2):
        slots = {f"results/{rank}.{slot}" for slot in range(3)}
        assert {regions[name] for name in slots} == {f"optimizer-{rank}"}
    gradients = {name: regions[name] for name in regions if name.startswith("gradients")}
    assert len(gradients) == kinds
    assert all(writer == f"optimizer-{name[10]}" for name, writer in gradients.items())
    assert ("networks" in regions) == (update == "async")
    memory = until_the_end(RunMemory.create(plan))
    assert memory.batch(1, 2).rows == (6 if update == "allreduce" else 12)


@pytest.mark.parametrize("degree", [0, 2])
def test_replay_logs_hold_what_is_declared_and_a_reserve(tmp_path: Path, degree: int) -> None:
    """RB-13: rows of final observations count; a reserve for the rollouts of a saved moment."""
    plan = replay_plan(tmp_path, degree=degree)
    memory = until_the_end(RunMemory.create(plan))
    for shard in range(2):
        log = memory.replay_log(shard)
        assert (log.capacity, log.envs) == (101, 2)  # 403 / 4, rounded up
        assert log.native.reserve >= 2 * 2 * 8 * (degree + 1)


@pytest.mark.parametrize("continues", [False, True])
def test_rows_appended_in_one_process_are_drawn_in_another(tmp_path: Path, continues: bool) -> None:
    """Into a batch slot; two writers, of which the second one goes on or begins anew."""
    plan = replay_plan(tmp_path)
    env_node = until_the_end(RunMemory.create(plan))
    replay_node = until_the_end(RunMemory.attach(plan, env_node.segment.fd))
    never = np.zeros(2, bool)
    for writer in (env_node.replay_log(1), env_node.replay_log(1, continues=continues)):
        for step in range(5):
            obs, ones = np.full((2, 4), step, np.float32), np.ones(2, np.float32)
            writer.append(obs, np.zeros(2, np.int64), ones, never, never)
    logs = [replay_node.replay_log(shard) for shard in range(2)]
    reader = ReplayReader(logs, steps=1, gamma=0.9, seed=np.random.SeedSequence(1))
    assert reader.valid() == 2 * (9 if continues else 8)
    slot = replay_node.batch(0, 1)
    assert reader.draw(drawn_arrays(slot))
    slot.publish(2, Drawn(12, 10))
    seen = env_node.batch(0, 1)
    assert (seen.number(), seen.words) == (2, Drawn(12, 10))
    assert (seen["obs"][:, 0] == seen["row"] % 5).all()
    assert set(seen["log"].tolist()) <= {2, 3}
    env_node.result(0, 1).publish(2, Learnt(False))
    assert replay_node.result(0, 1).number() == 2
    assert replay_node.result(0, 0).number() == 0


def test_parameters_are_packed_one_after_the_other() -> None:
    pack = ParameterPack([FieldSpec("w", (2, 3), "float32"), FieldSpec("b", (2,), "float32")])
    flat = pack.empty()
    assert pack.nbytes == flat.nbytes == 32
    pack.pack([np.arange(6, dtype=np.float32).reshape(2, 3), np.float32([8, 9])], flat)
    assert flat.tolist() == [0, 1, 2, 3, 4, 5, 8, 9]
    weight, bias = pack.views(flat)
    assert weight.shape == (2, 3)
    flat[-1] = -1
    assert bias.tolist() == [8, -1]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ([], r"must give 2 arrays.*\(w, b\); got 0"),
        ([np.zeros((3, 2), np.float32)] * 2, r"'w' as float32 of shape \(2, 3\).*shape \(3, 2\)"),
        ([np.zeros((2, 3))] * 2, r"'w' as float32 .* got float64"),
        (
            [np.zeros((2, 3), np.float32), np.zeros(1, np.float32)],
            r"'b' as float32 of shape \(2,\)",
        ),
    ],
    ids=["number", "transposed", "dtype", "would broadcast"],
)
def test_parameters_that_are_not_what_was_said_are_refused(given: list, text: str) -> None:
    pack = ParameterPack([FieldSpec("w", (2, 3), "float32"), FieldSpec("b", (2,), "float32")])
    with pytest.raises(ConfigError, match=text):
        pack.pack(given, pack.empty())


def test_parameter_fields_must_be_float32() -> None:
    with pytest.raises(ConfigError, match="'w' is float64"):
        ParameterPack([FieldSpec("w", (2,), "float64")])


@pytest.mark.parametrize("prioritized", [False, True])
def test_replay_that_does_not_fit_names_a_capacity_that_does(
    tmp_path: Path, prioritized: bool
) -> None:
    """With the priorities, which the replay node keeps for itself."""
    replay = ReplayConfig(capacity=10**12, learning_starts=8, prioritized=prioritized)
    config = make_config(algorithm=DQNConfig(hidden_sizes=(4,)), replay=replay)
    with pytest.raises(SegmentError) as raised:
        RunMemory.create(make_run_plan(tmp_path, config))
    found = re.search(r"Lower replay\.capacity to (\d+) or less\.$", str(raised.value))
    assert found is not None, str(raised.value)
    fitting = msgspec.structs.replace(replay, capacity=int(found[1]))
    plan = make_run_plan(tmp_path, msgspec.structs.replace(config, replay=fitting))
    free = memory_available()
    left = min(free.ram_bytes, free.cgroup_bytes or free.ram_bytes)
    private = private_nbytes(plan)
    assert (private > 25 * int(found[1])) == prioritized == (", priorities " in str(raised.value))
    assert 0.8 * left < layout_of(structures(plan)).nbytes + private < left


def test_no_capacity_is_named_where_none_would_do(tmp_path: Path) -> None:
    """The run has to collect more than fits before it learns."""
    replay = ReplayConfig(capacity=10**12, learning_starts=10**12)
    config = make_config(algorithm=DQNConfig(hidden_sizes=(4,)), replay=replay)
    config = msgspec.structs.replace(config, stop=StopConfig(env_steps=None))
    with pytest.raises(SegmentError) as raised:
        RunMemory.create(make_run_plan(tmp_path, config))
    assert "this run needs" in str(raised.value)
    assert "Lower replay.capacity" not in str(raised.value)


def test_frames_are_part_of_the_arithmetic_and_have_keys_that_make_them_smaller(
    tmp_path: Path,
) -> None:
    plain = make_run_plan(tmp_path)
    assert "frames" not in arithmetic(plain, layout_of(structures(plain)))
    watched = make_run_plan(tmp_path, make_config(dashboard=DashboardConfig(enabled=True)))
    text = arithmetic(watched, layout_of(structures(watched)))
    tiles = 5  # four environments, and the evaluator's
    mib = tiles * 3 * (3 * 320 * 320) / 2**20  # three rotating copies
    (frames,) = re.findall(r"frames (\d+\.\d)", text)
    assert float(frames) == pytest.approx(mib, rel=0.01)
    assert "frames with dashboard.tiles and dashboard.width" in text
