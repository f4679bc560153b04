"""Adam over one flat tensor against the class of torch that it stands in for."""

import numpy as np
import torch

from fast_core.algos.nets_torch.adam import FlatAdam


def test_steps_are_those_of_torchs_class_bit_for_bit_and_a_bad_one_is_none():
    rng = np.random.default_rng(0)
    start = torch.from_numpy(rng.normal(size=300).astype(np.float32))
    ours, gradient = start.clone(), torch.zeros(300)
    adam = FlatAdam(ours, gradient, epsilon=1e-5)
    theirs = torch.nn.Parameter(start.clone())
    theirs.grad = gradient
    reference = torch.optim.Adam([theirs], eps=1e-5, fused=True)
    for step in range(20):
        gradient[:] = torch.from_numpy(rng.normal(size=300)) * 10.0 ** rng.integers(-4, 2)
        rate, bad = 1e-2 / (step + 1), step % 5 == 3
        if not bad:
            reference.param_groups[0]["lr"] = rate
            reference.step()
        adam.step(rate, bad=torch.tensor(float(bad)) if bad or step % 2 else None)
        if step == 9:  # in mid-course, from what a checkpoint would hold
            adam, former = FlatAdam(ours, gradient, epsilon=1e-5), adam
            adam.load(*former.moments(), former.steps)
        assert torch.equal(ours, theirs.detach()), step
    state = reference.state[theirs]
    assert adam.steps == int(state["step"]) == 16
    for found, expected in zip(adam.moments(), ("exp_avg", "exp_avg_sq"), strict=True):
        assert np.array_equal(found, state[expected].numpy())


def test_moments_that_are_read_only_are_loaded_without_a_warning():
    moments = np.frombuffer(np.arange(3, dtype=np.float32).tobytes(), np.float32)
    adam = FlatAdam(torch.zeros(3), torch.zeros(3), epsilon=1e-5)
    adam.load(moments, moments, 2)
    assert all(np.array_equal(found, moments) for found in adam.moments()) and adam.steps == 2
