"""The documentation shows the code of the examples, and the examples fit their contracts."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import numpy as np
import pytest

from algos.registry import algorithm_config_type
from fast_core import config_file
from fast_core.algorithm import LearnerSetup, PolicySetup, RolloutBatch, ShardRollout
from fast_core.errors import ConfigError
from fast_core.launcher.topology import check_topology
from fast_core.run_memory import ParameterPack
from fast_core.spec import EnvironmentSpec, SpaceSpec

ROOT = Path(__file__).parents[1]
CONFIGS = sorted((ROOT / "examples").glob("*.yaml"))
CARTPOLE = EnvironmentSpec(
    id="CartPole-v1",
    observation=SpaceSpec("box", (4,), "float32", low=(-5.0,) * 4, high=(5.0,) * 4),
    action=SpaceSpec("discrete", (), "int64", n=2, start=3),
)


@pytest.mark.parametrize(
    ("page", "sources"),
    [
        ("adding-an-algorithm.md", ("a2c.py", "a2c_learner.py", "a2c_cartpole.yaml")),
        ("adding-a-node.md", ("exploration_bonus.py", "exploration_bonus.yaml")),
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


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_configurations_of_the_examples_are_valid(path: Path) -> None:
    check_topology(config_file.load(path, [], algorithm_config_type))


def blueprint(**changes: object) -> object:
    kind = algorithm_config_type("examples.a2c:A2CConfig")
    return msgspec.structs.replace(kind(name="examples.a2c:A2CConfig"), **changes)


def test_policy_and_learner_of_the_example_agree_on_log_probabilities() -> None:
    config = blueprint()
    setup = LearnerSetup(seed=0, shards=1, envs_per_shard=3, steps=4)
    learner = config.make_algorithm(CARTPOLE, setup)  # type: ignore[attr-defined]
    pack = ParameterPack(config.policy_fields(CARTPOLE))  # type: ignore[attr-defined]
    flat = pack.empty()
    pack.pack(learner.policy_parameters(), flat)
    policy = config.make_policy(CARTPOLE, PolicySetup())  # type: ignore[attr-defined]
    policy.load(pack.views(flat))
    obs = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    noise = np.linspace(0, 1 - 1e-7, 50, dtype=np.float32)
    out = policy.act(obs, noise=noise, explore=True)
    import torch

    with torch.no_grad():
        expected = learner._log_probs(torch.as_tensor(obs)).numpy()
    np.testing.assert_allclose(
        out.behaviour_log_prob,
        np.take_along_axis(expected, out.action[:, None], 1)[:, 0],
        atol=1e-6,
    )
    assert set(out.action.tolist()) == {0, 1}
    assert set(policy.environment_action(out.action).tolist()) == {3, 4}


def test_example_refuses_frames_that_it_would_not_stack() -> None:
    stacked = SpaceSpec("box", (3, 4), "float32", low=(-5.0,) * 12, high=(5.0,) * 12)
    environment = msgspec.structs.replace(CARTPOLE, observation=stacked, frames=3)
    setup = LearnerSetup(seed=0, shards=1, envs_per_shard=1, steps=3)
    with pytest.raises(ConfigError, match=r"environment\.frame_stack 3"):
        blueprint().check(environment, setup)  # type: ignore[attr-defined]


def test_example_bootstraps_from_the_final_observation_and_stops_at_terminations() -> None:
    setup = LearnerSetup(seed=0, shards=1, envs_per_shard=1, steps=3)
    learner = blueprint(gamma=0.5).make_algorithm(CARTPOLE, setup)  # type: ignore[attr-defined]
    generator = np.random.default_rng(1)
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
    import torch

    def value(row: np.ndarray) -> float:
        with torch.no_grad():
            return float(learner._value(torch.as_tensor(row)))

    _, _, target = learner._rows(rollout)
    expected = [1.0, 2.0 + 0.5 * value(rollout.final_obs[1]), 4.0 + 0.5 * value(rollout.obs[3])]
    np.testing.assert_allclose(target.numpy(), expected, rtol=1e-5)
    report = learner.update(RolloutBatch((rollout,), 0, 0.0))
    assert (report.updates, report.skipped) == (1, 0)


# --- what goes wrong with an algorithm of one's own ----------------------------------------------


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_configuration_type_that_is_no_blueprint_is_explained(module: Path) -> None:
    (module / "own_plain.py").write_text(
        "from fast_core.config import AlgorithmConfig\n"
        "class Own(AlgorithmConfig, frozen=True, kw_only=True): pass\n"
    )
    with pytest.raises(ConfigError, match=r"must inherit fast_core.algorithm.Blueprint"):
        algorithm_config_type("own_plain:Own")


def test_blueprint_that_lacks_parts_names_them_all(module: Path) -> None:
    (module / "own_half.py").write_text(
        "from fast_core.config import AlgorithmConfig\n"
        "from fast_core.algorithm import Blueprint\n"
        "class Own(AlgorithmConfig, Blueprint, frozen=True, kw_only=True):\n"
        "    def policy_fields(self, environment): return ()\n"
    )
    with pytest.raises(ConfigError, match="lacks updates_granted, make_policy, make_algorithm;"):
        algorithm_config_type("own_half:Own")


def test_blueprint_of_replay_lacks_what_it_draws(module: Path) -> None:
    (module / "own_replay.py").write_text(
        "from typing import ClassVar\n"
        "from fast_core.config import AlgorithmConfig\n"
        "from fast_core.algorithm import Blueprint\n"
        "class Own(AlgorithmConfig, Blueprint, frozen=True, kw_only=True):\n"
        "    learns_from: ClassVar[str] = 'replay'\n"
    )
    needed = "lacks policy_fields, replay, make_policy, make_algorithm;"
    with pytest.raises(ConfigError, match=needed):
        algorithm_config_type("own_replay:Own")
