"""Quantile regression DQN (arXiv:1710.10044) as an algorithm of one's own: its keys."""

from typing import Annotated, ClassVar

from msgspec import Meta

from fast_core.algos.replay.choice_blueprint import ChoiceBlueprint
from fast_core.config import Count


class QRDQNConfig(ChoiceBlueprint, frozen=True, kw_only=True):
    """The keys under `algorithm`, beside those of every algorithm that learns from replay."""

    always_torch: ClassVar[bool] = True
    torch_learner: ClassVar[str] = "examples.qrdqn_learner:QRDQN"

    hidden: Annotated[Count, Meta(description="Units of the hidden layer.")] = 128
    quantiles: Annotated[Count, Meta(description="Quantiles of each action's return.")] = 16
