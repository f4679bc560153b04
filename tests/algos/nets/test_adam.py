import numpy as np
import torch

from fast_core.algos.nets.adam import Adam


def test_steps_match_torch():
    rng = np.random.default_rng(0)
    start = rng.normal(size=500).astype(np.float32)
    ours = start.copy()
    adam = Adam(ours, epsilon=1e-5)
    theirs = torch.nn.Parameter(torch.tensor(start))
    reference = torch.optim.Adam([theirs], eps=1e-5)
    for step in range(50):
        gradient = (rng.normal(size=500) * 10.0 ** rng.integers(-4, 2)).astype(np.float32)
        rate, scale = 1e-2 / (step + 1), 1.0 if step % 2 else 0.25
        theirs.grad = torch.tensor(gradient * np.float32(scale))
        reference.param_groups[0]["lr"] = rate
        reference.step()
        adam.step(gradient.copy(), rate, scale)
        np.testing.assert_allclose(ours, theirs.detach(), atol=2e-6)
    state = reference.state[theirs]
    np.testing.assert_allclose(adam.first_moment, state["exp_avg"], rtol=1e-4, atol=1e-7)
    np.testing.assert_allclose(adam.second_moment, state["exp_avg_sq"], rtol=1e-4, atol=1e-9)
    assert adam.steps == 50
