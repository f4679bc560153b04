"""PPO's policy with a learner whose one step a round changes nothing: only sampling costs time.

Named by import path in the configuration of `benchmarks.sampler_limit`:
``algorithm.name: benchmarks.null_algorithm:NullConfig``.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated

import numpy as np
from msgspec import Meta

from fast_core.algorithm import Algorithm, Array, LearnerSetup, RolloutBatch, UpdateReport
from fast_core.algorithm.spec import EnvironmentSpec
from fast_core.algos.nets.networks import initial_parameters, parameter_layout
from fast_core.algos.ppo.config import PPOConfig

# Push to the side to which the pole leans or falls, and a little to which the cart moves:
# weights of position, velocity, angle and angular velocity, and how sure the policy is.
LEAN = (0.1, 0.2, 1.0, 0.5)
STRENGTH = 20.0


class NullConfig(PPOConfig, frozen=True, kw_only=True):
    """Blueprint of an algorithm that acts like PPO and learns nothing."""

    balance: Annotated[
        bool,
        Meta(description="Act as a trained CartPole policy does, so that episodes last 500 steps."),
    ] = False
    update_s: Annotated[
        float,
        Meta(ge=0, description="Sleep for so long at each round, as if something were learnt."),
    ] = 0.0
    normalize_observations: Annotated[bool, Meta(description="Never.")] = False

    def updates_granted(self, rows: int) -> int:
        """One a round, so that versions grow."""
        return 1

    def make_algorithm(self, environment: EnvironmentSpec, setup: LearnerSetup) -> Algorithm:
        """Build the learner."""
        return NullAlgorithm(self.parameters(environment, setup.seed), self.update_s)

    def parameters(self, environment: EnvironmentSpec, seed: int) -> list[Array]:
        """The policy's parameters, the same in the whole run; untrained unless ``balance``."""
        layout = parameter_layout(self.shape(environment))
        flat = initial_parameters(layout, np.random.default_rng(seed), initial_log_std=0.0)
        policy = [p for p in layout if p.belongs_to_policy]
        if self.balance:
            flat[:] = 0.0
            first, second, head = (p.view(flat) for p in policy if p.name.endswith("weight"))
            first[0] = LEAN
            second[0, 0] = 1.0
            head[:, 0] = -STRENGTH, STRENGTH
        return [p.view(flat) for p in policy]


class NullAlgorithm:
    """Implements `fast_core.algorithm.Algorithm` and does nothing."""

    def __init__(self, parameters: list[Array], update_s: float = 0.0) -> None:
        """Each update takes ``update_s`` seconds."""
        self._parameters, self._update_s = parameters, update_s

    def update(self, batch: RolloutBatch) -> UpdateReport:
        """Throw the rows away, in its time."""
        if self._update_s:
            time.sleep(self._update_s)
        return UpdateReport(updates=1, skipped=0)

    def policy_parameters(self) -> Sequence[Array]:
        """The same parameters always."""
        return self._parameters

    def state_dict(self) -> dict[str, object]:
        """Nothing changes."""
        return {}

    def load_state_dict(self, state: dict[str, object]) -> None:
        """There is nothing to load."""
