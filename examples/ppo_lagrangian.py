"""PPO-Lagrangian: `fastloop launch examples/ppo_lagrangian.yaml`.

The environment's info has a ``cost`` in each step. What is learned earns all it can while the mean
cost of a step stays below a limit: costs have a price, which rises while they are above it and
falls while they are below (Ray et al. 2019, Benchmarking Safe Exploration in Deep RL). The learner
stands in `examples/ppo_lagrangian_learner.py`.
"""

from typing import Annotated, ClassVar

from msgspec import Meta

from fast_core.algorithm.spec import Column, EnvironmentSpec
from fast_core.algos.rollouts.config import ActorCriticConfig


class PPOLagrangianConfig(ActorCriticConfig, frozen=True, kw_only=True):
    """The keys under `algorithm`, beside those of every actor-critic."""

    learner: ClassVar[str] = "examples.ppo_lagrangian_learner:PPOLagrangian"

    cost_limit: Annotated[float, Meta(ge=0, description="Mean cost of a step that is allowed.")]
    price_rate: Annotated[float, Meta(gt=0, description="Step size of the price.")] = 0.03
    clip_epsilon: Annotated[float, Meta(gt=0, description="How far ratios are rewarded.")] = 0.2
    value_weight: Annotated[float, Meta(ge=0, description="Weight of both value losses.")] = 0.5
    entropy_weight: Annotated[float, Meta(ge=0, description="Weight of the entropy.")] = 0.003

    def columns(self, environment: EnvironmentSpec) -> tuple[Column, ...]:
        """What the environment writes into its info is kept of every step."""
        return (Column("cost", (), "float32", writer="environment"),)
