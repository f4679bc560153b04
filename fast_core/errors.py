"""The exceptions of FastLoop.

    FastLoopError
    ├── ConfigError      (ValueError)       the configuration is wrong
    ├── TopologyError    (ValueError)       the nodes do not fit together
    ├── SegmentError     (RuntimeError)     shared memory is missing, too small or damaged
    ├── TransportError   (RuntimeError)     a message or a ring refused
    │   ├── RingFull     (TimeoutError)
    │   └── RingEmpty    (TimeoutError)
    ├── CheckpointError  (RuntimeError)     a checkpoint is missing, damaged or does not fit
    │   └── OtherRun     (ConfigError)      what the configuration says of its run differs
    ├── PolicyError      (ValueError)       a policy is given what it can't take
    ├── ExportError      (RuntimeError)     a policy can't be exported
    ├── TrainingDiverged (ArithmeticError)  updates keep being NaN or infinite
    ├── ReplicasDiffer   (RuntimeError)     optimizers that average are not equal any more
    ├── ContractBroken   (AssertionError)   a part is not what `fast_core.testing` holds it to
    └── NodeFailed       (RuntimeError)     a node died or raised
        ├── EnvironmentFailed               an environment raised inside its node
        └── RunFailed                       a run that was started from Python failed

Each also inherits the built-in that callers expect, so ``except ValueError`` keeps working.
"""

from __future__ import annotations

from pathlib import Path


class FastLoopError(Exception):
    """Base of every error that FastLoop raises on purpose."""


class ConfigError(FastLoopError, ValueError):
    """A configuration key or value is wrong; the message names both and what is allowed."""


class TopologyError(FastLoopError, ValueError):
    """The nodes of a run do not fit together, for instance an event nobody consumes."""


class SegmentError(FastLoopError, RuntimeError):
    """Shared memory can't be made, or what is mapped is not what was expected."""


class TransportError(FastLoopError, RuntimeError):
    """A message can't be encoded, decoded or delivered."""


class RingFull(TransportError, TimeoutError):
    """No place became free in a ring within the time allowed; nothing was written."""


class RingEmpty(TransportError, TimeoutError):
    """No record arrived in a ring within the time allowed."""


class CheckpointError(FastLoopError, RuntimeError):
    """A checkpoint is missing, damaged, or belongs to a different run configuration."""


class OtherRun(CheckpointError, ConfigError):
    """A checkpoint is of a run whose defining keys are others than the configuration's."""


class PolicyError(FastLoopError, ValueError):
    """A policy is given what it can't take, or is to play where it does not fit."""


class ExportError(FastLoopError, RuntimeError):
    """A policy can't be exported: to this format, of this algorithm, or on this machine."""


class TrainingDiverged(FastLoopError, ArithmeticError):
    """Too many updates in a row were NaN or infinite."""


class ReplicasDiffer(FastLoopError, RuntimeError):
    """Optimizers that average their gradients have other parameters than one another."""


class ContractBroken(FastLoopError, AssertionError):
    """A part does not keep what FastLoop relies on; found by `fast_core.testing` alone."""


class NodeFailed(FastLoopError, RuntimeError):
    """A node died or raised; the message carries its first cause."""


class EnvironmentFailed(NodeFailed):
    """An environment raised; the message names environment, episode, step, seed and action.

    Attributes:
        context: The same by name, for crash reports.
    """

    def __init__(self, message: str, context: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.context = context or {}


class RunFailed(NodeFailed):
    """A run failed; the message is its crash report, with the first cause last.

    Attributes:
        directory: The run's folder; a `fast_core.Run` of it has metrics, events and checkpoints.
        node: The node that failed first.
        error: What it raised, in a line or a few.
        traceback: Where: the environment's own traceback if it was the environment.
    """

    def __init__(self, report: str, directory: Path, node: str, error: str, traceback: str) -> None:
        super().__init__(report)
        self.directory, self.node, self.error = directory, node, error
        self.traceback = traceback

    def __reduce__(self) -> tuple[type[RunFailed], tuple[str, Path, str, str, str]]:
        """So that it can leave a process pool."""
        given = str(self), self.directory, self.node, self.error, self.traceback
        return RunFailed, given
