"""What a shard writes for policies that see stacked frames or remember."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Literal, NoReturn

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray

from fast_core.algorithm.spec import EnvironmentSpec
from fast_core.config import CheckpointConfig, EnvironmentConfig, PolicyConfig, RolloutConfig
from fast_core.envs.stepping.gymnasium_batch import GymnasiumBatch
from fast_core.errors import CheckpointError, EnvironmentFailed
from fast_core.memory import StatsColumn
from fast_core.messages import RolloutOrder
from fast_core.nodes.collect.env_group import EnvGroup
from fast_core.nodes.collect.shard import Shard
from fast_core.nodes.rollout_reader import RolloutReader
from tests.closing import until_the_end
from tests.nodes.counting import COSTLY, CountingConfig, CountingPolicy
from tests.nodes.stage import CARTPOLE, Stage, make_config, order, ref, stacked

Make = Callable[..., "Acting"]
Exact = Literal["auto", "never"]
ENVS, STEPS, FRAMES = 3, 40, 3


class Acting:
    """A shard with a policy beside it."""

    def __init__(
        self,
        folder: Path,
        environment: EnvironmentSpec,
        remembers: bool,
        *,
        checkpoint: Path | None = None,
        policy: PolicyConfig | None = None,
        exact: Exact = "auto",
        declares: bool = False,
    ) -> None:
        config = make_config(
            environment=EnvironmentConfig(id=COSTLY if declares else "CartPole-v1"),
            rollout=RolloutConfig(shards=1, envs_per_shard=ENVS, steps=STEPS),
            algorithm=CountingConfig(remembers=remembers, declares=declares),
            policy=policy or PolicyConfig(),
            checkpoint=CheckpointConfig(exact=exact),
        )
        self.stage = Stage(folder, config, checkpoint=checkpoint, environment=environment)
        self.policy = CountingPolicy(declares)
        self.policy.load([np.zeros(1)])
        memory = self.stage.memory
        words, works = memory.stats("env-0").words, memory.works("env-0")
        self.shard = until_the_end(Shard(self.stage.plan, memory, 0, 1, words, works))
        for repetition in self.shard.repetitions:
            repetition.take()
        self.lost = self.shard.begin()
        self._number = 0

    def collect(self) -> dict[str, NDArray[np.generic]]:
        """The columns of the next rollout, copied."""
        self._number += 1
        given: RolloutOrder = order(0, self._number)
        assert self.shard.collect(given, self.policy, 0, lambda: False)
        slot = self.stage.memory.rollouts(0).slot(0)
        return {name: column.copy() for name, column in slot.items()}


@pytest.fixture
def make(tmp_path: Path) -> Make:
    numbers = count()

    def make_one(
        environment: EnvironmentSpec = CARTPOLE, *, remembers: bool = False, **changes: object
    ) -> Acting:
        folder = tmp_path / f"run-{next(numbers)}"
        return Acting(folder, environment, remembers, **changes)  # type: ignore[arg-type]

    return make_one


def test_shard_that_can_not_be_built_closes_its_environments_and_tells_why(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make().shard.save(str(tmp_path))
    closed = []

    def fail(*_: object) -> NoReturn:
        raise EnvironmentFailed("no licence", {})

    def close(batch: GymnasiumBatch) -> NoReturn:
        closed.append(batch)
        raise EnvironmentFailed("window gone", {})

    monkeypatch.setattr(EnvGroup, "begin_restore", fail)
    with monkeypatch.context() as patch:
        patch.setattr(GymnasiumBatch, "close", close)
        with pytest.raises(EnvironmentFailed, match="no licence"):
            make(checkpoint=tmp_path)
    assert len(closed) == 1


def ends(rollout: dict[str, NDArray[np.generic]]) -> NDArray[np.bool_]:
    return np.asarray(rollout["terminated"] | rollout["truncated"])


def test_policy_sees_the_last_frames_of_its_episode(make: Make) -> None:
    """Against a slow loop over every observation since the reset."""
    acting = make(stacked(FRAMES))
    history: list[list[NDArray[np.generic]]] = [[] for _ in range(ENVS)]
    for _ in range(3):
        rollout = acting.collect()
        obs = rollout["obs"][FRAMES - 1 :]
        seen = acting.policy.seen[-STEPS:]
        ended = ends(rollout)
        assert ended.any()
        for t in range(STEPS):
            for env in range(ENVS):
                history[env].append(obs[t, env])
                last = history[env][-FRAMES:]
                expected = [history[env][0]] * (FRAMES - len(last)) + last
                assert np.array_equal(seen[t][env], expected), (t, env)
                assert rollout["frame_age"][t, env] == len(last) - 1
                if ended[t, env]:
                    history[env] = []


def test_frames_before_the_rollout_complete_its_first_stacks(make: Make) -> None:
    acting = make(stacked(FRAMES))
    before, rollout = acting.collect(), acting.collect()
    seen = acting.policy.seen[STEPS]
    ages = rollout["frame_age"][0]
    assert (ages == before["frame_age"][-1]).all()
    for env in range(ENVS):
        steps = [FRAMES - 1 - min(back, int(ages[env])) for back in (2, 1, 0)]
        assert np.array_equal(rollout["obs"][steps, env], seen[env])


def test_memory_goes_on_and_ends_with_the_episode(make: Make) -> None:
    acting = make(remembers=True)
    count = np.zeros(ENVS)
    total = np.zeros(ENVS)
    for _ in range(3):
        rollout = acting.collect()
        assert np.array_equal(rollout["state"][:, 0], count)
        assert rollout["state"][:, 1] == pytest.approx(total, abs=1e-5)
        for t, ended in enumerate(ends(rollout)):
            assert np.array_equal(rollout["behaviour_log_prob"][t], count)
            count, total = count + 1, total + rollout["obs"][t, :, 0]
            count[ended], total[ended] = 0, 0
    assert max(acting.policy.batches) == ENVS


@pytest.mark.parametrize("frames", [1, FRAMES])
def test_declared_columns_are_of_their_steps(make: Make, frames: int) -> None:
    """The policy says what it saw; of where a step led the environment says a part."""
    acting = make(stacked(frames) if frames > 1 else CARTPOLE, declares=True)
    for _ in range(3):
        rollout = acting.collect()
        obs, ended = rollout["obs"][frames - 1 :], ends(rollout)
        assert ended.any()
        np.testing.assert_array_equal(rollout["glance"], obs[:-1, :, -2:])
        led = np.where(ended, rollout["final_obs"][..., 0], obs[1:, :, 0])
        np.testing.assert_array_equal(rollout["position"], led)


def test_rollout_is_read_with_its_declared_columns(make: Make) -> None:
    acting = make(declares=True)
    columns = acting.collect()
    view = RolloutReader(acting.stage.plan, acting.stage.memory).view(ref(0))
    assert view.extra.keys() == {"position", "glance"}
    for name, column in view.extra.items():
        np.testing.assert_array_equal(column, columns[name])


@pytest.mark.parametrize("frames", [1, FRAMES])
@pytest.mark.parametrize("remembers", [False, True])
def test_restored_shard_goes_on_exactly(
    make: Make, tmp_path: Path, frames: int, remembers: bool
) -> None:
    environment = stacked(frames) if frames > 1 else CARTPOLE
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    acting = make(environment, remembers=remembers)
    acting.collect()
    acting.shard.save(str(folder))
    expected = acting.collect()
    restored = make(environment, remembers=remembers, checkpoint=folder).collect()
    for name in expected:
        if name != "final_obs":  # it is only written where an episode ends
            assert np.array_equal(restored[name], expected[name]), name


def test_told_to_begin_new_episodes_nothing_is_left_of_the_old_ones(
    make: Make, tmp_path: Path
) -> None:
    (tmp_path / "checkpoint").mkdir()
    acting = make(stacked(FRAMES), remembers=True)
    acting.collect()
    acting.shard.save(str(tmp_path / "checkpoint"))
    anew = make(stacked(FRAMES), remembers=True, checkpoint=tmp_path / "checkpoint", exact="never")
    assert sorted(anew.lost) == list(range(ENVS))
    assert anew.shard.repetitions == []
    (group,) = anew.shard.groups
    assert group.stack is not None and group.memory is not None
    assert (group.stack.age == 0).all()
    assert (group.memory == 0).all()
    assert (group.stack.array == group.obs[:, None]).all()
    assert group.goes_on == [False] * ENVS


def test_environment_that_did_not_come_back_begins_anew_alone(make: Make, tmp_path: Path) -> None:
    (tmp_path / "checkpoint").mkdir()
    acting = make(stacked(FRAMES), remembers=True)
    acting.collect()
    acting.shard.save(str(tmp_path / "checkpoint"))
    restored = make(stacked(FRAMES), remembers=True, checkpoint=tmp_path / "checkpoint")
    (old,), (group,) = acting.shard.groups, restored.shard.groups
    assert restored.lost == {}
    repetitions = group.begin_restore(old.state())
    for repetition in repetitions:
        repetition.take()
    repetitions[1].why = "it differs"
    assert group.end_restore() == {1: "it differs"}
    assert group.goes_on == [env != 1 for env in range(ENVS)]
    assert group.stack is not None and group.memory is not None and old.stack is not None
    assert group.stack.age[1] == 0 and (group.memory[1] == 0).all()
    assert (group.stack.array[1] == group.obs[1]).all()
    assert (group.stack.array[0] == old.stack.array[0]).all()


def test_state_of_another_configuration_is_refused(make: Make) -> None:
    group = make(stacked(FRAMES)).shard.groups[0]
    state = msgspec.structs.replace(group.state(), frames=b"short")
    with pytest.raises(CheckpointError, match="stacked frames have 5 bytes; this run has"):
        group.begin_restore(state)


def test_episodes_that_begin_with_other_values_are_seen_to_come_forward(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many slow resets in a row are no call that does not return."""
    stage, seen = Stage(tmp_path, make_config()), list[int]()
    words = stage.memory.stats("env-0").words
    monkeypatch.setattr(
        EnvGroup, "change", lambda group, plan: seen.append(words[StatsColumn.SHARD])
    )
    for number in (0, 1):
        shard = Shard(stage.plan, stage.memory, number, 1, words, stage.memory.works("env-0"))
        shard.change(stage.plan)
        shard.close()
    assert seen == [0, 1]
