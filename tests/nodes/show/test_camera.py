"""Env nodes and the evaluator show their tiles to whoever watches, and to nobody else."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
from gymnasium.envs.classic_control import CartPoleEnv

from fast_core.config import DashboardConfig, EnvironmentConfig
from fast_core.memory import Trace
from fast_core.messages import Collect, Evaluate
from fast_core.monitor.screens.pace import Pace
from fast_core.nodes.act.evaluator import EvaluatorNode
from fast_core.nodes.collect.env import EnvNode
from fast_core.nodes.collect.env_group import EnvGroup
from fast_core.nodes.show import camera as camera_module
from fast_core.run.frame import Frame
from fast_core.run.structures import frame_layout
from fast_core.run.watching import STALE_NS, Watching, watching_words
from tests.closing import until_the_end
from tests.nodes.stage import Stage, drain, make_config, order, stacked

TILES, EVALUATED = 3, 3  # environments 0 and 1 of shard 0, 0 of shard 1; and the evaluator's
STEPS = 8


class EveryStep(Pace):
    """Has time for a frame of each step."""

    def due(self, tiles: Iterable[int], now_ns: int) -> list[int]:
        return [tile for tile in tiles if self._wanted[tile]]

    def next_ns(self, tiles: Iterable[int]) -> int | None:
        return 0


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    monkeypatch.setattr(camera_module, "Pace", EveryStep)
    monkeypatch.setattr(camera_module, "_LOOK_NS", 0)
    monkeypatch.setattr(camera_module, "_OFTEN_NS", 0)
    dashboard = DashboardConfig(enabled=True, tiles=TILES, cpu_share=1.0)
    made = Stage(tmp_path, make_config(dashboard=dashboard))
    made.publish()
    return made


@pytest.fixture
def start(stage: Stage) -> Callable[[], EnvNode]:
    context = stage.context("env-0")

    def make() -> EnvNode:
        made = until_the_end(EnvNode(replace(context, memory=stage.memory)))
        made.setup()
        stage.assign()
        return made

    return make


def want(stage: Stage, *tiles: int, ago_ns: int = 0, draws: bool = False) -> None:
    """Watch these tiles, every frame of them."""
    words = stage.memory.at(Trace, "watching/dashboard").words
    Watching(words).want(dict.fromkeys(tiles, 1), time.monotonic_ns() - ago_ns, draws=draws)


def collect(stage: Stage, node: EnvNode, shard: int = 0, rollout_id: int = 1) -> None:
    stage.hub.send("env-0", Collect((order(shard, rollout_id),)))
    drain(node)


def newest(stage: Stage, tile: int) -> tuple[int, Frame]:
    layout, board = frame_layout(stage.plan), stage.memory.frames(tile)
    room = bytearray(layout.nbytes)
    number = board.read_into(room)
    return number, layout.unpack(bytes(room))


def test_frame_shows_what_the_policy_saw_and_did(
    stage: Stage, start: Callable[[], EnvNode]
) -> None:
    node = start()
    want(stage, 0, 1, 2)
    collect(stage, node, shard=1)
    number, frame = newest(stage, 1)
    slot = stage.memory.rollouts(1).slot(0)
    last = STEPS - 1
    assert number == last, "a frame of each step"
    assert (frame.shard, frame.env, frame.episode, frame.step) == (1, 0, 0, last)
    assert (frame.version, frame.incarnation, frame.total) == (0, 1, last)
    assert frame.note == "" and frame.picture is not None and frame.picture.shape == (200, 300, 3)
    np.testing.assert_array_equal(frame.obs, slot["obs"][last, 0])
    assert frame.action == slot["action"][last, 0] and frame.state.shape == (0,)
    env = CartPoleEnv(render_mode="rgb_array")
    obs, _ = env.reset(seed=frame.seed)
    np.testing.assert_array_equal(obs, slot["obs"][0, 0])
    assert stage.memory.frames(0).version() == -1, "of the other shard, which took no step"


Given = list[tuple[np.ndarray, np.ndarray | None, np.ndarray]]


def listen(policy: object, monkeypatch: pytest.MonkeyPatch) -> Given:
    """What a policy sees and remembers from now on, and what it does."""
    calls: Given = []
    act = policy.act  # type: ignore[attr-defined]

    def heard(obs: np.ndarray, *, state: np.ndarray | None = None, **given: object) -> object:
        before = obs.copy(), None if state is None else state.copy()
        output = act(obs, state=state, **given)
        calls.append((*before, np.array(output.action)))
        return output

    monkeypatch.setattr(policy, "act", heard)
    return calls


@pytest.fixture(params=["remembers", "sees stacked frames"])
def minded(
    request: pytest.FixtureRequest, tmp_path: Path, stage: Stage
) -> tuple[Stage, EnvNode, EvaluatorNode]:
    """Nodes of a run whose policy remembers, or sees stacked frames."""
    dashboard = DashboardConfig(enabled=True, tiles=TILES)
    if request.param == "remembers":
        algorithm = msgspec.structs.replace(
            make_config().algorithm, recurrent="gru", recurrent_size=3, minibatch_size=16
        )
        made = Stage(tmp_path / "own", make_config(dashboard=dashboard, algorithm=algorithm))
    else:
        environment = EnvironmentConfig(id="CartPole-v1", frame_stack=3)
        config = make_config(dashboard=dashboard, environment=environment)
        made = Stage(tmp_path / "own", config, environment=stacked(3))
    flat = made.memory.parameters.empty()
    flat[...] = np.random.default_rng(0).normal(size=flat.shape)
    made.memory.weights().publish(0, flat)
    made.memory.evaluation().write(3, 0, flat)
    env = made.start(EnvNode, "env-0")
    return made, env, made.start(EvaluatorNode, "evaluator-0")


def test_frame_has_all_that_the_policy_saw_and_remembered(
    minded: tuple[Stage, EnvNode, EvaluatorNode], monkeypatch: pytest.MonkeyPatch
) -> None:
    stage, env, evaluator = minded
    want(stage, 0, EVALUATED)
    trained = listen(env._current[""].policy, monkeypatch)
    collect(stage, env)
    _check(newest(stage, 0)[1], trained)
    evaluated = listen(evaluator._policy, monkeypatch)
    stage.hub.send("evaluator-0", Evaluate(3, 3, 0, 1))
    drain(evaluator)
    _check(newest(stage, EVALUATED)[1], evaluated)


def _check(frame: Frame, calls: Given) -> None:
    obs, state, action = calls[-1]
    np.testing.assert_array_equal(frame.obs, obs[0])
    assert frame.action == action[0]
    if state is None:
        assert frame.obs.shape == (3, 4) and frame.state.size == 0
    else:
        np.testing.assert_array_equal(frame.state, state[0])
        assert frame.state.any()


def test_only_what_is_watched_is_drawn(stage: Stage, start: Callable[[], EnvNode]) -> None:
    node = start()
    collect(stage, node)
    want(stage, 2)
    collect(stage, node, rollout_id=2)
    boards = [stage.memory.frames(tile).version() for tile in range(TILES)]
    assert boards == [-1, -1, STEPS - 1]


def test_rollouts_that_follow_quickly_are_looked_at_in_one_step_each_never_the_same(
    stage: Stage, start: Callable[[], EnvNode], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(camera_module, "_OFTEN_NS", 10**18)
    node, seen = start(), []
    rows = stage.memory.rollouts(0).slot(0)["obs"][:, 0]
    want(stage, 0)
    for rollout_id in range(1, 6):
        collect(stage, node, rollout_id=rollout_id)
        number, frame = newest(stage, 0)
        assert number == rollout_id - 1
        seen.append(int(np.flatnonzero((rows == frame.obs).all(axis=1))[0]))
    assert len(set(seen)) > 2


def test_viewer_that_is_gone_gets_nothing(stage: Stage, start: Callable[[], EnvNode]) -> None:
    node = start()
    want(stage, 0, ago_ns=STALE_NS + 1)
    collect(stage, node)
    assert stage.memory.frames(0).version() == -1


def test_run_without_page_steps_its_environments_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, steps = Stage(tmp_path), []
    stepping = EnvGroup.stepping

    def note(group: EnvGroup, *given: object) -> list[Callable[..., None]]:
        steps.append((stepping(group, *given), group.batch.step))  # type: ignore[arg-type]
        return steps[-1][0]

    monkeypatch.setattr(EnvGroup, "stepping", note)
    plain.publish()
    collect(plain, plain.start(EnvNode, "env-0"))
    assert [taken == [own] * STEPS for taken, own in steps] == [True]


def test_viewer_that_draws_is_given_the_pose_unless_another_does_not(
    stage: Stage, start: Callable[[], EnvNode]
) -> None:
    node = start()
    want(stage, 0, draws=True)
    collect(stage, node)
    frame = newest(stage, 0)[1]
    assert frame.picture is None and frame.pose is not None and frame.note == ""
    np.testing.assert_array_equal(frame.pose.astype(np.float32), frame.obs)
    camera = node._shards[0].groups[0].camera
    assert camera is not None
    other = Watching(memoryview(bytearray(8 * watching_words(TILES + 1))).cast("q"))
    other.want({0: 1}, time.monotonic_ns())
    camera._studio.viewers.append(other)
    collect(stage, node, rollout_id=2)
    frame = newest(stage, 0)[1]
    assert frame.picture is not None and frame.pose is None


def test_pose_of_what_has_changing_attributes_is_not_given(tmp_path: Path) -> None:
    environment = EnvironmentConfig(id="CartPole-v1", attributes={"length": 0.7})
    config = make_config(dashboard=DashboardConfig(enabled=True), environment=environment)
    stage = Stage(tmp_path, config)
    stage.publish()
    node = stage.start(EnvNode, "env-0")
    want(stage, 0, draws=True)
    collect(stage, node)
    frame = newest(stage, 0)[1]
    assert frame.picture is not None and frame.pose is None


def test_successor_numbers_its_frames_on(stage: Stage, start: Callable[[], EnvNode]) -> None:
    want(stage, 0)
    collect(stage, start())
    collect(stage, start(), rollout_id=2)
    number, frame = newest(stage, 0)
    assert number == 2 * STEPS - 1 and frame.step == STEPS - 1


def test_environment_is_drawn_and_closed_in_one_thread_of_the_node(
    stage: Stage, start: Callable[[], EnvNode], monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: dict[str, set[int]] = {"render": set(), "close": set()}
    for name, seen in threads.items():
        method = getattr(CartPoleEnv, name)

        def call(env: CartPoleEnv, method: object = method, seen: set[int] = seen) -> object:
            if env.render_mode:
                seen.add(threading.get_ident())
            return method(env)  # type: ignore[operator]

        monkeypatch.setattr(CartPoleEnv, name, call)
    node = start()
    want(stage, 0, 2)
    collect(stage, node)
    collect(stage, node, shard=1)
    node.close()
    (thread,) = threads["render"]
    assert thread != threading.get_ident()
    # What was never drawn is closed as ever.
    assert threads["close"] == {thread, threading.get_ident()}


def test_what_draws_for_itself_is_drawn_where_it_is_stepped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = EnvironmentConfig(id="CartPole-v1", kwargs={"render_mode": "rgb_array"})
    dashboard = DashboardConfig(enabled=True)
    stage = Stage(tmp_path, make_config(dashboard=dashboard, environment=environment))
    stage.publish()
    threads: set[int] = set()
    render = CartPoleEnv.render

    def note(env: CartPoleEnv) -> object:
        threads.add(threading.get_ident())
        return render(env)

    monkeypatch.setattr(CartPoleEnv, "render", note)
    node = stage.start(EnvNode, "env-0")
    want(stage, 0)
    collect(stage, node)
    assert threads == {threading.get_ident()}
    assert newest(stage, 0)[1].picture is not None


def test_text_that_is_rendered_is_shown_as_text(
    stage: Stage, start: Callable[[], EnvNode], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CartPoleEnv, "render", lambda env: "\x1b[41mS\x1b[0mFFF")
    node = start()
    want(stage, 0)
    collect(stage, node)
    frame = newest(stage, 0)[1]
    assert (frame.picture, frame.text, frame.note) == (None, "\x1b[41mS\x1b[0mFFF", "")


def test_render_that_raises_is_tried_again_and_given_up_in_the_end(
    stage: Stage, start: Callable[[], EnvNode], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[bool] = []

    def fail(env: CartPoleEnv) -> object:
        calls.append(True)
        raise OSError("the display \udc80 is gone")

    node = start()
    want(stage, 0)
    collect(stage, node)
    monkeypatch.setattr(CartPoleEnv, "render", fail)
    collect(stage, node, rollout_id=2)
    number, frame = newest(stage, 0)
    assert frame.picture is None and len(calls) == 1, "not with every frame"
    assert frame.note == "no picture: render() raised OSError: the display \\udc80 is gone."
    assert number == 2 * STEPS - 1, "training goes on, and its observations are shown"
    monkeypatch.setattr(camera_module, "_TRY_AGAIN_NS", 0)
    want(stage, 2)
    collect(stage, node, rollout_id=3)
    assert len(calls) == 1 + camera_module.TRIES
    assert stage.memory.frames(2).version() == STEPS - 1


def test_picture_comes_back_when_drawing_works_again(
    stage: Stage, start: Callable[[], EnvNode], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(camera_module, "_TRY_AGAIN_NS", 0)
    node = start()
    want(stage, 0)
    drawn, render = [None] * 3, CartPoleEnv.render
    monkeypatch.setattr(CartPoleEnv, "render", lambda env: drawn.pop() if drawn else render(env))
    collect(stage, node)
    _, frame = newest(stage, 0)
    assert frame.picture is not None and frame.note == ""


def test_evaluation_is_shown(stage: Stage) -> None:
    node = stage.start(EvaluatorNode, "evaluator-0")
    want(stage, EVALUATED)
    returns = []
    for version in (3, 4):
        stage.snapshot(version)
        event = stage.evaluate(node, version)
        returns.append(event.returns)
        number, frame = newest(stage, EVALUATED)
        # Episodes 0 and 2 are those of the first of two environments.
        assert (frame.shard, frame.env, frame.episode, frame.version) == (-1, 0, 2, version)
        assert frame.total == frame.step == event.returns[2] - 1
        assert frame.picture is not None and number > 0
        want(stage, EVALUATED)
    assert returns[0] == returns[1]


def test_run_goes_on_whatever_taking_a_picture_raises(
    stage: Stage, start: Callable[[], EnvNode], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(parts: object) -> object:
        raise TypeError("a generator that is none")

    monkeypatch.setattr(camera_module, "RandomStates", fail)
    node = start()
    want(stage, 0)
    collect(stage, node)
    number, frame = newest(stage, 0)
    assert number == STEPS - 2, "all but the first, at which it was given up"
    assert frame.picture is None
    assert frame.note == "no picture: taking it raised TypeError: a generator that is none"
