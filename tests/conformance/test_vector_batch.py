"""What every library that steps environments together must come out as, and what it can't do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv
from msgspec.structs import replace

from fast_core.config import AtariConfig, EnvironmentConfig
from fast_core.envs import make_batch
from fast_core.envs.backends.backend import VectorStep
from fast_core.envs.backends.envpool import EnvPool
from fast_core.envs.backends.gymnasium_vector import GymnasiumVector
from fast_core.envs.stepping.gymnasium_batch import GymnasiumBatch
from fast_core.envs.stepping.vector_batch import VectorBatch
from fast_core.envs.trying.probe import probe
from fast_core.errors import ConfigError, EnvironmentFailed
from fast_core.system.seeding import EpisodeSeeds, Role
from tests.conformance.adapters import vectorised
from tests.envs.driver import Driver, random_actions, same, toy
from tests.envs.vector_toys import as_vector, with_vector_form
from tests.forms import slow_but

CARTPOLE = EnvironmentConfig(id="CartPole-v1")
BREAKOUT = AtariConfig(terminal_on_life_loss=True, noop_max=5)
Make = Callable[..., Any]


def in_turn(config: EnvironmentConfig, **kwargs: Any) -> GymnasiumBatch:
    return GymnasiumBatch(config, **kwargs)


def _vector(config: EnvironmentConfig, mode: str, **kwargs: Any) -> VectorBatch:
    return VectorBatch(as_vector(config, autoreset_mode=mode), **kwargs)


def disabled(config: EnvironmentConfig, **kwargs: Any) -> VectorBatch:
    return _vector(config, "Disabled", **kwargs)


def own(config: EnvironmentConfig, **kwargs: Any) -> VectorBatch:
    """The environment's own vectorised form where it has one: CartPole."""
    return vectorised(config, **kwargs)


def same_step(config: EnvironmentConfig, **kwargs: Any) -> VectorBatch:
    return _vector(config, "SameStep", **kwargs)


def next_step(config: EnvironmentConfig, **kwargs: Any) -> VectorBatch:
    return _vector(config, "NextStep", **({"seed": 1, "shard": 2} | kwargs))


def envpool(config: EnvironmentConfig, **kwargs: Any) -> VectorBatch:
    pytest.importorskip("envpool")
    return VectorBatch(replace(config, backend="envpool"), **kwargs)


def own_backend(config: EnvironmentConfig, **kwargs: Any) -> VectorBatch:
    return VectorBatch(replace(config, backend="tests.envs.own_backend:Turns"), **kwargs)


ADAPTERS = [own_backend, in_turn, disabled, own, same_step, envpool]
UNSEEDED = [same_step, next_step, envpool]


@pytest.fixture(params=ADAPTERS, ids=lambda each: each.__name__)
def make(request: pytest.FixtureRequest) -> Iterator[Make]:
    made: list[Any] = []

    def maker(config: EnvironmentConfig, envs: int = 3, **kwargs: Any) -> Any:
        batch = request.param(config, **({"seed": 1, "shard": 2, "envs": envs} | kwargs))
        made.append(batch)
        return batch

    yield maker
    for batch in made:
        batch.close()


unseeded = pytest.mark.parametrize(
    "make", UNSEEDED, indirect=True, ids=lambda each: getattr(each, "__name__", "")
)


def run(batch: Any, envs: int, steps: int, seed: int = 0) -> Driver:
    return Driver(batch, envs).run(random_actions(batch, envs, steps, seed))


def successors(obs: Any, action: Any) -> Any:
    """CartPole's equations of motion, one environment at a time."""
    env = gymnasium.make("CartPole-v1").unwrapped
    env.reset(seed=0)
    result = []
    for row, push in zip(obs, action, strict=True):
        env.state = row.astype(np.float64)  # type: ignore[attr-defined]
        env.steps_beyond_terminated = None  # type: ignore[attr-defined]
        result.append(env.step(int(push))[0])
    return np.array(result)


@pytest.mark.parametrize(
    ("name", "late", "allowed"),
    [
        ("reward", "2.5", "one number"),
        ("terminated", "False", "True or False"),
        ("truncated", "False", "True or False"),
    ],
)
@pytest.mark.parametrize("none", [False, True])
def test_a_late_value_of_another_kind_is_refused_with_seed_and_step(
    name: str, late: str, allowed: str, none: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, given = GymnasiumVector.step, None if none else late

    def step(self: Any, action: Any) -> VectorStep:
        result = real(self, action)
        values: Any = getattr(result, name).astype(object)
        if result.reward[1] == 3.0:
            values[1] = given
        return result._replace(**{name: values})

    monkeypatch.setattr(GymnasiumVector, "step", step)
    batch = same_step(toy("Counter"), seed=1, shard=2, envs=2)
    driver = run(batch, 2, 2)
    assert np.array(driver.reward).tolist() == [[1.0, 1.0], [2.0, 2.0]] and not driver.ended.any()
    seed = EpisodeSeeds(1, Role.ENVIRONMENT_EPISODE, 2, 1)[0]
    where = rf"environment 1 of shard 2 .* in step 3 of episode 0 \(seed {seed}\) .*"
    with pytest.raises(EnvironmentFailed, match=f"{where}{name} must be {allowed}; got {given!r}"):
        driver.run(random_actions(batch, 2, 1))
    batch.close()


def test_worker_processes_draw_from_global_generators_of_their_own() -> None:
    """In constructor and steps; Gymnasium forks them from one state, and Python's from none."""
    config = EnvironmentConfig(id="FastLoopTest/Global-v0", backend="gymnasium_vector")
    found = []
    for shard in (2, 2, 3):
        batch = VectorBatch(config, seed=1, shard=shard, envs=3)
        found.append(np.array(run(batch, 3, 2).obs))
        batch.close()
    once, again, elsewhere = found
    np.testing.assert_array_equal(once, again)
    for generator in range(3):
        drawn = np.concatenate([each[..., generator].ravel() for each in (once, elsewhere)])
        assert len(set(drawn)) == 2 * 3 * 3


def test_every_stored_step_is_a_transition_of_the_environment(make: Make) -> None:
    """None is the reset step of a library, and none leads from one episode to the next."""
    driver = run(make(CARTPOLE), 3, 150)
    obs, ended = np.array(driver.obs), driver.ended
    assert ended.sum() > 10
    for t, action in enumerate(random_actions(driver.batch, 3, 150)):
        after = np.where(ended[t][:, None], driver.final_obs[t], obs[t + 1])
        assert after == pytest.approx(successors(obs[t], action), abs=1e-5)
        assert (np.abs(obs[t + 1][ended[t]]) <= 0.05).all()  # where CartPole begins
        fell = (np.abs(after[:, 0]) > 2.4) | (np.abs(after[:, 2]) > 12 * 2 * np.pi / 360)
        assert np.array_equal(driver.terminated[t], fell)
        assert not driver.truncated[t].any()
    assert (np.array(driver.reward) == 1.0).all()


def test_episodes_account_for_every_step(make: Make) -> None:
    driver = run(make(CARTPOLE, 4), 4, 200)
    finished = driver.batch.take_episodes()
    since = [200 - 1 - int(np.flatnonzero(driver.ended[:, env]).max()) for env in range(4)]
    assert sum(finished.lengths) + sum(since) == 4 * 200
    assert len(finished.lengths) == driver.ended.sum()
    assert finished.returns == finished.lengths
    assert finished.quarantined == 0
    assert driver.batch.take_episodes() == ([], [], 0, ())


def test_a_time_limit_truncates_and_nothing_is_longer(make: Make) -> None:
    driver = run(make(replace(CARTPOLE, kwargs={"max_episode_steps": 15}), 4), 4, 200)
    terminated, truncated = np.array(driver.terminated), np.array(driver.truncated)
    assert driver.batch.spec.max_episode_steps == 15
    for env in range(4):
        length = 0
        for t in range(200):
            length += 1
            assert length <= 15
            assert truncated[t, env] == (length == 15)
            if driver.ended[t, env]:
                length = 0
    assert terminated.any()
    assert truncated.any()


@pytest.mark.parametrize("name", ["Pendulum-v1", "Acrobot-v1", "MountainCarContinuous-v0"])
def test_spaces_are_those_of_the_environment(make: Make, name: str) -> None:
    batch = make(EnvironmentConfig(id=name))
    space = gymnasium.make(name).observation_space
    assert batch.spec.row.shape == space.shape
    assert batch.spec.row.dtype == str(space.dtype)
    driver = run(batch, 3, 210)
    assert np.isfinite(np.array(driver.obs)).all()
    assert driver.ended.any() == (name == "Pendulum-v1")


def test_results_depend_on_shard_and_place_only(make: Make) -> None:
    whole, again = (
        run(make(CARTPOLE, 4), 4, 60),
        run(make(CARTPOLE, 4, incarnation=5, keep_actions=False), 4, 60),
    )
    assert same(whole, again)
    other = make(CARTPOLE, 4, shard=3)
    assert not np.array_equal(whole.obs[0], run(other, 4, 1).obs[0])
    half = Driver(make(CARTPOLE, 2, first_env=2), 2).run(random_actions(other, 4, 60)[:, 2:])
    assert np.array_equal(half.columns()[0], whole.columns()[0][:, 2:])


@unseeded
def test_without_seeds_of_single_episodes_a_restored_batch_begins_new_ones(make: Make) -> None:
    driver = run(make(CARTPOLE, 3), 3, 100)
    assert not driver.batch.spec.repeatable
    saved = driver.batch.state()
    restored = make(CARTPOLE, 3)
    obs = np.zeros_like(driver.obs[0])
    assert len(restored.restore(saved, obs)) == 3
    assert (np.abs(obs) <= 0.05).all()
    seen = np.array(driver.obs).reshape(-1, 4)
    assert not any((seen == row).all(axis=1).any() for row in obs)
    assert restored.take_episodes() == driver.batch.take_episodes()
    assert run(restored, 3, 50).ended.any()


@pytest.mark.parametrize(("adapter", "repeatable"), [("Disabled", True), ("SameStep", False)])
def test_the_probe_says_whether_single_episodes_can_be_repeated(
    adapter: str, repeatable: bool
) -> None:
    spec = probe(as_vector(CARTPOLE, autoreset_mode=adapter), 0)
    assert spec.repeatable is repeatable
    assert (spec.max_episode_steps, spec.row.shape) == (500, (4,))


@pytest.mark.parametrize(
    ("name", "repeatable"),
    [("Counter", True), ("Map", True), ("Unrepeatable", False), ("Drifting", False)],
)
def test_a_batch_is_repeatable_if_seed_and_actions_decide_everything(
    name: str, repeatable: bool
) -> None:
    assert probe(as_vector(toy(name)), 0).repeatable is repeatable


def test_the_probe_compares_with_the_environments_of_evaluations() -> None:
    def other(**kwargs: Any) -> Any:
        return gymnasium.make("Pendulum-v1").unwrapped

    name = "FastLoopTest/Unlike-v0"
    gymnasium.registry.pop(name, None)
    vector = gymnasium.spec(with_vector_form("CartPole-v1")).vector_entry_point
    gymnasium.register(name, entry_point=other, vector_entry_point=vector)
    with pytest.raises(ConfigError, match="other spaces than its scalar form"):
        probe(EnvironmentConfig(id=name, backend="gymnasium_vector"), 0)


def test_vectorised_form_alone_is_refused_for_what_plays_in_single_ones() -> None:
    name = "FastLoopTest/Alone-v0"
    gymnasium.registry.pop(name, None)
    gymnasium.register(name, vector_entry_point=CartPoleVectorEnv)
    for backend in ("gymnasium_vector", "gymnasium"):
        with pytest.raises(
            ConfigError, match="with a vectorised form alone, and policies are eval"
        ):
            probe(EnvironmentConfig(id=name, backend=backend), 0)  # type: ignore[arg-type]


# --- what is refused ----------------------------------------------------------------------------


def test_a_form_that_does_not_say_how_it_resets_is_refused() -> None:
    name = "FastLoopTest/Unsaid-v0"
    gymnasium.registry.pop(name, None)
    gymnasium.register(name, vector_entry_point=Unsaid)
    config = EnvironmentConfig(id=name, backend="gymnasium_vector")
    with (
        pytest.warns(UserWarning, match="missing AutoresetMode"),  # Gymnasium's
        pytest.raises(ConfigError, match=r"say how it resets.*got None.*backend: gymnasium\."),
    ):
        make_batch(config, seed=0, shard=0, envs=2)


class Unsaid(CartPoleVectorEnv):
    metadata: dict[str, Any] = {}


def test_gymnasiums_vectorised_cartpole_plays_the_episodes_of_the_scalar_one() -> None:
    """Of itself it only resets in the next step, a step that is no transition."""
    config = replace(CARTPOLE, backend="gymnasium_vector", reset_options={"low": 0.01})
    spec = probe(config, 0)
    assert (spec.repeatable, spec.max_episode_steps) == (True, 500)
    batch = make_batch(config, seed=4, shard=1, envs=5)
    scalar = in_turn(replace(config, backend="gymnasium"), seed=4, shard=1, envs=5)
    one, other = run(batch, 5, 300), run(scalar, 5, 300)
    assert same(one, other)
    assert one.ended.sum() > 30
    assert min(obs[:, 0].min() for obs in one.obs[:1]) >= 0.01


def test_an_environment_without_a_vectorised_form_is_refused() -> None:
    config = EnvironmentConfig(id="Pendulum-v1", backend="gymnasium_vector")
    with pytest.raises(ConfigError, match=r"no vectorised form \(vector_entry_point\)"):
        make_batch(config, seed=0, shard=0, envs=2)


@pytest.mark.parametrize("backend", ["gymnasium_vector", "envpool"])
@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"frame_skip": 2}, r"environment.frame_skip 2 needs environment.backend gymnasium"),
        ({"action_mask": "info.mask"}, r"environment.action_mask 'info.mask' needs"),
        ({"atari": AtariConfig()}, r"environment.atari needs an (ALE|Atari) game"),
    ],
)
def test_what_changes_single_environments_is_refused(
    backend: Any, settings: dict[str, Any], said: str
) -> None:
    if backend == "envpool":
        pytest.importorskip("envpool")
    with pytest.raises(ConfigError, match=said):
        make_batch(replace(CARTPOLE, backend=backend, **settings), seed=0, shard=0, envs=2)


@pytest.mark.parametrize(
    ("backend", "kwargs", "said"),
    [
        ("envpool", {"stack_num": 4}, "environment.kwargs.stack_num follows from"),
        ("envpool", {"reward_clip": True}, "environment.kwargs.reward_clip follows from"),
        ("gymnasium_vector", {"stack_num": 4}, "environment.kwargs.stack_num follows from"),
        ("gymnasium_vector", {"episodic_life": True}, "kwargs.episodic_life follows from"),
    ],
)
def test_what_is_decided_elsewhere_is_refused(backend: Any, kwargs: Any, said: str) -> None:
    """A stack of four would pass for single frames, the oldest of them."""
    pytest.importorskip({"envpool": "envpool", "gymnasium_vector": "ale_py"}[backend])
    id = {"envpool": "Breakout-v5", "gymnasium_vector": "ALE/Breakout-v5"}[backend]
    config = EnvironmentConfig(id=id, backend=backend, atari=BREAKOUT, kwargs=kwargs)
    with pytest.raises(ConfigError, match=said):
        make_batch(config, seed=0, shard=0, envs=2)


@pytest.mark.parametrize("settings", [{"atari": AtariConfig(noop_max=0)}, {"noop_max": 0}])
def test_what_crashes_envpool_is_refused(settings: Any) -> None:
    pytest.importorskip("envpool")
    kwargs = {} if "atari" in settings else settings
    config = EnvironmentConfig(
        id="Breakout-v5", backend="envpool", atari=settings.get("atari"), kwargs=kwargs
    )
    with pytest.raises(ConfigError, match="noop_max must be at least 1"):
        make_batch(config, seed=0, shard=0, envs=2)


def test_a_reset_that_ignores_its_mask_is_noticed() -> None:
    class Careless(gymnasium.vector.SyncVectorEnv):
        def reset(self, *, seed: Any = None, options: Any = None) -> Any:
            return super().reset(seed=seed)

    def entry_point(num_envs: int, autoreset_mode: Any, **_: Any) -> Careless:
        def one() -> Any:
            return gymnasium.make("CartPole-v1", disable_env_checker=True)

        return Careless([one] * num_envs, autoreset_mode=autoreset_mode)

    name = "FastLoopTest/Careless-v0"
    gymnasium.registry.pop(name, None)
    gymnasium.register(name, vector_entry_point=entry_point)
    batch = VectorBatch(
        EnvironmentConfig(id=name, backend="gymnasium_vector"), seed=0, shard=0, envs=3
    )
    with pytest.raises(EnvironmentFailed, match="options\\['reset_mask'\\] leaves out"):
        run(batch, 3, 60)


def test_an_episode_that_must_be_cut_where_nobody_can_reset_it_says_so() -> None:
    batch = same_step(toy("Counter", kwargs={"nan_at": 3}), seed=0, shard=0, envs=2)
    with pytest.raises(EnvironmentFailed, match="its episode must be cut"):
        run(batch, 2, 5)


def test_a_value_that_is_not_finite_at_an_end_is_cut_everywhere() -> None:
    batch = same_step(toy("Counter", kwargs={"nan_at": 5, "length": 5}), seed=0, shard=0, envs=2)
    driver = run(batch, 2, 7)
    assert (driver.terminated[4].any(), driver.truncated[4].all()) == (False, True)
    assert driver.final_obs[4][:, 0].tolist() == [4, 4]
    assert driver.obs[5][:, 0].tolist() == [0, 0]
    finished = batch.take_episodes()
    assert np.isnan(finished.returns).all()
    assert finished[1:3] == ([5, 5], 2)


@pytest.mark.parametrize("mode", ["Disabled", "SameStep", "NextStep"])
@pytest.mark.parametrize("name", ["Robot", "Ticks"])
def test_composite_observations_are_copied_part_by_part(mode: str, name: str) -> None:
    settings = toy(name)
    batch = _vector(settings, mode, seed=1, shard=0, envs=2)
    reference = GymnasiumBatch(settings, seed=1, shard=0, envs=2)
    assert batch.spec.row == reference.spec.row
    one, other = run(batch, 2, 12), run(reference, 2, 12)
    assert one.obs[0].dtype == other.obs[0].dtype
    if mode == "Disabled":
        assert same(one, other)


# --- Atari --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_ales_own_vectorised_games_give_single_frames() -> None:
    pytest.importorskip("ale_py")
    config = EnvironmentConfig(
        id="ALE/Breakout-v5", backend="gymnasium_vector", frame_stack=4, atari=BREAKOUT
    )
    spec = probe(config, 0)
    assert (spec.row.shape, spec.row.dtype, spec.frames) == ((84, 84), "uint8", 4)
    assert not spec.repeatable  # a lost life does not end the game
    driver = run(make_batch(config, seed=0, shard=0, envs=3), 3, 200)
    finished = driver.batch.take_episodes()
    assert driver.ended.sum() == len(finished.lengths) > 3
    assert np.array(driver.terminated).sum() == driver.ended.sum()
    for t, env in np.argwhere(driver.ended).tolist():
        assert not np.array_equal(driver.final_obs[t][env], driver.obs[t + 1][env])
        assert driver.final_obs[t][env].any()
    driver.batch.close()


@pytest.mark.parametrize("limit", slow_but([60], [60, 27_000]))
def test_envpools_games_go_on_after_a_lost_life_and_end_at_their_limit(limit: int) -> None:
    pytest.importorskip("envpool")
    config = EnvironmentConfig(
        id="Breakout-v5", backend="envpool", atari=BREAKOUT, kwargs={"max_episode_steps": limit}
    )
    driver = run(VectorBatch(config, seed=0, shard=0, envs=3), 3, 300)
    assert (driver.batch.spec.row.shape, driver.batch.spec.max_episode_steps) == ((84, 84), limit)
    finished = driver.batch.take_episodes()
    terminated, truncated = np.array(driver.terminated), np.array(driver.truncated)
    since = [299 - int(np.flatnonzero(driver.ended[:, env]).max()) for env in range(3)]
    assert sum(finished.lengths) + sum(since) == 3 * 300  # no end without a flag
    assert terminated.any()
    if limit == 60:  # counted by game: every 60th step of an environment, whatever lives it lost
        assert max(finished.lengths) <= 60
        assert np.flatnonzero(truncated.all(axis=1)).tolist() == [59, 119, 179, 239, 299]
        assert truncated.sum() == 15
    else:
        assert not truncated.any()
    driver.batch.close()


def test_envpools_game_that_ends_in_the_step_of_its_time_limit_is_terminated_too() -> None:
    pytest.importorskip("envpool")
    right = np.array([2])

    def ends(limit: int, steps: int) -> list[tuple[bool, bool, bool]]:
        config = EnvironmentConfig(
            id="Breakout-v5", backend="envpool", atari=BREAKOUT, kwargs={"max_episode_steps": limit}
        )
        source, found = EnvPool(config, 1), []
        source.start([1])
        for _ in range(steps):
            step = source.step(right)
            assert step.goes_on is not None
            found.append((bool(step.terminated[0]), bool(step.truncated[0]), bool(step.goes_on[0])))
            if step.terminated[0] or step.truncated[0]:
                source.begin(np.arange(1), [], forced=False)
        source.close()
        return found

    free = ends(27_000, 200)
    first = free.index((True, False, True))
    assert ends(first + 1, first + 1)[-1] == (True, True, False)
    assert ends(first, first)[-1] == (False, True, False)
    over = free.index((True, False, False))
    assert len([each for each in free[:over] if each[2]]) == 4, "of five lives"


def test_ales_ends_and_resets_are_told_apart() -> None:
    """Against the same game with resets in the next step, where nothing is mixed."""
    pytest.importorskip("ale_py")
    config = EnvironmentConfig(id="ALE/Breakout-v5", backend="gymnasium_vector", atari=BREAKOUT)
    batch = VectorBatch(config, seed=0, shard=0, envs=1)
    driver = Driver(batch, 1)
    source: Any = batch._backend
    spec = gymnasium.spec(config.id)
    kwargs = {**source._env.spec.kwargs, "autoreset_mode": gymnasium.vector.AutoresetMode.NEXT_STEP}
    for ours in ("num_envs", "vectorization_mode"):
        kwargs.pop(ours, None)
    reference = gymnasium.make_vec(spec, 1, "vector_entry_point", **kwargs)
    obs, _ = reference.reset(seed=np.array([batch._open.seed(0)]))
    assert np.array_equal(obs[:, 0], driver.obs[0])
    ends = 0
    for action in random_actions(batch, 1, 250):
        driver.run([action])
        obs, reward, terminated, truncated, _ = reference.step(action)
        assert np.array_equal(reward, driver.reward[-1])
        assert np.array_equal(terminated, driver.terminated[-1])
        assert np.array_equal(truncated, driver.truncated[-1])
        if terminated[0] or truncated[0]:
            ends += 1
            assert np.array_equal(obs[:, 0], driver.final_obs[-1])
            obs, *_ = reference.step(action)  # is ignored
        assert np.array_equal(obs[:, 0], driver.obs[-1])
    assert ends > 3
    batch.close()


def test_colour_frames_have_their_channels_last_everywhere() -> None:
    pytest.importorskip("envpool")
    atari = AtariConfig(grayscale=False)
    config = EnvironmentConfig(id="Pong-v5", backend="envpool", atari=atari)
    driver = run(VectorBatch(config, seed=0, shard=0, envs=2), 2, 3)
    assert driver.batch.spec.row.shape == (84, 84, 3)
    colours = driver.obs[3][0].reshape(-1, 3)
    brown = np.median(colours, axis=0)
    assert brown[0] > brown[2]  # the field's colour: more red than blue
    driver.batch.close()


def test_envpool_refuses_what_fastloop_decides_and_names_near_tasks() -> None:
    pytest.importorskip("envpool")
    pool = replace(CARTPOLE, backend="envpool")
    refused = [
        (replace(pool, kwargs={"num_envs": 4}), "environment.kwargs.num_envs is decided"),
        (replace(pool, kwargs={"wind": 4}), "does not take environment.kwargs"),
        (replace(pool, id="CartPle-v1"), r"a task of EnvPool.*'CartPole-v1'"),
        (
            replace(pool, reset_options={"level": 1}),
            "reset_options .* needs environment.backend gymnasium",
        ),
    ]
    for config, said in refused:
        with pytest.raises(ConfigError, match=said):
            make_batch(config, seed=0, shard=0, envs=2)


class Delayed:
    """A pool whose results come in another order, or are of an earlier call."""

    def __init__(self, pool: Any) -> None:
        self.pool, self.stale = pool, False

    def step(self, action: Any, ids: Any = None) -> Any:
        obs, reward, terminated, truncated, info = self.pool.step(action, ids)
        order = np.arange(len(obs))[::-1]
        if self.stale:
            order = np.zeros_like(order)
        info = {"env_id": info["env_id"][order]}
        return obs[order], reward[order], terminated[order], truncated[order], info

    def reset(self, ids: Any = None) -> Any:
        obs, info = self.pool.reset(ids)
        return obs[::-1], {"env_id": info["env_id"][::-1]}

    def close(self) -> None:
        self.pool.close()


def test_envpools_results_are_put_where_they_belong() -> None:
    straight = envpool(CARTPOLE, seed=0, shard=0, envs=3)
    reversed_ = envpool(CARTPOLE, seed=0, shard=0, envs=3)
    drivers = [Driver(batch, 3) for batch in (straight, reversed_)]
    source: Any = reversed_._backend
    source._pool = Delayed(source._pool)
    actions = random_actions(straight, 3, 100)
    assert same(*(driver.run(actions) for driver in drivers))
    assert drivers[0].ended.any()


def test_a_result_of_another_call_is_never_delivered() -> None:
    batch = envpool(CARTPOLE, seed=0, shard=0, envs=3)
    driver = Driver(batch, 3)
    source: Any = batch._backend
    source._pool = Delayed(source._pool)
    source._pool.stale = True
    with pytest.raises(EnvironmentFailed, match=r"of the environments \[0, 0, 0\] where"):
        driver.run(random_actions(batch, 3, 1))
