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


def module(shape: MemoryShape, views: dict[str, np.ndarray]) -> torch.nn.Module:
    """Torch's own layer with the same parameters."""
    kind = torch.nn.GRU if shape.cell == "gru" else torch.nn.LSTM
    made = kind(shape.inputs, shape.size)
    with torch.no_grad():
        made.weight_ih_l0.copy_(torch.from_numpy(views["memory.input.weight"]))
        made.bias_ih_l0.copy_(torch.from_numpy(views["memory.input.bias"]))
        made.weight_hh_l0.copy_(torch.from_numpy(views["memory.state.weight"]))
        made.bias_hh_l0.copy_(torch.from_numpy(views["memory.state.bias"]))
    return made


def one_by_one(
    shape: MemoryShape, layer: torch.nn.Module, x: torch.Tensor, state: torch.Tensor, ended
) -> tuple[torch.Tensor, torch.Tensor]:
    """A slow loop: every environment alone, its state thrown away where an episode ended."""
    columns, states = [], []
    for env in range(x.shape[1]):
        h, c = state[env, : shape.size], state[env, shape.size :]
        outputs, kept = [], []
        for t in range(len(x)):
            if t > 0 and ended[t - 1, env]:
                h, c = torch.zeros_like(h), torch.zeros_like(c)
            given = h[None, None] if shape.cell == "gru" else (h[None, None], c[None, None])
            output, after = layer(x[t : t + 1, env : env + 1], given)
            h, c = (after[0, 0], c) if shape.cell == "gru" else (after[0][0, 0], after[1][0, 0])
            outputs.append(output[0, 0])
            kept.append(torch.cat([h, c]))
        columns.append(torch.stack(outputs))
        states.append(torch.stack(kept))
    return torch.stack(columns, 1), torch.stack(states, 1)


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


def test_unrolled_layer_equals_torch_module_with_resets(cell: Cell) -> None:
    shape, views, leaves, x, state, ended, keep = case(cell)
    expected, states = one_by_one(shape, module(shape, views), x, state, ended)
    memory = TorchMemory(shape)
    torch.testing.assert_close(memory.unroll(leaves, x, state, keep), expected)
    torch.testing.assert_close(memory.states(leaves, x, state, keep), states)


def test_backward_pass_equals_autograd_through_a_slow_loop(cell: Cell) -> None:
    shape, views, leaves, x, state, ended, keep = case(cell)
    weights = torch.from_numpy(
        np.random.default_rng(2).normal(size=(STEPS, ENVS, SIZE)).astype(np.float32)
    )
    mine, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    (TorchMemory(shape).unroll(leaves, mine, state, keep) * weights).sum().backward()
    layer = module(shape, views)
    (one_by_one(shape, layer, theirs, state, ended)[0] * weights).sum().backward()
    torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-4, atol=1e-5)
    for name, expected in [
        ("memory.input.weight", layer.weight_ih_l0),
        ("memory.input.bias", layer.bias_ih_l0),
        ("memory.state.weight", layer.weight_hh_l0),
        ("memory.state.bias", layer.bias_hh_l0),
    ]:
        torch.testing.assert_close(leaves[name].grad, expected.grad, rtol=1e-4, atol=1e-4)


def test_backward_pass_survives_numerical_differentiation(cell: Cell) -> None:
    shape = MemoryShape(cell, 2, 3)
    generator = torch.Generator().manual_seed(0)

    def draw(*size: int) -> torch.Tensor:
        return torch.randn(size, dtype=torch.float64, generator=generator)

    names = [name for name, _ in shape.parameters]
    given = [draw(*size).requires_grad_() for _, size in shape.parameters]
    features = draw(4, 2, 2).requires_grad_()
    state, keep = draw(2, shape.state_size), torch.tensor([[1, 1], [1, 0], [0, 1], [1, 1.0]])

    def run(features: torch.Tensor, *leaves: torch.Tensor) -> torch.Tensor:
        named = dict(zip(names, leaves, strict=True))
        return TorchMemory(shape).unroll(named, features, state, keep.double())

    assert torch.autograd.gradcheck(run, (features, *given))


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
