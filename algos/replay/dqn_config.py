"""DQN as a run sees it. Imports no torch."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, ClassVar

from msgspec import Meta

from fast_core.algorithm import Thinker
from fast_core.algorithm.spec import EnvironmentSpec, FieldSpec
from fast_core.algos.nets.mlp import MlpShape
from fast_core.algos.nets.own_shape import is_own
from fast_core.algos.replay.choice_blueprint import ChoiceBlueprint
from fast_core.algos.replay.vectors import Layout
from fast_core.config import Count
from fast_core.system.importing import own


class DQNConfig(ChoiceBlueprint, frozen=True, kw_only=True):
    """Deep Q-learning (Mnih et al. 2015) with double targets and dueling streams as options.

    Attributes:
        name: `dqn`.
        double: The online network chooses the next action (arXiv:1509.06461).
        dueling: Value and advantages as outputs of their own, after convolutions with hidden layers
            of their own (arXiv:1511.06581).
        layer_norm: Normalise what each hidden layer puts out over its features, before its
            activation, with a scale and a shift that are learned.
        target_interval: Steps between moves of the target network by target_rate.
        huber_threshold: Error from which the loss is linear; null: squared everywhere.
    """

    numpy_learner: ClassVar[str] = "fast_core.algos.replay.dqn:DQN"
    torch_learner: ClassVar[str] = "fast_core.algos.replay.torch_dqn:TorchDQN"

    name: str = "dqn"
    double: bool = True
    dueling: bool = True
    layer_norm: bool = False
    target_interval: Count = 1
    huber_threshold: Annotated[float, Meta(gt=0)] | None = 1.0

    def streams(self, environment: EnvironmentSpec) -> bool:
        """Whether value and advantages have hidden layers of their own."""
        return self.dueling and self.encoder(environment) is not None

    def hidden(self, environment: EnvironmentSpec) -> tuple[int, ...]:
        """Widths of the hidden layers; after convolutions the papers have one of 512."""
        if self.hidden_sizes is None and is_own(self.network):
            return ()
        if self.hidden_sizes is None and self.encoder(environment) is not None:
            return (512,)
        return super().hidden(environment)

    def shape(self, environment: EnvironmentSpec) -> MlpShape:
        """The value network: values of all choices, or a value and advantages.

        With two streams they are two networks of one shape: the first one's outputs but one have
        no meaning, and no gradient ever.
        """
        streams = self.streams(environment)
        outputs = environment.action.n + int(self.dueling and not streams)
        inputs, hidden = self.network_inputs(environment), self.hidden(environment)
        members = 1 + int(streams)
        return MlpShape(inputs, hidden, outputs, self.activation, members, self.layer_norm)

    def policy_shape(self, environment: EnvironmentSpec) -> MlpShape:
        """What acting needs of it: the advantages alone, if they have a stream of their own."""
        return replace(self.shape(environment), members=1)

    def add_networks(self, layout: Layout, environment: EnvironmentSpec) -> None:
        """Append the value network."""
        layout.add_network("critics", self.shape(environment), target=True)

    def update_flops(self, environment: EnvironmentSpec, rows: int) -> int:
        """Forward and backward, and forward of the next observations in one or two networks."""
        if self.modular:
            return super().update_flops(environment, rows)
        passes = 5 if self.double else 4
        products = passes * self.shape(environment).products
        return 2 * (products + self.products_below(environment, passes)) * self.batch_size

    def first_value(self, environment: EnvironmentSpec) -> int:
        """Behind the value, if it is an output of the same network."""
        one = self.dueling and not (self.modular or self.streams(environment))
        return int(one)

    def insight_fields(self, environment: EnvironmentSpec) -> tuple[FieldSpec, ...]:
        """Parameters of the value's stream, where it has one: policies choose by advantages."""
        if not self.streams(environment):
            return super().insight_fields(environment)
        parameters = self.policy_shape(environment).parameters("value", 0)
        return tuple(FieldSpec(p.name, p.shape, "float32") for p in parameters)

    def make_thinker(self, environment: EnvironmentSpec) -> Thinker | None:
        """Values of all choices."""
        stream = self.policy_shape(environment) if self.streams(environment) else None
        dueling = self.dueling and not self.modular
        make = own("fast_core.algos.replay.thinking:choice_thinker")
        made: Thinker | None = make(self, environment, dueling=dueling, stream=stream)
        return made
