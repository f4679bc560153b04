import numpy as np
import pytest

from fast_core.algorithm import PolicySetup
from fast_core.algorithm.spec import EnvironmentSpec, SpaceSpec
from fast_core.algos.nets.images import check_cnn, cnn_layers, find_images, fitting_cnn, sees_pixels
from fast_core.algos.nets.networks import NetworkShape, parameter_layout
from fast_core.algos.ppo.config import PPOConfig
from fast_core.errors import ConfigError

ACTION = SpaceSpec("discrete", (), "int64", n=4)
NUMBERS = SpaceSpec("box", (3,), "float32", low=(-1.0,), high=(1.0,))


def pixels(*shape, dtype="uint8"):
    return SpaceSpec("box", shape, dtype, low=(0.0,), high=(255.0,))


def seen(observation, frames=1, mask=None):
    return EnvironmentSpec("Test-v0", observation, ACTION, frames=frames, action_mask=mask)


@pytest.mark.parametrize(
    ("shape", "frames", "planes", "axes"),
    [
        ((84, 84), 1, 1, "hw"), ((84, 80, 3), 1, 3, "hwc"), ((4, 84, 80), 1, 4, "chw"),
        ((4, 84, 80), 4, 4, "hw"), ((2, 84, 80, 3), 2, 6, "hwc"), ((2, 3, 84, 80), 2, 6, "chw"),
        ((16, 16, 16), 1, 16, "hwc"),
    ],
)  # fmt: skip
def test_images_are_told_by_their_shape(shape, frames, planes, axes):
    (image,) = find_images(seen(pixels(*shape), frames))
    assert (image.planes, image.axes, image.stack) == (planes, axes, frames)
    width = {"hw": shape[-1], "hwc": shape[-2], "chw": shape[-1]}[axes]
    assert image.width == width


@pytest.mark.parametrize(
    "space",
    [pixels(15, 84), pixels(84, 15, 3), pixels(84, 84, dtype="float32"), pixels(84), NUMBERS,
     pixels(2, 3, 84, 84), SpaceSpec("discrete", (), "int64", n=3)],
)  # fmt: skip
def test_what_is_small_or_not_bytes_is_no_image(space):
    assert find_images(seen(space)) == ()


def test_parts_of_composite_observations_are_images_but_the_mask_never_is():
    space = SpaceSpec.composite(
        [("a/camera", pixels(40, 40, 3)), ("arm", NUMBERS), ("mask", pixels(20, 20))]
    )
    assert [i.part for i in find_images(seen(space))] == ["a/camera", "mask"]
    assert [i.part for i in find_images(seen(space, mask="mask"))] == ["a/camera"]


def test_network_is_chosen_by_the_smallest_image():
    large, small = find_images(seen(pixels(36, 84))), find_images(seen(pixels(35, 84)))
    assert fitting_cnn(large) == "nature_cnn"
    assert fitting_cnn(small) == "residual_cnn"
    assert PPOConfig().shape(seen(pixels(36, 84))).cnn == "nature_cnn"
    assert PPOConfig().shape(seen(pixels(84, 20, 3))).cnn == "residual_cnn"
    mlp = PPOConfig(network="mlp").shape(seen(pixels(84, 84)))
    assert mlp.images == () and mlp.inputs == 84 * 84 and mlp.hidden_sizes == (64, 64)


def test_network_that_can_not_see_the_observation_is_refused():
    with pytest.raises(ConfigError, match=r"36 pixels.*35 x 84.*residual_cnn"):
        check_cnn("nature_cnn", find_images(seen(pixels(35, 84))), "Test-v0")
    with pytest.raises(ConfigError, match=r"algorithm.network 'residual_cnn'.*none.*mlp"):
        PPOConfig(network="residual_cnn").shape(seen(NUMBERS))
    with pytest.raises(ConfigError, match=r"policy.backend 'numpy'.*torch"):
        PPOConfig().make_policy(seen(pixels(84, 84)), PolicySetup("numpy"))


def test_convolutions_choose_torch_and_a_shared_torso_without_hidden_layers():
    config, environment = PPOConfig(), seen(pixels(84, 84))
    shape = config.shape(environment)
    assert shape.shared_torso and shape.hidden_sizes == () and shape.features == 512
    assert config.policy_backend(environment) == "torch"
    assert config.policy_backend(seen(NUMBERS)) == "numpy"
    assert PPOConfig(network="nature_cnn").uses_torch(device="cpu", compile=False)
    assert not config.uses_torch(device="cpu", compile=False)
    own = PPOConfig(hidden_sizes=(32,), shared_torso=False).shape(environment)
    assert own.hidden_sizes == (32,) and own.torsos == ("policy", "value") and own.features == 32


def test_nature_network_has_its_published_size():
    shape = PPOConfig().shape(seen(pixels(4, 84, 84), 4))
    # The weights of Mnih et al. with 18 actions have 1,693,362 parameters; here 4, and a value.
    assert parameter_layout(shape)[-1].end == 1_693_362 - 18 * 513 + 5 * 513
    conv = 20 * 20 * 32 * 256 + 9 * 9 * 64 * 512 + 7 * 7 * 64 * 576 + 512 * 3136
    assert shape.products == conv + 512 * 5
    flops = PPOConfig(minibatch_size=256).update_flops(seen(pixels(4, 84, 84), 4), 1024)
    assert flops == 6 * 256 * shape.products


def test_residual_network_halves_each_side_three_times():
    (image,) = find_images(seen(pixels(17, 84, 3)))
    layers = list(cnn_layers("residual_cnn", image))
    assert len(layers) == 16
    assert layers[-1].shape == (256, 3 * 11 * 32)
    assert layers[0].positions == 17 * 84 and layers[1].positions == 9 * 42


@pytest.mark.parametrize("network", ["nature_cnn", "residual_cnn"])
def test_only_the_first_layer_sees_pixels(network):
    names = [
        p.name for p in parameter_layout(PPOConfig(network=network).shape(seen(pixels(84, 84))))
    ]
    first = [name for name in names if sees_pixels(name)]
    assert first == [names[0]]


def test_policy_fields_are_plain_and_follow_the_published_parameters():
    environment = seen(SpaceSpec.composite([("camera", pixels(40, 40)), ("arm", NUMBERS)]))
    config = PPOConfig(normalize_observations=True, minibatch_size=1)
    fields = {f.name: f for f in config.policy_fields(environment)}
    assert fields["torso.image0.conv0.weight"].shape == (32, 1, 8, 8)
    assert fields["policy.head.weight"].shape == (4, 512 + 3)
    assert fields["observation.mean"].shape == (3,)
    only = config.policy_fields(seen(pixels(40, 40)))
    assert "observation.mean" not in [f.name for f in only]


def test_convolutions_lie_channels_last_in_the_flat_vector():
    shape = NetworkShape(0, (), "tanh", True, 2, False, images=find_images(seen(pixels(40, 40, 3))))
    flat = np.arange(parameter_layout(shape)[-1].end, dtype=np.float32)
    conv = parameter_layout(shape)[0]
    view = conv.view(flat)
    assert view.shape == (32, 3, 8, 8) and np.shares_memory(view, flat)
    assert view[0, :, 0, 0].tolist() == [0, 1, 2] and view[0, 0, 0, 1] == 3
