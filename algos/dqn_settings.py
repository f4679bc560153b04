"""The settings of DQN; the configuration reference is made from them."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from algos.mlp import MlpShape
from algos.observations import encoded_size
from algos.replay_settings import ReplaySettings
from fast_core.config import Count
from fast_core.spec import EnvironmentSpec


class DQNSettings(ReplaySettings, frozen=True, kw_only=True):
    """Deep Q-learning."""

    name: Annotated[str, Meta(description="`dqn`.")] = "dqn"
    double: Annotated[
        bool,
        Meta(description="The online network chooses the next action (arXiv:1509.06461)."),
    ] = True
    dueling: Annotated[
        bool,
        Meta(description="Value and advantages as outputs of their own (arXiv:1511.06581)."),
    ] = True
    target_interval: Annotated[
        Count, Meta(description="Steps between moves of the target network by target_rate.")
    ] = 1
    huber_threshold: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        Meta(description="Error from which the loss is linear; null: squared everywhere."),
    ] = 1.0
    epsilon_initial: Annotated[
        float, Meta(ge=0, le=1, description="Share of random actions at the first update.")
    ] = 1.0
    epsilon_final: Annotated[
        float, Meta(ge=0, le=1, description="Share of random actions after epsilon_steps.")
    ] = 0.05
    epsilon_steps: Annotated[
        Count, Meta(description="Env steps over which the share falls from one to the other.")
    ] = 10_000

    def shape(self, environment: EnvironmentSpec) -> MlpShape:
        """The value network: values of all choices, or a value and advantages."""
        outputs = environment.action.n + int(self.dueling)
        inputs = encoded_size(environment, ())
        return MlpShape(inputs, self.hidden_sizes, outputs, self.activation)
