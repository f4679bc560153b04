"""The scale of values, against the formulas of Schrittwieser et al. 2020 in float64."""

import numpy as np
import pytest
import torch

from fast_core.algos.muzero.support import Support
from fast_core.algos.muzero.torch_support import TorchSupport
from fast_core.algos.muzero.torch_support import compressed as torch_compressed
from fast_core.algos.muzero.torch_support import expanded as torch_expanded

CPU = torch.device("cpu")
EPSILON = 0.001
NUMBERS = np.concatenate([-np.logspace(6, -6, 200), [0.0], np.logspace(-6, 6, 200)])


def h(x):
    return np.sign(x) * (np.sqrt(np.abs(x) + 1) - 1) + EPSILON * x


def inverse(y):
    root = (np.sqrt(1 + 4 * EPSILON * (np.abs(y) + 1 + EPSILON)) - 1) / (2 * EPSILON)
    return np.sign(y) * (root**2 - 1)


def two_hot(x, most):
    """The categories' shares, one number after the other."""
    shares = np.zeros((len(x), 2 * most + 1))
    for row, scaled in enumerate(np.clip(h(x), -most, most)):
        below = int(np.floor(scaled))
        shares[row, below + most] += 1 - (scaled - below)
        if scaled > below:
            shares[row, below + 1 + most] += scaled - below
    return shares


def test_transform_and_its_inverse_are_those_of_the_paper():
    np.testing.assert_allclose(inverse(h(NUMBERS)), NUMBERS, rtol=1e-6, atol=1e-9)
    said = h(NUMBERS).astype(np.float32)
    np.testing.assert_allclose(Support(0).decode(said[None]), NUMBERS, rtol=1e-5, atol=1e-6)
    assert Support(0).decode(np.zeros((1, 1), np.float32)) == 0


def test_torch_has_the_same_scale():
    given = torch.from_numpy(NUMBERS)
    np.testing.assert_allclose(torch_compressed(given), h(NUMBERS), rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(torch_expanded(torch_compressed(given)), NUMBERS, rtol=1e-9, atol=0)


@pytest.mark.parametrize("most", [1, 4, 30])
def test_loss_is_the_cross_entropy_to_two_categories(most):
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(0, 8, 60), [0.0, 1e6, -1e6], inverse(np.array([1.0, -1.0]))])
    said = rng.normal(0, 2, (len(x), 2 * most + 1))
    log = said - np.log(np.exp(said).sum(1, keepdims=True))
    wanted = -(two_hot(x, most) * log).sum(1)
    found = TorchSupport(most, CPU).loss(torch.from_numpy(said), torch.from_numpy(x))
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)


def test_loss_of_a_plain_number_is_half_its_squared_error_on_the_scale():
    said, x = torch.tensor([[2.0], [-1.0]]).double(), torch.tensor([10.0, -3.0]).double()
    wanted = 0.5 * (said[:, 0].numpy() - h(x.numpy())) ** 2
    np.testing.assert_allclose(TorchSupport(0, CPU).loss(said, x), wanted)


@pytest.mark.parametrize("most", [0, 1, 5, 20])
def test_a_head_that_says_a_number_is_decoded_to_it(most):
    x = inverse(np.linspace(-most or -7, most or 7, 41)).astype(np.float32)
    if most:
        said = np.log(np.maximum(two_hot(x, most), 1e-30)).astype(np.float32)
    else:
        said = h(x).astype(np.float32)[:, None]
    np.testing.assert_allclose(Support(most).decode(said.T), x, rtol=1e-4, atol=1e-5)
    found = TorchSupport(most, CPU).decode(torch.from_numpy(said))
    np.testing.assert_allclose(found, x, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("offset", [-3e4, -100.0, -60.0, 0.0, 60.0, 100.0, 3e4])
def test_head_may_say_numbers_whose_exponentials_are_too_large_or_small(offset):
    rng = np.random.default_rng(0)
    said = rng.normal(0, 3, (41, 6)).astype(np.float32)
    said[:, ::2] += np.float32(offset)
    said[:, 5] = np.nan
    shares = np.exp(said.astype(np.float64) - said.max(axis=0))
    wanted = inverse(np.arange(-20, 21) @ shares / shares.sum(axis=0))
    np.testing.assert_allclose(Support(20).decode(said), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("most", [0, 5, 300])
def test_what_a_row_says_does_not_depend_on_the_rows_beside_it(most):
    rng = np.random.default_rng(most)
    said = rng.normal(0, 3, (2 * most + 1, 37)).astype(np.float32)
    together = Support(most).decode(said)
    for rows in (1, 8):
        parts = [Support(most).decode(said[:, k : k + rows]) for k in range(0, 37, rows)]
        np.testing.assert_array_equal(together, np.concatenate(parts))


def test_share_of_numbers_beyond_the_last_category_is_known():
    x = torch.tensor([0.0, 20.0, -20.0, 30.0])  # on the scale 0, 3.6, -3.6 and 4.6
    assert [float(TorchSupport(most, CPU).beyond(x)) for most in (0, 3, 4, 5)] == [0, 0.75, 0.25, 0]
