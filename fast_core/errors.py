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
    ├── ExportError      (RuntimeError)     a policy can't be exported
    ├── TrainingDiverged (ArithmeticError)  updates keep being NaN or infinite
    ├── ReplicasDiffer   (RuntimeError)     optimizers that average are not equal any more
    └── NodeFailed       (RuntimeError)     a node died or raised
        └── EnvironmentFailed               an environment raised inside its node

Each also inherits the built-in that callers expect, so ``except ValueError`` keeps working.
"""

from __future__ import annotations


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


class ExportError(FastLoopError, RuntimeError):
    """A policy can't be exported: to this format, of this algorithm, or on this machine."""


class TrainingDiverged(FastLoopError, ArithmeticError):
    """Too many updates in a row were NaN or infinite."""


class ReplicasDiffer(FastLoopError, RuntimeError):
    """Optimizers that average their gradients have other parameters than one another."""


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
