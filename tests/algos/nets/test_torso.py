import numpy as np
import pytest
import torch

from fast_core.algos.nets.mlp import KEPT_SIZES, make_torso, make_torsos
from fast_core.algos.nets.networks import NetworkShape, parameter_layout
from fast_core.algos.nets_torch.networks import Network, Rows


def case(activation, shared, sizes=(7, 5), **given):
    shape = NetworkShape(3, sizes, activation, shared, 2, False, **given)
    layout = parameter_layout(shape)
    rng = np.random.default_rng(0)
    flat = rng.normal(0, 0.5, layout[-1].end).astype(np.float32)
    return shape, layout, flat, rng.normal(size=(11, 3)).astype(np.float32), rng


@pytest.mark.parametrize("sizes", [(7, 5), (6,), (4, 4, 4)])
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("layer_norm", [False, True])
@pytest.mark.parametrize("activation", ["tanh", "relu", "silu"])
def test_forward_and_backward_match_autograd(activation, layer_norm, shared, sizes):
    check_torsos(*case(activation, shared, sizes, layer_norm=layer_norm))


@pytest.mark.parametrize("layer_norm", [False, True])
@pytest.mark.parametrize("value_sizes", [(4,), (7, 6), (9, 3, 5)])
def test_torsos_of_different_layers_match_autograd(value_sizes, layer_norm):
    shape, *rest = case("tanh", False, value_sizes=value_sizes, layer_norm=layer_norm)
    assert shape.ensembles == (("policy",), ("value",))
    check_torsos(shape, *rest)


def check_torsos(shape, layout, flat, x, rng):
    gradient = np.full_like(flat, 99.0)
    torsos = make_torsos(shape, flat, gradient)
    features = [member for each in torsos for member in each.forward(x.T).copy()]
    upstream = [rng.normal(size=each.shape).astype(np.float32) for each in features]
    rest = [each.copy() for each in upstream]
    for each, names in zip(torsos, shape.ensembles, strict=True):
        each.backward(np.stack([rest.pop(0) for _ in names]), rows=len(x))

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
