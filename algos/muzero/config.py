"""MuZero as a run sees it. Imports no torch."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from fast_core.algorithm import (
    LearnerSetup,
    NoiseSpec,
    Policy,
    PolicySetup,
    ReplaySpec,
    Thinker,
    Window,
)
from fast_core.algorithm.spec import Column, EnvironmentSpec, FieldSpec
from fast_core.algos.muzero.model import Model, ModelShape, NumpyModel
from fast_core.algos.muzero.search import MOST_SIMULATIONS, Root
from fast_core.algos.muzero.support import Support
from fast_core.algos.nets.encoder_shape import no_convolutions
from fast_core.algos.nets.own_shape import is_own
from fast_core.algos.replay.settings import EXPLORATION, ReplaySettings
from fast_core.algos.replay.vectors import Layout
from fast_core.config import Count
from fast_core.errors import ConfigError
from fast_core.system.importing import own

POLICY, VALUE = "search_policy", "root_value"  # columns that its policy writes
TO_PLAY = "to_play"  # the part of an observation that says who moves

Weight = Annotated[float, Meta(ge=0)]
Categories = Annotated[int, Meta(ge=0, le=1000)]


class MuZeroConfig(ReplaySettings, frozen=True, kw_only=True):
    """MuZero (arXiv:1911.08265), by default with the search of Gumbel MuZero.

    Attributes:
        name: `muzero`.
        gamma: Discount per environment step, in targets and in the search.
        n_step: Steps whose rewards are summed before a value target's value.
        unroll: Steps that the model follows the actions of a sequence, and learns from (K).
        simulations: Of each search, in training and evaluations.
        root: How the search chooses at its root. gumbel: sequential halving of the actions that
            are best with Gumbel noise (Danihelka et al. 2022), which improves the policy with any
            number of simulations. puct: as everywhere below, with Dirichlet noise.
        considered: Actions that the root begins with, if it is gumbel.
        c_scale: How much values weigh against the prior in a gumbel search.
        least_span: Values are rescaled by the span of those that a node knows, or by this where
            that is less. With the span of all returns (2 in a game that is won or lost, with
            c_scale 1) small differences stay small.
        latent: Numbers of a latent state.
        hidden_sizes: Widths of the hidden layers of each of the three networks; null: 128.
        network: mlp: hidden layers only; images are flattened. nature_cnn and residual_cnn: those
            convolutions under the representation. auto: nature_cnn where there are images,
            residual_cnn where one is too small for it, otherwise mlp.
        layer_norm: Normalise what each hidden layer puts out over its features, before its
            activation, with a scale and a shift that are learned.
        backend: torch: losses that autograd differentiates; auto: the same.
        max_grad_norm: Longest gradient of each of the three networks, that of the representation
            with the convolutions below it; null for no limit.
        value_support: Categories on either side of 0 for values, after h(x) = sign(x)(sqrt(|x| +
            1) - 1) + 0.001 x; 20 reach to 422. 0: one number, and half its squared error.
        reward_support: The same for rewards; 5 reach to 34.
        value_weight: Weight of the value's loss.
        reward_weight: Weight of the reward's loss.
        bootstrap: The value that follows the rewards of a target. network: what the target network
            says now. search: what the search said when the step was taken.
        reanalyze: Share of the sequences of each batch whose policies are searched anew, with the
            networks as they are now, before they are learned from. Exact over all updates; 0: what
            the search found when the step was taken.
        two_players: Two take turns, and one gains what the other loses: rewards are those of who
            acts, values of who is to act. Observations have a part to_play.
    """

    torch_learner: ClassVar[str] = "fast_core.algos.muzero.learner:MuZero"

    name: str = "muzero"
    gamma: Annotated[float, Meta(ge=0, le=1)] = 0.997
    n_step: Count = 5
    learning_rate: Annotated[float, Meta(gt=0)] = 1e-3
    target_rate: Annotated[float, Meta(gt=0, le=1)] = 0.01
    unroll: Count = 5
    simulations: Annotated[int, Meta(ge=1, le=MOST_SIMULATIONS)] = 16
    root: Root = "gumbel"
    considered: Count = 16
    c_scale: Annotated[float, Meta(gt=0)] = 0.1
    least_span: Annotated[float, Meta(gt=0)] = 0.01
    latent: Count = 64
    layer_norm: bool = False
    value_support: Categories = 20
    reward_support: Categories = 5
    value_weight: Weight = 0.25
    reward_weight: Weight = 1.0
    bootstrap: Literal["network", "search"] = "network"
    reanalyze: Annotated[float, Meta(ge=0, le=1)] = 0.0
    two_players: bool = False

    def check(self, environment: EnvironmentSpec, setup: LearnerSetup) -> None:
        """Raise `ConfigError` if it can't train in this environment."""
        if environment.action.kind != "discrete":
            raise ConfigError(
                f"algorithm.name {self.name!r} searches among the choices of one discrete action "
                f"per step; {environment.id!r} has {environment.action.kind}. Use sac, td3 or "
                "dsact for boxes, ppo for anything."
            )
        if is_own(self.network):
            raise ConfigError(
                f"algorithm.network must be auto, mlp, nature_cnn or residual_cnn with "
                f"algorithm.name {self.name!r}; got {self.network!r}."
            )
        if self.backend == "numpy":
            raise ConfigError(
                f"algorithm.backend must be auto or torch with algorithm.name {self.name!r}: its "
                "losses are torch's; got 'numpy'."
            )
        parts = [name for name, _ in environment.observation.parts]
        if self.two_players and TO_PLAY not in parts:
            raise ConfigError(
                f"algorithm.two_players needs observations with a part {TO_PLAY!r}, which says who "
                f"moves; {environment.id!r} has {', '.join(parts) or 'no parts'}. Set it to false "
                "where one agent plays."
            )
        super().check(environment, setup)

    def learns_with_torch(self, environment: EnvironmentSpec, setup: LearnerSetup) -> bool:
        """Always."""
        return True

    def uses_torch(self, *, device: str, compile: bool) -> bool:
        """The learner does."""
        return True

    def hidden(self, environment: EnvironmentSpec) -> tuple[int, ...]:
        """Widths of the hidden layers."""
        return (128,) if self.hidden_sizes is None else self.hidden_sizes

    def columns(self, environment: EnvironmentSpec) -> tuple[Column, ...]:
        """What the search made of each observation."""
        return (
            Column(POLICY, (environment.action.n,), "float32", writer="policy"),
            Column(VALUE, (), "float32", writer="policy"),
        )

    def replay(self) -> ReplaySpec:
        """Sequences of the steps that are unrolled, the row behind them, and those of targets."""
        ahead = self.n_step - (self.bootstrap == "network")
        return ReplaySpec(self.batch_size, sequence=Window(self.unroll + 1, after=ahead))

    def noise(self, environment: EnvironmentSpec) -> NoiseSpec:
        """A uniform number for each choice."""
        return NoiseSpec("uniform", (environment.action.n,))

    def model(self, environment: EnvironmentSpec) -> ModelShape:
        """The three networks, on what convolutions put out if there are any."""
        return ModelShape(
            inputs=self.network_inputs(environment),
            choices=environment.action.n,
            latent=self.latent,
            hidden_sizes=self.hidden(environment),
            values=Support(self.value_support).outputs,
            rewards=Support(self.reward_support).outputs,
            activation=self.activation,
            layer_norm=self.layer_norm,
        )

    def add_networks(self, layout: Layout, environment: EnvironmentSpec) -> None:
        """Append the three networks."""
        self.model(environment).add_to(layout)

    def policy_fields(self, environment: EnvironmentSpec) -> tuple[FieldSpec, ...]:
        """All networks, statistics, and whether actions are any."""
        layout, how = Layout(), self.normalization(environment)
        layout.add_below(self.encoder(environment), None, target=True)
        self.add_networks(layout, environment)
        fields = [FieldSpec(p.name, p.shape, "float32") for p in layout.parameters]
        if how is not None:
            fields += how.fields(self.normalized_numbers(environment))
        return (*fields, EXPLORATION)

    def policy_module(self, environment: EnvironmentSpec, parameters: object) -> object:
        """There is none.

        Raises:
            ConfigError: Always.
        """
        raise ConfigError(
            f"a policy of algorithm.name {self.name!r} searches before every action, which no "
            "torch.nn.Module does, so it can't be exported. fast_core.load_policy loads it from "
            "one file, without a run and a simulator."
        )

    def update_flops(self, environment: EnvironmentSpec, rows: int) -> int:
        """Forward and backward of every state on the way, forward of those that targets need."""
        parts, states = self.model(environment).parts, self.unroll + 1
        first, dynamics, prediction = (part.products for part in parts.values())
        encoder = self.encoder(environment)
        first += 0 if encoder is None else encoder.products
        learned = 3 * (first + self.unroll * dynamics + states * prediction)
        return 2 * self.batch_size * (learned + states * (first + prediction))

    def make_model(self, environment: EnvironmentSpec, setup: PolicySetup) -> Model:
        """The networks as a policy needs them; only those in torch import torch.

        Raises:
            ConfigError: NumPy is to compute convolutions.
        """
        if setup.backend == "torch":
            make = own("fast_core.algos.muzero.torch_model:ActingModel")
            made: Model = make(self, environment, setup)
            return made
        if self.encoder(environment) is not None:
            raise no_convolutions(environment)
        return NumpyModel(self.model(environment), environment, self.normalization(environment))

    def make_policy(self, environment: EnvironmentSpec, setup: PolicySetup) -> Policy:
        """Build a policy."""
        make = own("fast_core.algos.muzero.policy:MuZeroPolicy")
        made: Policy = make(self, environment, self.make_model(environment, setup))
        return made

    def make_thinker(self, environment: EnvironmentSpec) -> Thinker | None:
        """What a search finds."""
        setup = PolicySetup(self.policy_backend(environment))
        make = own("fast_core.algos.muzero.policy:MuZeroThinker")
        made: Thinker = make(self.make_policy(environment, setup))
        return made
