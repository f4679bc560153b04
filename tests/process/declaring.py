"""An algorithm of a user's with a column of each writer, in one file and without torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import numpy as np

from fast_core.algorithm import ActionOutput, Array, ReplayBatch, ReplaySpec, UpdateReport
from fast_core.algorithm.spec import Column, EnvironmentSpec, FieldSpec
from tests.process.tiny import TinyConfig, TinyPolicy


class DeclaringPolicy(TinyPolicy):
    """One of two choices."""

    def load(self, parameters: Sequence[Array]) -> None:
        """Take the vector."""
        self._weight = np.array(parameters[0])

    def act(
        self, obs: Array, *, noise: Array, explore: bool, state: Array | None = None
    ) -> ActionOutput:
        """Say how sure of each."""
        chance = 1 / (1 + np.exp(-obs @ self._weight))
        action = (noise < chance).astype(np.int64)
        sure = np.stack([1 - chance, chance], axis=1).astype(np.float32)
        return ActionOutput(action, np.zeros(len(obs), np.float32), extra={"sure": sure})


class DeclaringLearner:
    """Moves the vector by all three columns, and says what it has come to of each row."""

    def __init__(self) -> None:
        self._weight = np.zeros(4, np.float32)

    def update(self, batch: ReplayBatch) -> UpdateReport:
        """One step."""
        extra, written = batch.extra, batch.written
        assert written is not None
        push = extra["position"] + extra["sure"][:, 1] + 0.1 * np.log2(written + 2.0)
        step = (push[:, None] * batch.obs + 0.1 * extra["thought"]).mean(0)
        self._weight += 0.01 * step.astype(np.float32)
        thought = batch.obs * push[:, None]
        seen = {"written": float((written >= 0).mean())}
        return UpdateReport(1, 0, seen, extra={"thought": thought.astype(np.float32)})

    def policy_parameters(self) -> Sequence[Array]:
        """The vector."""
        return [self._weight]

    def state_dict(self) -> dict[str, object]:
        """The vector."""
        return {"weight": self._weight}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The vector."""
        self._weight = np.array(state["weight"], np.float32)


class DeclaringConfig(TinyConfig, frozen=True, kw_only=True):
    """Learns one vector, from what each writer has said of the rows."""

    name: str = "tests.process.declaring:DeclaringConfig"
    learns_from: ClassVar[Literal["rollouts", "replay"]] = "replay"
    policy, learner = DeclaringPolicy, DeclaringLearner

    def columns(self, environment: EnvironmentSpec) -> tuple[Column, ...]:
        """Where the cart is; what the policy was sure of; what the learner thought of it."""
        return (
            Column("position", (), "float32", fold="sum"),
            Column("sure", (2,), "float32", writer="policy"),
            Column("thought", (4,), "float32", writer="learner"),
        )

    def policy_fields(self, environment: EnvironmentSpec) -> tuple[FieldSpec, ...]:
        """The vector."""
        return (FieldSpec("weight", (4,), "float32"),)

    def replay(self) -> ReplaySpec:
        """Windows of two steps."""
        return ReplaySpec(16, 2, 0.9)
