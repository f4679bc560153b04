"""A policy on disk: the parameters of one evaluated version, and which one was best."""

from __future__ import annotations

from pathlib import Path

import msgspec

from fast_core.errors import CheckpointError
from fast_core.system.durable import write_durably


class PolicyFile(msgspec.Struct, frozen=True):
    """Parameters of one version.

    Attributes:
        version: Committed optimizer steps of these parameters.
        env_steps: Environment steps trained on when they were published.
        mean_return: Mean return of the evaluation of exactly these parameters.
        std_return: Standard deviation of its returns.
        parameters: The flat float32 vector of `fast_core.run.parameters.ParameterPack`.
    """

    version: int
    env_steps: int
    mean_return: float
    std_return: float
    parameters: bytes


def best_policy_path(run_directory: str | Path, environment: str | None = None) -> Path:
    """Where the best evaluated policy of a run lies; that in one of ``evaluation.environments``."""
    name = "best-policy" if environment is None else f"best-policy-{environment}"
    return Path(run_directory) / "checkpoints" / f"{name}.msgpack"


def read_policy(path: Path) -> PolicyFile:
    """Read a policy.

    Raises:
        CheckpointError: The file is missing or damaged.
    """
    try:
        return msgspec.msgpack.decode(path.read_bytes(), type=PolicyFile)
    except (OSError, msgspec.MsgspecError) as error:
        raise CheckpointError(f"can't read the policy in {path}: {error}") from error


class BestPolicy:
    """Keeps the policy with the highest evaluated mean return, across resumed runs too."""

    def __init__(self, path: Path) -> None:
        """``path`` may hold the best policy of an earlier part of the run."""
        self._path = path
        self._best = read_policy(path).mean_return if path.exists() else float("-inf")
        self._unwritten: PolicyFile | None = None

    def offer(self, policy: PolicyFile) -> bool:
        """Keep ``policy``, if nothing better was evaluated, for `write`; True when it is kept."""
        if not policy.mean_return >= self._best:
            return False
        self._best, self._unwritten = policy.mean_return, policy
        return True

    def write(self) -> None:
        """Write the best policy unless it is written.

        Raises:
            OSError: The disk is full, say; to be tried again.
        """
        if self._unwritten is not None:
            write_durably(self._path, msgspec.msgpack.encode(self._unwritten))
            self._unwritten = None
