"""Environments of others, without a shim: arguments, wrappers, a class, a place in the run."""

from __future__ import annotations

import enum
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.wrappers import NormalizeObservation, NormalizeReward

from fast_core.algorithm import LearnerSetup, PolicySetup
from fast_core.algorithm.spec import EnvironmentSpec
from fast_core.config import EnvironmentConfig, WrapperConfig
from fast_core.config.algorithms import algorithm_config_type
from fast_core.envs import make_batch
from fast_core.envs.making import check_gymnasium, describe_env, make_env
from fast_core.envs.place import Place
from fast_core.envs.playing.evaluation import evaluated, make_runner
from fast_core.envs.trying.probe import probe
from fast_core.errors import ConfigError
from tests.envs.driver import Driver, run

HERE = "tests.envs.test_making"


class Lanes(gymnasium.Env[Any, Any]):
    """Keeps what it was made with; action ``a`` earns ``a``."""

    observation_space = gymnasium.spaces.Box(-10, 10, (3,), np.float32)
    action_space = gymnasium.spaces.Discrete(3)
    made: list[Lanes] = []

    def __init__(self, config: Any = None, port: int = 0, folder: str = "") -> None:
        self.config, self.port, self.folder = config, port, folder
        self.closed = False
        type(self).made.append(self)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.t = 0
        return np.zeros(3, np.float32), {}

    def step(self, action: Any) -> Any:
        self.t += 1
        return np.full(3, self.t / 4, np.float32), float(action), self.t == 4, False, {}

    def close(self) -> None:
        self.closed = True


class Scaled(gymnasium.RewardWrapper[Any, Any]):
    """Multiplies the reward, then adds to it."""

    def __init__(self, env: Any, by: float = 2.0, plus: float = 0.0, port: int = 0) -> None:
        super().__init__(env)
        self.by, self.plus, self.port = by, plus, port

    def reward(self, reward: Any) -> float:
        return float(reward) * self.by + self.plus


def nothing(env: Any) -> None:
    """No wrapper: forgets to return one."""


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Lanes, "made", [])


def lanes(*wrappers: str | WrapperConfig, **kwargs: Any) -> EnvironmentConfig:
    named = [WrapperConfig(name=w) if isinstance(w, str) else w for w in wrappers]
    return EnvironmentConfig(id=f"{HERE}:Lanes", kwargs=kwargs, wrappers=tuple(named))


def wrapper(**kwargs: Any) -> WrapperConfig:
    return WrapperConfig(name=f"{HERE}:Scaled", kwargs=kwargs)


def test_class_is_named_without_being_registered() -> None:
    spec = probe(lanes(max_episode_steps=3), 0)
    assert (spec.id, spec.max_episode_steps, spec.repeatable) == (f"{HERE}:Lanes", 3, True)
    assert all(made.closed for made in Lanes.made)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        (f"{HERE}:Lane", ["class as 'package.module:Class'", f"got '{HERE}:Lane'", "'Lanes'"]),
        (f"{HERE}:HERE", ["class as 'package.module:Class'"]),
        (f"{HERE}:Xyz", [f"Of {HERE!r}: It has ", "'Lanes'"]),
        (f"{HERE}.Lanes", [f"Did you mean '{HERE}:Lanes'?"]),
        (
            "no_such_module:Lanes",
            ["can't be imported: there is no module 'no_such_module'", "put that on PYTHONPATH"],
        ),
        ("Lanes", ["must name a registered environment, or a class"]),
    ],
)
def test_what_is_no_environment_is_refused_with_the_nearest(name: str, parts: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        probe(EnvironmentConfig(id=name), 0)
    assert all(part in str(caught.value) for part in parts), caught.value


def test_arguments_hold_whatever_yaml_can() -> None:
    nested = {"lanes": 3, "vehicles": [1, {"kind": None}], 4: [[True]]}
    env = make_env(lanes(config=nested))
    assert Lanes.made[-1].config == nested
    env.close()


def test_wrappers_are_put_round_it_in_their_order() -> None:
    config = lanes(wrapper(plus=1), wrapper(by=10))  # (2a + 1) * 10
    env = make_env(config)
    env.reset(seed=0)
    assert env.step(2)[1] == 50
    driver = Driver(make_batch(config, seed=0, shard=0, envs=1), 1).run([np.array([2])])
    assert driver.reward[0] == [50]
    runner = make_runner(evaluated(config), episodes=1, envs=1, seed=0)
    assert run(runner, lambda obs, first: np.array([2])).returns == [200]


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        (f"{HERE}:nothing", ["wrappers[0].name must make a gymnasium.Env", "made a NoneType"]),
        (f"{HERE}:Scalled", ["wrappers[0].name", "Did you mean 'Scaled'?"]),
        ("Scaled", ["wrappers[0].name must look like 'package.module:Class'"]),
    ],
)
def test_what_is_no_wrapper_is_refused_and_nothing_stays_open(name: str, parts: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        probe(lanes(name), 0)
    assert all(part in str(caught.value) for part in parts), caught.value
    assert all(made.closed for made in Lanes.made)


@pytest.mark.parametrize("kind", [NormalizeObservation, NormalizeReward])
@pytest.mark.parametrize("covered", [False, True])
def test_wrapper_that_learns_is_refused_with_what_does_the_same(kind: Any, covered: bool) -> None:
    what = {"NormalizeObservation": "observations", "NormalizeReward": "rewards"}[kind.__name__]
    names = [f"gymnasium.wrappers:{kind.__name__}", *([f"{HERE}:Scaled"] if covered else [])]
    with pytest.raises(ConfigError, match=f"algorithm.normalize_{what}: true, which ppo has"):
        probe(lanes(*names), 0)
    assert all(made.closed for made in Lanes.made)


def test_each_environment_gets_the_place_it_has_in_the_run() -> None:
    config = lanes(
        wrapper(port="{7000+number}"),
        port="{6100 + number}",
        folder="/tmp/{shard}-{index}/{unknown}",
        config=[{"seed": "{seed}"}],
    )
    batch = make_batch(config, seed=3, shard=2, envs=2, first_env=4, number=20)
    assert [made.port for made in Lanes.made] == [6120, 6121]
    assert [made.folder for made in Lanes.made] == ["/tmp/2-4/{unknown}", "/tmp/2-5/{unknown}"]
    seeds = [made.config[0]["seed"] for made in Lanes.made]
    assert len(set(seeds)) == 2
    assert all(isinstance(seed, int) for seed in seeds)
    again = make_batch(config, seed=3, shard=2, envs=2, first_env=4, number=20)
    assert [made.config[0]["seed"] for made in Lanes.made[2:]] == seeds
    batch.close()
    again.close()


def test_place_is_in_environment_variables_too(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    class Reads(Lanes):
        def __init__(self, env: Any = None) -> None:
            import os

            seen.append("/".join(os.environ[f"FASTLOOP_ENV_{n}"] for n in ("NUMBER", "INDEX")))

    monkeypatch.setattr(f"{HERE}.Lanes", Reads)
    make_batch(lanes(), seed=0, shard=0, envs=2, number=5).close()
    assert seen == ["5/0", "6/1"]


def test_text_that_only_looks_like_a_place_is_left_alone() -> None:
    config = lanes(folder="{x} {} {6100 - number} {number!r} ${HOME}")
    assert Place(number=3).fill(config).kwargs == config.kwargs


# --- what is nearly Gymnasium's ------------------------------------------------------------------


class Wide(Lanes):
    """Computes in float64 and forgets to cast, as most do; the first observation is right."""

    def step(self, action: Any) -> Any:
        obs, *rest = super().step(action)
        return obs.astype(np.float64) / 3, *rest


class WideParts(Lanes):
    """The same in a part of a Dict, from the first observation on."""

    observation_space = gymnasium.spaces.Dict(
        far=gymnasium.spaces.Box(-1, 1, (2, 2), np.float32), near=gymnasium.spaces.Box(0, 9, (2,))
    )

    def reset(self, **kwargs: Any) -> Any:
        super().reset(**kwargs)
        return self._parts(), {}

    def step(self, action: Any) -> Any:
        _, *rest = super().step(action)
        return self._parts(), *rest

    def _parts(self) -> Any:
        return {"far": np.full((2, 2), 1 / 3), "near": np.full(2, self.t, np.float32)}


class Whole(Lanes):
    """Integers where floats are declared: not the same thing."""

    def step(self, action: Any) -> Any:
        obs, *rest = super().step(action)
        return obs.astype(np.int64), *rest


@pytest.mark.parametrize(
    ("kind", "cast"),
    [(Lanes, ""), (Wide, "float64 for float32"), (WideParts, "float64 for float32")],
)
def test_wider_floats_are_cast_and_it_is_known(kind: type[Lanes], cast: str) -> None:
    config = EnvironmentConfig(id=f"{HERE}:{kind.__name__}")
    assert probe(config, 0).cast == cast
    batch = make_batch(config, seed=0, shard=0, envs=2)
    driver = Driver(batch, 2).run(np.ones((5, 2), np.int64))
    env = make_env(config)
    env.reset(seed=0)
    for t in range(1, 4):
        expected, *_ = env.step(1)
        for name, part in expected.items() if isinstance(expected, dict) else [(None, expected)]:
            stored = driver.obs[t] if name is None else driver.obs[t][name]
            np.testing.assert_array_equal(stored[1], part.astype(np.float32))
    runner = make_runner(evaluated(config), episodes=1, envs=1, seed=0)
    assert run(runner, lambda obs, first: np.array([1])).returns == [4]
    batch.close()


def test_other_types_are_no_other_width() -> None:
    with pytest.raises(
        ConfigError, match=r"has shape \(3,\) of int64, its space declares .*float32"
    ):
        probe(EnvironmentConfig(id=f"{HERE}:Whole"), 0)


class OldReset(Lanes):
    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return super().reset(seed=seed)[0]


class OldSeed(Lanes):
    def reset(self) -> Any:  # type: ignore[override]
        return super().reset()[0]


class OldStep(Lanes):
    def step(self, action: Any) -> Any:
        obs, reward, terminated, _, info = super().step(action)
        return obs, reward, terminated, info


class OldClass:
    """Of another library's base class."""


@pytest.mark.parametrize("kind", [OldReset, OldSeed, OldStep, OldClass])
def test_interface_of_old_gym_is_named(kind: type[Any]) -> None:
    with pytest.raises(ConfigError, match=r"Gym before 0\.26 had another interface.*module:Class"):
        probe(EnvironmentConfig(id=f"{HERE}:{kind.__name__}"), 0)


def test_class_of_another_base_is_told_what_to_derive_from_and_where_vectors_go() -> None:
    with pytest.raises(ConfigError, match=r"derive it from gymnasium\.Env.*gymnasium_vector") as no:
        probe(EnvironmentConfig(id=f"{HERE}:OldClass"), 0)
    assert "reset(*, seed" not in str(no.value)


# --- boxes of actions that no algorithm could take ------------------------------------------------


class Boxed(Lanes):
    """Takes any box, and keeps to what Gymnasium promises: actions are of the space."""

    def __init__(self, low: Any, high: Any, dtype: str) -> None:
        bounds = [np.array(each, dtype) for each in (low, high)]
        self.inner = gymnasium.spaces.Box(*bounds, dtype=np.dtype(dtype).type)
        self.action_space = self.inner  # type: ignore[assignment]
        super().__init__()

    def step(self, action: Any) -> Any:
        assert self.inner.contains(action), action
        return super().step(action.ravel()[0])


BOUND = WrapperConfig(
    name="fast_core.envs.wrappers:BoundAction", kwargs={"low": -1, "high": [1, 2]}
)
INF = float("inf")


def plays(config: EnvironmentConfig, spec: EnvironmentSpec, name: str) -> None:
    """An untrained policy of the algorithm takes actions that the space contains."""
    algorithm: Any = algorithm_config_type(name)(name=name)
    setup = LearnerSetup(seed=0, shards=1, envs_per_shard=2, steps=512)
    algorithm.check(spec, setup)
    policy = algorithm.make_policy(spec, PolicySetup())
    policy.load(algorithm.make_algorithm(spec, setup).policy_parameters())
    noise, generator = algorithm.noise(spec), np.random.default_rng(0)

    def act(obs: Any, first: Any) -> Any:
        drawn = generator.standard_normal((2, *noise.shape)).astype(np.float32)
        drawn = np.abs(drawn) % 1 if noise.kind == "uniform" else drawn
        out = policy.act(obs, noise=drawn, explore=True)
        assert np.isfinite(out.behaviour_log_prob).all()
        return policy.environment_action(out.action)

    run(make_runner(evaluated(config), episodes=2, envs=2, seed=0), act).close()


@pytest.mark.parametrize(
    ("low", "high", "dtype", "wrappers", "expected"),
    [
        ([-3, 0], [3, 0], "int64", (), ((7, 1), (-3, 0))),
        ([False, False], [True, True], "bool", (), ((2, 2), (0, 0))),
        ([-(2**63), -1], [2**63 - 1, 1], "int64", (BOUND,), ((3, 3), (-1, -1))),
        ([-INF, 0], [INF, INF], "float32", (BOUND,), ((-1.0, 0.0), (1.0, 2.0))),
        ([-1, 0.5], [1, 0.5], "float64", (), ((-1.0, 0.5), (1.0, 0.5))),
    ],
)
def test_box_is_played_in_by_random_actions_and_policies(
    low: Any, high: Any, dtype: str, wrappers: Any, expected: Any
) -> None:
    kwargs = {"low": low, "high": high, "dtype": dtype}
    config = EnvironmentConfig(id=f"{HERE}:Boxed", kwargs=kwargs, wrappers=wrappers)
    spec = probe(config, 0)
    action = spec.action
    assert expected == ((action.counts or action.low), (action.starts or action.high))
    names = ["ppo"] if action.kind == "multi_discrete" else ["ppo", "sac", "td3", "dsac", "dsact"]
    for name in names:
        plays(config, spec, name)


def test_bounds_that_leave_nothing_are_refused() -> None:
    empty = WrapperConfig(name=BOUND.name, kwargs={"low": 5, "high": 6})
    kwargs = {"low": [0, 0], "high": [1, 1], "dtype": "float32"}
    with pytest.raises(ConfigError, match="BoundAction leaves nothing of Box"):
        probe(EnvironmentConfig(id=f"{HERE}:Boxed", kwargs=kwargs, wrappers=(empty,)), 0)
    with pytest.raises(ConfigError, match="BoundAction is for boxes of actions; got Discrete"):
        probe(lanes(empty), 0)


class Named(gymnasium.Env[np.ndarray, Any]):
    """Says what its actions are called, as Atari games, MiniGrid and others do."""

    observation_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self, names: object, count: int = 2) -> None:
        self.action_space = gymnasium.spaces.Discrete(count)
        if isinstance(names, type):
            self.actions = names
        else:
            self.get_action_meanings = lambda: names


class Moves(enum.IntEnum):
    left = 0
    forward = 1


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["NOOP", "FIRE"], ("NOOP", "FIRE")),
        (Moves, ("left", "forward")),
        (["one"], ()),
        (None, ()),
        (5, ()),
    ],
)
def test_actions_are_called_as_the_environment_calls_them(names: object, said: Any) -> None:
    env = gymnasium.wrappers.TimeLimit(Named(names), 5)
    assert describe_env(env, EnvironmentConfig(id="Named-v0")).action_names == said


def test_actions_without_names_have_none() -> None:
    env = gymnasium.make("CartPole-v1")
    assert describe_env(env, EnvironmentConfig(id="CartPole-v1")).action_names == ()
    env.close()


def test_gymnasium_that_is_too_old_is_refused_with_what_to_do() -> None:
    check_gymnasium("1.0.0a2")
    with pytest.raises(ConfigError, match=r"need gymnasium 1.0 or newer; 0.29.1 is installed"):
        check_gymnasium("0.29.1")
