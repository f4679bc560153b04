"""What acts and what learns are one policy, whichever gradient and backend compute it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fast_core.algorithm import PolicySetup
from fast_core.algos.appo.config import APPOConfig
from fast_core.algos.ppo.config import PPOConfig
from fast_core.testing.samples import draw, noise_of
from tests.algos import test_ppo_spaces as spaces
from tests.algos.rollout_cases import (
    columns_of,
    make_batch,
    make_environment,
    make_learner,
    moved,
)
from tests.algos.test_recurrent_ppo import CAMERA, ENVIRONMENTS
from tests.forms import slow_but

GRADIENTS = ["explicit", "autograd"]
STEPS, ROWS = 12, 96
SIZES = {"actor_sizes": (9,), "critic_sizes": (7, 11, 6), "hidden_sizes": None}
CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "choices": (make_environment(actions=3), {}),
    "box": (make_environment(continuous=True), {"activation": "relu"}),
    "shared": (make_environment(continuous=True), {"shared_torso": True}),
    "sizes": (make_environment(), {"activation": "silu", "layer_norm": True, **SIZES}),
    "parts, mlp": (spaces.PARTS, {"network": "mlp"}),
    **{each.id: (each, {}) for each in spaces.ALL},
}
for _cell in ("gru", "lstm"):
    for _name, _each in ENVIRONMENTS.items():
        more = {"activation": "silu", "layer_norm": True} if _name == "continuous" else {}
        changes = {"recurrent": _cell, "recurrent_size": 6, **more}
        CASES[f"{_name}, {_cell}"] = (_each, changes)
CASES["camera, gru"] = (CAMERA, {"recurrent": "gru", "recurrent_size": 6, "hidden_sizes": None})
CASES["own network"] = (make_environment(), {"network": "tests.algos.own_networks:Fourier"})
IN_TORCH = {"camera, gru", "own network", *(each.id for each in spaces.IMAGES)}
NUMBERS = [name for name in CASES if name not in IN_TORCH]
QUICK = [name for name in CASES if name not in ("Picture-v0", "Stacked-v0")]


def made(kind: type[PPOConfig], name: str, **changes: Any) -> Any:
    """A configuration, its environment, and a learner whose policy is far from uniform."""
    environment, options = CASES[name]
    given = {"hidden_sizes": (8,), "minibatch_size": ROWS, "epochs": 1, **options, **changes}
    config = kind(**{"normalize_observations": True, **given})
    return config, environment, moved(make_learner(config, environment, rows=ROWS), by=0.2)


@pytest.mark.parametrize("gradient", GRADIENTS)
@pytest.mark.parametrize("name", slow_but(QUICK, CASES))
def test_ratios_of_the_policy_that_acted_are_one(name: str, gradient: str) -> None:
    """Also after parameters and statistics have changed."""
    config, environment, learner = made(PPOConfig, name, gradient=gradient, clip_epsilon=1e-4)
    for seed in range(2):
        report = learner.update(make_batch(config, environment, learner, steps=STEPS, seed=seed))
        assert (report.updates, report.skipped) == (1, 0)
        assert report.metrics["clip_fraction"] == 0.0, "a ratio differs from 1 by over 1e-4"
        assert abs(report.metrics["approx_kl"]) < 1e-7
        assert report.metrics["gradient_norm"] > 0


@pytest.mark.parametrize("gradient", GRADIENTS)
@pytest.mark.parametrize("name", slow_but(QUICK, CASES))
def test_importance_weights_of_the_policy_that_acted_are_one(name: str, gradient: str) -> None:
    config, environment, learner = made(
        APPOConfig, name, gradient=gradient, decoupled=True, drift_clip_epsilon=None
    )
    batch = make_batch(config, environment, learner, steps=STEPS)
    _, columns = columns_of(learner, batch)
    np.testing.assert_allclose(columns.scalars[4], 1.0, atol=1e-4)
    assert learner.update(batch).metrics["ess"] == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("name", NUMBERS)
def test_both_gradients_learn_the_same(name: str) -> None:
    """Also where some rows, of sequences too, are left out."""
    lost, after = np.arange(STEPS * 4).reshape(STEPS, 4) % 5 == 0, []
    for gradient in GRADIENTS:
        changes = {"gradient": gradient, "minibatch_size": 24, "epochs": 3, "learning_rate": 1e-3}
        config, environment, learner = made(PPOConfig, name, entropy_coef=0.1, **changes)
        batch = make_batch(config, environment, learner, steps=STEPS)
        first = replace(batch.rollouts[0], quarantined=lost)
        report = learner.update(replace(batch, rollouts=(first, *batch.rollouts[1:])))
        assert report.updates == 12
        after.append(learner.state_dict()["parameters"])
    for key, explicit in after[0].items():
        np.testing.assert_allclose(explicit, after[1][key], atol=3e-4, err_msg=key)


@pytest.mark.parametrize("name", NUMBERS)
def test_numpy_and_torch_policies_act_and_remember_alike(name: str) -> None:
    config, environment, learner = made(PPOConfig, name)
    policies = [config.make_policy(environment, PolicySetup(each)) for each in ("numpy", "torch")]
    for policy in policies:
        policy.load(learner.policy_parameters())
    rng, size = np.random.default_rng(1), config.state_size(environment)
    states: list[Any] = [np.zeros((16, size), np.float32) if size else None] * 2
    field = config.action_field(environment)
    for step in range(6):
        obs = draw(environment, environment.observation, (16,), rng)
        obs.flags.writeable = False  # as views of shared memory may be
        given = {"noise": noise_of(config, environment, 16, rng), "explore": step % 2 == 0}
        ours, theirs = (
            policy.act(obs, state=state, **given)
            for policy, state in zip(policies, states, strict=True)
        )
        np.testing.assert_allclose(ours.action, theirs.action, atol=1e-5)
        np.testing.assert_allclose(ours[1], theirs[1], atol=1e-5)
        for each in (ours, theirs):
            assert (each.action.dtype, each.action.shape) == (field.dtype, (16, *field.shape))
            assert each.behaviour_log_prob.dtype == np.float32
            sent, space = policies[0].environment_action(each.action), environment.action
            assert (sent.dtype, sent.shape) == (space.dtype, (16, *space.shape))
        if size:
            np.testing.assert_allclose(ours.state, theirs.state, atol=1e-5)
            states = [np.array(each.state) for each in (ours, theirs)]
