"""What the algorithms that process tests bring with them have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from fast_core.algorithm import Algorithm, Array, LearnerSetup, Policy, PolicySetup
from fast_core.algorithm.spec import EnvironmentSpec, FieldSpec
from fast_core.config import AlgorithmConfig


class TinyConfig(AlgorithmConfig, frozen=True, kw_only=True):
    """One number is all that policies are given; one update a ticket, and no torch."""

    policy: ClassVar[type[Any]]
    learner: ClassVar[type[Any]]

    def policy_fields(self, environment: EnvironmentSpec) -> tuple[FieldSpec, ...]:
        return (FieldSpec("number", (1,), "float32"),)

    def updates_granted(self, rows: int) -> int:
        return 1

    def uses_torch(self, *, device: str, compile: bool) -> bool:
        return False

    def make_policy(self, environment: EnvironmentSpec, setup: PolicySetup) -> Policy:
        return self.policy()

    def make_algorithm(self, environment: EnvironmentSpec, setup: LearnerSetup) -> Algorithm:
        return self.learner()


class TinyPolicy:
    """Nothing in it is learned."""

    def load(self, parameters: Sequence[Array]) -> None:
        pass

    def environment_action(self, action: Array) -> Array:
        return action


class TinyLearner:
    """Its weight and its state are one number."""

    def __init__(self) -> None:
        self.number = 0

    def policy_parameters(self) -> Sequence[Array]:
        return [np.array([self.number], np.float32)]

    def state_dict(self) -> dict[str, object]:
        return {"number": self.number}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.number = state["number"]
