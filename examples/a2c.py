"""Advantage actor-critic (arXiv:1602.01783) as an algorithm of one's own: its keys."""

from typing import Annotated, ClassVar

from msgspec import Meta

from fast_core.algos.rollouts.config import ActorCriticConfig


class A2CConfig(ActorCriticConfig, frozen=True, kw_only=True):
    """The keys under `algorithm`, beside those of every actor-critic."""

    learner: ClassVar[str] = "examples.a2c_learner:A2C"

    value_weight: Annotated[float, Meta(ge=0, description="Weight of the value loss.")] = 0.5
    entropy_weight: Annotated[float, Meta(ge=0, description="Weight of the entropy.")] = 0.003
