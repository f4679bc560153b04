"""What can be said of any policy's thoughts from its answers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from examples.linear import LinearConfig, value_inputs
from fast_core.algorithm import LearnerSetup
from fast_core.algorithm.spec import EnvironmentSpec, SpaceSpec
from fast_core.algos.ppo.config import PPOConfig
from fast_core.policy.thinking import PolicyThinker

SEEN = SpaceSpec("box", (3,), "float32", low=(-9.0,), high=(9.0,))
ACTIONS = {
    "discrete": SpaceSpec("discrete", (), "int64", n=3, start=1),
    "many": SpaceSpec("multi_discrete", (2,), "int64", counts=(2, 3), starts=(0, 0)),
    "box": SpaceSpec("box", (2,), "float32", low=(-50.0,), high=(50.0,)),
}


def both(kind: str, **changes: Any) -> tuple[Any, Any, np.ndarray]:
    """What is said by PPO's own and of any policy, of a policy that is not uniform."""
    environment = EnvironmentSpec("Test-v0", SEEN, ACTIONS[kind])
    config = PPOConfig(minibatch_size=8, hidden_sizes=(5,), **changes)
    learner: Any = config.make_algorithm(environment, LearnerSetup(0, 1, 1, 8))
    state, rng = learner.state_dict(), np.random.default_rng(3)
    for name, array in state["parameters"].items():
        array += rng.normal(0.0, 0.1 if name.startswith("policy.") else 0.8, array.shape)
    learner.load_state_dict(state)
    acting = learner.policy_parameters()
    own = config.make_thinker(environment)
    own.load([*acting, *learner.insight_parameters()])
    anybody = PolicyThinker(config, environment)
    anybody.load(acting)
    obs = rng.normal(size=(1, 3)).astype(np.float32)
    remembered = rng.normal(size=(1, config.state_size(environment))).astype(np.float32)
    given = obs, np.zeros((1, *ACTIONS[kind].shape)), remembered if remembered.size else None
    return own.think(*given), anybody.think(*given), obs


@pytest.mark.parametrize("recurrent", ["none", "gru"])
def test_probabilities_of_one_choice_are_exact(recurrent: Any) -> None:
    own, said, _ = both("discrete", recurrent=recurrent)
    assert 1 / 64 < min(own.probabilities[0]) < 0.3, "all are drawn"
    np.testing.assert_allclose(said.probabilities[0], own.probabilities[0], atol=1e-5)
    assert said.value is None


def test_probabilities_of_several_choices_are_near() -> None:
    own, said, _ = both("many")
    for mine, theirs in zip(own.probabilities, said.probabilities, strict=True):
        np.testing.assert_allclose(theirs, mine, atol=0.2)
        assert theirs.sum() == pytest.approx(1)


def test_mean_of_a_box_is_exact_and_its_deviation_near() -> None:
    own, said, _ = both("box")
    np.testing.assert_allclose(said.mean, own.mean, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(said.std, own.std, rtol=0.3)


def test_choice_that_is_never_drawn_shares_what_is_left() -> None:
    """Of the example of docs/adding-an-algorithm.md, whose own thinker knows it exactly."""
    environment = EnvironmentSpec("Test-v0", SEEN, ACTIONS["discrete"])
    config = LinearConfig(name="examples.linear:LinearConfig")
    learner: Any = config.make_algorithm(environment, LearnerSetup(0, 1, 1, 8))
    learner._policy[-1], learner._value[:] = (0.0, 8.0, 1.0), np.arange(7)
    acting = learner.policy_parameters()
    anybody, own = PolicyThinker(config, environment), config.make_thinker(environment)
    anybody.load(acting)
    own.load([*acting, *learner.insight_parameters()])
    given = np.ones((1, 3), np.float32), np.array([1]), None
    said, exact = anybody.think(*given), own.think(*given)
    assert said.probabilities is not None and exact.probabilities is not None
    low, likely, other = exact.probabilities[0]
    np.testing.assert_allclose(said.probabilities[0][1], likely, rtol=1e-5)
    np.testing.assert_allclose(said.probabilities[0][[0, 2]], (low + other) / 2, rtol=1e-2)
    assert exact.value == pytest.approx((value_inputs(given[0]) @ np.arange(7)).item())
