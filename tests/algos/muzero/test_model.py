"""The networks: the NumPy form says what the torch form says, and both what was learned."""

import numpy as np
import pytest
import torch

from fast_core.algorithm import PolicySetup
from fast_core.algos.muzero.model import centre
from fast_core.algos.muzero.torch_sequences import Sequences
from tests.algos.muzero.cases import CHOICES, ENVIRONMENT, make_config, make_learner, make_sequences

SETTINGS = {
    "plain": {},
    "scalars": {"value_support": 0, "reward_support": 0},
    "options": {
        "normalize_observations": True,
        "layer_norm": True,
        "activation": "silu",
        "hidden_sizes": (8, 7),
    },
}


def acting(config, learner):
    models = [config.make_model(ENVIRONMENT, PolicySetup(b)) for b in ("numpy", "torch")]
    for model in models:
        model.load(learner.policy_parameters()[:-1])
    return models


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("rows", [1, 5, 64])
def test_numpy_and_torch_say_the_same(name, rows):
    config = make_config(**SETTINGS[name])
    models = acting(config, make_learner(config))
    rng = np.random.default_rng(rows)
    obs, action = rng.normal(size=(rows, 5)).astype(np.float32), rng.integers(CHOICES, size=rows)
    roots = [model.root(obs) for model in models]
    steps = [model.step(roots[0].latent, action) for model in models]
    for ours, theirs in (roots, steps):
        for field in ours._fields:
            one, other = getattr(ours, field), getattr(theirs, field)
            assert one.shape == other.shape
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5, err_msg=field)
    assert np.ptp(roots[0].value) > 0.01 or rows == 1


@pytest.mark.parametrize("rows", [1, 7, 64])
def test_latent_states_are_centred_each_by_itself(rows):
    rng = np.random.default_rng(rows)
    before, change = rng.normal(3, 2, (2, 12, rows)).astype(np.float32)
    state = (before + change).astype(np.float64)
    wanted = (state - state.mean(axis=0)) / np.sqrt(state.var(axis=0) + 1e-5)
    columns = [change[:, k : k + 1].copy() for k in range(rows)]
    for k, column in enumerate(columns):
        centre(column, np.ascontiguousarray(before[:, k : k + 1]))
    centre(change, before)
    np.testing.assert_allclose(change, wanted, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(change, np.concatenate(columns, axis=1))


def test_what_acts_is_what_was_learned():
    config = make_config()
    learner = make_learner(config)
    model, _ = acting(config, learner)
    batch = make_sequences(config)
    taken = Sequences(config, learner._encoder, learner._upload, None).take(
        batch, np.random.default_rng(0)
    )
    with torch.no_grad():
        logits, values, rewards = learner._unrolled(taken)
        values, rewards = learner._value.decode(values), learner._reward.decode(rewards)
    root = model.root(batch.obs[:, 0])
    np.testing.assert_allclose(root.logits, logits[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(root.value, values[0], rtol=1e-4, atol=1e-5)
    latent = root.latent
    for k in range(config.unroll):
        step = model.step(latent, taken.action[k].numpy())
        np.testing.assert_allclose(step.reward, rewards[k], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(step.value, values[k + 1], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(step.logits, logits[k + 1], rtol=1e-4, atol=1e-5)
        latent = step.latent
