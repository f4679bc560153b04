"""An actor-critic from rollouts as a run sees it: its keys, its parameters. Imports no torch.

PPO's keys are these and a few of its own, and so are those of a user's algorithm.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, ClassVar, Literal, Self

import msgspec
import numpy as np
from msgspec import Meta

from fast_core.algorithm import (
    Algorithm,
    Array,
    Backend,
    LearnerSetup,
    Policy,
    PolicySetup,
    Thinker,
)
from fast_core.algorithm.spec import EnvironmentSpec, FieldSpec, SpaceSpec
from fast_core.algos.nets.action_map import halves
from fast_core.algos.nets.activations import Activation
from fast_core.algos.nets.adam import Schedule
from fast_core.algos.nets.encoder_shape import find_encoder
from fast_core.algos.nets.images import Cnn, ImageShape
from fast_core.algos.nets.networks import NetworkShape, parameter_layout
from fast_core.algos.nets.normalizer import Centering, Normalization
from fast_core.algos.nets.observations import encoded_size, encodes_wide
from fast_core.algos.nets.own_shape import (
    Arguments,
    Network,
    OwnShape,
    check_arguments,
    examined,
    is_own,
    needs_torch,
    own_shape,
)
from fast_core.algos.nets.recurrent_shape import MemoryShape
from fast_core.config import AlgorithmConfig
from fast_core.errors import ConfigError
from fast_core.system.importing import named, own

Positive = Annotated[int, Meta(ge=1)]
LEARNER = "fast_core.algos.rollouts.learner:RolloutLearner"
REWARD_SCALE = FieldSpec("reward.inverse_std", (1,), "float32")


class ActorCriticConfig(AlgorithmConfig, frozen=True, kw_only=True):
    """What every actor-critic has that learns from rollouts; a subclass names its learner.

    Attributes:
        learner: The class that learns, as ``module:Class``. That of an algorithm of one's own is
            an `ActorCritic` (fast_core/algos/rollouts/actor_critic.py).
        learning_rate: Step size of Adam.
        learning_rate_schedule: linear falls to 0 at horizon_env_steps.
        adam_epsilon: Adam's denominator offset.
        gamma: Discount per environment step.
        gae_lambda: Decay of generalised advantage estimation.
        max_grad_norm: Longest gradient, over all parameters; null for no limit.
        epochs: Passes over the rows of a ticket.
        minibatch_size: Rows of one optimizer step, the last of an epoch may have fewer; null: all
            rows of a ticket.
        normalize_observations: Scale the numbers of observations by running mean and variance;
            images are scaled by 1/255 always.
        normalize_rewards: Scale rewards by the running deviation of the discounted return.
        observation_clip: Limit of a normalised observation.
        reward_clip: Limit of a normalised reward.
        normalize_actions: Act within [-1, 1], stretched over boxes with finite bounds, so that
            nothing depends on the unit of actions; false acts in the environment's units, in which
            initial_log_std is to be set then. auto: true where that is 0 and bounds are far from
            [-1, 1]: not about 0, or less than 0.9 or more than 4 from their middle.
        network: mlp: hidden layers only; images are flattened. nature_cnn: three convolutions and
            512 features for each image of at least 36 pixels (Mnih et al. 2015). residual_cnn: 15
            convolutions and 256 features, from 16 pixels on (Espeholt et al. 2018). auto:
            nature_cnn where there are images, residual_cnn where one is too small for it, otherwise
            mlp. `package.module:Class`: a torch.nn.Module of your own (docs/own-networks.md).
        hidden_sizes: Widths of the hidden layers, which take the features of images and the other
            numbers of an observation together; null: 64, 64, or none where there are convolutions
            or a network of your own.
        actor_sizes: Widths of the policy's hidden layers, where it has a torso of its own; null:
            hidden_sizes.
        critic_sizes: Widths of the value's hidden layers, where it has a torso of its own; null:
            hidden_sizes.
        activation: What follows each hidden layer, as torch has it: gelu is the exact form,
            gelu_tanh the approximation. Convolutions have relu.
        layer_norm: Normalise what each hidden layer puts out over its features, before its
            activation, with a scale and a shift that are learned.
        shared_torso: One torso under policy and value, instead of one for each; null: only where
            there are convolutions or a network of your own.
        recurrent: A layer that remembers, between the hidden layers, which are shared then, and
            both heads. minibatch_size must be a multiple of rollout.steps.
        recurrent_size: Width of the recurrent layer.
        initial_log_std: First log standard deviation of continuous actions.
        nonfinite_limit: The run ends with an error after so many NaN or infinite updates in a row;
            each is skipped and counted. A round with such data counts as one.
    """

    learner: ClassVar[str] = ""
    came_later: ClassVar[Mapping[str, object]] = {
        "center_observations": False,
        "normalize_actions": False,
    }
    changeable: ClassVar[tuple[str, ...]] = ("learning_rate", "max_grad_norm")

    learning_rate: Annotated[float, Meta(gt=0)] = 3e-4
    learning_rate_schedule: Schedule = "constant"
    adam_epsilon: Annotated[float, Meta(gt=0)] = 1e-5
    gamma: Annotated[float, Meta(ge=0, le=1)] = 0.99
    gae_lambda: Annotated[float, Meta(ge=0, le=1)] = 0.95
    max_grad_norm: Annotated[float, Meta(gt=0)] | None = 0.5
    epochs: Annotated[int, Meta(ge=1)] = 1
    minibatch_size: Annotated[int, Meta(ge=1)] | None = None
    normalize_observations: bool = True
    normalize_rewards: bool = True
    center_observations: Centering = True
    observation_clip: Annotated[float, Meta(gt=0)] = 10.0
    reward_clip: Annotated[float, Meta(gt=0)] = 10.0
    normalize_actions: bool | Literal["auto"] = "auto"
    network: Network = "auto"
    network_kwargs: Arguments = {}
    hidden_sizes: Annotated[tuple[Positive, ...], Meta(min_length=1)] | None = None
    actor_sizes: Annotated[tuple[Positive, ...], Meta(min_length=1)] | None = None
    critic_sizes: Annotated[tuple[Positive, ...], Meta(min_length=1)] | None = None
    activation: Activation = "tanh"
    layer_norm: bool = False
    shared_torso: bool | None = None
    recurrent: Literal["none", "gru", "lstm"] = "none"
    recurrent_size: Positive = 64
    initial_log_std: float = 0.0
    nonfinite_limit: Annotated[int, Meta(ge=1)] = 10

    def check(self, environment: EnvironmentSpec, setup: LearnerSetup) -> None:
        """Raise `ConfigError` if it can't train in this environment, with so many rows."""
        self.shape(environment)
        rows, steps, size = setup.rows, setup.steps, self.rows_of_step(setup.rows)
        if size > rows:
            raise ConfigError(
                f"algorithm.minibatch_size must be at most the rows of a ticket (rollout.shards "
                f"x envs_per_shard x steps = {rows}); got {size}. "
                f"Use {rows} or less, or collect more."
            )
        if self.recurrent != "none" and size % steps:
            fitting = size // steps * steps
            near = [size for size in (fitting, fitting + steps) if 0 < size <= rows]
            raise ConfigError(
                f"algorithm.minibatch_size must be a multiple of rollout.steps ({steps}) with "
                f"algorithm.recurrent {self.recurrent!r}: minibatches are whole sequences; got "
                f"{size}. Use {' or '.join(map(str, near))}."
            )

    def resolved(self, environment: EnvironmentSpec) -> Self:
        """See `fast_core.algorithm.Blueprint.resolved`."""
        if self.normalize_actions != "auto":
            return self
        far = self.initial_log_std == 0.0 and _far_from_one(environment.action)
        return msgspec.structs.replace(self, normalize_actions=far)

    def examine(self, environment: EnvironmentSpec) -> EnvironmentSpec:
        """Look at the user's network, if there is one."""
        check_arguments(self.network, self.network_kwargs)
        if not is_own(self.network):
            return environment
        modules = (examined(self._own_shape(environment), "torso"),)
        return msgspec.structs.replace(environment, modules=modules)

    def _own(self, environment: EnvironmentSpec) -> OwnShape | None:
        """The user's network, None if there is none; looks at it if nobody did."""
        if not is_own(self.network):
            return None
        (module,) = environment.modules or self.examine(environment).modules
        own = replace(self._own_shape(environment), spec=module)
        if module.scores:
            self._check_scores()
        return own

    def _own_shape(self, environment: EnvironmentSpec) -> OwnShape:
        """The user's network, which may score the choices of an action itself."""
        shape = own_shape(self.network, self.network_kwargs, environment)
        return replace(shape, choices=_outputs(environment.action, boxes=False))

    def _check_scores(self) -> None:
        """Refuse what would lie between a network that scores choices and the policy."""
        unset = {"hidden_sizes": None, "actor_sizes": None, "critic_sizes": None}
        for key, default in {**unset, "recurrent": "none"}.items():
            if (given := getattr(self, key)) != default:
                raise ConfigError(
                    f"algorithm.{key} can't be set with algorithm.network {self.network!r}, whose "
                    f"scores_choices is True: its scores are the policy's; got {given!r}. "
                    "Leave it out, or leave `choices` out of __init__."
                )

    def shape(self, environment: EnvironmentSpec) -> NetworkShape:
        """Shape of the actor-critic network.

        Raises:
            ConfigError: The configured network can't see what is observed.
        """
        action = environment.action
        images: tuple[ImageShape, ...] = ()
        cnn: Cnn = "nature_cnn"
        own = self._own(environment)
        if own is not None:
            images = own.images
        elif (encoder := find_encoder(self.network, environment)) is not None:
            images, cnn = encoder.images, encoder.cnn
        if self.recurrent != "none" and self.shared_torso is False:
            raise ConfigError(
                f"algorithm.shared_torso must be true or null with algorithm.recurrent "
                f"{self.recurrent!r}: policy and value share what is remembered; got false."
            )
        begun = bool(images) or own is not None
        hidden_sizes = self.hidden_sizes or (() if begun else (64, 64))
        actor_sizes = self.actor_sizes or hidden_sizes
        critic_sizes = self.critic_sizes or hidden_sizes
        shared = self.shared_torso
        if shared is None:
            shared = begun or self.recurrent != "none"
        if shared:
            self._check_sizes(environment)
        inputs = encoded_size(environment, images)
        normalizes = self.normalize_observations and inputs > 0
        shape = NetworkShape(
            inputs=inputs,
            hidden_sizes=actor_sizes,
            activation=self.activation,
            shared_torso=shared,
            outputs=_outputs(action, boxes=True),
            gaussian=action.kind == "box",
            choices=action.counts if action.kind == "multi_discrete" else (),
            images=images,
            cnn=cnn,
            stretched=self.resolved(environment).normalize_actions is True,
            centred=normalizes and self.center_observations and encodes_wide(environment, images),
            own=own,
            value_sizes=None if critic_sizes == actor_sizes else critic_sizes,
            layer_norm=self.layer_norm,
        )
        if self.recurrent == "none":
            return shape
        return replace(
            shape, memory=MemoryShape(self.recurrent, shape.features, self.recurrent_size)
        )

    def _check_sizes(self, environment: EnvironmentSpec) -> None:
        """Refuse layers of one's own under a head where both heads share them."""
        for key in ("actor_sizes", "critic_sizes"):
            if (sizes := getattr(self, key)) is None:
                continue
            if self.recurrent != "none":
                why, advice = f"algorithm.recurrent is {self.recurrent!r}", ""
            else:
                why = "algorithm.shared_torso is true"
                if self.shared_torso is None:
                    seen = f"{environment.id!r} shows images"
                    if is_own(self.network):
                        seen = f"algorithm.network is {self.network!r}"
                    why = f"{seen} (algorithm.shared_torso is null)"
                advice = ", or set algorithm.shared_torso to false"
            raise ConfigError(
                f"algorithm.{key} can be set only where policy and value have hidden layers of "
                f"their own; they share them here: {why}; got {list(sizes)}. Use "
                f"algorithm.hidden_sizes for both{advice}."
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
        how = self._normalization(shape)
        return (*fields, *([] if how is None else how.fields(shape.inputs)))

    def updates_granted(self, rows: int) -> int:
        """Optimizer steps of one ticket of ``rows`` rows."""
        return self.epochs * -(-rows // self.rows_of_step(rows))

    def rows_of_step(self, rows: int) -> int:
        """Rows of an optimizer step, with ``rows`` of a ticket."""
        return rows if self.minibatch_size is None else self.minibatch_size

    def update_flops(self, environment: EnvironmentSpec, rows: int) -> int:
        """Forward, and twice that backward, of every product and row of a minibatch."""
        return 6 * self.shape(environment).products * min(self.rows_of_step(rows), rows)

    def policy_uses_torch(self, *, pixels: bool = False) -> bool:
        """Whether the network surely is torch's; auto may see images in other ways too."""
        return needs_torch(self.network, pixels=pixels)

    def policy_backend(self, environment: EnvironmentSpec) -> Backend:
        """NumPy, unless there are convolutions or a user's network."""
        return "torch" if is_own(self.network) or self.shape(environment).images else "numpy"

    def make_policy(self, environment: EnvironmentSpec, setup: PolicySetup) -> Policy:
        """Build a policy; only the torch backend imports torch."""
        shape = self.shape(environment)
        how = self._normalization(shape)
        if setup.backend == "numpy":
            from fast_core.algos.rollouts.policies import NumpyPolicy

            return NumpyPolicy(shape, environment, how)
        from fast_core.algos.rollouts.torch_policy import TorchPolicy

        return TorchPolicy(shape, environment, how, setup)

    def policy_module(self, environment: EnvironmentSpec, parameters: Sequence[Array]) -> object:
        """The torch policy, whichever acts."""
        from fast_core.algos.rollouts.torch_policy import TorchPolicy

        policy = self.make_policy(environment, PolicySetup(backend="torch"))
        assert isinstance(policy, TorchPolicy), "torch was asked for"
        policy.load(parameters)
        return policy.module(environment)

    def insight_fields(self, environment: EnvironmentSpec) -> tuple[FieldSpec, ...]:
        """Parameters of the value, and what rewards are multiplied with where they are scaled."""
        layout = parameter_layout(self.shape(environment))
        values = (p for p in layout if not p.belongs_to_policy)
        fields = tuple(FieldSpec(p.name, p.shape, "float32") for p in values)
        return (*fields, REWARD_SCALE) if self.normalize_rewards else fields

    def make_thinker(self, environment: EnvironmentSpec) -> Thinker:
        """Both heads; in NumPy where policies can be."""
        from fast_core.algos.rollouts.thinking import ActorCriticThinker

        shape, backend = self.shape(environment), self.policy_backend(environment)
        return ActorCriticThinker(
            shape,
            environment,
            backend,
            how=self._normalization(shape),
            scaled=self.normalize_rewards,
        )

    def _normalization(self, shape: NetworkShape) -> Normalization | None:
        """How numbers are normalised; None where none are. Images are scaled by 1/255 always."""
        if not (self.normalize_observations and shape.inputs):
            return None
        return Normalization(self.observation_clip, shape.centred)

    def make_algorithm(self, environment: EnvironmentSpec, setup: LearnerSetup) -> Algorithm:
        """Build a learner for tickets of ``setup.rows`` rows.

        Raises:
            ConfigError: `learner` names none.
        """
        self.check(environment, setup)
        where = f"learner of {type(self).__name__}"
        found = named(self.learner, where)
        if not (isinstance(found, type) and issubclass(found, own(LEARNER))):
            raise ConfigError(
                f"{where} must name a subclass of ActorCritic "
                f"(fast_core.algos.rollouts.actor_critic); got {found!r}."
            )
        learner: Algorithm = found(self, environment, self.shape(environment), setup)
        return learner


def _far_from_one(action: SpaceSpec) -> bool:
    """Whether any bounds of a box are so far from [-1, 1] that a deviation of 1 explores badly.

    Of a point that is moved to 0 within bounds [-b, b], 20,480 steps left the mean return of 50
    steps at -0.6 to -1.0 with b from 1 to 3, at -1.4 with 5, -3.1 with 10 and -7.6 with 0.5; with
    bounds of [0, 1] at -6.0, of [0, 2] at -34. Within [-1, 1] it is -1.0 whatever they are.
    """
    if action.kind != "box":
        return False
    half, middle = halves(action)
    free = half > 0  # what is locked to one value
    return bool(((half < 0.9) | (half > 4) | (np.abs(middle) > half / 10))[free].any())


def _outputs(action: SpaceSpec, *, boxes: bool) -> int:
    """Logits of an action; means of a box, none unless ``boxes``."""
    if action.kind == "discrete":
        return action.n
    if action.kind == "multi_discrete":
        return sum(action.counts)
    return action.size if boxes else 0
