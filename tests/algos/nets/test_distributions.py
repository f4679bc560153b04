import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fast_core.algos.nets.distributions import Categorical, DiagonalGaussian, MultiCategorical
from fast_core.algos.nets_torch.networks import categorical as torch_categorical


def logits(rng, choices, rows=64):
    return rng.normal(0, 2, (choices, rows)).astype(np.float32)


@pytest.mark.parametrize("choices", [1, 2, 4])
def test_categorical_sample_inverts_the_distribution_function(choices):
    rng = np.random.default_rng(choices)
    output = np.repeat(logits(rng, choices, 1), 20_000, axis=1)
    noise = (np.arange(20_000) + 0.5) / 20_000  # an even grid: frequencies are probabilities
    action, log_prob = Categorical().sample(output, noise.astype(np.float32))
    assert action.dtype == np.int64
    probability = np.exp(output[:, 0]) / np.exp(output[:, 0]).sum()
    np.testing.assert_allclose(
        np.bincount(action, minlength=choices) / 20_000, probability, atol=2e-4
    )
    np.testing.assert_allclose(np.exp(log_prob), probability[action], rtol=1e-5)
    assert (np.diff(action) >= 0).all()


def test_two_choices_sample_as_the_general_way_does():
    rng = np.random.default_rng(3)
    two = logits(rng, 2, 1000)
    # A third choice of probability zero takes the general way to the same numbers.
    three = np.concatenate([two, np.full((1, 1000), -1e30, np.float32)])
    noise = rng.random(1000, dtype=np.float32)
    action, log_prob = Categorical().sample(two, noise)
    general_action, general_log_prob = Categorical().sample(three, noise)
    assert (action == general_action).all()
    assert (log_prob == general_log_prob).all()


@pytest.mark.parametrize("noise", [0.0, np.float32(1) - np.float32(2**-24)])
def test_impossible_choices_are_never_sampled(noise):
    output = np.array([[-1e30], [0.0], [-1e30]], np.float32)
    action, log_prob = Categorical().sample(output, np.array([noise], np.float32))
    assert action[0] == 1 and log_prob[0] == 0.0


def test_categorical_mode_takes_the_largest_logit():
    output = np.array([[0.0, 5.0, 1.0], [2.0, 1.0, 1.0]], np.float32)
    action, log_prob = Categorical().mode(output)
    assert action.tolist() == [1, 0, 0]
    np.testing.assert_allclose(log_prob, [-0.126928, -0.018150, -0.693147], rtol=1e-4)


def test_extreme_logits_stay_finite():
    output = np.array([[1e4, -1e4], [-1e4, 1e4]], np.float32)
    log_prob, entropy = Categorical().evaluate(output, np.array([1, 1]))
    assert log_prob.tolist() == [-2e4, 0.0] and entropy.tolist() == [0.0, 0.0]


def gaussian_case(seed, size=3, rows=32):
    rng = np.random.default_rng(seed)
    mean = rng.normal(size=(size, rows)).astype(np.float32)
    log_std = rng.normal(0, 0.5, size).astype(np.float32)
    action = rng.normal(size=(rows, size)).astype(np.float32)
    return rng, mean, log_std, action


def test_gaussian_sample_scales_noise_and_reports_its_density():
    rng, mean, log_std, _ = gaussian_case(6)
    noise = rng.normal(size=(32, 3)).astype(np.float32)
    distribution = DiagonalGaussian(log_std)
    action, log_prob = distribution.sample(mean, noise)
    np.testing.assert_allclose(action, mean.T + np.exp(log_std) * noise, rtol=1e-5, atol=1e-6)
    evaluated, _ = distribution.evaluate(mean, action)
    np.testing.assert_allclose(log_prob, evaluated, rtol=1e-4, atol=1e-4)
    assert action.flags.c_contiguous


def test_gaussian_mode_is_the_mean_with_the_largest_density():
    _, mean, log_std, _ = gaussian_case(7)
    action, log_prob = DiagonalGaussian(log_std).mode(mean)
    np.testing.assert_array_equal(action, mean.T)
    np.testing.assert_allclose(log_prob, -log_std.sum() - 1.5 * np.log(2 * np.pi), rtol=1e-5)


# --- masks and several choices ------------------------------------------------------------------

LAST = np.float32(1) - np.float32(2**-24)  # the largest uniform number


def masks(rng, choices, rows):
    mask = rng.random((choices, rows)) < 0.5
    mask[rng.integers(0, choices, rows), np.arange(rows)] = True
    return mask


@given(
    seed=st.integers(0, 10_000),
    choices=st.integers(1, 6),
    scale=st.sampled_from([0.0, 2.0, 50.0, 1e4]),
    noise=st.sampled_from([0.0, 0.5, LAST, np.float32(1.0), None]),
)
def test_forbidden_choices_are_never_sampled(seed, choices, scale, noise):
    rng = np.random.default_rng(seed)
    output = rng.normal(0, 1, (choices, 40)).astype(np.float32) * np.float32(scale)
    mask = masks(rng, choices, 40)
    numbers = rng.random(40) if noise is None else np.full(40, noise)
    for action, log_prob in (
        Categorical().sample(output, numbers.astype(np.float32), mask),
        Categorical().mode(output, mask),
    ):
        assert mask[action, np.arange(40)].all()
        assert np.isfinite(log_prob).all() and (log_prob <= 0).all()


def test_choice_after_the_last_allowed_one_is_not_reached_by_rounding():
    # The sum of exponentials times the largest number below 1 may round to that sum.
    output = np.array([[0.1], [0.2], [0.0], [0.0]], np.float32)
    mask = np.array([[True], [True], [False], [False]])
    action, _ = Categorical().sample(output, np.array([1.0], np.float32), mask)
    assert action.tolist() == [1]


def test_masked_samples_have_the_probabilities_of_what_is_allowed():
    output = np.repeat(np.array([[0.3], [9.0], [-0.5], [1.0]], np.float32), 20_000, axis=1)
    mask = np.repeat(np.array([[True], [False], [True], [True]]), 20_000, axis=1)
    noise = ((np.arange(20_000) + 0.5) / 20_000).astype(np.float32)
    action, log_prob = Categorical().sample(output, noise, mask)
    weights = np.exp([0.3, -np.inf, -0.5, 1.0])
    expected = weights / weights.sum()
    np.testing.assert_allclose(np.bincount(action, minlength=4) / 20_000, expected, atol=2e-4)
    np.testing.assert_allclose(np.exp(log_prob), expected[action], rtol=1e-5)


def test_row_that_allows_nothing_is_sampled_as_it_is_evaluated():
    output = np.random.default_rng(4).normal(size=(4, 20_000)).astype(np.float32)
    noise = np.random.default_rng(5).random(20_000, dtype=np.float32)
    mask = np.zeros((4, 20_000), np.bool_)
    action, log_prob = Categorical().sample(output, noise, mask)
    np.testing.assert_allclose(np.bincount(action) / 20_000, 0.25, atol=0.02)
    np.testing.assert_array_equal(log_prob, Categorical().evaluate(output, action, mask)[0])


def test_two_masked_choices_take_the_short_way_rightly():
    output = np.zeros((2, 4), np.float32)
    mask = np.array([[True, False, True, True], [True, True, False, True]])
    action, log_prob = Categorical().sample(output, np.array([0.7, 0, LAST, 0.2], np.float32), mask)
    assert action.tolist() == [1, 1, 0, 0]
    np.testing.assert_allclose(log_prob, [np.log(0.5), 0, 0, np.log(0.5)], atol=1e-6)


def reference(output, mask, counts):
    """Independent categoricals over the allowed choices only, as torch has them."""
    logits = torch.where(torch.tensor(mask.T), torch.tensor(output.T), -torch.inf)
    return [torch.distributions.Categorical(logits=part) for part in logits.split(counts, 1)]


@pytest.mark.parametrize("counts", [(4,), (2, 3, 2), (1, 5)])
@pytest.mark.parametrize("masked", [False, True])
def test_several_choices_and_masks_match_torch(counts, masked):
    rng = np.random.default_rng(len(counts))
    size, rows = sum(counts), 64
    output = logits(rng, size, rows)
    parts = [masks(rng, count, rows) | (not masked) for count in counts]
    mask = np.concatenate(parts)
    choice = [m.argmax(axis=0) for m in parts]
    action = choice[0] if len(counts) == 1 else np.stack(choice, axis=1)
    ours = Categorical() if len(counts) == 1 else MultiCategorical(counts)
    log_prob, entropy = ours.evaluate(output, action, mask if masked else None)
    expected = reference(output, mask, counts)
    log_probs = sum(d.log_prob(torch.tensor(c)) for d, c in zip(expected, choice, strict=True))
    np.testing.assert_allclose(log_prob, log_probs, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(entropy, sum(d.entropy() for d in expected), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("counts", [(4,), (2, 3, 2)])
@pytest.mark.parametrize("masked", [False, True])
def test_gradient_of_several_choices_and_masks_matches_autograd(counts, masked):
    rng = np.random.default_rng(7)
    output, rows = logits(rng, sum(counts)), 64
    parts = [masks(rng, count, rows) | (not masked) for count in counts]
    mask = np.concatenate(parts)
    choice = [m.argmax(axis=0) for m in parts]
    action = choice[0] if len(counts) == 1 else np.stack(choice, axis=1)
    weight = rng.normal(size=rows).astype(np.float32)
    ours = Categorical() if len(counts) == 1 else MultiCategorical(counts)
    ours.evaluate(output, action, mask if masked else None)
    gradient = ours.backward(weight, -0.3)
    leaf = torch.from_numpy(output.T.copy()).requires_grad_()
    loss = torch.zeros(())
    allowed = leaf.masked_fill(~torch.tensor(mask.T), -1e30)
    for part, c in zip(allowed.split(counts, 1), choice, strict=True):
        log_prob, entropy = torch_categorical(part, torch.tensor(c))
        loss = loss + (torch.from_numpy(weight) * log_prob).sum() - 0.3 * entropy.sum()
    loss.backward()
    np.testing.assert_allclose(gradient.T, leaf.grad, atol=2e-6)
    assert np.isfinite(gradient).all() and (gradient[~mask] == 0).all()


def test_several_choices_sample_each_with_its_own_number():
    output = np.zeros((5, 2), np.float32)
    noise = np.array([[0.4, 0.9], [0.6, 0.1]], np.float32)
    action, log_prob = MultiCategorical((2, 3)).sample(output, noise)
    assert action.tolist() == [[0, 2], [1, 0]] and action.dtype == np.int64
    np.testing.assert_allclose(log_prob, -np.log(6), rtol=1e-6)
    best, _ = MultiCategorical((2, 3)).mode(np.array([[1.0], [0], [0], [0], [9]], np.float32))
    assert best.tolist() == [[0, 2]]
