"""What the implementations of optimizer steps from rollouts have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from fast_core.algos.nets.distributions import I64
from fast_core.algos.nets.networks import F32
from fast_core.algos.rollouts.merged import MergedRollout


@dataclass(frozen=True)
class Columns:
    """What belongs to the ``N`` rows of a round that are trained on.

    They are the first ``N`` of the observations that the core was given.

    Attributes:
        action: ``[N]`` or ``[N, D]`` int64, or ``[N, A]`` float32.
        scalars: ``[4 + E, N]``: the log-probability that ratios are relative to, advantage, value
            target, value, and what the loss needs besides.
        known: ``[N]``, false for rows that are left out of every step; None where none are.
        metrics: What making them has shown, by name.
        extra: What the rows after the first four are.
    """

    action: NDArray[np.generic]
    scalars: F32
    known: NDArray[np.bool_] | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    extra: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.action)

    @property
    def finite(self) -> bool:
        """Whether there is no NaN or infinity among them."""
        return bool(np.isfinite(self.scalars).all())

    @property
    def explained_variance(self) -> float:
        """Share of the targets' variance that the values predicted; 0 without variance."""
        pair = self.scalars[2:4]
        target, value = pair if self.known is None else pair[:, self.known]
        variance = float(np.var(target)) if len(target) else 0.0
        return 1.0 - float(np.var(target - value)) / variance if variance > 0 else 0.0


class MinibatchReport(NamedTuple):
    """What one minibatch says, before its step.

    Attributes:
        gradient_norm: Length of the whole gradient.
        metrics: Of the loss, by name.
    """

    gradient_norm: float
    metrics: Mapping[str, float]


@dataclass(frozen=True)
class OptimizerState:
    """Parameters and Adam's moments, flat float32, and the number of steps taken."""

    parameters: F32
    first_moment: F32
    second_moment: F32
    steps: int


class Critic(Protocol):
    """What targets and advantages need of the networks."""

    def values(self, start: int, stop: int, name: str = "value") -> F32:
        """Values of rows ``start`` to ``stop`` of the observations, by the network ``name``."""
        ...

    def evaluate(self, action: NDArray[np.generic]) -> tuple[F32, F32]:
        """Log-probabilities of ``action``, as `Columns` has it, and values of the same rows."""
        ...


class UpdateCore(Critic, Protocol):
    """Owns parameters and optimizer, and takes single steps."""

    def observe(self, merged: MergedRollout) -> None:
        """Take the observations of a round, as networks see them; they are only read."""
        ...

    def begin(self, columns: Columns) -> None:
        """Take the other columns of the round; they are only read."""
        ...

    def shuffle(self, order: I64) -> None:
        """Put the rows into this order for one epoch; those that it leaves out take no part."""
        ...

    def gradient(self, start: int, stop: int, scheduled: float) -> None:
        """Compute the loss gradient of the shuffled rows ``start`` to ``stop``.

        ``scheduled`` is the loss's number that changes as the run goes on.
        """
        ...

    def apply(self, learning_rate: float, longest: float) -> None:
        """Take one Adam step along the last gradient, shortened to ``longest``.

        None if it is not finite, which a device decides by itself.
        """
        ...

    def said(self) -> list[MinibatchReport]:
        """What the minibatches said since the last call; here a device is waited for."""
        ...

    def parameters(self) -> F32:
        """Current flat parameters on the host; may share memory."""
        ...

    def export_state(self) -> OptimizerState:
        """Copy everything that changes."""
        ...

    def import_state(self, state: OptimizerState) -> None:
        """Continue from `export_state`, in place."""
        ...
