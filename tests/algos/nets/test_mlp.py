import itertools

import numpy as np
import pytest
import torch

from fast_core.algorithm import LearnerSetup
from fast_core.algos.nets.mlp import Mlp, MlpShape, NumpyMlp, draw_first_values
from fast_core.algos.nets.networks import normalises
from fast_core.algos.replay.vectors import Layout, NumpyVectors
from tests.algos.nets.test_activations import LOOSE, MODULES

KINDS = ("weight", "bias", "scale", "shift")
# What follows a layer knows nothing of how many networks and outputs there are.
CASES = [
    *itertools.product(["relu", "tanh"], [False], [1, 3], [1, 2, 5]),
    *((name, layer_norm, 3, 2) for name in MODULES for layer_norm in (False, True)),
]


def build(backend: str, shape: MlpShape, seed: int = 0, precision="fp32"):
    layout = Layout()
    layout.add_numbers("before", 3)
    layout.add_network("net", shape, target=True)
    flat = np.zeros(layout.size, np.float32)
    draw_first_values(layout.groups["net"].parameters, flat, np.random.default_rng(seed))
    if backend == "numpy":
        vectors = NumpyVectors(layout, flat, epsilon=1e-8)
    else:
        from fast_core.algos.replay.torch_vectors import TorchVectors

        vectors = TorchVectors(
            layout, flat, LearnerSetup(0, 1, 1, 1, precision=precision), epsilon=1e-8
        )
    return layout, vectors


def reference(layout, vectors, shape, x):
    """Outputs ``[M, N, out]`` under autograd, and the leaves."""
    leaves = {
        p.name: torch.tensor(p.view(vectors.parameters()), requires_grad=True)
        for p in layout.groups["net"].parameters
    }
    return by_modules(shape, leaves, x), list(leaves.values())


def by_modules(shape, leaves, x):
    """Outputs ``[M, N, out]`` by torch's modules, member by member."""
    outputs = []
    for member in range(shape.members):
        y = x
        for index in range(len(shape.layers)):
            layer = {kind: leaves.get(f"net.{index}.{kind}") for kind in KINDS}
            y = torch.nn.functional.linear(y, layer["weight"][member], layer["bias"][member])
            if index == len(shape.layers) - 1:
                break
            if shape.layer_norm:
                scale, shift = layer["scale"][member], layer["shift"][member]
                y = torch.nn.functional.layer_norm(y, y.shape[-1:], scale, shift)
            y = MODULES[shape.activation](y)
        outputs.append(y)
    return torch.stack(outputs)


@pytest.mark.parametrize("backend", ["numpy", "torch"])
@pytest.mark.parametrize(("activation", "layer_norm", "members", "outputs"), CASES)
def test_passes_equal_autograd(backend, activation, layer_norm, members, outputs):
    shape = MlpShape(6, (9, 7), outputs, activation, members, layer_norm)
    layout, vectors = build(backend, shape)
    rng = np.random.default_rng(1)
    if layer_norm:
        for p in layout.groups["net"].parameters:
            if normalises(p.name):
                p.view(vectors.parameters())[...] += rng.normal(0, 0.3, p.shape)
    x = rng.normal(size=(6, 10)).astype(np.float32)
    delta = rng.normal(size=(members, outputs, 10)).astype(np.float32)
    net: Mlp = vectors.network("net")
    tensor = torch.tensor(x.T, requires_grad=True)
    expected, leaves = reference(layout, vectors, shape, tensor)
    np.testing.assert_allclose(
        net.forward(x), expected.detach().numpy().transpose(0, 2, 1), rtol=1e-5, atol=1e-6
    )
    # Parameters' gradients of the first 4 columns, inputs' of the others.
    slope = net.backward(delta, rows=4, inputs=slice(2, None))
    weighted = expected * torch.from_numpy(delta).transpose(1, 2)
    found = torch.autograd.grad(weighted[:, :4].sum(), leaves, retain_graph=True)
    for parameter, gradient in zip(layout.groups["net"].parameters, found, strict=True):
        ours = parameter.view(vectors.exchange(layout.size))
        np.testing.assert_allclose(ours, gradient.numpy(), rtol=1e-4, atol=1e-5)
    (wanted,) = torch.autograd.grad(weighted.sum(), tensor)
    np.testing.assert_allclose(slope, wanted.numpy().T[2:, 4:], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("layer_norm", [False, True])
@pytest.mark.parametrize("activation", MODULES)
def test_passes_in_float64_equal_autograd_to_nine_digits(activation, layer_norm):
    tolerance = max(1e-9, LOOSE.get(activation, 0.0))
    shape = MlpShape(6, (9, 7), 2, activation, 3, layer_norm)
    parameters = shape.parameters("net", 0)
    rng = np.random.default_rng(1)
    flat = rng.normal(0, 0.4, parameters[-1].end)
    gradient = np.zeros_like(flat)
    net = NumpyMlp(shape, parameters, flat, gradient)
    x, delta = rng.normal(size=(6, 10)), rng.normal(size=(3, 2, 10))
    leaves = {p.name: torch.tensor(p.view(flat), requires_grad=True) for p in parameters}
    tensor = torch.tensor(x.T.copy(), requires_grad=True)
    expected = by_modules(shape, leaves, tensor)
    wanted = expected.detach().numpy().transpose(0, 2, 1)
    np.testing.assert_allclose(net.forward(x), wanted, rtol=tolerance, atol=tolerance)
    slope = net.backward(delta.copy(), rows=10, inputs=slice(0, 6))
    assert slope.shape == (6, 0)
    (expected * torch.tensor(delta).transpose(1, 2)).sum().backward()
    for p in parameters:
        np.testing.assert_allclose(
            p.view(gradient), leaves[p.name].grad.numpy(), rtol=tolerance, atol=10 * tolerance
        )
    np.testing.assert_allclose(
        net.slope(slice(0, 6), 10).T, tensor.grad.numpy(), rtol=tolerance, atol=10 * tolerance
    )


def test_normalisation_begins_as_plain_centring_and_scaling():
    shape = MlpShape(3, (4,), 2, members=2, layer_norm=True)
    layout, vectors = build("numpy", shape)
    views = {p.name: p.view(vectors.parameters()) for p in layout.groups["net"].parameters}
    assert [*views] == [
        "net.0.weight", "net.0.bias", "net.0.scale", "net.0.shift", "net.1.weight", "net.1.bias",
    ]  # fmt: skip
    assert (views["net.0.scale"] == 1).all() and (views["net.0.shift"] == 0).all()
    plain_layout, plain = build("numpy", MlpShape(3, (4,), 2, members=2))
    for p in plain_layout.groups["net"].parameters:
        np.testing.assert_array_equal(p.view(plain.parameters()), views[p.name])


@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_backward_without_rows_leaves_the_gradient_alone(backend):
    shape = MlpShape(3, (4,), 2)
    layout, vectors = build(backend, shape)
    vectors.exchange(layout.size)[:] = 7.0
    net = vectors.network("net")
    net.forward(np.ones((3, 5), np.float32))
    net.backward(np.ones((1, 2, 5), np.float32), rows=0, inputs=slice(0, 1))
    assert (vectors.exchange(layout.size) == 7.0).all()


@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_batches_of_changing_sizes_use_their_own_buffers(backend):
    shape = MlpShape(3, (4,), 2, members=2)
    layout, vectors = build(backend, shape)
    net = vectors.network("net")
    rng = np.random.default_rng(0)
    for rows in (5, 2, 9, 1, 7, 3, 5, 8):
        x = rng.normal(size=(3, rows)).astype(np.float32)
        expected, _ = reference(layout, vectors, shape, torch.from_numpy(x.T))
        ours = net.forward(x).transpose(0, 2, 1)
        np.testing.assert_allclose(ours, expected.detach().numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_target_network_is_a_copy_and_follows_by_its_rate(backend):
    shape = MlpShape(3, (4,), 2)
    layout, vectors = build(backend, shape)
    x = np.ones((3, 1), np.float32)
    net, target = vectors.network("net"), vectors.target_network("net")
    np.testing.assert_array_equal(net.forward(x), target.forward(x))
    before = vectors.export_state()
    vectors.exchange(layout.size)[:] = 1.0
    vectors.step("net", 0.1)
    after = vectors.export_state()
    place = layout.groups["net"].place
    assert (after.parameters[place] != before.parameters[place]).all()
    np.testing.assert_array_equal(after.targets, before.targets)
    np.testing.assert_array_equal(after.parameters[:3], before.parameters[:3])
    vectors.follow(0.25)
    np.testing.assert_allclose(
        vectors.export_state().targets[place],
        0.75 * before.targets[place] + 0.25 * after.parameters[place],
        rtol=1e-6,
    )
    vectors.follow(1.0)
    np.testing.assert_array_equal(vectors.export_state().targets[place], after.parameters[place])
    np.testing.assert_array_equal(net.forward(x), target.forward(x))


@pytest.mark.parametrize(("activation", "layer_norm"), [("relu", False), ("gelu", True)])
def test_bf16_stays_near_and_keeps_parameters_float32(activation, layer_norm):
    shape = MlpShape(6, (32, 32), 2, activation, 2, layer_norm)
    layout, vectors = build("torch", shape, precision="bf16")
    rng = np.random.default_rng(1)
    x = rng.normal(size=(6, 10)).astype(np.float32)
    expected, leaves = reference(layout, vectors, shape, torch.from_numpy(x.T.copy()))
    net = vectors.network("net")
    wide = expected.detach().numpy().transpose(0, 2, 1)
    np.testing.assert_allclose(net.forward(x), wide, atol=0.03)
    assert np.abs(net.forward(x) - wide).max() > 1e-6, "hidden layers are bfloat16"
    delta = rng.normal(size=(2, 2, 10)).astype(np.float32)
    net.backward(delta, rows=10)
    loss = (expected * torch.from_numpy(delta).transpose(1, 2)).sum()
    for parameter, gradient in zip(
        layout.groups["net"].parameters, torch.autograd.grad(loss, leaves), strict=True
    ):
        ours, theirs = parameter.view(vectors.exchange(layout.size)), gradient.numpy()
        assert np.linalg.norm(ours - theirs) < 0.05 * np.linalg.norm(theirs)


def test_bf16_sees_parameters_that_have_changed():
    shape = MlpShape(3, (4,), 1)
    layout, vectors = build("torch", shape, precision="bf16")
    net = vectors.network("net")
    x = np.ones((3, 2), np.float32)
    before = net.forward(x).copy()
    vectors.exchange(layout.size)[:] = 1.0
    vectors.step("net", 0.5)
    after = net.forward(x)
    assert (after != before).all()
    np.testing.assert_array_equal(after, vectors.network("net").forward(x))


def test_adam_of_both_backends_is_the_same():
    shape = MlpShape(3, (4,), 2)
    results = []
    for backend in ("numpy", "torch"):
        layout, vectors = build(backend, shape)
        for step in range(5):
            rng = np.random.default_rng(step)
            vectors.exchange(layout.size)[:] = rng.normal(size=layout.size)
            vectors.step("net", 0.01)
        results.append(vectors.export_state())
    for name in ("parameters", "targets", "first_moment", "second_moment"):
        np.testing.assert_allclose(*(getattr(r, name) for r in results), rtol=1e-4, atol=1e-6)
    assert results[0].steps == results[1].steps == {"before": 0, "net": 5}
