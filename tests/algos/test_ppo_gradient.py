import dataclasses
from functools import partial
from typing import get_args

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fast_core.algorithm import LearnerSetup
from fast_core.algos.nets.activations import Activation
from fast_core.algos.nets.networks import NetworkShape, initial_parameters, parameter_layout
from fast_core.algos.nets.observations import ObservationTable
from fast_core.algos.nets_torch.compiled import Compiled
from fast_core.algos.ppo.autograd import clipped_loss
from fast_core.algos.ppo.config import PPOConfig
from fast_core.algos.ppo.explicit import ExplicitCore
from fast_core.algos.ppo.loss import clipped_surrogate, squared_error, standardise
from fast_core.algos.rollouts.core import Columns
from fast_core.algos.rollouts.merged import MergedRollout
from fast_core.algos.rollouts.torch_core import Objective, TorchCore

ROWS = 48
SETUP = LearnerSetup(seed=0, shards=1, envs_per_shard=1, steps=1)


def columns(shape, rng, rows=ROWS, *, weighted=False):
    action = (
        rng.normal(size=(rows, shape.outputs)).astype(np.float32)
        if shape.gaussian
        else rng.integers(0, shape.outputs, rows)
    )
    log_prob = rng.normal(-1.5 * shape.outputs if shape.gaussian else -1.0, 0.5, rows)
    others = rng.normal(0, 2, (3, rows))
    weight = rng.exponential(1.0, (1, rows)) if weighted else np.empty((0, rows))
    scalars = np.concatenate([log_prob[None], others, weight]).astype(np.float32)
    obs = ObservationTable(rng.normal(size=(rows, shape.inputs)).astype(np.float32))
    return obs, Columns(action, scalars, extra=("weight",) if weighted else ())


def observed(obs):
    """A round of which only the observations matter."""
    none = np.empty((0, 0))
    return MergedRollout(obs, none, none, none, none, none, none, none, (0,))


def cores(settings, shape, seed, rows=ROWS, *, weighted=False):
    rng = np.random.default_rng(seed)
    layout = parameter_layout(shape)
    flat = initial_parameters(layout, rng, initial_log_std=-0.3)
    flat += rng.normal(0, 0.1, flat.shape).astype(np.float32)  # biases and heads matter too
    both = (
        ExplicitCore(settings, shape, flat.copy()),
        TorchCore(settings, shape, flat.copy(), SETUP, Objective(partial(clipped_loss, settings))),
    )
    obs, data = columns(shape, rng, rows, weighted=weighted)
    for core in both:
        core.observe(observed(obs))
        core.begin(data)
        core.shuffle(np.arange(rows))
    return both


def assert_same_gradient(explicit, autograd, start, stop, clip, *, layer_norm=False):
    with np.errstate(all="ignore"):  # as the learner has it; what is NaN differs below
        explicit.gradient(start, stop, clip)
    autograd.gradient(start, stop, clip)
    (ours,), (theirs,) = explicit.said(), autograd.said()
    scale = max(1.0, theirs.gradient_norm)
    # Rounding the parameters once moves a normalised layer's gradient by as much as 6e-6.
    atol = (2e-5 if layer_norm else 2e-6) * scale
    np.testing.assert_allclose(explicit._gradient, autograd._flat.grad, atol=atol)
    assert ours.metrics.keys() == theirs.metrics.keys()
    numbers = [[step.gradient_norm, *step.metrics.values()] for step in (ours, theirs)]
    np.testing.assert_allclose(*numbers, rtol=1e-4, atol=2e-5)


@given(
    gaussian=st.booleans(),
    shared=st.booleans(),
    activation=st.sampled_from(get_args(Activation)),
    layer_norm=st.booleans(),
    value_sizes=st.sampled_from([None, (4,), (7, 6)]),
    sizes=st.sampled_from([(8,), (8, 6), (5, 5, 5)]),
    outputs=st.integers(1, 4),
    value_clip=st.sampled_from([None, 0.2, 1.5]),
    entropy_coef=st.sampled_from([0.0, 0.05]),
    value_coef=st.sampled_from([0.0, 0.5, 1.0]),
    normalize=st.booleans(),
    weighted=st.booleans(),
    clip=st.sampled_from([0.05, 0.2, 0.9]),
    seed=st.integers(0, 10_000),
)
def test_hand_written_gradient_equals_autograd(
    gaussian, shared, activation, layer_norm, value_sizes, sizes, outputs, value_clip,
    entropy_coef, value_coef, normalize, weighted, clip, seed,
):  # fmt: skip
    settings = PPOConfig(
        value_clip_epsilon=value_clip,
        entropy_coef=entropy_coef,
        value_coef=value_coef,
        normalize_advantage=normalize,
    )
    shape = NetworkShape(
        3, sizes, activation, shared, outputs, gaussian,
        value_sizes=None if shared else value_sizes, layer_norm=layer_norm,
    )  # fmt: skip
    explicit, autograd = cores(settings, shape, seed, weighted=weighted)
    # a whole one, a smaller one in other buffers, and one row, which is not normalised
    for start, stop in ((0, 32), (32, ROWS), (0, 1)):
        assert_same_gradient(explicit, autograd, start, stop, clip, layer_norm=layer_norm)


def test_values_agree_and_do_not_depend_on_chunks(monkeypatch):
    shape = NetworkShape(3, (8, 8), "tanh", False, 2, False)
    explicit, autograd = cores(PPOConfig(), shape, seed=1)
    obs = np.random.default_rng(0).normal(size=(100, 3)).astype(np.float32)
    for core in (explicit, autograd):
        core.observe(observed(ObservationTable(obs)))
    whole = explicit.values(0, 100)
    np.testing.assert_allclose(whole, autograd.values(0, 100), atol=1e-5)
    np.testing.assert_allclose(explicit.values(10, 30), whole[10:30], atol=1e-6)
    monkeypatch.setattr("fast_core.algos.ppo.explicit.CHUNK", 32)
    np.testing.assert_allclose(explicit.values(0, 100), whole, atol=1e-6)


def test_evaluation_agrees_and_does_not_depend_on_chunks(monkeypatch):
    shape = NetworkShape(3, (8, 8), "tanh", False, 2, True)
    found = []
    for chunk in (4096, 20):
        monkeypatch.setattr("fast_core.algos.ppo.explicit.CHUNK", chunk)
        for core in cores(PPOConfig(), shape, seed=1):
            action = np.random.default_rng(0).normal(size=(ROWS, 2)).astype(np.float32)
            log_probs, values = core.evaluate(action)
            np.testing.assert_allclose(values, core.values(0, ROWS), atol=1e-6)
            found.append(log_probs)
    for log_probs in found[1:]:
        np.testing.assert_allclose(log_probs, found[0], atol=1e-5)


def test_exported_state_does_not_change_with_the_core():
    shape = NetworkShape(3, (8,), "tanh", False, 2, False)
    for core in cores(PPOConfig(), shape, seed=3):
        core.gradient(0, ROWS, 0.2)
        core.apply(1e-3, 1.0)
        kept = core.export_state()
        copies = [np.copy(getattr(kept, f.name)) for f in dataclasses.fields(kept)]
        core.gradient(0, ROWS, 0.2)
        core.apply(1e-3, 1.0)
        for f, copy in zip(dataclasses.fields(kept), copies, strict=True):
            assert np.array_equal(getattr(kept, f.name), copy)


def test_clipped_surrogate_by_hand():
    ratio = np.array([1.5, 1.5, 0.5, 0.5, 1.1], np.float32)
    advantage = np.array([1.0, -1.0, 1.0, -1.0, 2.0], np.float32)
    got = clipped_surrogate(np.log(ratio), np.zeros(5, np.float32), advantage, 0.2)
    # Rows 0 and 3 gain nothing by moving on; the others do.
    np.testing.assert_allclose(got.log_prob_gradient, [0, 0.3, -0.1, 0, -0.44], atol=1e-6)
    assert got.loss == pytest.approx(-(1.2 - 1.5 + 0.5 - 0.8 + 2.2) / 5, rel=1e-6)
    assert got.clip_fraction == pytest.approx(0.8)
    assert got.approx_kl == pytest.approx(np.mean(ratio - 1 - np.log(ratio)), rel=1e-5)


def test_value_clipping_by_hand():
    value = np.array([1.0, 1.0, 0.1], np.float32)
    old = np.zeros(3, np.float32)
    target = np.array([2.0, 0.0, 2.0], np.float32)
    loss, gradient = squared_error(value, target, old, 0.2)
    # Errors (1, 1, 1.9) against clipped (1.8, .2, 1.9): row 0 has gone far enough.
    assert loss == pytest.approx((1.8**2 + 1 + 1.9**2) / 3, rel=1e-6)
    np.testing.assert_allclose(gradient, [0, 2 / 3, -3.8 / 3], atol=1e-6)


def test_advantages_of_one_or_equal_samples_stay_finite():
    assert standardise(np.array([3.0], np.float32)).tolist() == [3.0]
    assert standardise(np.full(64, 3.0, np.float32)).tolist() == [0.0] * 64
    spread = standardise(np.array([1.0, 2.0, 3.0], np.float32))
    np.testing.assert_allclose(spread, [-1, 0, 1], atol=1e-6)


def test_compile_that_fails_falls_back_with_one_warning(monkeypatch):
    def refuse(*_):
        raise RuntimeError("no compiler here")

    monkeypatch.setattr(torch, "compile", refuse)
    calls = []

    def loss(leaves, *_):
        calls.append(leaves)
        return torch.zeros(()), torch.zeros(5)

    compiled, one = Compiled(loss), torch.zeros(1)
    with pytest.warns(RuntimeWarning, match=r"no compiler here.*C\+\+ compiler") as caught:
        for _ in range(3):
            compiled({}, one, one, one, one)
    assert len(caught) == 1 and len(calls) == 3


def test_value_within_the_clip_range_always_has_its_gradient():
    # Both errors are equal there but for rounding; a row must not lose its gradient to that.
    rng = np.random.default_rng(0)
    old, target = rng.normal(size=(2, 1000)).astype(np.float32)
    value = old + rng.uniform(-0.1, 0.1, 1000).astype(np.float32)
    _, gradient = squared_error(value, target, old, 0.2)
    np.testing.assert_allclose(gradient, 2 * (value - target) / 1000, atol=1e-8)
