"""DQN as a run sees it. Imports no torch."""

from __future__ import annotations

from fast_core.algorithm import (
    Algorithm,
    LearnerSetup,
    NoiseSpec,
    Policy,
    PolicySetup,
)
from fast_core.algos.replay.dqn_settings import DQNSettings
from fast_core.errors import ConfigError
from fast_core.spec import EnvironmentSpec


class DQNConfig(DQNSettings, frozen=True, kw_only=True):
    """Deep Q-learning (Mnih et al. 2015) with double targets and dueling streams as options."""

    def check(self, environment: EnvironmentSpec, setup: LearnerSetup) -> None:
        """Raise `ConfigError` if DQN can't train in this environment."""
        if environment.action.kind != "discrete":
            raise ConfigError(
                f"algorithm.name 'dqn' takes one discrete action per step; {environment.id!r} has "
                f"{environment.action.kind}. Use sac, td3 or dsact for boxes, ppo for anything."
            )
        super().check(environment, setup)

    def noise(self, environment: EnvironmentSpec) -> NoiseSpec:
        """Two uniform numbers: whether to explore, and with what."""
        return NoiseSpec("uniform", (2,))

    def update_flops(self, environment: EnvironmentSpec, rows: int) -> int:
        """Forward and backward, and forward of the next observations in one or two networks."""
        passes = 5 if self.double else 4
        encoder = self.encoder(environment)
        products = self.shape(environment).products
        products += 0 if encoder is None else encoder.products
        return 2 * passes * products * self.batch_size

    def make_policy(self, environment: EnvironmentSpec, setup: PolicySetup) -> Policy:
        """Build a policy."""
        from fast_core.algos.replay.policies import GreedyPolicy

        first = int(self.dueling and not self.streams(environment))
        return GreedyPolicy(self.actor(environment, setup), environment, first=first)

    def make_algorithm(self, environment: EnvironmentSpec, setup: LearnerSetup) -> Algorithm:
        """Build a learner."""
        from fast_core.algos.replay.dqn import DQN

        self.check(environment, setup)
        return DQN(self, environment, setup)
