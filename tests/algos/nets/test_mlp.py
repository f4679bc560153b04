import itertools

import numpy as np
import pytest
import torch

from fast_core.algorithm import LearnerSetup
from fast_core.algos.nets.mlp import MlpShape, NumpyMlp, draw_first_values
from fast_core.algos.nets.networks import normalises
from fast_core.algos.replay.torch_networks import Mlp
from fast_core.algos.replay.torch_vectors import TorchVectors
from fast_core.algos.replay.vectors import Layout, NumpyVectors
from tests.algos.nets.test_activations import LOOSE, MODULES

KINDS = ("weight", "bias", "scale", "shift")
# What follows a layer knows nothing of how many networks and outputs there are.
CASES = [
    *itertools.product(["relu", "tanh"], [False], [1, 3], [1, 2, 5]),
    *((name, layer_norm, 3, 2) for name in MODULES for layer_norm in (False, True)),
]


def build(backend: str, shape: MlpShape, seed: int = 0):
    layout = Layout()
    layout.add_numbers("before", 3)
    layout.add_network("net", shape, target=True)
    flat = np.zeros(layout.size, np.float32)
    draw_first_values(layout.groups["net"].parameters, flat, np.random.default_rng(seed))
    if backend == "numpy":
        vectors = NumpyVectors(layout, flat, epsilon=1e-8)
    else:
        vectors = TorchVectors(layout, flat, LearnerSetup(0, 1, 1, 1), epsilon=1e-8)
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


@pytest.mark.parametrize(("activation", "layer_norm", "members", "outputs"), CASES)
def test_passes_equal_autograd(activation, layer_norm, members, outputs):
    shape = MlpShape(6, (9, 7), outputs, activation, members, layer_norm)
    layout, vectors = build("numpy", shape)
    rng = np.random.default_rng(1)
    if layer_norm:
        for p in layout.groups["net"].parameters:
            if normalises(p.name):
                p.view(vectors.parameters())[...] += rng.normal(0, 0.3, p.shape)
    x = rng.normal(size=(6, 10)).astype(np.float32)
    delta = rng.normal(size=(members, outputs, 10)).astype(np.float32)
    net = vectors.network("net")
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
    assert net.backward(delta.copy(), rows=10, inputs=slice(0, 6)).shape == (6, 0)
    (expected * torch.tensor(delta).transpose(1, 2)).sum().backward()
    for p in parameters:
        np.testing.assert_allclose(
            p.view(gradient), leaves[p.name].grad.numpy(), rtol=tolerance, atol=10 * tolerance
        )
    net.forward(x)
    slope = net.backward(delta.copy(), rows=0, inputs=slice(0, 6))
    np.testing.assert_allclose(slope.T, tensor.grad, rtol=tolerance, atol=10 * tolerance)


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


def test_backward_without_rows_leaves_the_gradient_alone():
    shape = MlpShape(3, (4,), 2)
    layout, vectors = build("numpy", shape)
    vectors.exchange(layout.size)[:] = 7.0
    net = vectors.network("net")
    net.forward(np.ones((3, 5), np.float32))
    net.backward(np.ones((1, 2, 5), np.float32), rows=0, inputs=slice(0, 1))
    assert (vectors.exchange(layout.size) == 7.0).all()


def test_batches_of_changing_sizes_use_their_own_buffers():
    shape = MlpShape(3, (4,), 2, members=2)
    layout, vectors = build("numpy", shape)
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
    before = vectors.export_state()
    np.testing.assert_array_equal(before.parameters, before.targets)
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


def module(shape, seed=0):
    """The same as a module of torch, its leaves as `by_modules` names them, and inputs."""
    torch.manual_seed(seed)
    made = Mlp(shape)
    with torch.no_grad():
        for name, p in made.named_parameters():
            if normalises(name):
                p += 0.3 * torch.randn(p.shape)
    leaves = {f"net.{name}": p for name, p in made.named_parameters()}
    return made, leaves, torch.randn(10, shape.inputs, requires_grad=True)


@pytest.mark.parametrize(("activation", "layer_norm", "members", "outputs"), CASES)
def test_module_equals_layers_on_layers(activation, layer_norm, members, outputs):
    shape = MlpShape(6, (9, 7), outputs, activation, members, layer_norm)
    made, leaves, x = module(shape)
    ours, theirs = made(x), by_modules(shape, leaves, x)
    assert ours.shape == (members, 10, outputs)
    torch.testing.assert_close(ours, theirs)
    weight, asked = torch.randn(ours.shape), [x, *leaves.values()]
    gradients = (torch.autograd.grad((y * weight).sum(), asked) for y in (ours, theirs))
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-5)
    *hidden, last = made
    torch.testing.assert_close(made._at_once(hidden, last, x), theirs)  # as on a device


@pytest.mark.parametrize(("activation", "layer_norm"), [("relu", False), ("gelu", True)])
def test_module_in_bf16_stays_near_and_keeps_the_last_layer_float32(activation, layer_norm):
    shape = MlpShape(6, (32, 32), 2, activation, 2, layer_norm)
    made, leaves, x = module(shape)
    with torch.autocast("cpu", torch.bfloat16):
        narrow = made(x)
    wide = by_modules(shape, leaves, x)
    assert narrow.dtype == torch.float32
    assert 1e-6 < (narrow - wide).abs().max() < 0.03
    ours, theirs = (
        torch.cat([g.flatten() for g in torch.autograd.grad(y.sum(), [*leaves.values()])])
        for y in (narrow, wide)
    )
    assert (ours - theirs).norm() < 0.05 * theirs.norm()


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
