import numpy as np

from fast_core.algos.nets.mlp import KEPT_SIZES, make_torso
from fast_core.algos.nets.networks import NetworkShape, parameter_layout

SHAPE = NetworkShape(3, (7, 5), "tanh", False, 2, False)


def test_parameters_are_views_that_follow_updates():
    rng = np.random.default_rng(0)
    flat = rng.normal(0, 0.5, parameter_layout(SHAPE)[-1].end).astype(np.float32)
    torso, x = make_torso(SHAPE, flat, 0), rng.normal(size=(3, 11)).astype(np.float32)
    before = torso.forward(x).copy()
    flat *= 2
    assert (torso.forward(x) != before).any()


def test_buffers_of_ever_new_sizes_are_bounded():
    torso = make_torso(SHAPE, np.zeros(parameter_layout(SHAPE)[-1].end, np.float32), 0)
    for rows in range(1, 5 * KEPT_SIZES):
        torso.forward(np.zeros((3, rows), np.float32))
        assert len(torso._buffers) <= KEPT_SIZES
