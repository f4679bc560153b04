"""Env nodes whose rollouts go to the replay: what can be drawn afterwards, value by value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any, ClassVar, Literal

import gymnasium
import msgspec
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict
from numpy.typing import NDArray

from fast_core.algorithm import Window as SequenceWindow
from fast_core.algorithm.spec import EnvironmentSpec
from fast_core.config import (
    EnvironmentConfig,
    EnvNodesConfig,
    NodesConfig,
    PolicyConfig,
    ReplayConfig,
    RolloutConfig,
    RunConfig,
    SchedulerConfig,
    SupervisionConfig,
)
from fast_core.envs.trying.probe import probe
from fast_core.errors import SegmentError
from fast_core.memory import ReplayLog, ReplayReader
from fast_core.memory.log_snapshot import LogSnapshot
from fast_core.messages import Assign, Collect, RolloutReady, RolloutRef, Save, Stop
from fast_core.nodes.act.policy import PolicyNode
from fast_core.nodes.collect.env import EnvNode
from fast_core.nodes.collect.rollout_sinks import ReplayRollouts
from fast_core.nodes.rollout_reader import RolloutReader
from tests.envs.toy import Counter
from tests.envs.vector_toys import with_vector_form
from tests.memory.replay_model import restored
from tests.nodes.counting import COSTLY, CountingConfig
from tests.nodes.replaying import (
    ReplayingConfig,
    Windows,
    drawn_windows,
    episodes_of,
    rounded,
    windows_of,
)
from tests.nodes.stage import CARTPOLE, Stage, drain, make_config, order, stacked

SHARDS, ENVS, STEPS = 2, 3, 16
Rollout = dict[str, NDArray[Any]]


class Parts(Counter):
    """Observes in two parts."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        inner = Dict({"b": Box(0, 255, (2,), np.uint8)})
        self.observation_space = Dict({"a": self.observation_space, "c": inner})

    def observe(self, noise: float) -> Any:
        return {"a": super().observe(noise), "c": {"b": np.full(2, self.steps, np.uint8)}}


gymnasium.register("FastLoopTest/Parts-v0", entry_point=Parts)


class Shaky(Counter):
    """Gives a NaN in a tenth of its steps, each environment in others."""

    def observe(self, noise: float) -> Any:
        return super().observe(np.nan if 0.1 < noise < 0.2 else noise)


gymnasium.register("FastLoopTest/Shaky-v0", entry_point=Shaky)


class InSlotsConfig(ReplayingConfig, frozen=True, kw_only=True):
    """The same, learning from rollouts."""

    learns_from: ClassVar[Literal["rollouts", "replay"]] = "rollouts"


def toy(name: str, module: str = "tests.envs.toy", **kwargs: Any) -> EnvironmentConfig:
    return EnvironmentConfig(id=f"FastLoopTest/{name}-v0", modules=(module,), kwargs=kwargs)


def config(environment: EnvironmentConfig | None = None, **changes: Any) -> RunConfig:
    given = {
        "environment": environment or EnvironmentConfig(id="CartPole-v1"),
        "rollout": RolloutConfig(shards=SHARDS, envs_per_shard=ENVS, steps=STEPS),
        "algorithm": ReplayingConfig(),
        "replay": ReplayConfig(capacity=SHARDS * ENVS * 500, learning_starts=100),
        "nodes": NodesConfig(env=EnvNodesConfig(count=1)),
        "supervision": SupervisionConfig(env_restarts=0),
    }
    return make_config(**{**given, **changes})


class Acting:
    """An env node with all shards, and the policy nodes of the run if there are any.

    Attributes:
        rollouts: What each shard collected, in order.
    """

    def __init__(
        self,
        folder: Path,
        given: RunConfig,
        environment: EnvironmentSpec,
        checkpoint: Path | None = None,
    ) -> None:
        self.stage = Stage(folder, given, environment=environment, checkpoint=checkpoint)
        self.stage.publish()
        self.nodes = [self.stage.start(EnvNode, "env-0")]
        self.policies = [PolicyNode(self.stage.context(n)) for n in self.stage.plan.names.policy]
        self.frames = environment.frames
        self.rollouts: list[list[Rollout]] = [[] for _ in range(SHARDS)]
        self._number = 0
        self.stage.assign()

    @property
    def node(self) -> EnvNode:
        return self.nodes[0]

    def run(self) -> list[RolloutReady]:
        for _ in range(2000):
            worked = [node.step() for node in (*self.nodes, *self.policies)]
            if not any(worked):
                return self.stage.sent(RolloutReady)
        raise AssertionError("always something to do")

    def collect(self, rollouts: int = 1, **changes: int) -> None:
        """Collect so many rollouts of every shard and remember what was in them."""
        for _ in range(rollouts):
            self._number += 1
            for shard in range(SHARDS):
                given = order(shard, self._number, slot=self._number, **changes)
                self.stage.hub.send("env-0", Collect((given,)))
                (ready,) = self.run()
                assert (ready.shard, ready.slot) == (shard, self._number)
                self.rollouts[shard].append(columns(self.node, shard))

    def logs(self) -> list[ReplayLog]:
        return [self.stage.memory.replay_log(shard) for shard in range(SHARDS)]

    def drawn(self, steps: int = 3) -> Windows:
        return drawn_windows(self.logs(), steps, self.frames)

    def expected(self, steps: int = 3) -> Windows:
        return expected([self.rollouts], steps, self.frames)

    def save(self, folder: Path) -> list[bytes]:
        """The env node's part of a checkpoint, and what the replay node would write."""
        folder.mkdir()
        self.stage.hub.send("env-0", Save(1, str(folder)))
        self.run()
        return [bytes(LogSnapshot(log).read(2**24)) for log in self.logs()]

    def load(self, saved: Sequence[bytes]) -> None:
        for log, data in zip(self.logs(), saved, strict=True):
            restored(log, data)


def columns(node: EnvNode, shard: int) -> Rollout:
    """A copy of what the shard wrote last."""
    sink = node._shards[shard]._sink
    assert isinstance(sink, ReplayRollouts)
    return {name: column.copy() for name, column in sink._slot.items()}


def expected(parts: Sequence[list[list[Rollout]]], steps: int, frames: int = 1) -> Windows:
    """Windows of the rollouts of each shard; nothing joins one part to the next."""
    return rounded(
        windows_of(
            [
                [episode for part in parts for episode in episodes_of(part[shard], env, frames)]
                for shard in range(SHARDS)
                for env in range(ENVS)
            ],
            steps,
            frames,
        )
    )


Make = Callable[..., Acting]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    numbers = count()

    def make_one(
        spec: EnvironmentSpec = CARTPOLE, checkpoint: Path | None = None, **changes: Any
    ) -> Acting:
        folder = tmp_path / f"run-{next(numbers)}"
        return Acting(folder, config(**changes), spec, checkpoint)

    return make_one


# --- what is collected ---------------------------------------------------------------------------


@pytest.mark.parametrize("frames", [1, 3])
@pytest.mark.parametrize("placement", ["env", "node"])
def test_every_step_can_be_drawn_as_it_was_taken(make: Make, frames: int, placement: str) -> None:
    environment = stacked(frames) if frames > 1 else CARTPOLE
    acting = make(environment, policy=PolicyConfig(placement=placement))  # type: ignore[arg-type]
    acting.collect(8)
    windows = acting.expected()
    assert len(windows) > 8 * SHARDS * ENVS * (STEPS - 2)
    assert {discount for *_, discount in windows.values()} >= {0.0, round(0.9**3, 5)}
    assert acting.drawn() == windows
    assert acting.drawn(1) == acting.expected(1)


@pytest.mark.parametrize("lost_at", [np.inf, 0.1])
@pytest.mark.parametrize("placement", ["env", "node"])
def test_declared_columns_are_drawn_with_their_steps(
    make: Make, placement: str, lost_at: float
) -> None:
    """Also where others of their step were quarantined."""
    acting = make(
        environment=EnvironmentConfig(id=COSTLY, kwargs={"lost_at": lost_at}),
        algorithm=ReplayingConfig(declares=True),
        policy=PolicyConfig(placement=placement),  # type: ignore[arg-type]
    )
    acting.collect(8)
    lost = any(r["quarantined"].any() for rollouts in acting.rollouts for r in rollouts)
    assert lost == (lost_at == 0.1)
    reader = ReplayReader(acting.logs(), steps=1, gamma=0.9, seed=np.random.SeedSequence(5))
    to = reader.arrays(512)
    assert reader.draw(to)
    np.testing.assert_array_equal(to.extra["glance"], to.obs[:, -2:])
    np.testing.assert_array_equal(to.extra["position"], to.next_obs[:, 0])
    assert acting.drawn() == acting.expected()


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("placement", ["env", "node"])
def test_what_was_remembered_before_each_row_is_kept(
    make: Make, placement: str, groups: int
) -> None:
    """The policy counts the steps of an episode and adds up its first observed numbers."""
    acting = make(
        algorithm=ReplayingConfig(remembers=True, sequences=(4, 3)),
        policy=PolicyConfig(placement=placement, groups=groups),  # type: ignore[arg-type]
    )
    acting.collect(8)
    window = SequenceWindow(4, 3)
    reader = ReplayReader(
        acting.logs(), steps=4, gamma=1.0, window=window, seed=np.random.SeedSequence(5)
    )
    to = reader.arrays(512)
    assert reader.draw(to)
    first, every = to.mask.argmax(axis=1), np.arange(512)
    rows = [remembered(acting, shard) for shard in range(SHARDS)]
    begun = 0
    for k in every:
        shard, env = divmod(int(to.log[k]), ENVS)
        # Steps before it, without the final observations, which have rows of their own.
        before = rows[shard][env][int(to.row[k]) - (window.before - int(first[k]))]
        np.testing.assert_allclose(to.extra["state"][k], before, rtol=1e-5, atol=1e-5)
        begun += before[0] == 0
    assert 0 < begun < 400


def remembered(acting: Acting, shard: int) -> list[dict[int, NDArray[Any]]]:
    """What is remembered before each row of each environment's log, by a slow loop."""
    found: list[dict[int, NDArray[Any]]] = []
    for env in range(ENVS):
        row, state, rows = 0, np.zeros(2), dict[int, NDArray[Any]]()
        for rollout in acting.rollouts[shard]:
            for t in range(STEPS):
                rows[row] = state
                state = state + np.array([1.0, rollout["obs"][t, env, 0]])
                ended = rollout["terminated"][t, env] | rollout["truncated"][t, env]
                row += 1 + int(ended)
                state = np.zeros(2) if ended else state
        found.append(rows)
    return found


@pytest.mark.parametrize("backend", ["gymnasium_vector", "envpool"])
def test_batches_of_other_libraries_leave_the_same(
    make: Make, backend: Literal["gymnasium_vector", "envpool"]
) -> None:
    if backend == "envpool":
        pytest.importorskip("envpool")
    given = EnvironmentConfig(id="CartPole-v1", backend=backend)
    acting = make(
        probe(given, 0), environment=given, scheduler=SchedulerConfig(off_policy_degree=1)
    )
    acting.collect(8)
    assert acting.drawn() == acting.expected()


def test_composite_observations_are_kept_whole(make: Make) -> None:
    given = toy("Parts", __name__, length=5, end="truncated")
    acting = make(probe(given, 0), environment=given)
    acting.collect(3)
    assert acting.drawn() == acting.expected()
    sink = acting.node._shards[0]._sink
    assert isinstance(sink, ReplayRollouts)
    assert sink._slot["obs"].dtype.names == ("a", "c/b")


def test_replay_has_no_rollout_slots(make: Make) -> None:
    with pytest.raises(SegmentError):
        make().stage.memory.rollouts(0)


def test_private_rollouts_equal_those_in_shared_slots(make: Make, tmp_path: Path) -> None:
    acting = make()
    acting.collect()
    shared = config(algorithm=CountingConfig(), replay=ReplayConfig())
    stage = Stage(tmp_path / "shared", shared)
    stage.publish()
    node = stage.start(EnvNode, "env-0")
    stage.assign()
    stage.hub.send("env-0", Collect((order(0),)))
    drain(node)
    slot = stage.memory.rollouts(0).slot(0)
    for name in ("obs", "action", "reward", "terminated", "truncated", "policy_version"):
        assert np.array_equal(slot[name], acting.rollouts[0][0][name]), name


@pytest.mark.parametrize("frames", [1, 3])
def test_rollouts_in_slots_say_which_steps_gave_a_bad_value(tmp_path: Path, frames: int) -> None:
    given, good = toy("Counter", nan_at=20, length=100), toy("Counter", length=100)
    environment = probe(msgspec.structs.replace(good, frame_stack=frames), 0)
    shared = config(environment=given, algorithm=InSlotsConfig(), replay=ReplayConfig())
    stage = Stage(tmp_path, shared, environment=environment)
    stage.publish()
    node = stage.start(EnvNode, "env-0")
    stage.assign()
    found = []
    for number in range(1, 4):  # all in one slot
        stage.hub.send("env-0", Collect((order(0, number),)))
        drain(node)
        record = RolloutReader(stage.plan, stage.memory).view(RolloutRef(0, 1, 0, number))
        assert record.quarantined is not None
        found.append(np.argwhere(record.quarantined).tolist())
    assert found == [[], [[3, env] for env in range(ENVS)], []]


@pytest.mark.parametrize("nan_at", [1, 4, 6, 7, 10, 16, 17, 18])
@pytest.mark.parametrize("nan_in", ["obs", "reward"])
@pytest.mark.parametrize("placement", ["env", "node"])
def test_step_that_gave_a_bad_value_is_not_stored(
    make: Make, nan_at: int, nan_in: str, placement: str
) -> None:
    """Also the first of an episode, the last one, and those about the end of a rollout."""
    given = toy("Counter", nan_at=nan_at, nan_in=nan_in, length=5)
    environment = probe(toy("Counter", length=5), 0)
    acting = make(environment, environment=given, policy=PolicyConfig(placement=placement))  # type: ignore[arg-type]
    acting.collect(3)
    for steps in (1, 3):
        assert acting.drawn(steps) == acting.expected(steps)
    windows = acting.drawn(1)
    # Rewards count the steps of an episode: 0 would be that of a step that was cut.
    assert {reward for *_, reward, _ in windows.values()} == {1.0, 2.0, 3.0, 4.0, 5.0}
    for obs, after, *_ in windows.values():
        assert np.frombuffer(after, np.float32)[0] == np.frombuffer(obs, np.float32)[0] + 1
    values = b"".join(obs + after for obs, after, *_ in windows.values())
    assert np.isfinite(np.frombuffer(values, np.float32)).all()


@pytest.mark.parametrize("placement", ["env", "node"])
@pytest.mark.parametrize("frames", [1, 3])
def test_step_in_which_a_library_resets_is_not_stored(
    make: Make, frames: int, placement: str
) -> None:
    found = probe(msgspec.structs.replace(toy("Uneven"), frame_stack=frames), 0)
    id, kwargs = with_vector_form(toy("Uneven").id), {"autoreset_mode": "NextStep"}
    given = EnvironmentConfig(id=id, backend="gymnasium_vector", kwargs=kwargs)
    policy = PolicyConfig(placement=placement)  # type: ignore[arg-type]
    acting = make(found, environment=given, policy=policy)
    acting.collect(5)
    for steps in (1, 3):
        assert acting.drawn(steps) == acting.expected(steps)
    assert len(acting.drawn(1)) > SHARDS * ENVS * STEPS
    for obs, after, _, reward, _ in acting.drawn(1).values():
        before, newest = (np.frombuffer(each, np.float32)[-3] for each in (obs, after))
        assert newest == reward == before + 1, "a step of one episode"


@pytest.mark.parametrize("frames", [1, 3])
@pytest.mark.parametrize("groups", [0, 1, 3])
def test_only_the_environments_that_gave_bad_values_are_cut(
    make: Make, frames: int, groups: int
) -> None:
    found = probe(msgspec.structs.replace(toy("Counter", length=7), frame_stack=frames), 0)
    policy = PolicyConfig(placement="node", groups=groups) if groups else PolicyConfig()
    acting = make(found, environment=toy("Shaky", __name__, length=7), policy=policy)
    acting.collect(6)
    lost = np.concatenate([rollout["quarantined"] for rollout in acting.rollouts[0]])
    assert (lost.any(axis=1) & ~lost.all(axis=1)).sum() > 0
    for steps in (1, 3):
        assert acting.drawn(steps) == acting.expected(steps)


def test_environment_that_never_gives_a_good_value_leaves_nothing(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, good, broken = toy("Counter", length=5), Counter.step, [True]

    def step(counter: Counter, action: Any) -> Any:
        obs, reward, *ends = good(counter, action)
        return (obs, np.nan if broken else reward, *ends)

    found = probe(given, 0)
    monkeypatch.setattr(Counter, "step", step)
    acting = make(found, environment=given)
    acting.collect(2)
    assert acting.drawn() == {} == acting.expected()
    assert [log.published() for log in acting.logs()] == [(0,) * ENVS] * SHARDS
    broken.clear()
    acting.collect()
    assert acting.drawn() == acting.expected() != {}


# --- what is given up ----------------------------------------------------------------------------


def test_rollout_that_is_given_up_leaves_nothing(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    acting = make()
    acting.collect()
    before = acting.drawn()
    current = acting.node._current[""]
    act, calls = current.policy.act, []

    def act_until_stopped(*args: Any, **kwargs: Any) -> Any:
        calls.append(0)
        if len(calls) == 3:
            acting.stage.hub.send("env-0", Stop("interrupted"))
        return act(*args, **kwargs)

    monkeypatch.setattr(current.policy, "act", act_until_stopped)
    acting.stage.hub.send("env-0", Collect((order(0, 9),)))
    acting.node.run()
    assert len(calls) == 3
    assert acting.drawn() == before


def test_nothing_joins_what_a_dead_node_left_to_what_its_successor_does(make: Make) -> None:
    """Two env nodes; the second one dies and the first one takes its shard over."""
    acting = make(
        nodes=NodesConfig(env=EnvNodesConfig(count=2)),
        supervision=SupervisionConfig(env_restarts=1),
    )
    other = acting.stage.start(EnvNode, "env-1", 1)
    acting.nodes.append(other)
    acting.stage.hub.send("env-1", Assign(1, 1))
    before: list[list[Rollout]] = [[], []]
    for number in (1, 2):
        acting.stage.hub.send("env-1", Collect((order(1, number),)))
        acting.run()
        before[1].append(columns(other, 1))
    acting.stage.hub.send("env-0", Assign(1, 2, taken_over=True))
    after: list[list[Rollout]] = [[], []]
    for number in (3, 4):
        acting.stage.hub.send("env-0", Collect((order(1, number, incarnation=2),)))
        acting.run()
        after[1].append(columns(acting.node, 1))
    assert acting.drawn() == expected([before, after], 3)
    joined = expected([[[], before[1] + after[1]]], 3)
    assert len(joined) > len(acting.drawn()), "an episode was open, so the mark made a difference"


def test_node_that_dies_while_it_appends_leaves_whole_steps(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    acting = make(
        nodes=NodesConfig(env=EnvNodesConfig(count=2)),
        supervision=SupervisionConfig(env_restarts=1),
    )
    other = acting.stage.start(EnvNode, "env-1", 1)
    acting.stage.hub.send("env-1", Assign(1, 1))
    acting.stage.hub.send("env-1", Collect((order(1),)))
    publish = ReplayRollouts.publish

    def die(sink: ReplayRollouts, *_: object) -> None:
        """After 5 of 16 steps."""
        slot = sink._slot
        log = acting.stage.memory.replay_log(1)
        for t in range(5):
            log.append(
                slot["obs"][t],
                slot["action"][t],
                slot["reward"][t],
                slot["terminated"][t],
                slot["truncated"][t],
                slot["final_obs"][t],
            )
        raise KeyboardInterrupt

    monkeypatch.setattr(ReplayRollouts, "publish", die)
    with pytest.raises(KeyboardInterrupt):
        other.step()
    whole = columns(other, 1)
    part = {n: c[: 6 if n == "obs" else 5] for n, c in whole.items()}
    monkeypatch.setattr(ReplayRollouts, "publish", publish)
    acting.stage.hub.send("env-0", Assign(1, 2, taken_over=True))
    acting.stage.hub.send("env-0", Collect((order(1, 2, incarnation=2),)))
    acting.run()
    again = columns(acting.node, 1)
    assert acting.drawn() == expected([[[], [part]], [[], [again]]], 3)


# --- going on ------------------------------------------------------------------------------------


@pytest.mark.parametrize("frames", [1, 3])
@pytest.mark.parametrize("placement", ["env", "node"])
@pytest.mark.parametrize("length", [5, 16])
def test_windows_and_stacks_join_over_an_exact_resume(
    make: Make, tmp_path: Path, frames: int, placement: str, length: int
) -> None:
    """Also where every episode ended with the last step before it."""
    given = toy("Counter", length=length)
    environment = probe(msgspec.structs.replace(given, frame_stack=frames), 0)
    assert environment.frames == frames and environment.repeatable
    changes: dict[str, Any] = {
        "environment": given,
        "policy": PolicyConfig(placement=placement),  # type: ignore[arg-type]
    }
    whole, first = make(environment, **changes), make(environment, **changes)
    whole.collect(5)
    first.collect(3)
    saved = first.save(tmp_path / "checkpoint")
    second = make(environment, tmp_path / "checkpoint", **changes)
    second.load(saved)
    second.collect(2)
    assert whole.drawn() == whole.expected()
    assert second.drawn() == whole.drawn()


def test_rollouts_after_a_resume_follow_from_nothing_where_environments_began_anew(
    make: Make, tmp_path: Path
) -> None:
    given = toy("Unrepeatable", length=50)
    environment = msgspec.structs.replace(probe(given, 0), repeatable=False)
    changes: dict[str, Any] = {
        "environment": given,
        "scheduler": SchedulerConfig(off_policy_degree=1),
    }
    first = make(environment, **changes)
    first.collect(2)
    saved = first.save(tmp_path / "checkpoint")
    second = make(environment, tmp_path / "checkpoint", **changes)
    second.load(saved)
    second.collect(2)
    assert second.drawn() == expected([first.rollouts, second.rollouts], 3)


def test_resume_without_the_replays_contents_fills_it_anew(make: Make, tmp_path: Path) -> None:
    first = make()
    first.collect(2)
    first.save(tmp_path / "checkpoint")
    second = make(checkpoint=tmp_path / "checkpoint")
    second.collect(2)
    assert second.drawn() == second.expected()


def test_shard_taken_over_after_a_resume_marks_its_rows(make: Make, tmp_path: Path) -> None:
    changes: dict[str, Any] = {"supervision": SupervisionConfig(env_restarts=1)}
    first = make(**changes)
    first.collect(2)
    saved = first.save(tmp_path / "checkpoint")
    second = make(checkpoint=tmp_path / "checkpoint", **changes)
    second.load(saved)
    second.collect(1)
    second.node._shards.pop(1).close()
    second.stage.hub.send("env-0", Assign(1, 2, taken_over=True))
    second.stage.hub.send("env-0", Collect((order(1, 9, incarnation=2),)))
    second.run()
    joined = [one + two for one, two in zip(first.rollouts, second.rollouts, strict=True)]
    assert second.drawn() == expected([joined, [[], [columns(second.node, 1)]]], 3)


def test_environments_of_which_nothing_was_kept_begin_marked_episodes(
    make: Make, tmp_path: Path
) -> None:
    """The saved run took them for unrepeatable and kept no actions; this one does not."""
    given = toy("Counter", length=50)
    found = probe(given, 0)
    unrepeatable = msgspec.structs.replace(found, repeatable=False)
    changes: dict[str, Any] = {
        "environment": given,
        "scheduler": SchedulerConfig(off_policy_degree=1),
    }
    first = make(unrepeatable, **changes)
    first.collect(2)
    saved = first.save(tmp_path / "checkpoint")
    second = make(found, tmp_path / "checkpoint", **changes)
    second.load(saved)
    second.collect(1)
    assert second.drawn() == expected([first.rollouts, second.rollouts], 3)


def test_only_the_environments_that_go_on_are_joined_to_their_rows(make: Make) -> None:
    acting = make()
    acting.collect(1)
    plan, memory = acting.stage.plan, acting.stage.memory
    before = episodes_of(acting.rollouts[0], 0), episodes_of(acting.rollouts[0], 1)
    sink = ReplayRollouts(plan, memory, 0, [True, False, True])
    slot = sink.open(order(0))
    for name, column in acting.rollouts[0][0].items():
        slot[name][...] = column
    slot["terminated"][:, :2] = slot["truncated"][:, :2] = False
    sink.publish(order(0))
    drawn = acting.drawn()
    for env, joined in ((0, True), (1, False)):
        rows = sum(len(episode.steps) + episode.ended for episode in before[env])
        assert not before[env][-1].ended and before[env][-1].steps, "an episode was open"
        assert ((env, rows - 1) in drawn) == joined


def test_stacks_that_reach_before_a_resume_without_contents_are_not_drawn(
    make: Make, tmp_path: Path
) -> None:
    """The policy saw frames that the replay does not hold."""
    given = toy("Counter", length=100)
    environment = probe(msgspec.structs.replace(given, frame_stack=3), 0)
    first = make(environment, environment=given)
    first.collect(2)
    first.save(tmp_path / "checkpoint")
    second = make(environment, tmp_path / "checkpoint", environment=given)
    second.collect(1)
    windows = second.expected()
    begun = {key for key in windows if key[1] < 2}
    assert len(begun) == 2 * SHARDS * ENVS
    kept = {key: window for key, window in windows.items() if key not in begun}
    assert second.drawn() == kept
