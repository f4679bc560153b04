"""The serial trainer that stands in for GOPS does what DSAC does, so that it is a fair peer."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from benchmarks import peer_gops  # noqa: E402


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Two that spin for each other take a hundred times as long where others work too."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def batch(rows: int, reward: float) -> dict[str, torch.Tensor]:
    torch.manual_seed(1)
    return {
        "obs": torch.randn(rows, 3),
        "act": torch.rand(rows, 1),
        "rew": torch.full((rows,), reward),
        "obs2": torch.randn(rows, 3),
        "done": torch.ones(rows),
        "logp": torch.zeros(rows),
    }


def networks() -> peer_gops.Networks:
    torch.manual_seed(0)
    return peer_gops.Networks(3, 1, 16, torch.tensor([2.0]))


def test_log_probability_of_a_squashed_action_includes_the_scale() -> None:
    """A standard normal's 0.5, behind 2 tanh: -1.49686."""
    distribution = peer_gops.SquashedNormal(torch.zeros(1), torch.ones(1), torch.tensor([2.0]))
    generator = torch.random.get_rng_state()
    action, log_prob = distribution.sample()
    torch.random.set_rng_state(generator)
    raw = torch.randn(1)
    assert float(action) == pytest.approx(2 * np.tanh(float(raw)), rel=1e-5)
    density = np.exp(-0.5 * float(raw) ** 2) / np.sqrt(2 * np.pi)
    slope = 2 * (1 - np.tanh(float(raw)) ** 2)
    assert float(log_prob) == pytest.approx(np.log(density / slope), rel=1e-4)


def test_policy_and_targets_move_every_other_time_and_the_critic_always() -> None:
    learner = peer_gops.DSAC(networks(), 1)
    parts = {
        "critic": learner.networks.critic,
        "policy": learner.networks.policy,
        "target": learner.networks.critic_target,
    }
    moved = []
    for iteration in (1, 2):
        before = {name: [p.clone() for p in part.parameters()] for name, part in parts.items()}
        learner.update(batch(32, 1.0), iteration)
        moved.append(
            {
                name
                for name, part in parts.items()
                if any((a != b).any() for a, b in zip(before[name], part.parameters(), strict=True))
            }
        )
    assert moved == [{"critic"}, {"critic", "policy", "target"}]


@pytest.mark.slow
def test_critic_learns_the_reward_of_steps_that_end() -> None:
    learner = peer_gops.DSAC(networks(), 1)
    values = [learner.update(batch(64, 1.5), iteration)["value"] for iteration in range(1, 600)]
    assert values[-1] == pytest.approx(1.5, abs=0.2)
    assert abs(values[0] - 1.5) > 0.5


def test_full_buffer_overwrites_the_oldest() -> None:
    buffer = peer_gops.Buffer(1, 1, capacity=3)
    row = {"obs": 0.0, "act": 0.0, "obs2": 0.0, "done": False, "logp": 0.0}
    for reward in range(5):
        buffer.add([{**row, "rew": float(reward)}])
    assert buffer.size == 3
    assert set(buffer.draw(200)["rew"].tolist()) == {2.0, 3.0, 4.0}
