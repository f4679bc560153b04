"""PPO as a run sees it: its columns, its parameters, what it needs. Imports no torch."""

from __future__ import annotations

import numpy as np

from algos.networks import NetworkShape, parameter_layout
from algos.observations import encoded_size
from algos.ppo_settings import PPOSettings
from fast_core.algorithm import Algorithm, Blueprint, LearnerSetup, Policy, PolicySetup
from fast_core.errors import ConfigError
from fast_core.spec import EnvironmentSpec, FieldSpec


class PPOConfig(PPOSettings, Blueprint, frozen=True, kw_only=True):
    """Proximal policy optimisation with a clipped surrogate (arXiv:1707.06347)."""

    def check(self, environment: EnvironmentSpec, rows: int) -> None:
        """Raise `ConfigError` if PPO can't train with ``rows`` rows per ticket."""
        action = environment.action
        if action.kind == "box" and not np.issubdtype(np.dtype(action.dtype), np.floating):
            raise ConfigError(
                f"algorithm.name 'ppo' takes discrete or floating-point box actions; "
                f"{environment.id!r} has a box of {action.dtype!r}. Wrap the environment."
            )
        if self.minibatch_size > rows:
            raise ConfigError(
                f"algorithm.minibatch_size must be at most the rows of a ticket (rollout.shards "
                f"x envs_per_shard x steps = {rows}); got {self.minibatch_size}. "
                f"Use {rows} or less, or collect more."
            )

    def network(self, environment: EnvironmentSpec) -> NetworkShape:
        """Shape of the actor-critic network."""
        action = environment.action
        return NetworkShape(
            inputs=encoded_size(environment.observation),
            hidden_sizes=self.hidden_sizes,
            activation=self.activation,
            shared_torso=self.shared_torso,
            outputs=action.n if action.kind == "discrete" else action.size,
            gaussian=action.kind == "box",
        )

    def policy_fields(self, environment: EnvironmentSpec) -> tuple[FieldSpec, ...]:
        """Parameters of the actor, and the observation statistics where they are used."""
        shape = self.network(environment)
        fields = [
            FieldSpec(parameter.name, parameter.shape, "float32")
            for parameter in parameter_layout(shape)
            if parameter.belongs_to_policy
        ]
        if self.normalize_observations:
            fields.append(FieldSpec("observation.mean", (shape.inputs,), "float32"))
            fields.append(FieldSpec("observation.inverse_std", (shape.inputs,), "float32"))
        return tuple(fields)

    def update_flops(self, environment: EnvironmentSpec, rows: int) -> int:
        """Forward, and twice that backward, of every weight and row of a minibatch."""
        parameters = parameter_layout(self.network(environment))[-1].end
        return 6 * parameters * min(self.minibatch_size, rows)

    def uses_torch(self, *, device: str, compile: bool) -> bool:
        """Whether the learner imports torch."""
        return self.gradient == "autograd" or device != "cpu" or compile

    def make_policy(self, environment: EnvironmentSpec, setup: PolicySetup) -> Policy:
        """Build a policy; only the torch backend imports torch."""
        limit = self.observation_clip if self.normalize_observations else None
        if setup.backend == "numpy":
            from algos.policies import NumpyPolicy

            return NumpyPolicy(self.network(environment), environment, limit)
        from algos.torch_policy import TorchPolicy

        return TorchPolicy(self.network(environment), environment, limit)

    def make_algorithm(self, environment: EnvironmentSpec, setup: LearnerSetup) -> Algorithm:
        """Build a learner for tickets of ``setup.rows`` rows."""
        from algos.ppo import PPO

        self.check(environment, setup.rows)
        return PPO(self, environment, self.network(environment), setup)
