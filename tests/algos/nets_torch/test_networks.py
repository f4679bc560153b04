"""Networks against the same ones built of torch's modules."""

import numpy as np
import pytest
import torch
from torch import nn

from fast_core.algos.nets.images import ImageShape
from fast_core.algos.nets.networks import NetworkShape, initial_parameters, parameter_layout
from fast_core.algos.nets_torch.networks import Network, Rows, categorical, tensor_view
from tests.forms import slow_but


def image(height, width, channels=1, stack=1, axes="hw"):
    return ImageShape(None, height, width, channels, stack, axes)


def random_leaves(shape, seed=0):
    layout = parameter_layout(shape)
    rng = np.random.default_rng(seed)
    flat = initial_parameters(layout, rng, initial_log_std=0.0)
    flat += rng.normal(0, 0.02, flat.shape).astype(np.float32)
    tensor = torch.from_numpy(flat)
    return {p.name: tensor_view(tensor, p) for p in layout}, flat, layout


def load(module, leaves, name):
    with torch.no_grad():
        module.weight.copy_(leaves[f"{name}.weight"])
        module.bias.copy_(leaves[f"{name}.bias"])
    return module


def pixels_last(x):
    return x.permute(0, 2, 3, 1).flatten(1)


def nature(leaves, name, planes):
    sizes = ((planes, 32, 8, 4), (32, 64, 4, 2), (64, 64, 3, 1))
    convolutions = [nn.Conv2d(a, b, kernel, stride) for a, b, kernel, stride in sizes]
    for index, convolution in enumerate(convolutions):
        load(convolution, leaves, f"{name}.conv{index}")

    def forward(x):
        for convolution in convolutions:
            x = torch.relu(convolution(x))
        return x

    return forward


class Block(nn.Module):
    def __init__(self, leaves, name, size):
        super().__init__()
        self.first = load(nn.Conv2d(size, size, 3, padding=1), leaves, f"{name}.conv0")
        self.second = load(nn.Conv2d(size, size, 3, padding=1), leaves, f"{name}.conv1")

    def forward(self, x):
        return x + self.second(torch.relu(self.first(torch.relu(x))))


def residual(leaves, name, planes):
    layers = []
    for section, size in enumerate((16, 32, 32)):
        here = f"{name}.section{section}"
        convolution = nn.Conv2d(planes, size, 3, padding=1)
        layers += [load(convolution, leaves, f"{here}.conv"), nn.MaxPool2d(3, 2, 1)]
        layers += [Block(leaves, f"{here}.block{block}", size) for block in range(2)]
        planes = size
    return nn.Sequential(*layers, nn.ReLU())


REFERENCE = {"nature_cnn": nature, "residual_cnn": residual}


IMAGES = [
    (image(40, 44, 1, 4), (4, 40, 44)), (image(40, 44, 3, 2, "hwc"), (2, 40, 44, 3)),
    (image(40, 44), (1, 40, 44)), (image(40, 44, 3, 2, "chw"), (2, 3, 40, 44)),
    (image(40, 44, 3, 1, "hwc"), (1, 40, 44, 3)), (image(40, 44, 3, 1, "chw"), (1, 3, 40, 44)),
]  # fmt: skip


CNNS = ("nature_cnn", "residual_cnn")


@pytest.mark.parametrize(
    ("shape", "frames", "cnn"),
    slow_but(
        [(*each, cnn) for each, cnn in zip(IMAGES[:2], CNNS, strict=True)],
        [(*each, cnn) for each in IMAGES for cnn in CNNS],
    ),
)
def test_convolutions_equal_torch_modules(cnn, shape, frames):
    network_shape = NetworkShape(0, (), "tanh", True, 5, False, images=(shape,), cnn=cnn)
    leaves, _, _ = random_leaves(network_shape)
    x = torch.from_numpy(np.random.default_rng(1).integers(0, 256, (6, *frames), dtype=np.uint8))
    planes = x
    if shape.axes == "hwc":
        planes = x.permute(0, 1, 4, 2, 3)
    planes = planes.reshape(6, shape.planes, 40, 44).float() / 255
    features = REFERENCE[cnn](leaves, "torso.image0", shape.planes)(planes)
    last = nn.Linear(features[0].numel(), 512 if cnn == "nature_cnn" else 256)
    expected = torch.relu(load(last, leaves, "torso.image0.features")(pixels_last(features)))
    with torch.no_grad():
        got = Network(network_shape).features(leaves, "torso", Rows(torch.empty(6, 0), (x,)))
    assert expected.detach().abs().max() > 0.1
    np.testing.assert_allclose(got, expected.detach(), rtol=1e-4, atol=1e-4)


def test_features_of_images_and_numbers_enter_the_hidden_layers_together():
    images = (image(40, 40), image(36, 50, 3, 1, "hwc"))
    shape = NetworkShape(3, (7,), "tanh", False, 2, False, images=images)
    leaves, _, _ = random_leaves(shape)
    rng = np.random.default_rng(0)
    first = torch.from_numpy(rng.integers(0, 256, (4, 1, 40, 40), dtype=np.uint8))
    second = torch.from_numpy(rng.integers(0, 256, (4, 1, 36, 50, 3), dtype=np.uint8))
    numbers = torch.from_numpy(rng.normal(size=(4, 3)).astype(np.float32))
    rows = Rows(numbers, (first, second))
    network = Network(shape)
    with torch.no_grad():
        for torso, head in (("policy", network.output), ("value", network.value)):
            parts = []
            for index, planes in enumerate((first, second[:, 0].permute(0, 3, 1, 2))):
                name = f"{torso}.image{index}"
                seen = nature(leaves, name, planes.shape[1])(planes.float() / 255)
                weight, bias = leaves[f"{name}.features.weight"], leaves[f"{name}.features.bias"]
                parts.append(torch.relu(pixels_last(seen) @ weight.T + bias))
            joined = torch.cat([*parts, numbers], 1)
            hidden = torch.tanh(joined @ leaves[f"{torso}.0.weight"].T + leaves[f"{torso}.0.bias"])
            expected = hidden @ leaves[f"{torso}.head.weight"].T + leaves[f"{torso}.head.bias"]
            got = head(leaves, rows)
            np.testing.assert_allclose(got, expected.squeeze(-1), atol=2e-5)


def test_views_of_the_flat_tensor_are_the_layouts():
    shape = NetworkShape(
        2, (3,), "tanh", True, 2, True, images=(image(16, 17),), cnn="residual_cnn"
    )
    leaves, flat, layout = random_leaves(shape)
    for p in layout:
        np.testing.assert_array_equal(leaves[p.name], p.view(flat))
        assert leaves[p.name].data_ptr() == p.view(flat).ctypes.data
    convolution = leaves["torso.image0.section1.conv.weight"]
    assert convolution.is_contiguous(memory_format=torch.channels_last)


def test_bfloat16_features_are_close_and_heads_stay_float32():
    shape = NetworkShape(0, (), "tanh", True, 5, False, images=(image(84, 84, 1, 4),))
    leaves, _, _ = random_leaves(shape)
    x = np.random.default_rng(1).integers(0, 256, (8, 4, 84, 84), dtype=np.uint8)
    rows = Rows(torch.empty(8, 0), (torch.from_numpy(x),))
    with torch.no_grad():
        exact, rough = (Network(shape, bf16=bf16).output(leaves, rows) for bf16 in (False, True))
    assert rough.dtype == torch.float32
    difference = (exact - rough).abs().max()
    assert 0 < difference < 0.02 * exact.abs().max() + 0.01


def test_weights_that_contain_the_scale_of_pixels_see_the_same():
    shape = NetworkShape(0, (), "tanh", True, 5, False, images=(image(40, 40),))
    leaves, _, _ = random_leaves(shape)
    x = np.random.default_rng(1).integers(0, 256, (8, 1, 40, 40), dtype=np.uint8)
    rows = Rows(torch.empty(8, 0), (torch.from_numpy(x),))
    with torch.no_grad():
        plain = Network(shape).output(leaves, rows)
        leaves["torso.image0.conv0.weight"] = leaves["torso.image0.conv0.weight"] / 255
        scaled = Network(shape, scaled=True).output(leaves, rows)
    np.testing.assert_allclose(plain, scaled, atol=1e-5)


@pytest.mark.parametrize("choices", [(), (2, 3)])
def test_forbidden_actions_have_no_probability_no_entropy_and_no_gradient(choices):
    outputs = 5
    shape = NetworkShape(2, (4,), "tanh", True, outputs, False, choices=choices)
    leaves, _, _ = random_leaves(shape)
    for leaf in leaves.values():
        leaf.requires_grad_()
    mask = torch.tensor([[True, False, True, False, True]] * 3)
    rows = Rows(torch.randn(3, 2, generator=torch.Generator().manual_seed(0)), (), mask)
    action = torch.tensor([[0, 2]] * 3) if choices else torch.tensor([0, 2, 4])
    log_prob, entropy, *_ = Network(shape).evaluate(leaves, rows, action)
    output = Network(shape).output(leaves, rows)
    if choices:  # of the first dimension only choice 0 is left, of the second 0 and 2
        expected = [torch.distributions.Categorical(logits=output[:, [2, 4]])]
        index = [torch.tensor([1, 1, 1])]
    else:
        expected = [torch.distributions.Categorical(logits=output[:, [0, 2, 4]])]
        index = [torch.tensor([0, 1, 2])]
    with torch.no_grad():
        np.testing.assert_allclose(log_prob, expected[0].log_prob(index[0]), atol=1e-6)
        np.testing.assert_allclose(entropy, expected[0].entropy(), atol=1e-6)
    (log_prob.sum() + entropy.sum()).backward()
    gradient = leaves["policy.head.bias"].grad
    assert torch.isfinite(gradient).all()
    assert gradient[1] == 0 and gradient[3] == 0 and gradient[4] != 0


def test_categorical_of_one_allowed_choice_is_certain():
    logits = torch.tensor([[-1e30, 3.0, -1e30]], requires_grad=True)
    log_prob, entropy = categorical(logits, torch.tensor([1]))
    (log_prob + entropy).sum().backward()
    assert log_prob.item() == 0 and entropy.item() == 0
    assert (logits.grad == 0).all()
