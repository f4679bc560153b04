"""The hand-written unrolled layers against those in torch, and through changing sizes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fast_core.algos.nets.recurrent_dense import UnrolledMemory
from fast_core.algos.nets.recurrent_shape import Cell, MemoryShape
from fast_core.algos.nets_torch.recurrent import TorchMemory

INPUTS, SIZE = 5, 7


@pytest.mark.parametrize("cell", ["gru", "lstm"])
@pytest.mark.parametrize("chance", [0.0, 0.3, 1.0])
def test_layer_and_gradient_equal_those_of_torch(cell: Cell, chance: float) -> None:
    shape, rng = MemoryShape(cell, INPUTS, SIZE), np.random.default_rng(0)
    views = {n: rng.normal(0.0, 0.5, s).astype(np.float32) for n, s in shape.parameters}
    gradients = {n: np.full(s, np.nan, np.float32) for n, s in shape.parameters}
    memory = UnrolledMemory(shape, views, gradients)
    leaves = {n: torch.from_numpy(v.copy()).requires_grad_() for n, v in views.items()}
    for steps, envs in [(9, 4), (9, 1), (1, 4), (9, 4)]:  # buffers of one size are used again
        x = rng.normal(size=(steps, envs, INPUTS)).astype(np.float32)
        state = rng.normal(size=(envs, shape.state_size)).astype(np.float32)
        keep = (rng.random((steps, envs)) >= chance).astype(np.float32)
        weights = rng.normal(size=(steps, envs, SIZE)).astype(np.float32)
        features = np.ascontiguousarray(x.reshape(-1, INPUTS).T)
        delta = np.full_like(features, np.nan)

        output = memory.forward(features, state, keep).copy()
        memory.backward(features, weights, keep, delta)

        inputs = torch.from_numpy(x).requires_grad_()
        expected = TorchMemory(shape).unroll(
            leaves, inputs, torch.from_numpy(state), torch.from_numpy(keep)
        )
        for leaf in leaves.values():
            leaf.grad = None
        (expected * torch.from_numpy(weights)).sum().backward()
        np.testing.assert_allclose(output, expected.detach().numpy(), atol=2e-6)
        np.testing.assert_allclose(
            delta.T.reshape(x.shape), inputs.grad.numpy(), rtol=1e-4, atol=1e-5
        )
        for name, gradient in gradients.items():
            np.testing.assert_allclose(
                gradient, leaves[name].grad.numpy(), rtol=1e-4, atol=2e-5, err_msg=name
            )
