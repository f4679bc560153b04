"""Recurrent layers against torch's own modules, and against each other."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fast_core.algos.nets.recurrent_cells import Memory, initialise
from fast_core.algos.nets.recurrent_shape import Cell, MemoryShape
from fast_core.algos.nets_torch.recurrent import TorchMemory

CELLS: tuple[Cell, ...] = ("gru", "lstm")
INPUTS, SIZE, STEPS, ENVS = 5, 7, 11, 4

pytestmark = pytest.mark.parametrize("cell", CELLS)


def parameters(shape: MemoryShape, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {name: rng.normal(0.0, 0.5, size).astype(np.float32) for name, size in shape.parameters}


def case(cell: Cell):
    shape = MemoryShape(cell, INPUTS, SIZE)
    views = parameters(shape)
    rng = np.random.default_rng(1)
    x = torch.from_numpy(rng.normal(size=(STEPS, ENVS, INPUTS)).astype(np.float32))
    state = torch.from_numpy(rng.normal(size=(ENVS, shape.state_size)).astype(np.float32))
    ended = rng.random((STEPS, ENVS)) < 0.3
    assert ended[:-1].any()
    keep = np.ones((STEPS, ENVS), np.float32)
    keep[1:] = ~ended[:-1]
    leaves = {name: torch.from_numpy(view).requires_grad_() for name, view in views.items()}
    return shape, views, leaves, x, state, ended, torch.from_numpy(keep)


def test_policy_step_equals_unrolled_layer(cell: Cell) -> None:
    shape, views, leaves, x, state, ended, keep = case(cell)
    states = TorchMemory(shape).states(leaves, x, state, keep)
    memory, before = Memory(shape, views), state.numpy().copy()
    for t in range(STEPS):
        given = before.copy()
        features, after = memory.step(np.ascontiguousarray(x[t].numpy().T), before)
        assert np.array_equal(before, given), "the state it is given stays as it is"
        np.testing.assert_allclose(after, states[t].numpy(), rtol=0, atol=2e-6)
        np.testing.assert_array_equal(features.T, after[:, :SIZE])
        assert after.flags.c_contiguous and after.dtype == np.float32
        before = after * ~ended[t][:, None]


def test_first_weights_are_orthogonal_gate_by_gate(cell: Cell) -> None:
    shape = MemoryShape(cell, SIZE, SIZE)
    views = {name: np.full(size, np.nan, np.float32) for name, size in shape.parameters}
    initialise(shape, views, np.random.default_rng(0))
    for name in ("memory.input.weight", "memory.state.weight"):
        for gate in np.split(views[name], shape.gates):
            np.testing.assert_allclose(gate @ gate.T, np.eye(SIZE), atol=1e-6)
    forget = views["memory.input.bias"].reshape(shape.gates, SIZE)[1]
    assert np.all(forget == (1.0 if cell == "lstm" else 0.0))
    assert not views["memory.state.bias"].any()
