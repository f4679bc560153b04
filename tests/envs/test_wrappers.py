"""Wrappers that come with FastLoop."""

from __future__ import annotations

import time
from typing import Any

import gymnasium
import pytest

from fast_core.envs.wrappers import Paced


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
