"""Evaluating anything anywhere, and recording what happened."""

from __future__ import annotations

import csv
import json
import os
import random
import shutil
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from fast_core import Config, train
from fast_core.config import EnvironmentConfig
from fast_core.config import file as config_file
from fast_core.config.algorithms import algorithm_config_type
from fast_core.envs.place import VARIABLES
from fast_core.errors import ConfigError, EnvironmentFailed, PolicyError
from fast_core.policy import Episodes, Policy, evaluate, load_policy
from fast_core.policy.file import best_policy_path
from fast_core.tools.evaluate import evaluate_run
from tests.envs.space_toys import Robot
from tests.envs.toy import Counter
from tests.launcher.trained_run import DRAWING, EPISODES, make_trained
from tests.policy.stages import play

COUNTER = "FastLoopTest/Counter-v0"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_trained(tmp_path_factory.mktemp("runs")).path


@pytest.fixture(scope="module")
def policy(run: Path) -> Policy:
    return load_policy(run)


def always(action: Any) -> Any:
    return lambda obs: action


def same(first: Episodes, second: Episodes) -> bool:
    return first.returns.tolist() == second.returns.tolist() and first.seeds == second.seeds


# --- the table ------------------------------------------------------------------------------------


def test_the_table_is_what_the_command_prints(
    run: Path, policy: Policy, capsys: pytest.CaptureFixture[str]
) -> None:
    table = evaluate(run)
    assert evaluate_run(run, None) == 0
    printed = json.loads(capsys.readouterr().out)
    assert {key: printed[key] for key in table.summary()} == table.summary()
    assert (len(table), table.mean) == (EPISODES, printed["return_mean"])
    assert same(table, evaluate(policy)), "a run's path, or its policy"
    assert same(table, evaluate(policy, seed=0)) and not same(table, evaluate(policy, seed=1))
    assert len(evaluate(policy, episodes=2)) == 2
    assert not same(table, evaluate(policy, deterministic=False))


def test_every_episode_says_how_it_began_and_ended() -> None:
    ends = {
        "terminated": {"length": 4},
        "truncated": {"length": 4, "end": "truncated"},
        "nonfinite": {"length": 9, "nan_at": 3},
    }
    for ended, kwargs in ends.items():
        table = evaluate(always(1), {"id": COUNTER, "kwargs": kwargs}, episodes=1, seed=5)
        assert table.endings == (ended,)
        assert np.isnan(table.returns).all() == (ended == "nonfinite")
        assert table.summary()["quarantined_share"] == float(ended == "nonfinite")
    cut = evaluate(
        always(1),
        {
            "environment": {"id": COUNTER, "kwargs": {"length": 99}},
            "evaluation": {"max_episode_steps": 7},
        },
        episodes=2,
    )
    assert cut.endings == ("cut", "cut") and cut.lengths.tolist() == [7, 7]
    assert (cut.mean, cut.std) == (28.0, 0.0)
    assert cut.summary()["episodes_cut"] == 2


def test_the_table_has_every_number_of_the_last_info_or_those_that_are_named() -> None:
    class Informed(Counter):
        def step(self, action: Any) -> Any:
            *rest, _ = super().step(action)
            last = {"success": True} if rest[2] else {}
            return *rest, {"cost": 2, "name": "x", "episode": {"r": 1.5}, **last}

    def make() -> Any:
        return Informed(length=3)

    table = evaluate(always(1), make, episodes=2)
    every = {"cost": [2, 2], "success": [1, 1], "episode/r": [1.5, 1.5]}
    assert {name: values.tolist() for name, values in table.info.items()} == every
    assert table.summary()["info"] == {"cost": 2.0, "success": 1.0, "episode/r": 1.5}
    named = evaluate(always(1), {"id": make, "info": ["success"]}, episodes=2)
    assert sorted(named.info) == ["episode/r", "success"]


def test_an_episode_can_be_repeated_alone_from_its_seed(policy: Policy) -> None:
    table = evaluate(policy, episodes=3, seed=9)
    for seed, expected in zip(table.seeds, table.returns, strict=True):
        env = gymnasium.make(DRAWING)
        obs, _ = env.reset(seed=seed)
        total, state, ended = 0.0, None, False
        while not ended:
            action, state = policy(obs, state)
            obs, reward, terminated, truncated, _ = env.step(action)
            total, ended = total + float(reward), terminated or truncated
        assert total == expected


def test_the_table_goes_to_pandas(policy: Policy) -> None:
    pytest.importorskip("pandas")
    table = evaluate(policy, episodes=3)
    frame = table.to_pandas()
    assert frame["return"].tolist() == table.returns.tolist()
    assert list(frame.columns) == ["return", "length", "ended", "seed"]
    assert repr(table).startswith(f"<3 episodes of {DRAWING}: return ")


# --- where ----------------------------------------------------------------------------------------


def test_one_environment_in_every_form(policy: Policy, run: Path, tmp_path: Path) -> None:
    expected = evaluate(policy, episodes=3)
    config = config_file.load(run / "config.yaml", [], algorithm_config_type)
    (tmp_path / "some.yaml").write_text(config_file.dumps(config))
    forms = [
        DRAWING,
        config,
        config.environment,
        Config._of(config),
        Config._of(config).changed({"environment": lambda: gymnasium.make(DRAWING)}),
        {"id": DRAWING},
        {"id": lambda: gymnasium.make(DRAWING)},
        {"environment": lambda: gymnasium.make(DRAWING), "algorithm": {"name": "ppo"}},
        {"environment": {"id": DRAWING}},
        tmp_path / "some.yaml",
        str(run),
        run.parent,  # the newest run of this name
        lambda: gymnasium.make(DRAWING),
        gymnasium.spec(DRAWING).entry_point,
        gymnasium.make(DRAWING),
    ]
    for form in forms:
        assert same(evaluate(policy, form, episodes=3, seed=0), expected), form
    policy.save(tmp_path / "p")
    assert same(evaluate(tmp_path / "p", episodes=3), expected), "the file says what it played in"


def test_a_given_environment_stays_open() -> None:
    env = Counter(length=3)
    Counter.closed.clear()
    assert evaluate(always(2), env, episodes=2).lengths.tolist() == [3, 3]
    assert Counter.closed == []
    env.reset()


def test_a_programs_random_numbers_and_variables_stay_its_own(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else each evaluation would be followed by the same random numbers."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    shutil.copytree(run, tmp_path / "run")
    best_policy_path(tmp_path / "run").unlink()  # so that the environment is made to be seen

    def drawn() -> list[float]:
        return [random.random(), np.random.random()]  # noqa: NPY002

    random.seed(1)
    np.random.seed(1)  # noqa: NPY002
    expected = [drawn(), drawn(), drawn()]
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002
    found = [drawn()]
    evaluate(run, episodes=1)
    found.append(drawn())
    load_policy(tmp_path / "run")
    assert [*found, drawn()] == expected
    assert not [name for name in VARIABLES if name in os.environ]


def test_functions_see_observations_as_the_environment_gives_them() -> None:
    seen: list[Any] = []

    def act(obs: Any) -> Any:
        seen.append(obs)
        return np.array([0, 1, -1])

    evaluate(act, lambda: Robot(length=2), episodes=1)
    obs = Robot().reset(seed=0)[0]
    assert seen[0].keys() == obs.keys() and isinstance(seen[0]["goal"], tuple)
    assert seen[1]["camera"].tolist() == np.full((2, 3, 1), 1).tolist()
    assert seen[1]["goal"][0] == 1


@pytest.mark.parametrize("action", [0.5, np.zeros(2), "left", None, [1, 2]])
def test_a_function_that_gives_no_action_is_told(action: Any) -> None:
    with pytest.raises(PolicyError, match=r"must return actions of shape \(\) and int64 for .*got"):
        evaluate(always(action), COUNTER, episodes=1)


def test_what_is_no_environment_is_told(policy: Policy) -> None:
    for wrong in ({"episodes": 0}, {"episodes": "3"}, {"seed": -1}):
        (name,) = wrong
        with pytest.raises(ConfigError, match=f"{name} must be an integer of at least"):
            evaluate(policy, **wrong)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="no environment of its own"):
        evaluate(always(0))
    with pytest.raises(ConfigError, match=r"must be a gymnasium.Env.*got a int"):
        evaluate(policy, 5)
    with pytest.raises(ConfigError, match=r"must name a registered environment.*'CartPole-v9'"):
        evaluate(policy, "CartPole-v9")
    with pytest.raises(ConfigError, match=r"must make a gymnasium.Env; it made a dict"):
        evaluate(policy, dict)
    with pytest.raises(ConfigError, match=r"environment.kwarg.*Did you mean environment.kwargs"):
        evaluate(policy, {"id": COUNTER, "kwarg": {}})
    with pytest.raises(ConfigError, match=r"evaluatoin.*Did you mean evaluation"):
        evaluate(policy, {"environment": {"id": COUNTER}, "evaluatoin": {"episodes": 3}})
    with pytest.raises(PolicyError, match=r"or a function.*got a int"):
        evaluate(5, COUNTER)  # type: ignore[arg-type]


class Other(gymnasium.Env[Any, Any]):
    def __init__(self, size: int = 4, choices: int = 2, start: int = 0) -> None:
        self.observation_space = Box(-9, 9, (size,), np.float32)
        self.action_space = Discrete(choices, start=start)


@pytest.mark.parametrize(
    ("kwargs", "said"),
    [
        ({"size": 5}, r"has observations box \[5\] of float32, not box \[4\] of float32"),
        ({"choices": 3}, "has actions discrete 0 to 2, not discrete 0 to 1"),
        ({"start": 1}, "has actions discrete 1 to 2, not discrete 0 to 1"),
    ],
)
def test_other_spaces_are_refused(policy: Policy, kwargs: dict[str, int], said: str) -> None:
    with pytest.raises(PolicyError, match=rf"trained for other spaces.*{said}.*wrap"):
        evaluate(policy, lambda: Other(**kwargs))


def test_boxes_are_compared_by_the_bounds_of_actions_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = load_policy(play(tmp_path, "sac", monkeypatch).file)

    def pendulum(bound: float) -> Any:
        env = gymnasium.make("Pendulum-v1")
        env.observation_space = Box(-100, 100, (3,), np.float32)
        env.action_space = Box(-bound, bound, (1,), np.float32)
        return env

    assert len(evaluate(policy, pendulum(2.0), episodes=1)) == 1
    with pytest.raises(PolicyError, match=r"box \[1\] of float32 from -1 to 1, not .* -2 to 2"):
        evaluate(policy, pendulum(1.0), episodes=1)


# --- overrides of the command ---------------------------------------------------------------------


def test_eval_takes_overrides_of_environment_and_evaluation_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    played = play(tmp_path, "first choice", monkeypatch)
    lengths = []
    for source in (played.run, played.file):
        overrides = ["environment.kwargs.length=3", "evaluation.episodes=2"]
        assert evaluate_run(source, None, overrides=overrides) == 0
        printed = json.loads(capsys.readouterr().out)
        lengths.append((printed["episodes"], printed["length_mean"]))
    assert lengths == [(2, 3.0), (2, 3.0)]
    with pytest.raises(ConfigError, match=r"got 'algorithm.gamma=1'.*training, which is over"):
        evaluate_run(played.run, None, overrides=["algorithm.gamma=1"])
    with pytest.raises(ConfigError, match=r"environment.kwarg is not a key"):
        evaluate_run(played.run, None, overrides=["environment.kwarg=1"])
    with pytest.raises(PolicyError, match="other spaces"):
        evaluate_run(played.run, None, overrides=["environment.id=CartPole-v1"])


# --- records --------------------------------------------------------------------------------------


def test_a_record_has_every_step(tmp_path: Path) -> None:
    path = tmp_path / "t.npz"
    environment = {"id": COUNTER, "kwargs": {"length": 4}}
    table = evaluate(always(2), environment, episodes=3, seed=1, record=path)
    with np.load(path) as found:
        columns = dict(found)
    assert columns["episode"].tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert columns["episode_start"].tolist() == [0, 4, 8, 12]
    assert columns["observation"].shape == (12, 3) and columns["observation"].dtype == np.float32
    assert columns["observation"][:, 0].tolist() == [0, 1, 2, 3] * 3, "before each step"
    assert columns["final_observation"][:, 0].tolist() == [4, 4, 4]
    assert columns["action"].tolist() == [2] * 12
    assert columns["terminated"].tolist() == [False, False, False, True] * 3
    assert not columns["truncated"].any()
    assert columns["seed"].tolist() == list(table.seeds)
    assert columns["ended"].tolist() == ["terminated"] * 3
    starts = columns["episode_start"][:-1]
    assert np.add.reduceat(columns["reward"], starts).tolist() == table.returns.tolist()
    drawn = [np.float32(np.random.default_rng(seed).random()) for seed in table.seeds]
    assert columns["observation"][::4, 1].tolist() == drawn
    assert json.loads(str(columns["about"])) == {"environment": COUNTER}
    assert list(tmp_path.iterdir()) == [path]


def test_a_record_has_parts_infos_and_actions_as_they_were_taken(tmp_path: Path) -> None:
    class Informed(Robot):
        def step(self, action: Any) -> Any:
            *rest, _ = super().step(action)
            info = {"cost": self.steps / 2, "name": "x", "late": 1} if self.steps > 1 else {}
            return *rest, {**info, "good": True}

    path = tmp_path / "t.npz"
    evaluate(always(np.array([2, 1, 0])), lambda: Informed(length=3), episodes=2, record=path)
    with np.load(path) as found:
        assert found["observation/goal/1"].tolist() == [[0, 0], [1, 1], [2, 2]] * 2
        assert found["observation/camera"].shape == (6, 2, 3, 1)
        assert found["final_observation/arm/joints"].tolist() == [[3, 3, 3]] * 2
        assert found["action"].tolist() == [[2, 1, 0]] * 6, "not what the environment made of it"
        np.testing.assert_array_equal(found["info/cost"], [np.nan, 1, 1.5] * 2)
        assert found["info/good"].tolist() == [1.0] * 6
        assert sorted(n for n in found if n.startswith("info/")) == [
            "info/cost",
            "info/good",
            "info/late",
        ]


def test_csv_says_the_same(tmp_path: Path, policy: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("t.npz", "t.csv"):
        evaluate(policy, episodes=3, record=f"~/{name}")
    with open(tmp_path / "t.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    with np.load(tmp_path / "t.npz") as found:
        columns = dict(found)
    about = json.loads(str(columns["about"]))
    assert (about["algorithm"], about["version"]) == ("ppo", 7)
    assert [int(row["episode"]) for row in rows] == columns["episode"].tolist()
    assert [float(row["reward"]) for row in rows] == columns["reward"].tolist()
    assert [float(row["observation[2]"]) for row in rows] == columns["observation"][:, 2].tolist()
    assert [row["terminated"] == "True" for row in rows] == columns["terminated"].tolist()
    lengths = np.diff(columns["episode_start"])
    steps = np.concatenate([np.arange(length) for length in lengths])
    assert [int(row["step"]) for row in rows] == steps.tolist()


def test_a_record_holds_single_frames_and_the_end_of_broken_episodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    played = play(tmp_path, "recurrent frames", monkeypatch)
    evaluate(played.file, episodes=2, record=tmp_path / "t.npz")
    with np.load(tmp_path / "t.npz") as found:
        assert found["observation"].shape[1:] == (4,)
    broken = {"id": COUNTER, "kwargs": {"length": 9, "nan_at": 3}}
    evaluate(always(1), broken, episodes=1, record=tmp_path / "n.npz")
    with np.load(tmp_path / "n.npz") as found:
        assert found["ended"].tolist() == ["nonfinite"] and found["truncated"].tolist()[-1]
        assert np.isfinite(found["observation"]).all()


def test_what_can_not_be_recorded_is_refused_before_anything_is_played(tmp_path: Path) -> None:
    for path, said in (
        ("t.txt", r"ends in .npz or .csv; got '.*t.txt'"),
        ("nowhere/t.npz", "'.*nowhere' must be a folder"),
    ):
        with pytest.raises(PolicyError, match=said):
            evaluate(always(1), "NoSuch-v0", record=tmp_path / path)
    (tmp_path / "old.npz").write_text("before")
    with pytest.raises(EnvironmentFailed):
        environment = {"id": COUNTER, "kwargs": {"raise_at": 2}}
        evaluate(always(1), environment, episodes=1, record=tmp_path / "old.npz")
    assert (tmp_path / "old.npz").read_text() == "before"
    wide = Box(0, 255, (40, 40), np.uint8)

    class Wide(Other):
        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            raise AssertionError("it is played")

    env = Wide()
    env.observation_space = wide
    with pytest.raises(PolicyError, match=r"1606 columns.*ends in .npz"):
        evaluate(always(1), env, episodes=1, record=tmp_path / "w.csv")
    assert [path.name for path in tmp_path.iterdir()] == ["old.npz"]


def test_an_environment_given_as_an_object_stays_in_its_run(tmp_path: Path) -> None:
    tree: dict[str, Any] = {
        "name": "given",
        "directory": str(tmp_path),
        "mode": "inline",
        "environment": lambda: gymnasium.make("CartPole-v1", max_episode_steps=9),
        "algorithm": {"name": "ppo", "hidden_sizes": [4], "minibatch_size": 16},
        "rollout": {"shards": 1, "envs_per_shard": 2, "steps": 8},
        "evaluation": {"every_env_steps": 16, "episodes": 2},
        "stop": {"env_steps": 16},
    }
    policy = train(tree).policy
    assert evaluate(policy, episodes=2).lengths.max() == 9
    policy.save(tmp_path / "p")
    assert policy.file.played["pickled"] == "environment.pkl", "no path of this machine"
    with pytest.raises(ConfigError, match=r"was given as a Python object.*say where to evaluate"):
        evaluate(tmp_path / "p")
    assert evaluate(tmp_path / "p", "CartPole-v1", episodes=2).lengths.max() > 9
    assert evaluate_run(tmp_path / "p", 1, overrides=["environment.id=CartPole-v1"]) == 0


def test_an_environment_of_its_own_kind_keeps_the_policys_frames(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = load_policy(play(tmp_path, "recurrent frames", monkeypatch).file)
    expected = evaluate(policy, episodes=2)
    assert same(evaluate(policy, gymnasium.make("CartPole-v1"), episodes=2), expected)
    with pytest.raises(PolicyError, match=r"box \[4\] of float32, not box \[2, 4\]"):
        evaluate(policy, EnvironmentConfig(id="CartPole-v1"), episodes=2)
