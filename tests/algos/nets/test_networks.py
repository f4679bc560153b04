import math

import numpy as np
import pytest

from fast_core.algos.nets import networks
from fast_core.algos.nets.networks import (
    NetworkShape,
    initial_parameters,
    orthogonal,
    parameter_layout,
)


def shape(**changes):
    fields = {
        "inputs": 3,
        "hidden_sizes": (8, 5),
        "activation": "tanh",
        "shared_torso": False,
        "outputs": 2,
        "gaussian": True,
    }
    return NetworkShape(**(fields | changes))


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"shared_torso": True},
        {"layer_norm": True},
        {"value_sizes": (4, 9, 2), "layer_norm": True},
    ],
)
def test_layout_covers_the_vector_without_gap_or_overlap(given):
    layout = parameter_layout(shape(**given))
    places = np.zeros(layout[-1].end, np.float32)
    for parameter in layout:
        view = parameter.view(places)
        view += 1
        assert np.shares_memory(view, places)
    assert (places == 1).all()
    assert len({p.name for p in layout}) == len(layout)


def test_policy_parameters_exclude_the_values():
    separate = [p.name for p in parameter_layout(shape()) if p.belongs_to_policy]
    assert separate == [
        "policy.0.weight", "policy.0.bias", "policy.1.weight", "policy.1.bias",
        "policy.head.weight", "policy.head.bias", "policy.log_std",
    ]  # fmt: skip
    shared = shape(shared_torso=True, gaussian=False)
    names = [p.name for p in parameter_layout(shared) if p.belongs_to_policy]
    assert names == [
        "torso.0.weight", "torso.0.bias", "torso.1.weight", "torso.1.bias",
        "policy.head.weight", "policy.head.bias",
    ]  # fmt: skip


def test_layers_of_different_torsos_and_their_heads_have_their_own_widths():
    own = shape(value_sizes=(7,), layer_norm=True)
    shapes = {p.name: p.shape for p in parameter_layout(own)}
    assert shapes["policy.1.weight"] == (5, 8) and shapes["policy.head.weight"] == (2, 5)
    assert shapes["value.0.weight"] == (7, 3) and shapes["value.head.weight"] == (1, 7)
    assert shapes["value.0.scale"] == shapes["value.0.shift"] == (7,)
    assert own.products == 3 * 8 + 8 * 5 + 5 * 2 + 3 * 7 + 7
    acting = [p.name for p in parameter_layout(own) if p.belongs_to_policy]
    assert [name for name in acting if "scale" in name] == ["policy.0.scale", "policy.1.scale"]
    assert not any(name.startswith("value") for name in acting)


@pytest.mark.parametrize("size", [(8, 3), (3, 8), (5, 5), (1, 4)])
def test_orthogonal_matrices_have_orthogonal_short_side(size):
    matrix = orthogonal(np.random.default_rng(0), size, 1.5)
    assert matrix.shape == size
    gram = matrix @ matrix.T if size[0] <= size[1] else matrix.T @ matrix
    np.testing.assert_allclose(gram, 2.25 * np.eye(min(size)), atol=1e-12)


@pytest.mark.parametrize("size", [(40, 4), (4, 40)])
def test_large_matrices_are_as_orthogonal_in_single_precision(size, monkeypatch):
    drawn = orthogonal(np.random.default_rng(0), size, 1.5)
    monkeypatch.setattr(networks, "LARGE", 100)
    matrix = orthogonal(np.random.default_rng(0), size, 1.5)
    assert matrix.dtype == np.float32 and matrix.shape == size and drawn.dtype == np.float64
    gram = matrix @ matrix.T if size[0] <= size[1] else matrix.T @ matrix
    np.testing.assert_allclose(gram, 2.25 * np.eye(4), atol=1e-5)
    corners = [orthogonal(np.random.default_rng(i), size, 1.0)[0, 0] for i in range(400)]
    assert abs(np.mean(corners)) < 0.04 and 0.1 < np.std(corners) < 0.22  # 1 / sqrt(40)


def test_orthogonal_draws_are_not_biased_by_the_signs_of_the_decomposition():
    rng = np.random.default_rng(0)
    corners = [orthogonal(rng, (4, 4), 1.0)[0, 0] for _ in range(400)]
    assert abs(np.mean(corners)) < 0.1  # standard error .025; biased, it is -.4


def test_initial_values_have_their_gains_and_zero_biases():
    layout = parameter_layout(shape())
    flat = initial_parameters(layout, np.random.default_rng(0), initial_log_std=-0.5)
    views = {p.name: p.view(flat) for p in layout}
    norms = {name: np.linalg.norm(view, 2) for name, view in views.items() if view.ndim == 2}
    assert norms["policy.0.weight"] == pytest.approx(math.sqrt(2), rel=1e-5)
    assert norms["value.1.weight"] == pytest.approx(math.sqrt(2), rel=1e-5)
    assert norms["policy.head.weight"] == pytest.approx(0.01, rel=1e-5)
    assert norms["value.head.weight"] == pytest.approx(1.0, rel=1e-5)
    assert (views["policy.log_std"] == -0.5).all()
    assert all((view == 0).all() for name, view in views.items() if name.endswith("bias"))


def test_initial_values_depend_on_the_seed_alone():
    layout = parameter_layout(shape())
    first, same, other = (
        initial_parameters(layout, np.random.default_rng(seed), initial_log_std=0.0)
        for seed in (1, 1, 2)
    )
    assert (first == same).all() and (first != other).any()
