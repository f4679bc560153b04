"""Random play as a run sees it: to show environments, or to know what chance reaches."""

from __future__ import annotations

from fast_core.algorithm import Algorithm, LearnerSetup, Policy, PolicySetup
from fast_core.algorithm.spec import EnvironmentSpec, FieldSpec
from fast_core.config import AlgorithmConfig


class RandomConfig(AlgorithmConfig, frozen=True, kw_only=True):
    """Takes every allowed action with the same probability and never updates; needs no torch.

    Boxes are drawn from evenly between their bounds, where they have none from -1 to 1.

    Attributes:
        name: `random`.
    """

    name: str = "random"

    def policy_fields(self, environment: EnvironmentSpec) -> tuple[FieldSpec, ...]:
        """One number that is never used: a run publishes something."""
        return (FieldSpec("nothing", (1,), "float32"),)

    def updates_granted(self, rows: int) -> int:
        """None."""
        return 0

    def uses_torch(self, *, device: str, compile: bool) -> bool:
        """Nothing here does."""
        return False

    def make_policy(self, environment: EnvironmentSpec, setup: PolicySetup) -> Policy:
        """Build a policy."""
        from fast_core.algos.random.play import RandomPolicy

        return RandomPolicy(environment)

    def make_algorithm(self, environment: EnvironmentSpec, setup: LearnerSetup) -> Algorithm:
        """Build what takes rollouts and learns nothing from them."""
        from fast_core.algos.random.play import Nothing

        return Nothing()
