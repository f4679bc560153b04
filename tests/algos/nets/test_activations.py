from typing import get_args

import numpy as np
import pytest
import torch

from fast_core.algos.nets.activations import NONLINEARITIES, Activation
from fast_core.algos.nets_torch import activations

ALL = get_args(Activation)
every = pytest.mark.parametrize("name", ALL)
# What torch has as a module of its own is its word for it.
MODULES = {
    "relu": torch.nn.ReLU(),
    "tanh": torch.nn.Tanh(),
    "elu": torch.nn.ELU(),
    "gelu": torch.nn.GELU(),
    "gelu_tanh": torch.nn.GELU(approximate="tanh"),
    "leaky_relu": torch.nn.LeakyReLU(),
    "selu": torch.nn.SELU(),
    "sigmoid": torch.nn.Sigmoid(),
    "silu": torch.nn.SiLU(),
    "softplus": torch.nn.Softplus(),
}
# An approximation of the normal distribution function, good for float32.
LOOSE = {"gelu": 1e-6}


def points(dtype):
    rng = np.random.default_rng(0)
    edges = np.array([0.0, -0.0, 1e-30, -1e-30, 25.0, -25.0, 90.0, -90.0, 1e4, -1e4])
    return np.concatenate([rng.normal(0, 3, 1000), edges]).astype(dtype)


def expected(name, x, upstream):
    leaf = torch.tensor(x, requires_grad=True)
    y = MODULES[name](leaf)
    (slope,) = torch.autograd.grad(y, leaf, torch.tensor(upstream))
    return y.detach().numpy(), slope.numpy()


def test_every_activation_is_known_everywhere():
    assert set(MODULES) == set(NONLINEARITIES) == set(activations.FUNCTIONS) == set(ALL)


@every
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-5), (np.float64, 1e-9)])
def test_values_and_slopes_of_numpy_are_those_of_torch(name, dtype, tolerance):
    tolerance = max(tolerance, LOOSE.get(name, 0.0))
    kind, x = NONLINEARITIES[name], points(dtype)
    upstream = np.random.default_rng(1).normal(size=x.shape).astype(dtype)
    wanted, slope = expected(name, x, upstream)
    y = x.copy()
    kind.forward(y if kind.in_place else x.copy(), y)
    assert y.dtype == dtype
    np.testing.assert_allclose(y, wanted, rtol=tolerance, atol=tolerance)
    delta = upstream.copy()
    kind.backward(delta, y if kind.in_place else x.copy(), y, np.empty(x.shape, np.bool_))
    assert delta.dtype == dtype
    np.testing.assert_allclose(delta, slope, rtol=tolerance, atol=tolerance)


@every
def test_functions_of_torch_are_its_modules(name):
    x = points(np.float32)
    upstream = np.random.default_rng(1).normal(size=x.shape).astype(np.float32)
    wanted, slope = expected(name, x, upstream)
    np.testing.assert_array_equal(activations.FUNCTIONS[name](torch.tensor(x)), wanted)
    leaf = torch.tensor(x, requires_grad=True)
    outputs = activations.IN_PLACE[name](leaf * 1.0)  # a leaf itself can't be overwritten
    np.testing.assert_array_equal(outputs.detach(), wanted)
    (found,) = torch.autograd.grad(outputs, leaf, torch.tensor(upstream))
    np.testing.assert_allclose(found, slope, rtol=1e-6, atol=1e-7)
