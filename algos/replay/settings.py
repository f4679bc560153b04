"""The settings that all algorithms share that learn from replay. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta

from fast_core.algorithm import (
    Algorithm,
    Array,
    Backend,
    LearnerSetup,
    PolicySetup,
    ReplaySpec,
)
from fast_core.algorithm.spec import EnvironmentSpec, FieldSpec, ModuleSpec
from fast_core.algos.nets.activations import Activation
from fast_core.algos.nets.adam import Schedule
from fast_core.algos.nets.encoder_shape import EncoderShape, find_encoder, no_convolutions
from fast_core.algos.nets.images import ImageShape, find_images
from fast_core.algos.nets.mlp import MlpShape
from fast_core.algos.nets.normalizer import Centering, Normalization
from fast_core.algos.nets.observations import encoded_size, encodes_wide
from fast_core.algos.nets.own_shape import Arguments, Network, check_arguments, is_own, needs_torch
from fast_core.algos.nets.recurrent_shape import MemoryShape
from fast_core.algos.replay.actors import Actor, Exporting, NumpyActor, actor_layout
from fast_core.algos.replay.vectors import OBSERVATIONS, Layout
from fast_core.config import AlgorithmConfig, Count
from fast_core.errors import ConfigError
from fast_core.system.importing import own

EXPLORATION = FieldSpec("exploration", (1,), "float32")


class ReplaySettings(AlgorithmConfig, frozen=True, kw_only=True):
    """What every algorithm that learns from replay has.

    Attributes:
        numpy_learner: The `NumpyLearner`, as ``module:Class``.
        torch_learner: The `TorchAlgorithm`.
        always_torch: Whether there is that alone: for algorithms of one's own.
        batch_size: Rows of one optimizer step.
        gamma: Discount per environment step.
        n_step: Steps whose rewards are summed before the target's value.
        learning_rate: Step size of Adam.
        learning_rate_schedule: linear lets every step size, those of policy and temperature too,
            fall to 0 at horizon_env_steps.
        adam_epsilon: Adam's denominator offset.
        max_grad_norm: Longest gradient of each network: of all critics with the convolutions below
            them, and of the policy; null for no limit.
        target_rate: Share by which target networks move to the online ones.
        normalize_observations: Scale the numbers of observations by mean and variance of all rows
            that were drawn; images are scaled by 1/255 always.
        observation_clip: Limit of a normalised observation.
        hidden_sizes: Widths of the hidden layers of every network, after the convolutions or a
            network of your own; null: 256, 256, but for dqn 512 after convolutions and none after a
            network of your own.
        network: mlp: hidden layers only; images are flattened. nature_cnn: three convolutions for
            each image of at least 36 pixels (Mnih et al. 2015). residual_cnn: 15 convolutions, from
            16 pixels on (Espeholt et al. 2018). auto: nature_cnn where there are images,
            residual_cnn where one is too small for it, otherwise mlp. Convolutions are trained by
            the critics and shared with the policy. `package.module:Class`: a torch.nn.Module of
            your own, under all networks or in place of each (docs/own-networks.md).
        activation: What follows each hidden layer, as torch has it: gelu is the exact form,
            gelu_tanh the approximation. Convolutions have relu.
        layer_norm: Normalise what each hidden layer puts out over its features, before its
            activation, with a scale and a shift that are learned; critics: in critics alone.
        backend: numpy: gradients written by hand, on the CPU and in fp32, without torch. torch:
            losses that autograd differentiates, on any device, with convolutions and networks of
            your own too. auto: numpy where it can.
        random_warmup: Act uniformly at random until the first update.
        nonfinite_limit: The run ends with an error after so many NaN or infinite updates in a row;
            each is skipped and counted.
    """

    learns_from: ClassVar[Literal["rollouts", "replay"]] = "replay"
    came_later: ClassVar[Mapping[str, object]] = {"center_observations": False}
    changeable: ClassVar[tuple[str, ...]] = ("learning_rate", "target_rate")
    numpy_learner: ClassVar[str] = ""
    torch_learner: ClassVar[str] = ""
    always_torch: ClassVar[bool] = False

    batch_size: Count = 256
    gamma: Annotated[float, Meta(ge=0, le=1)] = 0.99
    n_step: Count = 1
    learning_rate: Annotated[float, Meta(gt=0)] = 3e-4
    learning_rate_schedule: Schedule = "constant"
    adam_epsilon: Annotated[float, Meta(gt=0)] = 1e-8
    max_grad_norm: Annotated[float, Meta(gt=0)] | None = None
    target_rate: Annotated[float, Meta(gt=0, le=1)] = 0.005
    normalize_observations: bool = False
    center_observations: Centering = True
    observation_clip: Annotated[float, Meta(gt=0)] = 10.0
    hidden_sizes: Annotated[tuple[Count, ...], Meta(min_length=1)] | None = None
    network: Network = "auto"
    network_kwargs: Arguments = {}
    activation: Activation = "relu"
    layer_norm: bool | Literal["critics"] = False
    backend: Literal["auto", "numpy", "torch"] = "auto"
    random_warmup: bool = True
    nonfinite_limit: Count = 10

    def check(self, environment: EnvironmentSpec, setup: LearnerSetup) -> None:
        """Raise `ConfigError` if a learner can't be built for this run."""
        if encoded_size(environment, ()) == 0:
            raise ConfigError(
                f"algorithm.name {self.name!r} needs observations; {environment.id!r} has none."
            )
        if self.modular and self.backend == "numpy":
            raise ConfigError(
                f"algorithm.backend 'numpy' has no torch modules; algorithm.name {self.name!r} "
                f"with algorithm.network {self.network!r} learns with some. Use auto or torch."
            )
        if self.encoder(environment) is not None and self.backend == "numpy":
            raise ConfigError(
                f"algorithm.backend 'numpy' has no convolutions; {environment.id!r} shows images. "
                "Use auto or torch, or algorithm.network: mlp to flatten them."
            )
        if setup.compile:
            raise ConfigError(
                f"nodes.optimizer.compile must be false with algorithm.name {self.name!r}: its "
                "updates are not compiled. PPO's are."
            )
        if self.backend == "numpy" and (setup.device != "cpu" or setup.precision != "fp32"):
            raise ConfigError(
                "algorithm.backend 'numpy' computes in fp32 on the CPU; nodes.optimizer has "
                f"device {setup.device!r} and precision {setup.precision!r}. Use auto or torch."
            )

    def uses_torch(self, *, device: str, compile: bool) -> bool:
        """Whether the learner surely imports torch; bf16 and images may make it do so too."""
        return self.backend == "torch" or device != "cpu" or self.policy_uses_torch()

    def learns_with_torch(self, environment: EnvironmentSpec, setup: LearnerSetup) -> bool:
        """Whether the learner is the `TorchAlgorithm`, by ``backend`` if `check` accepted it.

        auto is NumPy where it can be, whatever the width. An update of it on one thread took 0.38,
        0.65, 0.79, 0.86 and 0.85 of the torch learner's processor time for SAC with two layers of
        64, 256, 512, 1024 and 2048, and 0.38, 0.79, 0.86, 0.97 and 1.10 for DQN (batch 256, NumPy
        and torch 2.13 from their wheels).
        """
        needed = (
            self.modular
            or self.memory(environment) is not None
            or setup.device != "cpu"
            or setup.precision != "fp32"
            or self.encoder(environment) is not None
        )
        return needed or self.backend == "torch"

    @property
    def modular(self) -> bool:
        """Whether it learns with torch modules: a user's network, or a user's algorithm."""
        return self.always_torch or is_own(self.network)

    def examine(self, environment: EnvironmentSpec) -> EnvironmentSpec:
        """Build the torch modules, if there are any, and look at them."""
        check_arguments(self.network, self.network_kwargs)
        if not self.modular:
            return environment
        found = own("fast_core.algos.replay.torch_algorithm:examine")(self, environment)
        return msgspec.structs.replace(environment, modules=found)

    def modules(self, environment: EnvironmentSpec) -> tuple[ModuleSpec, ...]:
        """The torch modules; looks at them if nobody did."""
        return environment.modules or self.examine(environment).modules

    def images(self, environment: EnvironmentSpec) -> tuple[ImageShape, ...]:
        """The parts of an observation that are no numbers to the networks."""
        if is_own(self.network):
            return find_images(environment)
        encoder = self.encoder(environment)
        return () if encoder is None else encoder.images

    def policy_uses_torch(self, *, pixels: bool = False) -> bool:
        """Whether the networks surely are torch's; auto may find images in other ways too."""
        return self.modular or needs_torch(self.network, pixels=pixels)

    def policy_backend(self, environment: EnvironmentSpec) -> Backend:
        """NumPy, unless there are convolutions or torch modules."""
        return "torch" if self.modular or self.encoder(environment) is not None else "numpy"

    def update_splits(self, environment: EnvironmentSpec) -> bool:
        """Not on a CPU: every product of an update is a barrier of its own, some dozens in 8 ms.

        On idle cores two threads gave up to 1.4 times the rate of one. With anything else on the
        cores, the replay node and evaluations are enough, they gave a tenth to a fortieth of it
        (2x256 networks, batch 256), convolutions 1.1 to 6 times less. Several optimizers share a
        batch with one barrier per update (``nodes.optimizer.count``).
        """
        return False

    def updates_granted(self, rows: int) -> int:
        """One: `update` takes one step, with a batch of its own."""
        return 1

    def exploration(self, updates: int, env_steps: int) -> float:
        """Share of actions drawn uniformly after so many updates: all until the first."""
        return float(self.random_warmup and updates == 0)

    def replay(self) -> ReplaySpec:
        """Windows of at most ``n_step`` steps, ``batch_size`` of them."""
        return ReplaySpec(self.batch_size, self.n_step, self.gamma)

    def encoder(self, environment: EnvironmentSpec) -> EncoderShape | None:
        """The convolutions under all networks, None where there are none.

        Raises:
            ConfigError: The configured network can't see what is observed.
        """
        return None if is_own(self.network) else find_encoder(self.network, environment)

    def memory(self, environment: EnvironmentSpec) -> MemoryShape | None:
        """The recurrent layer under all networks, None where there is none."""
        return None

    def state_size(self, environment: EnvironmentSpec) -> int:
        """What the recurrent layer remembers of each environment."""
        memory = self.memory(environment)
        return 0 if memory is None else memory.state_size

    def network_inputs(self, environment: EnvironmentSpec) -> int:
        """Numbers that a network gets of one observation."""
        memory = self.memory(environment)
        return self.observed_size(environment) if memory is None else memory.size

    def observed_size(self, environment: EnvironmentSpec) -> int:
        """Numbers of an observation, after the convolutions."""
        encoder = self.encoder(environment)
        return encoded_size(environment, ()) if encoder is None else encoder.size

    def hidden(self, environment: EnvironmentSpec) -> tuple[int, ...]:
        """Widths of the hidden layers."""
        return (256, 256) if self.hidden_sizes is None else self.hidden_sizes

    def normalized_numbers(self, environment: EnvironmentSpec) -> int:
        """Numbers of an observation that are normalised; 0 where none are."""
        numbers = encoded_size(environment, self.images(environment))
        return numbers if self.normalize_observations else 0

    def normalization(self, environment: EnvironmentSpec) -> Normalization | None:
        """How observations are normalised; None where they are not."""
        if not self.normalized_numbers(environment):
            return None
        wide = encodes_wide(environment, self.images(environment))
        return Normalization(self.observation_clip, self.center_observations and wide)

    def layout(self, environment: EnvironmentSpec) -> Layout:
        """Everything that steps change, as it lies in one vector."""
        layout = Layout()
        encoder, numbers = self.encoder(environment), self.normalized_numbers(environment)
        if (how := self.normalization(environment)) is not None:
            layout.add_numbers(OBSERVATIONS, 3 + how.centred, numbers, statistic=True)
        if self.modular:
            for module in self.modules(environment):
                ours = module.name == "encoder" and not is_own(self.network)
                layout.add_module(module, plain=not ours)
            return layout
        layout.add_below(encoder, self.memory(environment), target=True)
        self.add_networks(layout, environment)
        return layout

    def update_flops(self, environment: EnvironmentSpec, rows: int) -> int:
        """Of torch modules: forward and back, their targets forward."""
        modules = self.modules(environment)
        products = sum(module.products * (4 if module.target else 3) for module in modules)
        return 2 * products * self.batch_size

    def products_below(self, environment: EnvironmentSpec, passes: int) -> int:
        """Multiplications of an update for a row, below all networks.

        Convolutions see it in so many ``passes``, gradients counted as two.
        """
        encoder = self.encoder(environment)
        return 0 if encoder is None else passes * encoder.products

    def make_algorithm(self, environment: EnvironmentSpec, setup: LearnerSetup) -> Algorithm:
        """Build a learner; only that of torch imports torch."""
        self.check(environment, setup)
        if self.learns_with_torch(environment, setup):
            learner = own("fast_core.algos.replay.torch_algorithm:torch_learner")(self)
        else:
            learner = own(self.numpy_learner)
        made: Algorithm = learner(self, environment, setup)
        return made

    def add_networks(self, layout: Layout, environment: EnvironmentSpec) -> None:
        """Append the algorithm's networks and numbers: see `ReplayLearner` for the order."""
        raise NotImplementedError

    def exchanged(self, environment: EnvironmentSpec) -> int:
        """Everything that steps change, at most: statistics of a batch are averaged too."""
        return self.layout(environment).size

    def policy_shape(self, environment: EnvironmentSpec) -> MlpShape:
        """The network that acts, after the convolutions."""
        raise NotImplementedError

    def policy_fields(self, environment: EnvironmentSpec) -> tuple[FieldSpec, ...]:
        """Parameters of what acts, convolutions first, statistics, and how much is explored."""
        if self.modular:
            acting = [module for module in self.modules(environment) if module.acts]
            fields = [field for module in acting for field in module.fields]
        else:
            layout = actor_layout(
                self.encoder(environment), self.memory(environment), self.policy_shape(environment)
            )
            fields = [FieldSpec(p.name, p.shape, "float32") for p in layout.parameters]
        how = self.normalization(environment)
        if how is not None:
            fields += how.fields(self.normalized_numbers(environment))
        return (*fields, EXPLORATION)

    def policy_module(self, environment: EnvironmentSpec, parameters: Sequence[Array]) -> object:
        """The networks in torch, whichever act; how much is explored doesn't matter."""
        actor = self.actor(environment, PolicySetup(backend="torch"))
        assert isinstance(actor, Exporting), "torch was asked for"
        actor.load(parameters[:-1])
        return actor.exported(first=self.first_value(environment))

    def insight_fields(self, environment: EnvironmentSpec) -> tuple[FieldSpec, ...]:
        """Parameters of the torch modules that only judge."""
        if not self.modular:
            return ()
        judging = (module for module in self.modules(environment) if module.only_judges)
        return tuple(field for module in judging for field in module.fields)

    def first_value(self, environment: EnvironmentSpec) -> int:
        """Which output of the network that acts is the value of the first choice."""
        return 0

    def actor(self, environment: EnvironmentSpec, setup: PolicySetup) -> Actor:
        """The networks of a policy; only the torch backend imports torch.

        Raises:
            ConfigError: NumPy is to compute convolutions.
        """
        how = self.normalization(environment)
        if self.modular:
            made: Actor = own("fast_core.algos.replay.module_actor:ModuleActor")(
                self, environment, setup, how
            )
            return made
        encoder, shape = self.encoder(environment), self.policy_shape(environment)
        memory = self.memory(environment)
        if setup.backend == "torch":
            # Imported here because torch costs a second or two and 200 MB.
            from fast_core.algos.replay.torch_actor import TorchActor

            return TorchActor(encoder, memory, shape, environment, setup, how=how)
        if encoder is not None:
            raise no_convolutions(environment)
        return NumpyActor(shape, environment, how, memory)
