"""Policies that count the rows they act on where others see it, and a learner its updates.

Each process that acts has a file of its own in `folder`, named by its number, of two 64-bit words:
the monotonic clock at its first row in ns, and its rows so far. That of the learner is `UPDATES`:
the clock at its last update, and the updates so far.
"""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, cast

from msgspec import Meta

from benchmarks.null_algorithm import NullConfig
from fast_core.algorithm import (
    ActionOutput,
    Algorithm,
    Array,
    LearnerSetup,
    Policy,
    PolicySetup,
    ReplayBatch,
    UpdateReport,
)
from fast_core.algorithm.spec import EnvironmentSpec
from fast_core.algos.replay.dqn_config import DQNConfig

UPDATES = "updates"
_BYTES = 16


class CountedConfig(NullConfig, frozen=True, kw_only=True):
    """Blueprint of an algorithm whose policies count."""

    folder: Annotated[str, Meta(description="Where the counts are.")]

    def make_policy(self, environment: EnvironmentSpec, setup: PolicySetup) -> Policy:
        """Build the policy."""
        return CountedPolicy(super().make_policy(environment, setup), Path(self.folder))


class CountedDQNConfig(DQNConfig, frozen=True, kw_only=True):
    """Blueprint of DQN whose policies count, and whose learner does."""

    folder: Annotated[str, Meta(description="Where the counts are.")]

    def make_policy(self, environment: EnvironmentSpec, setup: PolicySetup) -> Policy:
        """Build the policy."""
        return CountedPolicy(super().make_policy(environment, setup), Path(self.folder))

    def make_algorithm(self, environment: EnvironmentSpec, setup: LearnerSetup) -> Algorithm:
        """Build the learner."""
        learner: Any = super().make_algorithm(environment, setup)
        words, update = _words(Path(self.folder) / UPDATES), learner.update

        def counting(batch: ReplayBatch) -> UpdateReport:
            report: UpdateReport = update(batch)
            words[0] = time.monotonic_ns()
            words[1] += 1
            return report

        learner.update = counting
        return cast("Algorithm", learner)


class CountedPolicy:
    """Acts as another one and counts."""

    def __init__(self, policy: Policy, folder: Path) -> None:
        self._policy, self._folder = policy, folder
        self._words: memoryview | None = None
        self.environment_action = policy.environment_action

    def load(self, parameters: Sequence[Array]) -> None:
        """Take other parameters."""
        self._policy.load(parameters)

    def act(
        self, obs: Array, *, noise: Array, explore: bool, state: Array | None = None
    ) -> ActionOutput:
        """Act, and count the rows."""
        if self._words is None:
            self._words = _words(self._folder / str(os.getpid()))
            self._words[0] = time.monotonic_ns()
        self._words[1] += len(obs)
        return self._policy.act(obs, noise=noise, explore=explore, state=state)


def _words(path: Path) -> memoryview:
    with open(path, "w+b") as file:
        file.truncate(_BYTES)
        return memoryview(mmap.mmap(file.fileno(), _BYTES)).cast("Q")


def counted(folder: Path, who: int | str) -> tuple[int, int]:
    """The two words of a process, or of `UPDATES`; 0 before the first."""
    try:
        data = (folder / str(who)).read_bytes()
    except FileNotFoundError:
        return 0, 0
    if len(data) < _BYTES:
        return 0, 0
    first, rows = memoryview(data).cast("Q")
    return first, rows
