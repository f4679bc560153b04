"""What actor-critics in boxes tell a run: their keys, their networks, how they act."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from fast_core.algorithm import LearnerSetup, NoiseSpec, Policy, PolicySetup, Thinker
from fast_core.algorithm.spec import EnvironmentSpec, FieldSpec
from fast_core.algos.nets.mlp import MlpShape
from fast_core.algos.replay.box_actions import check_box
from fast_core.algos.replay.recurrent_settings import RecurrentSettings
from fast_core.algos.replay.vectors import Layout
from fast_core.config import Count
from fast_core.system.importing import own

Rate = Annotated[float, Meta(gt=0)]


class BoxBlueprint(RecurrentSettings, frozen=True, kw_only=True):
    """An actor-critic in boxes; a subclass says what its networks put out.

    Attributes:
        policy_learning_rate: Step size of the policy; null: learning_rate.
        actor_sizes: Widths of the policy's hidden layers; null: hidden_sizes.
        critic_sizes: Widths of each critic's hidden layers; null: hidden_sizes.
        critics: Value networks; the least of their values makes targets.
        policy_delay: Steps of the critics for one of the policy and the targets.
    """

    changeable: ClassVar[tuple[str, ...]] = (*RecurrentSettings.changeable, "policy_learning_rate")

    policy_learning_rate: Rate | None = None
    actor_sizes: Annotated[tuple[Count, ...], Meta(min_length=1)] | None = None
    critic_sizes: Annotated[tuple[Count, ...], Meta(min_length=1)] | None = None
    critics: Count = 2
    policy_delay: Count = 1

    def check(self, environment: EnvironmentSpec, setup: LearnerSetup) -> None:
        """Raise `ConfigError` if this algorithm can't train in this environment."""
        check_box(environment, self.name)
        super().check(environment, setup)

    def policy_outputs(self, actions: int) -> int:
        """Numbers that the policy puts out for so many action dimensions."""
        return actions

    def critic_outputs(self) -> int:
        """Numbers that a critic puts out."""
        return 1

    def policy_shape(self, environment: EnvironmentSpec) -> MlpShape:
        """The network that acts."""
        return MlpShape(
            self.network_inputs(environment),
            self.actor_sizes or self.hidden(environment),
            self.policy_outputs(environment.action.size),
            self.activation,
            layer_norm=self.layer_norm is True,
        )

    def critic_shape(self, environment: EnvironmentSpec) -> MlpShape:
        """The ensemble of critics, on observations with actions."""
        inputs = self.network_inputs(environment) + environment.action.size
        return MlpShape(
            inputs,
            self.critic_sizes or self.hidden(environment),
            self.critic_outputs(),
            self.activation,
            self.critics,
            layer_norm=bool(self.layer_norm),
        )

    def policy_has_target(self) -> bool:
        """Whether targets are made with a slowly moving copy of the policy."""
        return True

    def critic_numbers(self) -> int:
        """Running averages that are kept of each critic."""
        return 0

    def add_networks(self, layout: Layout, environment: EnvironmentSpec) -> None:
        """Append critics, their averages and the policy."""
        layout.add_network("critics", self.critic_shape(environment), target=True)
        if self.critic_numbers():
            layout.add_numbers("averages", self.critics, self.critic_numbers(), statistic=True)
        policy = self.policy_shape(environment)
        layout.add_network("policy", policy, target=self.policy_has_target())

    def averages_critics(self) -> bool:
        """Whether the policy follows the mean of its critics, not the least."""
        return False

    def insight_fields(self, environment: EnvironmentSpec) -> tuple[FieldSpec, ...]:
        """Parameters of the critics."""
        if self.modular:
            return super().insight_fields(environment)
        parameters = self.critic_shape(environment).parameters("critics", 0)
        return tuple(FieldSpec(p.name, p.shape, "float32") for p in parameters)

    def make_thinker(self, environment: EnvironmentSpec) -> Thinker | None:
        """The critics' values, and what the policy's actions are spread over."""
        critics = None if self.modular else self.critic_shape(environment)
        make = own("fast_core.algos.replay.thinking:box_thinker")
        made: Thinker | None = make(self, environment, critics, mean=self.averages_critics())
        return made

    def noise(self, environment: EnvironmentSpec) -> NoiseSpec:
        """One standard normal number for each dimension."""
        return NoiseSpec("normal", (environment.action.size,))

    def update_flops(self, environment: EnvironmentSpec, rows: int) -> int:
        """Critics: forward, backward, the policy's actions there and back, targets; policy: 4."""
        if self.modular:
            return super().update_flops(environment, rows)
        critics = 6 * self.critic_shape(environment).products
        policy = 4 * self.policy_shape(environment).products
        # Of convolutions: forward and backward, the next observations in one or two networks.
        below = self.products_below(environment, 4 if self.policy_has_target() else 5)
        return 2 * (critics + policy + below) * self.batch_size


class SquashedBlueprint(BoxBlueprint, frozen=True, kw_only=True):
    """An actor-critic whose policy is a squashed Gaussian.

    Attributes:
        temperature: Weight of the entropy; auto keeps the entropy at target_entropy.
        initial_temperature: Where temperature auto begins.
        temperature_learning_rate: Step size of the temperature; null: learning_rate.
        target_entropy: Entropy of actions within [-1, 1], whatever the environment's bounds are;
            null: minus the number of action dimensions.
    """

    changeable: ClassVar[tuple[str, ...]] = (
        *BoxBlueprint.changeable,
        "temperature",
        "temperature_learning_rate",
        "target_entropy",
    )

    temperature: Annotated[float, Meta(gt=0)] | Literal["auto"] = "auto"
    initial_temperature: Annotated[float, Meta(gt=0)] = 1.0
    temperature_learning_rate: Rate | None = None
    target_entropy: float | None = None

    def policy_outputs(self, actions: int) -> int:
        """Means and log-deviations."""
        return 2 * actions

    def add_networks(self, layout: Layout, environment: EnvironmentSpec) -> None:
        """Append critics, policy and temperature."""
        super().add_networks(layout, environment)
        layout.add_numbers("temperature", 1)

    def make_policy(self, environment: EnvironmentSpec, setup: PolicySetup) -> Policy:
        """Build a policy."""
        from fast_core.algos.replay.policies import SquashedPolicy

        return SquashedPolicy(self.actor(environment, setup), environment)
