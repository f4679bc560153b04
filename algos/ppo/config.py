"""PPO as a run sees it: its columns, its parameters, what it needs. Imports no torch."""

from __future__ import annotations

from dataclasses import replace

from fast_core.algorithm import Algorithm, Backend, LearnerSetup, Policy, PolicySetup
from fast_core.algos.nets.images import Cnn, check_cnn, find_images, fitting_cnn
from fast_core.algos.nets.networks import NetworkShape, parameter_layout
from fast_core.algos.nets.observations import encoded_size
from fast_core.algos.nets.recurrent_shape import MemoryShape
from fast_core.algos.ppo.settings import PPOSettings
from fast_core.errors import ConfigError
from fast_core.spec import EnvironmentSpec, FieldSpec


class PPOConfig(PPOSettings, frozen=True, kw_only=True):
    """Proximal policy optimisation with a clipped surrogate (arXiv:1707.06347)."""

    def check(self, environment: EnvironmentSpec, setup: LearnerSetup) -> None:
        """Raise `ConfigError` if PPO can't train in this environment, with so many rows."""
        self.shape(environment)
        rows, steps = setup.rows, setup.steps
        if self.minibatch_size > rows:
            raise ConfigError(
                f"algorithm.minibatch_size must be at most the rows of a ticket (rollout.shards "
                f"x envs_per_shard x steps = {rows}); got {self.minibatch_size}. "
                f"Use {rows} or less, or collect more."
            )
        if self.recurrent != "none" and self.minibatch_size % steps:
            fitting = self.minibatch_size // steps * steps
            near = [size for size in (fitting, fitting + steps) if 0 < size <= rows]
            raise ConfigError(
                f"algorithm.minibatch_size must be a multiple of rollout.steps ({steps}) with "
                f"algorithm.recurrent {self.recurrent!r}: minibatches are whole sequences; got "
                f"{self.minibatch_size}. Use {' or '.join(map(str, near))}."
            )

    def shape(self, environment: EnvironmentSpec) -> NetworkShape:
        """Shape of the actor-critic network.

        Raises:
            ConfigError: The configured network can't see what is observed.
        """
        action = environment.action
        images = () if self.network == "mlp" else find_images(environment)
        cnn: Cnn = "nature_cnn"
        if self.network in ("nature_cnn", "residual_cnn"):
            cnn = self.network
            check_cnn(cnn, images, environment.id)
        elif images:
            cnn = fitting_cnn(images)
        if self.recurrent != "none" and self.shared_torso is False:
            raise ConfigError(
                f"algorithm.shared_torso must be true or null with algorithm.recurrent "
                f"{self.recurrent!r}: policy and value share what is remembered; got false."
            )
        hidden_sizes = () if images else (64, 64)
        shared = bool(images) or self.recurrent != "none"
        outputs = {"discrete": action.n, "multi_discrete": sum(action.counts)}
        shape = NetworkShape(
            inputs=encoded_size(environment, images),
            hidden_sizes=hidden_sizes if self.hidden_sizes is None else self.hidden_sizes,
            activation=self.activation,
            shared_torso=shared if self.shared_torso is None else self.shared_torso,
            outputs=outputs.get(action.kind, action.size),
            gaussian=action.kind == "box",
            choices=action.counts if action.kind == "multi_discrete" else (),
            images=images,
            cnn=cnn,
            stretched=self.normalize_actions,
        )
        if self.recurrent == "none":
            return shape
        return replace(
            shape, memory=MemoryShape(self.recurrent, shape.features, self.recurrent_size)
        )

    def state_size(self, environment: EnvironmentSpec) -> int:
        """What the recurrent layer remembers of each environment."""
        memory = self.shape(environment).memory
        return 0 if memory is None else memory.state_size

    def policy_fields(self, environment: EnvironmentSpec) -> tuple[FieldSpec, ...]:
        """Parameters of the actor, and the observation statistics where they are used."""
        shape = self.shape(environment)
        fields = [
            FieldSpec(parameter.name, parameter.shape, "float32")
            for parameter in parameter_layout(shape)
            if parameter.belongs_to_policy
        ]
        if self._normalizes(shape):
            fields.append(FieldSpec("observation.mean", (shape.inputs,), "float32"))
            fields.append(FieldSpec("observation.inverse_std", (shape.inputs,), "float32"))
        return tuple(fields)

    def update_flops(self, environment: EnvironmentSpec, rows: int) -> int:
        """Forward, and twice that backward, of every product and row of a minibatch."""
        return 6 * self.shape(environment).products * min(self.minibatch_size, rows)

    def uses_torch(self, *, device: str, compile: bool) -> bool:
        """Whether the learner surely imports torch; with auto it may see images and do so too."""
        return self.policy_uses_torch() or self.gradient == "autograd" or device != "cpu" or compile

    def policy_uses_torch(self, *, pixels: bool = False) -> bool:
        """Whether the network has convolutions; auto may take them for other observations too."""
        return self.network in ("nature_cnn", "residual_cnn") or (self.network == "auto" and pixels)

    def policy_backend(self, environment: EnvironmentSpec) -> Backend:
        """NumPy, unless there are convolutions."""
        return "torch" if self.shape(environment).images else "numpy"

    def make_policy(self, environment: EnvironmentSpec, setup: PolicySetup) -> Policy:
        """Build a policy; only the torch backend imports torch."""
        shape = self.shape(environment)
        limit = self.observation_clip if self._normalizes(shape) else None
        if setup.backend == "numpy":
            from fast_core.algos.ppo.policies import NumpyPolicy
            from fast_core.algos.ppo.recurrent_policies import RecurrentPolicy

            numpy_policy = NumpyPolicy if shape.memory is None else RecurrentPolicy
            return numpy_policy(shape, environment, limit)
        from fast_core.algos.ppo.recurrent_torch_policy import RecurrentTorchPolicy
        from fast_core.algos.ppo.torch_policy import TorchPolicy

        torch_policy = TorchPolicy if shape.memory is None else RecurrentTorchPolicy
        return torch_policy(shape, environment, limit, setup)

    def _normalizes(self, shape: NetworkShape) -> bool:
        """Whether there are numbers to normalise; images are scaled by 1/255 always."""
        return self.normalize_observations and shape.inputs > 0

    def make_algorithm(self, environment: EnvironmentSpec, setup: LearnerSetup) -> Algorithm:
        """Build a learner for tickets of ``setup.rows`` rows."""
        from fast_core.algos.ppo.learner import PPO

        self.check(environment, setup)
        return PPO(self, environment, self.shape(environment), setup)
