"""DSAC and DSAC-T as a run sees them. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

from msgspec import Meta

from fast_core.algos.replay.box_blueprint import SquashedBlueprint
from fast_core.config import Count

Offset = Annotated[
    float,
    Meta(
        ge=0,
        description="Added to the deviation's square and cube where gradients are divided by them. "
        "dsac: 0 is its paper's form, 0.1 that of its authors' later code (their DSAC-v2 "
        "repository, and GOPS). dsact: 0.1, also added to the average variance that scales "
        "gradients.",
    ),
]


class DistributionalBlueprint(SquashedBlueprint, frozen=True, kw_only=True):
    """What both have: critics that say mean and deviation of the return.

    Attributes:
        policy_delay: Steps of the critics for one of the policy and the targets.
    """

    policy_delay: Count = 2
    variance_offset: Offset = 0.0

    def critic_outputs(self) -> int:
        """Mean, and the deviation before softplus."""
        return 2


class DSACConfig(DistributionalBlueprint, frozen=True, kw_only=True):
    """Distributional soft actor-critic (arXiv:2001.02811).

    Attributes:
        name: `dsac`.
        critics: Value networks; the least of their values makes targets.
        return_bound: Largest distance of a sampled return from the mean that counts.
    """

    came_later: ClassVar[Mapping[str, object]] = {
        **DistributionalBlueprint.came_later,
        "variance_offset": 0.1,
    }

    numpy_learner: ClassVar[str] = "fast_core.algos.replay.dsac:DSAC"
    torch_learner: ClassVar[str] = "fast_core.algos.replay.torch_dsac:TorchDSAC"

    name: str = "dsac"
    critics: Count = 1
    return_bound: Annotated[float, Meta(gt=0)] = 20.0


class DSACTConfig(DistributionalBlueprint, frozen=True, kw_only=True):
    """DSAC with three refinements (arXiv:2310.05858).

    Attributes:
        name: `dsact`.
        bound_deviations: The same in average deviations of the return: the paper's xi.
        average_rate: Share of a batch in the running averages of deviations.
    """

    numpy_learner: ClassVar[str] = "fast_core.algos.replay.dsac:DSACT"
    torch_learner: ClassVar[str] = "fast_core.algos.replay.torch_dsac:TorchDSACT"

    name: str = "dsact"
    bound_deviations: Annotated[float, Meta(gt=0)] = 3.0
    variance_offset: Offset = 0.1
    average_rate: Annotated[float, Meta(gt=0, le=1)] = 0.005

    def critic_numbers(self) -> int:
        """Averages of deviation and variance."""
        return 2
