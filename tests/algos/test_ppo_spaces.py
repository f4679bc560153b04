"""PPO with images, composite observations, masks and several choices at once."""

import dataclasses
import warnings

import numpy as np
import pytest
import torch

from fast_core.algorithm import LearnerSetup, PolicySetup
from fast_core.algorithm.spec import EnvironmentSpec, SpaceSpec
from fast_core.algos.ppo.config import PPOConfig
from fast_core.algos.ppo.explicit import ExplicitCore
from fast_core.algos.ppo.learner import PPO
from fast_core.algos.rollouts.torch_core import TorchCore
from fast_core.testing.samples import draw
from tests.algos.rollout_cases import make_batch, paid
from tests.forms import slow_but

STEPS, ENVS = 16, 8
SETUP = LearnerSetup(seed=0, shards=1, envs_per_shard=ENVS, steps=STEPS)
FOUR = SpaceSpec("discrete", (), "int64", n=4, start=-2)
CHOICES = SpaceSpec("multi_discrete", (2, 1), "int32", counts=(2, 3), starts=(1, 0))
BOX = SpaceSpec("box", (2,), "float32", low=(-1.0,), high=(1.0,))
MASK = SpaceSpec("box", (5,), "bool", low=(0.0,), high=(1.0,))
NUMBERS = SpaceSpec("box", (3,), "float32", low=(-10.0,), high=(10.0,))


def pixels(*shape):
    return SpaceSpec("box", shape, "uint8", low=(0.0,), high=(255.0,))


PICTURE = EnvironmentSpec("Picture-v0", pixels(36, 36), FOUR)
SMALL_PICTURE = EnvironmentSpec("SmallPicture-v0", pixels(16, 16, 3), FOUR)
STACKED = EnvironmentSpec("Stacked-v0", pixels(2, 36, 36), FOUR, frames=2)
PARTS = EnvironmentSpec(
    "Parts-v0",
    SpaceSpec.composite([("camera", pixels(36, 36)), ("arm", NUMBERS), ("mask", MASK)]),
    CHOICES,
    action_mask="mask",
)
MASKED = EnvironmentSpec(
    "Masked-v0",
    SpaceSpec.composite([("arm", NUMBERS), ("mask", MASK)]),
    SpaceSpec("discrete", (), "int64", n=5),
    action_mask="mask",
)
REACH = EnvironmentSpec("Reach-v0", SpaceSpec.composite([("arm", NUMBERS)]), BOX)
IMAGES = [PICTURE, SMALL_PICTURE, STACKED, PARTS]
ALL = [*IMAGES, MASKED, REACH]


def collect(config, environment, learner, seed=0):
    return make_batch(config, environment, learner, steps=STEPS, shards=(0,), envs=ENVS, seed=seed)


def learner_of(config, environment, **changes) -> PPO:
    return config.make_algorithm(environment, dataclasses.replace(SETUP, **changes))


def ppo(**changes):
    return PPOConfig(**({"minibatch_size": 64, "epochs": 2, "normalize_rewards": False} | changes))


def test_convolutions_train_with_autograd_and_numbers_without_torch():
    assert isinstance(learner_of(ppo(), PICTURE)._core, TorchCore)
    assert isinstance(learner_of(ppo(), PARTS)._core, TorchCore)
    assert isinstance(learner_of(ppo(network="mlp"), PARTS)._core, ExplicitCore)
    assert isinstance(learner_of(ppo(), MASKED)._core, ExplicitCore)
    assert isinstance(learner_of(ppo(), MASKED, precision="bf16")._core, TorchCore)


def test_masked_rows_of_the_learner_are_those_of_the_actor():
    """A mask in the wrong order would change log-probabilities, so ratios, in later epochs."""
    for gradient in ("explicit", "autograd"):
        config = ppo(
            learning_rate=1e-12, epochs=3, minibatch_size=16, clip_epsilon=1e-4, gradient=gradient
        )
        learner = learner_of(config, MASKED)
        report = learner.update(collect(config, MASKED, learner))
        assert report.updates == 24 and report.metrics["clip_fraction"] == 0.0


def test_bfloat16_update_is_close_to_float32_and_keeps_float32_parameters():
    config = ppo(epochs=1, minibatch_size=STEPS * ENVS, max_grad_norm=None)
    moments = []
    for precision in ("fp32", "bf16"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # where the CPU has no bfloat16
            learner = learner_of(config, STACKED, precision=precision)
        report = learner.update(collect(config, STACKED, learner_of(config, STACKED)))
        assert report.updates == 1
        state = learner.state_dict()
        assert all(p.dtype == np.float32 for p in state["parameters"].values())
        moments.append(state["first_moment"])
    exact, rough = moments
    cosine = exact @ rough / np.linalg.norm(exact) / np.linalg.norm(rough)
    assert 0.98 < cosine < 1.0
    assert np.linalg.norm(rough) == pytest.approx(np.linalg.norm(exact), rel=0.1)


def test_cpu_without_bfloat16_is_warned_of_once(monkeypatch):
    for check in ("_is_avx512_bf16_supported", "_is_amx_tile_supported"):
        monkeypatch.setattr(torch.cpu, check, lambda: False, raising=False)
    with pytest.warns(
        RuntimeWarning, match=r"nodes.optimizer.precision: bf16 is slower.*fp32"
    ) as caught:
        learner = learner_of(ppo(), PICTURE, precision="bf16")
        learner.update(collect(ppo(), PICTURE, learner))
    assert len(caught) == 1
    with pytest.warns(RuntimeWarning, match=r"policy.precision: bf16 is slower"):
        ppo().make_policy(PICTURE, PolicySetup("torch", precision="bf16"))


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_policy_agrees_with_the_learner_in_either_precision(precision):
    config = ppo()
    learner = learner_of(config, STACKED)
    exact, policy = (
        config.make_policy(STACKED, PolicySetup("torch", precision=p)) for p in ("fp32", precision)
    )
    for one in (exact, policy):
        one.load(learner.policy_parameters())
    obs = np.random.default_rng(0).integers(0, 256, (8, 2, 36, 36), dtype=np.uint8)
    obs.flags.writeable = False
    noise = np.full(8, 0.3, np.float32)
    ours, theirs = (p.act(obs, noise=noise, explore=True) for p in (policy, exact))
    np.testing.assert_allclose(ours.behaviour_log_prob, theirs.behaviour_log_prob, atol=2e-3)
    assert ours.behaviour_log_prob.dtype == np.float32
    again = policy.act(obs[:3], noise=noise[:3], explore=True)
    np.testing.assert_allclose(again.behaviour_log_prob, ours.behaviour_log_prob[:3], atol=2e-3)


def test_images_of_equal_shape_do_not_share_a_buffer():
    two = SpaceSpec.composite([("left", pixels(36, 36)), ("right", pixels(36, 36))])
    environment = EnvironmentSpec("Two-v0", two, FOUR)
    config = ppo()
    policy = config.make_policy(environment, PolicySetup("torch"))
    policy.load([np.array(p) * 3 for p in learner_of(config, environment).policy_parameters()])
    obs = draw(environment, two, (4,), np.random.default_rng(0))
    noise = np.zeros(4, np.float32)
    log_probs = [policy.act(obs, noise=noise, explore=False).behaviour_log_prob]
    for part in two.parts:
        changed = obs.copy()
        changed[part[0]] = 0
        log_probs.append(policy.act(changed, noise=noise, explore=False).behaviour_log_prob)
    assert (log_probs[0] != log_probs[1]).all() and (log_probs[0] != log_probs[2]).all()


# --- learning ------------------------------------------------------------------------------------


def quadrants(rng, size, channels=()):
    """Pictures with one bright quadrant, and which one."""
    where = rng.integers(0, 4, (STEPS + 1, ENVS))
    pictures = rng.integers(0, 60, (STEPS + 1, ENVS, size, size, *channels), dtype=np.uint8)
    half = size // 2
    for quadrant in range(4):
        top, left = divmod(quadrant, 2)
        rows = pictures[where == quadrant]
        rows[:, top * half : (top + 1) * half, left * half : (left + 1) * half] += 150
        pictures[where == quadrant] = rows
    return pictures, where


@pytest.mark.parametrize(
    ("environment", "channels", "rounds"),
    slow_but([(PICTURE, (), 16)], [(PICTURE, (), 16), (SMALL_PICTURE, (3,), 16)]),
)
def test_learns_from_pictures_where_the_bright_quadrant_is(environment, channels, rounds):
    config = ppo(learning_rate=1e-3, epochs=4, minibatch_size=32, entropy_coef=0.01)
    learner = learner_of(config, environment)
    rng = np.random.default_rng(0)
    rewards = []
    for seed in range(rounds):
        pictures, where = quadrants(rng, environment.observation.shape[0], channels)
        batch = paid(
            config, environment, learner, pictures,
            lambda _, action, where=where: action == where[:-1], seed,
        )  # fmt: skip
        rewards.append(batch.rollouts[0].reward.mean())
        learner.update(batch)
    assert rewards[0] < 0.5, "guessing is right one time in four"
    assert np.mean(rewards[-3:]) > 0.9


def test_learns_the_best_allowed_pair_of_choices():
    config = ppo(network="mlp", learning_rate=3e-3, epochs=4, hidden_sizes=(32,))
    space = SpaceSpec.composite([("arm", NUMBERS), ("mask", MASK)])
    environment = EnvironmentSpec("Pair-v0", space, CHOICES, action_mask="mask")
    learner = learner_of(config, environment)

    def reward_of(obs, action):  # the highest allowed choice of both dimensions
        best = 2 - obs["mask"][..., 4:1:-1].argmax(-1)
        first = 1 - obs["mask"][..., 1::-1].argmax(-1)
        return (action[..., 0, 0] == first) * 0.5 + (action[..., 1, 0] == best) * 0.5

    rewards = []
    for seed in range(25):
        obs = draw(environment, space, (STEPS + 1, ENVS), np.random.default_rng(100 + seed))
        batch = paid(config, environment, learner, obs, reward_of, seed)
        rewards.append(batch.rollouts[0].reward.mean())
        learner.update(batch)
    assert np.mean(rewards[:2]) < 0.85 and np.mean(rewards[-3:]) > 0.95
