"""SAC as a run sees it. Imports no torch."""

from __future__ import annotations

from typing import ClassVar

from fast_core.algorithm import LearnerSetup
from fast_core.algorithm.spec import EnvironmentSpec
from fast_core.algos.replay.box_blueprint import SquashedBlueprint
from fast_core.config import Count
from fast_core.errors import ConfigError


class SACConfig(SquashedBlueprint, frozen=True, kw_only=True):
    """Soft actor-critic (arXiv:1812.05905).

    Attributes:
        name: `sac`.
        critics_in_target: Critics whose least value makes a target, drawn anew for every update
            (REDQ, arXiv:2101.05982; the policy follows the mean of all then); null: all.
    """

    numpy_learner: ClassVar[str] = "fast_core.algos.replay.sac:SAC"
    torch_learner: ClassVar[str] = "fast_core.algos.replay.torch_box:TorchSAC"

    name: str = "sac"
    critics_in_target: Count | None = None

    def check(self, environment: EnvironmentSpec, setup: LearnerSetup) -> None:
        """Raise `ConfigError` if SAC can't train in this environment."""
        super().check(environment, setup)
        if self.critics_in_target is not None and self.critics_in_target > self.critics:
            raise ConfigError(
                f"algorithm.critics_in_target must be at most algorithm.critics ({self.critics}); "
                f"got {self.critics_in_target}."
            )

    def policy_has_target(self) -> bool:
        """No: the policy itself chooses the next actions."""
        return False

    def averages_critics(self) -> bool:
        """With random subsets in targets, as REDQ has it."""
        return self.critics_in_target is not None
