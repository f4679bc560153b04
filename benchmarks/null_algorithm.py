"""PPO's policy with a learner whose one step a round changes nothing: only sampling costs time.

Named by import path in the configuration of `benchmarks.sampler_limit`:
``algorithm.name: benchmarks.null_algorithm:NullConfig``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from algos.networks import initial_parameters, parameter_layout
from algos.ppo_config import PPOConfig
from fast_core.algorithm import Algorithm, Array, RolloutBatch, UpdateReport
from fast_core.spec import EnvironmentSpec


class NullConfig(PPOConfig, frozen=True, kw_only=True):
    """Blueprint of an algorithm that acts like PPO and learns nothing."""

    def updates_granted(self, rows: int) -> int:
        """One a round, so that versions grow."""
        return 1

    def make_algorithm(
        self,
        environment: EnvironmentSpec,
        *,
        seed: int,
        shards: int,
        envs_per_shard: int,
        rows: int,
        device: str,
        compile: bool,
    ) -> Algorithm:
        """Build the learner."""
        return NullAlgorithm(self.first_policy(environment, seed))

    def first_policy(self, environment: EnvironmentSpec, seed: int) -> list[Array]:
        """The parameters of an untrained policy, which are those of the whole run."""
        layout = parameter_layout(self.network(environment))
        flat = initial_parameters(layout, np.random.default_rng(seed), initial_log_std=0.0)
        return [p.view(flat) for p in layout if p.belongs_to_policy]


class NullAlgorithm:
    """Implements `fast_core.algorithm.Algorithm` and does nothing."""

    def __init__(self, parameters: list[Array]) -> None:
        self._parameters = parameters

    def update(self, batch: RolloutBatch) -> UpdateReport:
        """Throw the rows away."""
        return UpdateReport(updates=1, skipped=0)

    def policy_parameters(self) -> Sequence[Array]:
        """The same parameters always."""
        return self._parameters

    def state_dict(self) -> dict[str, object]:
        """Nothing changes."""
        return {}

    def load_state_dict(self, state: dict[str, object]) -> None:
        """There is nothing to load."""
