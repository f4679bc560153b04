"""PPO, and a stage, that hang or raise where they are told to, as a user's own might."""

from __future__ import annotations

import ctypes
import time
from asyncio import CancelledError
from collections.abc import Callable, Iterable
from typing import Any

from fast_core.algorithm import (
    ActionOutput,
    Algorithm,
    Array,
    LearnerSetup,
    Policy,
    PolicySetup,
    RolloutBatch,
    ShardRollout,
    UpdateReport,
)
from fast_core.algorithm.spec import EnvironmentSpec
from fast_core.algos.ppo.config import PPOConfig
from fast_core.memory import Structure
from fast_core.messages import Command, Transform
from fast_core.nodes.rollout_stage import RolloutStage
from fast_core.run.plan import RunPlan


class Oddity(BaseException):
    """No ``Exception``."""


def _raise(error: BaseException) -> None:
    raise error


KINDS: dict[str, Callable[[float], Any]] = {
    "gil": lambda seconds: ctypes.PyDLL(None).usleep(round(1e6 * seconds)),
    "sleep": time.sleep,
    "oddity": lambda _: _raise(Oddity("odd")),
    "interrupt": lambda _: _raise(KeyboardInterrupt()),
    "cancelled": lambda _: _raise(CancelledError("given up")),
    "exit": lambda _: _raise(SystemExit(3)),
}


class Trouble:
    """Counts calls by their place and meets trouble in the ``at``-th of one."""

    def __init__(self, where: str, kind: str, at: int, seconds: float) -> None:
        self._where, self._do, self._at, self._seconds = where, KINDS[kind], at, seconds
        self._calls: dict[str, int] = {}

    def __call__(self, place: str) -> None:
        self._calls[place] = self._calls.get(place, 0) + 1
        if place == self._where and self._calls[place] == self._at:
            self._do(self._seconds)


class HangingConfig(PPOConfig, frozen=True, kw_only=True):
    """PPO's, and what happens where, in which call, for how long, s."""

    where: str = ""
    kind: str = "gil"
    at: int = 3
    seconds: float = 3600.0

    def trouble(self) -> Trouble:
        return Trouble(self.where, self.kind, self.at, self.seconds)

    def make_algorithm(self, environment: EnvironmentSpec, setup: LearnerSetup) -> Algorithm:
        return HangingLearner(super().make_algorithm(environment, setup), self.trouble())

    def make_policy(self, environment: EnvironmentSpec, setup: PolicySetup) -> Policy:
        return HangingPolicy(super().make_policy(environment, setup), self.trouble())


class HangingLearner:
    """Another learner, with trouble before each call."""

    def __init__(self, learner: Algorithm, trouble: Trouble) -> None:
        self._learner, self._trouble = learner, trouble

    def update(self, batch: RolloutBatch) -> UpdateReport:
        self._trouble("update")
        return self._learner.update(batch)

    def policy_parameters(self) -> Any:
        self._trouble("policy_parameters")
        return self._learner.policy_parameters()

    def state_dict(self) -> dict[str, object]:
        self._trouble("state_dict")
        return self._learner.state_dict()

    def load_state_dict(self, state: dict[str, object]) -> None:
        self._learner.load_state_dict(state)


class HangingPolicy:
    """Another policy, with trouble before each call."""

    def __init__(self, policy: Policy, trouble: Trouble) -> None:
        self._policy, self._trouble = policy, trouble
        self.environment_action = policy.environment_action

    def load(self, parameters: Any) -> None:
        self._trouble("load")
        self._policy.load(parameters)

    def act(
        self, obs: Array, *, noise: Array, explore: bool, state: Array | None = None
    ) -> ActionOutput:
        self._trouble("act")
        return self._policy.act(obs, noise=noise, explore=explore, state=state)


class HangingStage(RolloutStage):
    """Passes rollouts on unchanged."""

    @classmethod
    def structures(cls, plan: RunPlan, name: str) -> Iterable[Structure]:
        settings: Any = plan.settings_of(name)
        if settings.get("where") == "structures":
            KINDS[settings["kind"]](0.0)
        return ()

    def prepare(self) -> None:
        settings: Any = self.context.settings
        self._trouble = Trouble(
            settings.get("where", ""), settings.get("kind", "gil"), settings.get("at", 3), 3600.0
        )
        self._forgets, self._handled = settings.get("forgets", 0), 0
        self._ponders_s = settings.get("ponders_s", 0.0)
        self._pondered: tuple[float, Command] | None = None
        self._trouble("prepare")

    def handle(self, command: Command) -> None:
        self._trouble("handle")
        if isinstance(command, Transform):
            self._handled += 1
            if self._handled == self._forgets:
                return
            if self._ponders_s:
                self._pondered = time.monotonic(), command
                return
        super().handle(command)

    def transform(self, rollout: ShardRollout) -> None:
        self._trouble("transform")

    def work(self) -> bool:
        self._trouble("work")
        if self._pondered is None or time.monotonic() < self._pondered[0] + self._ponders_s:
            return super().work()
        (_, command), self._pondered = self._pondered, None
        super().handle(command)
        return True

    def close(self) -> None:
        self._trouble("stage_close")

    def state_dict(self) -> dict[str, object]:
        self._trouble("stage_state")
        return {"handled": self._handled}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._handled = state["handled"]
