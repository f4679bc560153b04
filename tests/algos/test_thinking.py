"""What a policy is said to think is what its learner computes and what it does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from examples.qrdqn import QRDQNConfig
from fast_core.algorithm import Thoughts
from fast_core.algorithm.parameters import ParameterPack
from fast_core.algorithm.spec import EnvironmentSpec, SpaceSpec
from fast_core.algos.appo.config import APPOConfig
from fast_core.algos.nets.squashed_gaussian import SquashedGaussian
from fast_core.algos.ppo.config import PPOConfig
from fast_core.algos.replay.dqn import action_values
from fast_core.algos.replay.dsac import softplus
from fast_core.algos.rollouts.merged import merge
from tests.algos import test_ppo_spaces as spaces
from tests.algos import test_recurrent_ppo as recurrent
from tests.algos.pixel_cases import pixel_batch, pixel_environment
from tests.algos.replay_cases import (
    BOX,
    changed,
    environment_for,
    make_batch,
    make_config,
    make_learner,
)
from tests.algos.rollout_cases import policy_of
from tests.forms import slow_but

OWN = "tests.algos.own_networks"
CLOSE = {"rtol": 1e-5, "atol": 1e-5}


def thinker_of(config: Any, environment: Any, learner: Any) -> Any:
    """One that has what a learner publishes, packed as it travels."""
    parameters = []
    for fields, given, of in (
        (config.policy_fields(environment), learner.policy_parameters(), "policy"),
        (config.insight_fields(environment), learner.insight_parameters(), "insight"),
    ):
        pack = ParameterPack(fields, of)
        flat = pack.empty()
        pack.pack(given, flat)
        parameters += pack.views(flat)
    thinker = config.make_thinker(environment)
    thinker.load(parameters)
    return thinker


# --- actor-critics -------------------------------------------------------------------------------

NETWORKS = {
    "mlp": (spaces.MASKED, {}),
    "many": (spaces.PARTS, {"network": "mlp", "normalize_rewards": True}),
    "box": (spaces.REACH, {"normalize_actions": True, "layer_norm": True}),
    "sizes": (spaces.REACH, {"critic_sizes": (9,), "observation_clip": 0.5}),
    "autograd": (spaces.REACH, {"gradient": "autograd", "shared_torso": True}),
    "image": (spaces.STACKED, {"normalize_rewards": True}),
    "parts": (spaces.PARTS, {}),
    "torsos": (spaces.SMALL_PICTURE, {"shared_torso": False}),
    "own": (spaces.REACH, {"network": f"{OWN}:Parts", "shared_torso": False}),
}


def ppo_values(learner: Any, batch: Any) -> np.ndarray:
    """What the learner itself says of the observations of a round, ``[T + 1, B]``."""
    merged = merge(batch, learner._encoder, learner._frames)
    learner._core.observe(learner._statistics.as_networks_see(merged))
    steps, envs = merged.reward.shape
    return learner._core.values(0, (steps + 1) * envs).reshape(steps + 1, envs)


@pytest.mark.parametrize("name", slow_but(["mlp", "many", "box", "image", "own"], NETWORKS))
@pytest.mark.parametrize("kind", slow_but([PPOConfig], [PPOConfig, APPOConfig]))
def test_value_of_an_actor_critic_is_its_learners(name: str, kind: type[PPOConfig]) -> None:
    environment, changes = NETWORKS[name]
    config = kind(**({"minibatch_size": 64, "epochs": 1, "normalize_rewards": False} | changes))
    learner = spaces.learner_of(config, environment)
    assert learner.update(spaces.collect(config, environment, learner)).updates > 0
    batch = spaces.collect(config, environment, learner, seed=1)
    scale = learner._statistics._rewards.inverse_std[0] if config.normalize_rewards else 1.0
    expected = ppo_values(learner, batch) / scale
    (rollout,) = batch.rollouts
    thinker = thinker_of(config, environment, learner)
    for t, env in ((0, 0), (3, 5), (9, 1)):
        obs = rollout.take_obs(np.array([t]), np.array([env]))
        action = rollout.action[t, env : env + 1]
        thoughts = thinker.think(obs, action, None)
        assert thoughts.value == pytest.approx(expected[t, env], rel=1e-5, abs=1e-5)
        said = np.exp(rollout.behaviour_log_prob[t, env])
        assert likelihood(config, environment, thoughts, action[0]) == pytest.approx(said, rel=1e-4)


def likelihood(config: Any, environment: Any, thoughts: Thoughts, action: Any) -> float:
    """How likely a stored action is by what a policy is said to think."""
    if thoughts.probabilities is not None:
        choices = np.reshape(action, -1)
        pairs = zip(thoughts.probabilities, choices, strict=True)
        assert [each.sum() for each in thoughts.probabilities] == pytest.approx([1] * len(choices))
        return float(np.prod([each[choice] for each, choice in pairs]))
    low, high = environment.action.bounds
    half, middle = ((high - low) / 2, (high + low) / 2) if config.normalize_actions else (1.0, 0.0)
    mean, std = (thoughts.mean - middle) / half, thoughts.std / half
    density = torch.distributions.Normal(torch.tensor(mean), torch.tensor(std))
    return float(density.log_prob(torch.tensor(action)).sum().exp())


@pytest.mark.parametrize("cell", slow_but(["lstm"], ["gru", "lstm"]))
@pytest.mark.parametrize("gradient", slow_but(["explicit"], ["explicit", "autograd"]))
def test_value_of_what_is_remembered_is_its_learners(cell: str, gradient: str) -> None:
    environment = recurrent.ENVIRONMENTS["masked"]
    config = recurrent.ppo(recurrent=cell, gradient=gradient)
    learner, policy, batch = recurrent.made(config, environment)
    expected = ppo_values(learner, batch)[:, : recurrent.ENVS]
    thinker, rollout = thinker_of(config, environment, learner), batch.rollouts[0]
    state = rollout.state
    for t in range(recurrent.STEPS):
        for env in range(recurrent.ENVS):
            row = slice(env, env + 1)
            thoughts = thinker.think(rollout.obs[t, row], rollout.action[t, row], state[row])
            assert thoughts.value == pytest.approx(expected[t, env], rel=1e-5, abs=1e-5)
            chance = likelihood(config, environment, thoughts, rollout.action[t, env])
            assert np.log(chance) == pytest.approx(rollout.behaviour_log_prob[t, env], abs=1e-4)
        noise = np.zeros(recurrent.ENVS, np.float32)
        state = policy.act(rollout.obs[t], noise=noise, explore=True, state=state).state.copy()
        state[rollout.terminated[t] | rollout.truncated[t]] = 0.0


def test_images_are_remembered_by_a_thinker_too() -> None:
    environment, config = recurrent.CAMERA, recurrent.ppo(hidden_sizes=None)
    learner, _, batch = recurrent.made(config, environment)
    expected, rollout = ppo_values(learner, batch), batch.rollouts[0]
    thoughts = thinker_of(config, environment, learner).think(
        rollout.obs[0, :1], rollout.action[0, :1], rollout.state[:1]
    )
    assert thoughts.value == pytest.approx(expected[0, 0], rel=1e-5, abs=1e-5)


def test_value_of_a_bfloat16_learner_is_that_of_its_float32_parameters() -> None:
    config = spaces.ppo()
    learner = spaces.learner_of(config, spaces.PICTURE, precision="bf16")
    plain = spaces.learner_of(config, spaces.PICTURE)
    batch = spaces.collect(config, spaces.PICTURE, learner)
    learner.update(batch)
    plain.load_state_dict(learner.state_dict())
    obs, action = batch.rollouts[0].obs[0, :1], batch.rollouts[0].action[0, :1]
    value = thinker_of(config, spaces.PICTURE, learner).think(obs, action, None).value
    assert value == pytest.approx(ppo_values(plain, batch)[0, 0], rel=1e-5, abs=1e-5)


# --- critics in boxes ----------------------------------------------------------------------------


def trained(name: str, seen: str = "", **changes: Any) -> tuple[Any, Any, Any, Any]:
    """A learner after some steps, and a batch that it has not seen."""
    plain = environment_for(name)
    environment = pixel_environment(name, seen) if seen else plain
    draw = pixel_batch if seen else make_batch
    config = make_config(name, **changes)
    learner = make_learner(config, environment)
    for turn in range(3):
        learner.update(draw(environment, seed=turn))
    return config, environment, learner, draw(environment, seed=9)


def judged(learner: Any, batch: Any, actions: np.ndarray) -> np.ndarray:
    """What the learner's critics say of stored actions ``[N, A]``: ``[M, out, N]``."""
    if hasattr(learner, "online"):
        rows = learner._batches.take(changed(batch, action=actions))
        with torch.no_grad():
            seen = learner.online.see(rows.obs)
            found = learner.online("critics", seen, rows.action)
        return found.transpose(1, 2).numpy()
    learner._inputs.fill(changed(batch, action=actions))
    return learner._critics.forward(learner._inputs.stored).copy()


CRITICS = [
    ("sac", "", {}),
    ("sac", "", {"normalize_observations": True, "critic_sizes": (7,)}),
    ("sac", "stacked", {}),
    ("sac", "composite", {"normalize_observations": True}),
    ("redq", "", {}),
    ("td3", "", {"layer_norm": "critics"}),
    ("ddpg", "", {}),
    ("dsac", "", {}),
    ("dsact", "", {}),
    ("dsact", "stacked", {}),
    ("sac", "", {"network": f"{OWN}:Plain", "hidden_sizes": None}),
    ("td3", "", {"network": f"{OWN}:Both", "hidden_sizes": None, "normalize_observations": True}),
    ("dsact", "", {"network": f"{OWN}:Plain", "hidden_sizes": None}),
]


@pytest.mark.parametrize(
    ("name", "seen", "changes"), slow_but([*CRITICS[:8:2], *CRITICS[8:]], CRITICS)
)
def test_q_of_the_action_taken_is_its_learners(name: str, seen: str, changes: Any) -> None:
    config, environment, learner, batch = trained(name, seen, **changes)
    thinker = thinker_of(config, environment, learner)
    policy = policy_of(config, environment, learner)
    rows = np.arange(len(batch.reward))
    noise = np.zeros((len(rows), 2), np.float32)
    quiet = policy.act(batch.obs, noise=noise, explore=False).action.copy()
    taken = policy.environment_action(batch.action)
    said = [thinker.think(batch.obs[i : i + 1], taken[i : i + 1], None) for i in rows]
    for what, actions in (("q", batch.action), ("value", quiet)):
        wanted = judged(learner, batch, actions)
        values = wanted[:, 0].mean(0) if name == "redq" else wanted[:, 0].min(0)
        found = [each.value if what == "value" else each.q[0] for each in said]
        np.testing.assert_allclose(found, values, **CLOSE)
        if what == "q" and name in ("dsac", "dsact"):
            least = wanted[:, 0].argmin(0)
            np.testing.assert_allclose(
                [each.q_std[0] for each in said], softplus(wanted[least, 1, rows]), **CLOSE
            )


@pytest.mark.parametrize("name", BOX)
def test_mean_and_deviation_are_those_of_what_is_done(name: str) -> None:
    config, environment, learner, batch = trained(name)
    policy = policy_of(config, environment, learner)
    many = np.repeat(batch.obs[:1], 20_000, axis=0)
    noise = np.random.default_rng(0).standard_normal((len(many), 2), np.float32)
    done = policy.environment_action(policy.act(many, noise=noise, explore=True).action)
    said = thinker_of(config, environment, learner).think(batch.obs[:1], done[:1], None)
    np.testing.assert_allclose(said.mean, done.mean(0), atol=0.03)
    np.testing.assert_allclose(said.std, done.std(0), rtol=0.03)


def test_untrained_policy_is_said_to_act_at_random() -> None:
    config, environment = make_config("sac"), environment_for("sac")
    learner = make_learner(config, environment)
    batch = make_batch(environment)
    said = thinker_of(config, environment, learner).think(batch.obs[:1], batch.action[:1], None)
    np.testing.assert_allclose(said.mean, [1.0, 0.0], atol=1e-6)  # of -1 to 3, and -2 to 2
    np.testing.assert_allclose(said.std, np.array([2.0, 2.0]) / np.sqrt(3), rtol=1e-6)


@pytest.mark.parametrize("log_std", [-20.0, -1.0, 0.5, 2.0])
def test_moments_of_squashed_actions_are_those_of_many_draws(log_std: float) -> None:
    output = np.array([[0.3], [log_std]], np.float32)
    mean, std = SquashedGaussian(1).moments(output)
    draws = np.tanh(0.3 + np.exp(log_std) * np.random.default_rng(0).standard_normal(400_000))
    assert mean[0, 0] == pytest.approx(draws.mean(), abs=0.005)
    assert std[0, 0] == pytest.approx(draws.std(), abs=0.005)


# --- values of choices ---------------------------------------------------------------------------

CHOICES = [
    ("", {}),
    ("", {"dueling": False, "normalize_observations": True}),
    ("stacked", {}),
    ("stacked", {"dueling": False}),
    ("composite", {}),
    ("", {"network": f"{OWN}:Plain", "hidden_sizes": None}),
]


@pytest.mark.parametrize(("seen", "changes"), CHOICES)
def test_values_of_choices_are_the_learners(seen: str, changes: Any) -> None:
    config, environment, learner, batch = trained("dqn", seen, **changes)
    thinker = thinker_of(config, environment, learner)
    if hasattr(learner, "online"):
        with torch.no_grad():
            rows = learner._batches.take(batch).obs
            wanted = learner.output(config, learner.online, rows).numpy().T
    else:
        learner._inputs.fill(batch)
        output = learner._network.forward(learner._inputs.obs)
        wanted = action_values(output, dueling=config.dueling)
    for row in range(len(batch.reward)):
        said = thinker.think(batch.obs[row : row + 1], batch.action[row : row + 1], None)
        np.testing.assert_allclose(said.q, wanted[:, row], **CLOSE)
        assert said.value == pytest.approx(wanted[:, row].max(), rel=1e-5, abs=1e-5)
        (chances,) = said.probabilities or ()
        epsilon = learner._exploration()
        assert 0 < epsilon < 1
        assert chances.max() == pytest.approx(1 - epsilon + epsilon / 3)
        assert chances.argmax() == said.q.argmax()
        assert chances.sum() == pytest.approx(1)


def test_choices_that_are_not_allowed_have_no_value() -> None:
    plain = environment_for("dqn")
    legal = SpaceSpec("box", (3,), "int8", low=(0.0,), high=(1.0,))
    seen = SpaceSpec.composite([("seen", plain.observation), ("legal", legal)])
    masked = EnvironmentSpec("Masked-v0", seen, plain.action, action_mask="legal")
    config = make_config("dqn")
    learner = make_learner(config, masked)
    obs = np.zeros(1, masked.observation.row_dtype)
    obs["legal"] = [1, 0, 1]
    said = thinker_of(config, masked, learner).think(obs, np.array([2]), None)
    assert np.isnan(said.q).tolist() == [False, True, False]
    assert said.value == np.nanmax(said.q)
    assert said.probabilities[0].tolist() == [0.5, 0.0, 0.5]


def test_example_of_the_documentation_has_its_values() -> None:
    environment = environment_for("dqn")
    config = QRDQNConfig(name="examples.qrdqn:QRDQNConfig", batch_size=8)
    learner = make_learner(config, environment)
    batch = make_batch(environment)
    learner.update(batch)
    with torch.no_grad():
        wanted = learner.output(config, learner.online, learner._batches.take(batch).obs).numpy()
    said = thinker_of(config, environment, learner).think(batch.obs[:1], batch.action[:1], None)
    np.testing.assert_allclose(said.q, wanted[0], **CLOSE)
