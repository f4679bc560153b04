"""What actor-critics in boxes tell a run: their networks, what travels, how they act."""

from __future__ import annotations

from algos.box_actions import check_box
from algos.mlp import MlpShape
from algos.observations import encoded_size
from algos.replay_settings import BoxSettings, EntropySettings
from fast_core.algorithm import LearnerSetup, NoiseSpec, Policy, PolicySetup
from fast_core.spec import EnvironmentSpec, FieldSpec

EXPLORATION = FieldSpec("exploration", (1,), "float32")


class BoxBlueprint(BoxSettings, frozen=True, kw_only=True):
    """An actor-critic in boxes; a subclass says what its networks put out."""

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
            encoded_size(environment, ()),
            self.hidden_sizes,
            self.policy_outputs(environment.action.size),
            self.activation,
        )

    def critic_shape(self, environment: EnvironmentSpec) -> MlpShape:
        """The ensemble of critics, on observations with actions."""
        inputs = encoded_size(environment, ()) + environment.action.size
        outputs = self.critic_outputs()
        return MlpShape(inputs, self.hidden_sizes, outputs, self.activation, self.critics)

    def policy_fields(self, environment: EnvironmentSpec) -> tuple[FieldSpec, ...]:
        """Parameters of the network that acts, and how much is explored."""
        parameters = self.policy_shape(environment).parameters("policy", 0)
        return (*(FieldSpec(p.name, p.shape, "float32") for p in parameters), EXPLORATION)

    def noise(self, environment: EnvironmentSpec) -> NoiseSpec:
        """One standard normal number for each dimension."""
        return NoiseSpec("normal", (environment.action.size,))

    def update_flops(self, environment: EnvironmentSpec, rows: int) -> int:
        """Critics: forward, backward, the policy's actions there and back, targets; policy: 4."""
        critics = 6 * self.critic_shape(environment).products
        policy = 4 * self.policy_shape(environment).products
        return 2 * (critics + policy) * self.batch_size


class SquashedBlueprint(BoxBlueprint, EntropySettings, frozen=True, kw_only=True):
    """An actor-critic whose policy is a squashed Gaussian."""

    def policy_outputs(self, actions: int) -> int:
        """Means and log-deviations."""
        return 2 * actions

    def make_policy(self, environment: EnvironmentSpec, setup: PolicySetup) -> Policy:
        """Build a policy."""
        from algos.replay_policies import SquashedPolicy

        return SquashedPolicy(self.policy_shape(environment), environment, setup)
