import numpy as np
import pytest
import torch

from fast_core.algos.nets.mlp import KEPT_SIZES, make_torso
from fast_core.algos.nets.networks import NetworkShape, parameter_layout
from fast_core.algos.nets_torch.networks import Network, Rows


def case(activation, shared, sizes=(7, 5)):
    shape = NetworkShape(3, sizes, activation, shared, 2, False)
    layout = parameter_layout(shape)
    rng = np.random.default_rng(0)
    flat = rng.normal(0, 0.5, layout[-1].end).astype(np.float32)
    return shape, layout, flat, rng.normal(size=(11, 3)).astype(np.float32), rng


@pytest.mark.parametrize("sizes", [(7, 5), (6,), (4, 4, 4)])
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_forward_and_backward_match_autograd(activation, shared, sizes):
    shape, layout, flat, x, rng = case(activation, shared, sizes)
    gradient = np.full_like(flat, 99.0)
    torso = make_torso(shape, flat, gradient)
    features = torso.forward(x.T).copy()
    upstream = rng.normal(size=features.shape).astype(np.float32)
    torso.backward(upstream.copy(), rows=len(x))

    leaves = {p.name: torch.tensor(p.view(flat)).requires_grad_() for p in layout}
    network = Network(shape)
    loss = torch.zeros(())
    for index, name in enumerate(shape.torsos):
        expected = network.features(leaves, name, Rows(torch.tensor(x)))
        np.testing.assert_allclose(features[index].T, expected.detach(), atol=1e-6)
        loss = loss + (expected * torch.tensor(upstream[index].T.copy())).sum()
    loss.backward()
    for p in layout:
        if "head" not in p.name:
            np.testing.assert_allclose(p.view(gradient), leaves[p.name].grad, atol=2e-5)


@pytest.mark.parametrize("torso", [0, -1])
def test_one_torso_alone_gives_the_same_features(torso):
    shape, _, flat, x, _ = case("tanh", False)
    both = make_torso(shape, flat).forward(x.T).copy()
    alone = make_torso(shape, flat, only=torso).forward(x.T)
    np.testing.assert_array_equal(alone[0], both[torso])


def test_parameters_are_views_that_follow_updates():
    shape, _, flat, x, _ = case("tanh", False)
    torso = make_torso(shape, flat)
    before = torso.forward(x.T).copy()
    flat *= 2
    assert (torso.forward(x.T) != before).any()


def test_buffers_of_ever_new_sizes_are_bounded():
    shape, _, flat, _, _ = case("tanh", False)
    torso = make_torso(shape, flat)
    for rows in range(1, 5 * KEPT_SIZES):
        torso.forward(np.zeros((3, rows), np.float32))
        assert len(torso._buffers) <= KEPT_SIZES
