"""Wrappers that come with FastLoop, and what those of others are given."""

from __future__ import annotations

import time
from typing import Any

import gymnasium
import numpy as np
import pytest

from fast_core.config import EnvironmentConfig, WrapperConfig
from fast_core.envs.making import make_env
from fast_core.envs.wrappers import KeepElements, Paced


@pytest.mark.parametrize(("given", "natural", "step_s"), [(20.0, 50, 0.05), (None, 50, 0.02)])
def test_steps_come_no_faster_than_said(
    given: float | None, natural: int, step_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s, slept = [100.0], list[float]()

    def sleep(wait_s: float) -> None:
        slept.append(wait_s)
        now_s[0] += wait_s

    monkeypatch.setattr(time, "monotonic", lambda: now_s[0])
    monkeypatch.setattr(time, "sleep", sleep)
    inner: Any = gymnasium.make("CartPole-v1")
    inner.unwrapped.metadata = {"render_fps": natural}
    env = Paced(inner, given)
    env.reset(seed=0)
    for _ in range(3):
        env.step(0)
    assert slept == pytest.approx([step_s] * 2), "the first is due at once"
    now_s[0] += 10.0
    env.step(0)
    env.step(0)
    assert slept == pytest.approx([step_s] * 3), "what was missed is not made up for"


def test_wrappers_of_gymnasium_get_tuples_and_arrays_for_lists() -> None:
    """YAML has neither; `ResizeObservation` takes no list, for one."""
    square = WrapperConfig(name="gymnasium.wrappers:ReshapeObservation", kwargs={"shape": [2, 2]})
    env = make_env(EnvironmentConfig(id="CartPole-v1", wrappers=(square,)))
    assert env.observation_space.shape == (2, 2)
    kwargs = {"min_action": [-1.0], "max_action": [1.0]}
    scaled = WrapperConfig(name="gymnasium.wrappers:RescaleAction", kwargs=kwargs)
    env = make_env(EnvironmentConfig(id="Pendulum-v1", wrappers=(scaled,)))
    assert env.action_space.high.tolist() == [1.0]  # type: ignore[attr-defined]
    scaled = WrapperConfig(
        name="gymnasium.wrappers:RescaleAction",
        kwargs={"min_action": [-0.1] * 6, "max_action": [0.1] * 6},
    )
    env = make_env(EnvironmentConfig(id="tests.envs.test_wrappers:Double", wrappers=(scaled,)))
    assert env.action_space.high.tolist() == [0.1] * 6, "not rounded to float32"  # type: ignore[attr-defined]
    mine = WrapperConfig(name="tests.envs.test_wrappers:Kept", kwargs={"values": [1, 2]})
    made: Any = make_env(EnvironmentConfig(id="CartPole-v1", wrappers=(mine,)))
    assert made.values == [1, 2]


class Double(gymnasium.Env[Any, Any]):
    """Has actions in double precision."""

    observation_space = gymnasium.spaces.Box(-1, 1, (3,))
    action_space = gymnasium.spaces.Box(-1, 1, (6,), np.float64)


class Kept(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Keeps what it is given."""

    def __init__(self, env: gymnasium.Env[Any, Any], values: list[int]) -> None:
        super().__init__(env)
        self.values = values


def test_elements_that_are_left_out_are_not_seen() -> None:
    kept = WrapperConfig(name="fast_core.envs.wrappers:KeepElements", kwargs={"kept": [2, 0]})
    env: Any = make_env(EnvironmentConfig(id="Pendulum-v1", wrappers=(kept,)))
    whole: Any = gymnasium.make("Pendulum-v1")
    assert env.observation_space.high.tolist() == [8.0, 1.0]
    seen, everything = env.reset(seed=3)[0], whole.reset(seed=3)[0]
    np.testing.assert_array_equal(seen, everything[[2, 0]], strict=True)
    seen, everything = (each.step(np.ones(1, np.float32))[0] for each in (env, whole))
    np.testing.assert_array_equal(seen, everything[[2, 0]], strict=True)


@pytest.mark.parametrize("kept", [[], [3], [-1]])
def test_elements_that_there_are_not_are_refused(kept: list[int]) -> None:
    with pytest.raises(ValueError, match="kept must be places of 3 elements, from 0 to 2; got"):
        KeepElements(gymnasium.make("Pendulum-v1"), kept)
    with pytest.raises(TypeError, match="observations that are vectors; got Discrete"):
        KeepElements(gymnasium.make("Taxi-v4"), kept)
