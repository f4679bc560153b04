from __future__ import annotations

import time
from typing import Any

import pytest

from fast_core.algorithm.spec import SpaceSpec
from fast_core.config import EnvironmentConfig
from fast_core.envs import making
from fast_core.envs.trying import vector_probe
from fast_core.envs.trying.probe import MakingTime, probe
from fast_core.errors import ConfigError, EnvironmentFailed
from tests.envs.driver import toy
from tests.envs.toy import Counter


def test_spaces_and_time_limit_are_described() -> None:
    spec = probe(EnvironmentConfig(id="CartPole-v1"), 0)
    assert (spec.id, spec.max_episode_steps, spec.repeatable) == ("CartPole-v1", 500, True)
    assert spec.action == SpaceSpec(kind="discrete", shape=(), dtype="int64", n=2)
    assert (spec.observation.shape, spec.observation.dtype) == ((4,), "float32")
    assert spec.observation.high[0] == pytest.approx(4.8)
    assert spec.observation.low[1] == float("-inf")


def test_box_actions_and_discrete_spaces_that_do_not_start_at_zero() -> None:
    pendulum = probe(EnvironmentConfig(id="Pendulum-v1"), 0)
    assert pendulum.action == SpaceSpec(
        kind="box", shape=(1,), dtype="float32", low=(-2.0,), high=(2.0,)
    )
    assert probe(toy("Counter"), 0).action == SpaceSpec(
        kind="discrete", shape=(), dtype="int64", n=3, start=1
    )


def test_arguments_of_make_and_modules_are_used() -> None:
    assert probe(toy("Counter", kwargs={"max_episode_steps": 9}), 0).max_episode_steps == 9
    by_module = EnvironmentConfig(id="tests.envs.toy:FastLoopTest/Counter-v0")
    assert probe(by_module, 0).max_episode_steps is None


@pytest.mark.parametrize(
    ("name", "repeatable"),
    [
        ("Counter", True),
        ("Mutated", True),
        ("Map", True),
        ("NativeMap", True),
        ("Unrepeatable", False),
        ("Drifting", False),
        ("Numbered", False),
    ],
)
def test_an_environment_is_repeatable_if_seed_and_actions_decide_everything(
    name: str, repeatable: bool
) -> None:
    assert probe(toy(name), 0).repeatable is repeatable


def test_nothing_is_left_open() -> None:
    Counter.closed.clear()
    probe(toy("Counter"), 0)
    assert len(Counter.closed) == 2
    with pytest.raises(ConfigError):
        probe(toy("Counter", kwargs={"raise_at": 3}), 0)
    assert len(Counter.closed) == 3


@pytest.mark.parametrize("name", ["CartPole-v2", "CartPole", "Cartpole-v1"])
def test_an_unknown_name_is_refused_with_the_nearest(name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name!r}.*Nearest: .*'CartPole-v1'"):
        probe(EnvironmentConfig(id=name), 0)


def test_a_module_that_can_not_be_imported_is_named() -> None:
    config = EnvironmentConfig(id="CartPole-v1", modules=("tests.envs.no_such_module",))
    with pytest.raises(ConfigError, match=r"module 'tests\.envs\.no_such_module'") as caught:
        probe(config, 0)
    assert isinstance(caught.value.__cause__, ModuleNotFoundError)


@pytest.mark.parametrize(
    ("which", "said"),
    [
        ("observation", r"observation space .* part 'rooms', is Sequence.*supports Box of numbers"),
        ("action", r"action space .* Dict.*takes actions of one kind"),
    ],
)
def test_a_space_that_is_not_supported_is_refused(which: str, said: str) -> None:
    with pytest.raises(ConfigError, match=f"{said}.*Wrap the environment"):
        probe(toy("Unsupported", kwargs={"which": which}), 0)


@pytest.mark.parametrize(
    ("kwargs", "said"),
    [
        ({"fail_in": "init"}, "no licence"),
        ({"fail_in": "reset"}, "no map"),
        ({"raise_at": 4}, "in step 4.*bad joint 7"),
        ({"bad_at": 2, "bad": "dtype"}, "in step 2.*shape .* of int64"),
        ({"reward": "(2,)"}, "reward must be one number"),
        ({"end": "late None"}, "in step 3.*terminated must be True or False; got None"),
    ],
)
def test_an_environment_that_does_not_work_is_refused(kwargs: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=f"'FastLoopTest/Counter-v0' does not work.*{said}") as e:
        probe(toy("Counter", kwargs=kwargs), 0)
    assert isinstance(e.value.__cause__, EnvironmentFailed)


@pytest.mark.parametrize(
    "config",
    [
        toy("Robot"),
        toy("Robot", kwargs={"actions": "grid"}),
        toy("Robot", kwargs={"actions": "binary"}),
        toy("Doors", action_mask="open"),
        toy("Doors", kwargs={"where": "info", "many": True}, action_mask="info.doors"),
        toy("Ticks", frame_stack=4),
        toy("Ticks", frame_skip=3),
    ],
)
def test_every_kind_of_space_is_tried_with_allowed_actions(config: EnvironmentConfig) -> None:
    spec = probe(config, 0)
    assert spec.repeatable
    assert spec.frames == config.frame_stack


def test_without_its_mask_an_environment_that_forbids_actions_does_not_work() -> None:
    with pytest.raises(ConfigError, match=r"door \d is shut"):
        probe(toy("Doors"), 0)


@pytest.mark.parametrize(
    ("fault", "said"),
    [("empty", "in step 2 .*allows no action"), ("size", r"shape \(3,\)"), ("missing", "lacks")],
)
def test_a_wrong_mask_is_refused(fault: str, said: str) -> None:
    kwargs = {"where": "info", "fault": fault}
    with pytest.raises(ConfigError, match=said):
        probe(toy("Doors", kwargs=kwargs, action_mask="info.doors"), 0)


def test_a_part_that_differs_makes_it_unrepeatable() -> None:
    assert probe(toy("Robot", kwargs={"form": "drifting"}), 0).repeatable is False


def test_scalar_form_of_a_vectorised_environment_has_limits_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def make_env(config: EnvironmentConfig) -> making.Env:
        asked.append("made")
        return making.make_env(config)

    monkeypatch.setattr(vector_probe, "make_env", make_env)
    config = EnvironmentConfig(id="CartPole-v1", backend="gymnasium_vector")
    probe(config, 0, before=asked.append)
    made = asked.index("made")
    assert asked[made - 1 : made + 2] == ["make", "made", "call"]


def test_time_of_making_ends_with_the_first_reset(monkeypatch: pytest.MonkeyPatch) -> None:
    now, asked = [0.0], list[str]()
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    timed = MakingTime(asked.append)
    for takes in (1.0, 3.0):  # the second one takes longer to be reset
        for what, passes_s in (("make", 4.0), ("call", takes), ("call", 50.0), ("call", 50.0)):
            timed("make" if what == "make" else "call")
            now[0] += passes_s
    assert timed.longest_s == 7.0
    timed("make")  # as a scalar form, of which only the spaces are looked at
    now[0] += 9.0
    timed("call")
    assert timed.longest_s == 9.0
    assert asked == ["make", "call", "call", "call"] * 2 + ["make", "call"]
