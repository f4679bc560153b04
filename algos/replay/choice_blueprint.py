"""What algorithms of one choice per step tell a run: how they explore, and how they act."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta

from fast_core.algorithm import LearnerSetup, NoiseSpec, Policy, PolicySetup, Thinker
from fast_core.algorithm.spec import EnvironmentSpec
from fast_core.algos.replay.recurrent_settings import RecurrentSettings
from fast_core.config import Count
from fast_core.errors import ConfigError
from fast_core.system.importing import own


class ChoiceBlueprint(RecurrentSettings, frozen=True, kw_only=True):
    """A learner of values of choices, which explores by a share of random ones.

    Attributes:
        epsilon_initial: Share of random actions at the run's first env step.
        epsilon_final: Share of random actions after epsilon_steps.
        epsilon_steps: Env steps over which the share falls from one to the other, from the run's
            first on: those that fill the replay before the first update count too.
    """

    changeable: ClassVar[tuple[str, ...]] = (
        *RecurrentSettings.changeable,
        "epsilon_initial",
        "epsilon_final",
    )

    epsilon_initial: Annotated[float, Meta(ge=0, le=1)] = 1.0
    epsilon_final: Annotated[float, Meta(ge=0, le=1)] = 0.05
    epsilon_steps: Count = 10_000

    def check(self, environment: EnvironmentSpec, setup: LearnerSetup) -> None:
        """Raise `ConfigError` if this algorithm can't train in this environment."""
        if environment.action.kind != "discrete":
            raise ConfigError(
                f"algorithm.name {self.name!r} takes one discrete action per step; "
                f"{environment.id!r} has {environment.action.kind}. Use sac, td3 or dsact for "
                "boxes, ppo for anything."
            )
        super().check(environment, setup)

    def noise(self, environment: EnvironmentSpec) -> NoiseSpec:
        """Two uniform numbers: whether to explore, and with what."""
        return NoiseSpec("uniform", (2,))

    def exploration(self, updates: int, env_steps: int) -> float:
        """The share of random actions."""
        if updates == 0:
            return 1.0 if self.random_warmup else self.epsilon_initial
        share = min(1.0, env_steps / self.epsilon_steps)
        return self.epsilon_initial + share * (self.epsilon_final - self.epsilon_initial)

    def make_policy(self, environment: EnvironmentSpec, setup: PolicySetup) -> Policy:
        """Build a policy."""
        from fast_core.algos.replay.policies import GreedyPolicy

        actor = self.actor(environment, setup)
        return GreedyPolicy(actor, environment, first=self.first_value(environment))

    def make_thinker(self, environment: EnvironmentSpec) -> Thinker | None:
        """Values of all choices, which policies choose by."""
        make = own("fast_core.algos.replay.thinking:choice_thinker")
        made: Thinker | None = make(self, environment)
        return made
