"""The page draws from poses what env nodes would have drawn."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import gymnasium
import msgspec
import numpy as np
import pytest
from gymnasium.envs.classic_control import CartPoleEnv

from fast_core.config import DashboardConfig, EnvironmentConfig
from fast_core.dashboard import painter as painter_module
from fast_core.dashboard.painter import Painter
from fast_core.envs.drawing.made_to_draw import let_draw_without_screen
from fast_core.monitor.screens.picture import as_picture
from fast_core.run.frame import Frame
from fast_core.run.plan import RunPlan
from tests.dashboard.served import make_frame
from tests.nodes.stage import Stage, make_config


@pytest.fixture
def plan(tmp_path: Path) -> Iterator[RunPlan]:
    stage = Stage(tmp_path, make_config(dashboard=DashboardConfig(enabled=True, cpu_share=1.0)))
    config = msgspec.structs.replace(stage.plan.config, mode="process")
    yield replace(stage.plan, config=config)


@pytest.fixture
def painter(plan: RunPlan) -> Iterator[Painter]:
    made = Painter(plan)
    yield made
    made.close()


def posed(*pose: float, fps: float = 5.0) -> Frame:
    return make_frame(picture=None, pose=np.array(pose), fps=fps)


def eventually(asked: Callable[[], object]) -> None:
    deadline_s = time.monotonic() + 20
    while not asked() and time.monotonic() < deadline_s:
        time.sleep(0.002)
    assert asked()


def test_picture_is_that_of_the_environment_at_the_pose(painter: Painter) -> None:
    let_draw_without_screen()
    env = gymnasium.make("CartPole-v1", render_mode="rgb_array")
    env.reset(seed=1)
    env.step(0)
    assert painter.draws and painter.painted(3) is None
    painter.ask(3, 8, posed(*env.unwrapped.state))  # type: ignore[attr-defined]
    eventually(lambda: painter.painted(3))
    number, frame = painter.painted(3) or (0, posed())
    assert number == 8 and frame.picture is not None and frame.fps == 5.0
    expected = as_picture(env.render(), 320)  # rounds down where the other rounds
    np.testing.assert_allclose(frame.picture.astype(int), expected, atol=1)
    env.close()


def test_of_what_waits_the_newest_of_each_tile_is_drawn(
    painter: Painter, monkeypatch: pytest.MonkeyPatch
) -> None:
    render, draws, drawn = CartPoleEnv.render, threading.Event(), list[float]()

    def wait(env: CartPoleEnv) -> object:
        assert env.state is not None
        drawn.append(env.state[0])
        if len(drawn) > 1:  # the first one tries how it draws
            draws.wait(20)
        return render(env)

    monkeypatch.setattr(CartPoleEnv, "render", wait)
    painter.ask(0, 0, posed(0, 0, 0, 0))
    eventually(lambda: len(drawn) == 2)  # it draws that
    for number in range(1, 5):
        for tile in (0, 1):
            painter.ask(tile, number, posed(number / 10, 0, 0, 0))
    draws.set()
    eventually(lambda: len(drawn) == 4 and not painter._asked)
    assert drawn[1:] == [0.0, 0.4, 0.4]


def test_environment_that_can_not_be_drawn_is_left_to_env_nodes_and_tried_again(
    painter: Painter, monkeypatch: pytest.MonkeyPatch
) -> None:
    render, fails = CartPoleEnv.render, threading.Event()

    def fail(env: CartPoleEnv) -> object:
        if fails.is_set():
            raise OSError("no display")
        return render(env)

    monkeypatch.setattr(painter, "_pause_s", 0.2)
    monkeypatch.setattr(CartPoleEnv, "render", fail)
    fails.set()
    painter.ask(0, 0, posed(0, 0, 0, 0))
    eventually(lambda: not painter.draws)
    assert painter.painted(0) is None
    painter.ask(0, 1, posed(0, 0, 0, 0))
    fails.clear()
    assert painter.painted(0) is None, "it asks for nothing now"
    eventually(lambda: painter.draws)
    eventually(lambda: painter.ask(0, 2, posed(0, 0, 0, 0)) or painter.painted(0))
    assert painter._pause_s == 0.4, "the next pause is longer"


def test_render_that_hangs_is_left_to_env_nodes_until_it_has_come_back(
    painter: Painter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(painter_module, "NEXT_S", 0.3)
    monkeypatch.setattr(painter, "_limit_s", 20.0)
    monkeypatch.setattr(painter, "_pause_s", 0.01)
    render, comes_back = CartPoleEnv.render, threading.Event()
    comes_back.set()

    def hang(env: CartPoleEnv) -> object:
        comes_back.wait(20)
        return render(env)

    monkeypatch.setattr(CartPoleEnv, "render", hang)
    painter.ask(0, 0, posed(0, 0, 0, 0))
    eventually(lambda: painter.painted(0))
    comes_back.clear()
    painter.ask(0, 1, posed(0, 0, 0, 0))
    eventually(lambda: not painter.draws)
    assert painter.painted(0) is None
    comes_back.set()
    eventually(lambda: painter.draws)
    eventually(lambda: painter.ask(0, 2, posed(0, 0, 0, 0)) or (painter.painted(0) or [0])[0] == 2)


def test_run_in_one_process_and_environments_that_differ_are_not_drawn(plan: RunPlan) -> None:
    differing = EnvironmentConfig(id="CartPole-v1", kwargs={"sutton_barto_reward": "{index}"})
    for changes in ({"mode": "inline"}, {"environment": differing}):
        config = msgspec.structs.replace(plan.config, **changes)
        assert not Painter(replace(plan, config=config)).draws
