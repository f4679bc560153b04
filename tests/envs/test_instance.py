from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import WrapperSpec
from gymnasium.wrappers import OrderEnforcing, TimeLimit

from fast_core.config import EnvironmentConfig
from fast_core.envs.instance import Instance
from fast_core.envs.whereabouts import action_text
from fast_core.system.seeding import Role
from tests.envs.driver import toy
from tests.envs.toy import Counter


def instance(config: EnvironmentConfig, seed: int = 0, index: int = 0) -> Instance:
    return Instance(config, seed=seed, role=Role.PROBE, shard=0, index=index, incarnation=1)


class Halved(gymnasium.RewardWrapper[Any, Any], gymnasium.utils.RecordConstructorArgs):
    """Halves the reward."""

    def __init__(self, env: Any) -> None:
        gymnasium.utils.RecordConstructorArgs.__init__(self)
        super().__init__(env)

    def reward(self, reward: Any) -> float:
        return float(reward) / 2


class OwnLimit(TimeLimit):
    """A time limit of somebody's own."""


def test_step_goes_past_time_limit_and_order_check_only() -> None:
    made = instance(EnvironmentConfig(id="CartPole-v1"))
    assert made.limit == 500
    assert made.step == made._env.unwrapped.step
    made.close()


def test_a_wrapper_round_the_time_limit_is_not_passed_by() -> None:
    gymnasium.register(
        "FastLoopTest/Halved-v0",
        entry_point=Counter,
        max_episode_steps=3,
        additional_wrappers=(WrapperSpec("Halved", "tests.envs.test_instance:Halved", {}),),
    )
    made = instance(toy("Halved"))
    del gymnasium.registry["FastLoopTest/Halved-v0"]
    assert made.limit is None  # Gymnasium's own is inside and still counts
    assert made.spec.max_episode_steps == 3
    row = np.zeros(3, np.float32)
    made.reset(memoryview(row), episode=0, seed=0)  # type: ignore[arg-type]
    results = [made.step(1)[1:4] for _ in range(3)]
    assert results == [(0.5, False, False), (1.0, False, False), (1.5, False, True)]
    made.close()


def test_a_derived_time_limit_is_not_passed_by(monkeypatch: pytest.MonkeyPatch) -> None:
    def make(*_args: Any, **_kwargs: Any) -> Any:
        return OwnLimit(OrderEnforcing(Counter()), 4)

    monkeypatch.setattr(gymnasium, "make", make)
    made = instance(toy("Counter"))
    assert made.limit is None
    assert made.step == made._env.step
    made.close()


def test_sampling_of_spaces_is_seeded_by_run_and_place() -> None:
    drawn = []
    for seed, index in [(0, 0), (0, 0), (0, 1), (1, 0)]:
        made = instance(EnvironmentConfig(id="Pendulum-v1"), seed, index)
        spaces = made._env.action_space, made._env.observation_space
        drawn.append(tuple(float(space.sample()[0]) for space in spaces for _ in range(2)))
        made.close()
    assert drawn[0] == drawn[1]
    assert len(set(drawn)) == 3


def test_the_text_of_an_action_is_short_and_plain() -> None:
    assert action_text(np.int64(3)) == "3"
    assert action_text(np.array([0.5, -1.0])) == "[0.5, -1.0]"
    assert len(action_text(np.zeros(10_000))) == 200
