"""A policy that counts: what it does shows what it was given. Learns nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.classic_control import CartPoleEnv

from fast_core.algorithm import ActionOutput, Array, PolicySetup
from fast_core.algorithm.spec import Column, EnvironmentSpec, FieldSpec
from fast_core.config import AlgorithmConfig


class Costly(CartPoleEnv):
    """Its info says where the cart is, or NaN where it is beyond ``lost_at``."""

    def __init__(self, lost_at: float = np.inf, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.lost_at = lost_at

    def step(self, action: Any) -> Any:
        """As usual."""
        *others, info = super().step(action)
        position = float(self.state[0])
        return *others, {**info, "position": np.nan if position > self.lost_at else position}


COSTLY = "tests.nodes.counting:Costly-v0"
gymnasium.register("Costly-v0", Costly, max_episode_steps=500)


class CountingPolicy:
    """Acts by the noise; the log-probability is its weight plus what it saw and remembered.

    What it remembers is the number of its steps in this episode and the sum of their first
    observed numbers.

    Attributes:
        batches: Rows of every forward pass.
        seen: A copy of the observations of every forward pass.
        glances: Whether it writes the last two observed numbers into a column.
    """

    def __init__(self, glances: bool = False) -> None:
        self.glances = glances
        self.batches: list[int] = []
        self.seen: list[Array] = []
        self._weight = np.zeros(1, np.float32)

    def load(self, parameters: Sequence[Array]) -> None:
        """Take the weight."""
        self._weight = np.array(parameters[0], np.float32)

    def act(
        self, obs: Array, *, noise: Array, explore: bool, state: Array | None = None
    ) -> ActionOutput:
        """Say what was seen."""
        self.batches.append(len(obs))
        self.seen.append(obs.copy())
        action = (noise.reshape(len(obs), -1)[:, 0] > 0.5).astype(np.int64)
        extra: dict[str, Array] = {}
        if self.glances:
            extra["glance"] = obs.reshape(len(obs), -1)[:, -2:]
        if state is None:
            log_prob = np.full(len(obs), self._weight[0], np.float32)
            return ActionOutput(action, log_prob, extra=extra)
        first = obs.reshape(len(obs), -1)[:, 0]
        after = np.stack([state[:, 0] + 1, state[:, 1] + first], axis=1).astype(np.float32)
        return ActionOutput(action, state[:, 0] + self._weight[0], after, extra)

    def environment_action(self, action: Array) -> Array:
        """As it is."""
        return action


class CountingConfig(AlgorithmConfig, frozen=True, kw_only=True):
    """Its configuration.

    Attributes:
        remembers: Whether it has a state of two numbers.
        declares: Whether it has a column that the environment writes, and one of its policy's.
    """

    name: str = "tests.nodes.counting:CountingConfig"
    remembers: bool = False
    declares: bool = False

    def columns(self, environment: EnvironmentSpec) -> tuple[Column, ...]:
        """One of each writer, or none."""
        glance = Column("glance", (2,), "float32", writer="policy")
        return (Column("position", (), "float32"), glance) if self.declares else ()

    def policy_fields(self, environment: EnvironmentSpec) -> tuple[FieldSpec, ...]:
        """One weight."""
        return (FieldSpec("weight", (1,), "float32"),)

    def state_size(self, environment: EnvironmentSpec) -> int:
        """Two numbers, or none."""
        return 2 if self.remembers else 0

    def updates_granted(self, rows: int) -> int:
        """One."""
        return 1

    def make_policy(self, environment: EnvironmentSpec, setup: PolicySetup) -> CountingPolicy:
        """A new one."""
        return CountingPolicy(self.declares)
