"""PPO whose policy takes its time, asleep: what counts is then the same on every machine.

The environment variable `VARIABLE` names a node in which it takes five times as long.
"""

from __future__ import annotations

import os
import time

import setproctitle

from fast_core.algorithm import ActionOutput, Array, Policy, PolicySetup
from fast_core.algorithm.spec import EnvironmentSpec
from fast_core.algos.ppo.config import PPOConfig

VARIABLE = "FASTLOOP_TEST_SLOW"


class SlowPolicy:
    """Another policy, and a sleep with every call."""

    def __init__(self, policy: Policy, act_s: float) -> None:
        self._policy, self._act_s = policy, act_s
        slow = os.environ.get(VARIABLE, "nobody")
        if setproctitle.getproctitle().startswith(f"fastloop: {slow} "):
            self._act_s = 5 * act_s
        self.load = policy.load
        self.environment_action = policy.environment_action

    def act(
        self, obs: Array, *, noise: Array, explore: bool, state: Array | None = None
    ) -> ActionOutput:
        """As the other, later."""
        time.sleep(self._act_s)
        return self._policy.act(obs, noise=noise, explore=explore, state=state)


class SlowConfig(PPOConfig, frozen=True, kw_only=True):
    """PPO's, and how long a forward pass sleeps, s."""

    act_s: float = 0.0

    def make_policy(self, environment: EnvironmentSpec, setup: PolicySetup) -> Policy:
        """PPO's, slowed down."""
        return SlowPolicy(super().make_policy(environment, setup), self.act_s)
