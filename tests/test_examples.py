"""The documentation shows the code of the examples, and the examples fit their contracts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, cast

import msgspec
import numpy as np
import pytest

from examples.curriculum import GOAL, MovingGoal
from examples.embedded_loop import Collector, Learner, Player, Reinforce
from examples.linear import log_probs
from fast_core.algorithm import (
    Array,
    LearnerSetup,
    PolicySetup,
    ReplayBatch,
    RolloutBatch,
    ShardRollout,
)
from fast_core.algorithm.parameters import ParameterPack
from fast_core.algorithm.spec import EnvironmentSpec, SpaceSpec
from fast_core.callbacks import Evaluation, LiveRun, Start
from fast_core.config import file as config_file
from fast_core.config.algorithms import algorithm_config_type
from fast_core.errors import ConfigError
from fast_core.integrations import AsyncTrainer
from fast_core.launcher.topology import check_topology
from fast_core.testing import check_algorithm

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / "examples").glob("*.yaml"))
CONFIGS = [path for path in FILES if not path.stem.startswith("sweep_")]
CARTPOLE = EnvironmentSpec(
    id="CartPole-v1",
    observation=SpaceSpec("box", (4,), "float32", low=(-5.0,) * 4, high=(5.0,) * 4),
    action=SpaceSpec("discrete", (), "int64", n=2, start=3),
)


@pytest.mark.parametrize(
    ("page", "sources"),
    [
        (
            "adding-an-algorithm.md",
            (
                "a2c.py",
                "a2c_learner.py",
                "a2c_cartpole.yaml",
                "qrdqn.py",
                "qrdqn_learner.py",
                "qrdqn_cartpole.yaml",
                "ppo_lagrangian.py",
                "ppo_lagrangian_learner.py",
                "ppo_lagrangian.yaml",
                "linear.py",
                "linear_module.py",
                "linear_cartpole.yaml",
            ),
        ),
        (
            "adding-a-node.md",
            (
                "exploration_bonus.py",
                "exploration_bonus.yaml",
                "trajectory_log.py",
                "trajectory_log.yaml",
                "pictures.py",
                "pictures.yaml",
                "replay_census.py",
                "replay_census.yaml",
            ),
        ),
        ("embedding.md", ("embedded_loop.py", "embedded_sb3.py")),
    ],
)
def test_code_in_the_documentation_is_the_examples_code(
    page: str, sources: tuple[str, ...]
) -> None:
    examples = "\n".join((ROOT / "examples" / name).read_text("utf-8") for name in sources)
    text = (ROOT / "docs" / page).read_text("utf-8")
    blocks = re.findall(r"```(?:python|yaml)\n(.*?)```", text, re.DOTALL)
    assert len(blocks) >= 4
    for block in blocks:
        assert block.strip() in examples, f"not in the examples:\n{block}"


def test_callbacks_page_shows_the_curriculum_of_the_examples() -> None:
    """Without what explains it."""
    page = (ROOT / "docs" / "callbacks.md").read_text("utf-8")
    source = (ROOT / "examples" / "curriculum.py").read_text("utf-8")
    assert page.count(body_of(source, "on_evaluation")) == 1
    assert page.count(body_of(source, "on_start")) == 1


def body_of(source: str, method: str) -> str:
    """The lines after its docstring, up to the next empty one."""
    return source.partition(f"def {method}")[2].partition('"""\n')[2].partition("\n\n")[0].rstrip()


class Told:
    """A `LiveRun` that notes what it is asked."""

    def __init__(self) -> None:
        self.config: Any = config_file.load(
            ROOT / "examples" / "curriculum.yaml", [], algorithm_config_type
        )
        self.values = {"environment.attributes.goal_position": 0.5}
        self.stopped = ""

    def change(self, key: str, value: float) -> None:
        self.values[key] = value

    def stop(self, reason: str) -> None:
        self.stopped = reason


def test_curriculum_goes_on_when_an_evaluation_is_good_enough() -> None:
    run = Told()
    (given,) = run.config.callbacks
    curriculum = MovingGoal(**given.kwargs)
    directory = Path("run")
    curriculum.on_start(Start(directory, directory, 5, 5), cast(LiveRun, run))
    assert run.values == {GOAL: 0.5}, "a resumed run goes on where it was"
    curriculum.on_start(Start(directory, None, 0, 0), cast(LiveRun, run))
    goals = []
    for number, mean in enumerate((-200.0, None, *[-100.0] * 8), start=1):
        evaluation = Evaluation(number, 1, 1, 1.0, (), (), {}, mean, False)
        curriculum.on_evaluation(evaluation, cast(LiveRun, run))
        goals.append(run.values[GOAL])
    assert goals == [-0.2, -0.2, -0.1, 0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.5]
    assert run.stopped == "mean return -100.0 with the goal at 0.5"


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_configurations_of_the_examples_are_valid(path: Path) -> None:
    check_topology(config_file.load(path, [], algorithm_config_type))


@pytest.mark.parametrize("name", ["linear:LinearConfig", "a2c:A2CConfig", "qrdqn:QRDQNConfig"])
def test_algorithms_of_the_examples_keep_their_contract(name: str) -> None:
    check_algorithm(f"examples.{name}", setup=LearnerSetup(0, shards=2, envs_per_shard=2, steps=8))


def by_hand(**changes: object) -> Any:
    kind = algorithm_config_type("examples.linear:LinearConfig")
    return msgspec.structs.replace(kind(name="examples.linear:LinearConfig"), **changes)


def test_policy_and_learner_by_hand_agree_on_log_probabilities() -> None:
    config = by_hand()
    setup = LearnerSetup(seed=0, shards=1, envs_per_shard=3, steps=4)
    learner = config.make_algorithm(CARTPOLE, setup)
    learner._policy[...] = np.random.default_rng(1).normal(size=(5, 2))
    pack = ParameterPack(config.policy_fields(CARTPOLE))
    flat = pack.empty()
    pack.pack(learner.policy_parameters(), flat)
    policy = config.make_policy(CARTPOLE, PolicySetup())
    policy.load(pack.views(flat))
    obs = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    noise = np.linspace(0, 1 - 1e-7, 50, dtype=np.float32)
    out = policy.act(obs, noise=noise, explore=True)
    expected, _ = log_probs(learner._policy, obs)
    chosen = np.take_along_axis(expected, out.action[:, None], 1)[:, 0]
    np.testing.assert_allclose(out.behaviour_log_prob, chosen, atol=1e-6)
    assert set(out.action.tolist()) == {0, 1}
    assert set(policy.environment_action(out.action).tolist()) == {3, 4}


def test_example_by_hand_refuses_frames_that_it_would_not_stack() -> None:
    stacked = SpaceSpec("box", (3, 4), "float32", low=(-5.0,) * 12, high=(5.0,) * 12)
    environment = msgspec.structs.replace(CARTPOLE, observation=stacked, frames=3)
    setup = LearnerSetup(seed=0, shards=1, envs_per_shard=1, steps=3)
    with pytest.raises(ConfigError, match=r"environment\.frame_stack 3"):
        by_hand().check(environment, setup)


def test_example_by_hand_bootstraps_from_the_final_observation_and_stops_at_terminations() -> None:
    setup = LearnerSetup(seed=0, shards=1, envs_per_shard=1, steps=3)
    learner = by_hand(gamma=0.5).make_algorithm(CARTPOLE, setup)
    generator = np.random.default_rng(1)
    learner._value[...] = generator.normal(size=9)
    rollout = ShardRollout(
        shard=0,
        rollout_id=1,
        policy_version=np.zeros((3, 1), np.int64),
        obs=generator.normal(size=(4, 1, 4)).astype(np.float32),
        action=np.zeros((3, 1), np.int64),
        behaviour_log_prob=np.zeros((3, 1), np.float32),
        reward=np.array([[1.0], [2.0], [4.0]], np.float32),
        terminated=np.array([[True], [False], [False]]),
        truncated=np.array([[False], [True], [False]]),
        final_obs=generator.normal(size=(3, 1, 4)).astype(np.float32),
    )

    def value(row: np.ndarray) -> float:
        return float(np.concatenate([row[0], row[0] ** 2, [1.0]]) @ learner._value)

    _, _, target = learner._rows(rollout)
    expected = [1.0, 2.0 + 0.5 * value(rollout.final_obs[1]), 4.0 + 0.5 * value(rollout.obs[3])]
    np.testing.assert_allclose(target, expected, rtol=1e-5)
    report = learner.update(RolloutBatch((rollout,), 0, 0.0))
    assert (report.updates, report.skipped) == (1, 0)


def quantile_learner(**changes: object) -> tuple[Any, Any]:
    kind = algorithm_config_type("examples.qrdqn:QRDQNConfig")
    config: Any = msgspec.structs.replace(kind(name="examples.qrdqn:QRDQNConfig"), **changes)
    setup = LearnerSetup(seed=0, shards=1, envs_per_shard=1, steps=1)
    return config, config.make_algorithm(CARTPOLE, setup)


def drawn(rows: int) -> ReplayBatch:
    rng = np.random.default_rng(3)
    return ReplayBatch(
        obs=rng.normal(size=(rows, 4)).astype(np.float32),
        action=rng.integers(0, 2, rows),
        reward=rng.normal(size=rows).astype(np.float32),
        discount=np.array([0.9, 0.0] * (rows // 2), np.float32),
        next_obs=rng.normal(size=(rows, 4)).astype(np.float32),
        weight=rng.uniform(0.2, 1, rows).astype(np.float32),
        env_steps=rows,
        progress=0.0,
    )


def test_example_from_replay_minimises_the_quantile_loss_of_its_paper() -> None:
    config, learner = quantile_learner(hidden=6, quantiles=3, epsilon_initial=0.05)
    pack = ParameterPack(config.policy_fields(CARTPOLE))
    flat = pack.empty()
    pack.pack(learner.policy_parameters(), flat)
    weight, bias, head, head_bias, exploration = pack.views(flat)
    assert exploration == 1.0  # until the first update
    batch = drawn(4)

    def quantiles(row: Array) -> Array:
        found = head @ np.maximum(weight @ row + bias, 0) + head_bias  # type: ignore[operator]
        return np.reshape(found, (2, 3))

    loss, errors = 0.0, []
    for i in range(4):
        after = quantiles(batch.next_obs[i])  # targets begin as the network
        best = max(range(2), key=lambda choice: after[choice].sum())
        target = batch.reward[i] + batch.discount[i] * after[best]
        own = quantiles(batch.obs[i])[batch.action[i]]
        errors.append(abs(target.mean() - own.mean()))
        for k, share in enumerate((1 / 6, 1 / 2, 5 / 6)):
            for value in target:
                error = float(value - own[k])
                huber = error**2 / 2 if abs(error) < 1 else abs(error) - 0.5
                loss += batch.weight[i] * abs(share - (error < 0)) * huber / 3 / 4
    report = learner.update(batch)
    np.testing.assert_allclose(report.metrics["critic_loss"], loss, rtol=1e-5)
    np.testing.assert_allclose(report.priority, errors, rtol=1e-4)
    assert learner.policy_parameters()[-1] == np.float32(config.epsilon_final)


def test_policy_of_the_example_from_replay_explores_as_its_log_probabilities_say() -> None:
    config, learner = quantile_learner(epsilon_initial=0.5, epsilon_final=0.5)
    learner.update(drawn(8))
    policy = config.make_policy(CARTPOLE, PolicySetup())
    policy.load(learner.policy_parameters())
    rng = np.random.default_rng(0)
    obs = np.repeat(rng.normal(size=(1, 4)).astype(np.float32), 4000, axis=0)
    out = policy.act(obs, noise=rng.random((4000, 2), np.float32), explore=True)
    greedy = policy.act(obs[:1], noise=np.zeros((1, 2), np.float32), explore=False).action[0]
    share = np.mean(out.action == greedy)
    assert abs(share - 0.75) < 0.03
    expected = np.log(np.where(out.action == greedy, 0.75, 0.25))
    np.testing.assert_allclose(out.behaviour_log_prob, expected, atol=1e-6)


# --- what goes wrong with an algorithm of one's own ----------------------------------------------


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


# AlgorithmConfig was no Blueprint once, and each algorithm inherited both.
@pytest.mark.parametrize("bases", ["AlgorithmConfig", "AlgorithmConfig, Blueprint"])
def test_blueprint_that_lacks_parts_names_them_all(module: Path, bases: str) -> None:
    name = f"own_half_{bases.count(',')}"
    (module / f"{name}.py").write_text(
        "from fast_core.config import AlgorithmConfig\n"
        "from fast_core.algorithm import Blueprint\n"
        f"class Own({bases}, frozen=True, kw_only=True):\n"
        "    def policy_fields(self, environment): return ()\n"
    )
    with pytest.raises(ConfigError, match="lacks updates_granted, make_policy, make_algorithm;"):
        algorithm_config_type(f"{name}:Own")


def test_blueprint_of_replay_lacks_what_it_draws(module: Path) -> None:
    (module / "own_replay.py").write_text(
        "from typing import ClassVar\n"
        "from fast_core.config import AlgorithmConfig\n"
        "class Own(AlgorithmConfig, frozen=True, kw_only=True):\n"
        "    learns_from: ClassVar[str] = 'replay'\n"
    )
    needed = "lacks policy_fields, replay, make_policy, make_algorithm;"
    with pytest.raises(ConfigError, match=needed):
        algorithm_config_type("own_replay:Own")


def test_embedded_loop_learns_what_the_loop_by_hand_learns() -> None:
    """Inline at degree 0, where both make the same calls."""
    player, by_hand = Player(5), Reinforce()
    for _ in range(20):
        by_hand.update(player.play())
        player.weights = by_hand.weights
    learner = Learner()
    collector = Collector(0, 5)
    AsyncTrainer(collector=collector, learner=learner, backend="inline").run(max_train_iter=20)
    assert (learner.weights == by_hand.weights).all() and learner.weights.any()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_embedded_sb3_trains(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("stable_baselines3", reason="Stable-Baselines3 is not installed")
    import torch

    from examples.embedded_sb3 import main

    threads = torch.get_num_threads()
    try:
        main(max_env_step=2_048, backend="thread")
    finally:
        torch.set_num_threads(threads)
    assert capsys.readouterr().out.startswith("2048 env steps (max_env_step: 2048)")
