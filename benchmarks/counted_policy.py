"""The policy of `benchmarks.null_algorithm`, which counts the rows it acts on where others see it.

Each process that acts has a file of its own in `folder`, named by its number, of two 64-bit words:
the monotonic clock at its first row in ns, and its rows so far.
"""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from benchmarks.null_algorithm import NullConfig
from fast_core.algorithm import ActionOutput, Array, Policy, PolicySetup
from fast_core.spec import EnvironmentSpec

_BYTES = 16


class CountedConfig(NullConfig, frozen=True, kw_only=True):
    """Blueprint of an algorithm whose policies count."""

    folder: Annotated[str, Meta(description="Where the counts are.")]

    def make_policy(self, environment: EnvironmentSpec, setup: PolicySetup) -> Policy:
        """Build the policy."""
        return CountedPolicy(super().make_policy(environment, setup), Path(self.folder))


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


def counted(folder: Path, pid: int) -> tuple[int, int]:
    """Clock at the first row of a process, ns, and its rows so far; 0 before the first."""
    try:
        data = (folder / str(pid)).read_bytes()
    except FileNotFoundError:
        return 0, 0
    if len(data) < _BYTES:
        return 0, 0
    first, rows = memoryview(data).cast("Q")
    return first, rows
