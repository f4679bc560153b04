"""What a callback is told while a run trains, and what it may do.

A callback is an object with any of these methods; there is no base class:

    class Mine:
        def on_start(self, start: Start, run: LiveRun) -> None: ...
        def on_metrics(self, metrics: Metrics, run: LiveRun) -> None: ...
        def on_evaluation(self, evaluation: Evaluation, run: LiveRun) -> None: ...
        def on_checkpoint(self, checkpoint: Checkpoint, run: LiveRun) -> None: ...
        def on_end(self, end: End, run: LiveRun) -> None: ...
        def state_dict(self) -> dict[str, object]: ...
        def load_state_dict(self, state: dict[str, object]) -> None: ...

They are called one after the other in a thread of their own in the launcher's process. The last
two, both or none, keep what it must remember in checkpoints.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from fast_core.config import RunConfig, Value

METHODS = ("on_start", "on_metrics", "on_evaluation", "on_checkpoint", "on_end")


@dataclass(frozen=True)
class Start:
    """Every node is ready, and nothing has been collected yet.

    Attributes:
        directory: The run's directory.
        resumed_from: The checkpoint that the run goes on from; None for a new run.
        version: Optimizer steps committed so far.
        env_steps: Environment steps trained on so far.
    """

    directory: Path
    resumed_from: Path | None
    version: int
    env_steps: int


@dataclass(frozen=True)
class Metrics:
    """A row of ``metrics.jsonl`` that is not an evaluation's.

    Attributes:
        version: Optimizer steps committed so far.
        env_steps: Environment steps trained on so far.
        time_s: Seconds of training so far.
        values: Means since the row before, by name: ``rollout/return_mean``, ``policy_loss``, ...
    """

    version: int
    env_steps: int
    time_s: float
    values: Mapping[str, float]


@dataclass(frozen=True)
class Outcome:
    """What an evaluation came to in one of ``evaluation.environments``.

    Attributes:
        returns: Of each episode; NaN where its outcome is not known (``environment.nonfinite``).
        lengths: Steps of each episode.
        info: Mean of each number of the info of the episodes' last steps.
        mean: Mean of ``returns``; None where an outcome is not known.
    """

    returns: tuple[float, ...]
    lengths: tuple[int, ...]
    info: Mapping[str, float]
    mean: float | None


@dataclass(frozen=True)
class Evaluation:
    """An evaluation that is over.

    Attributes:
        number: How many there have been in the whole run, this one included.
        version: Optimizer steps behind the policy that was evaluated.
        env_steps: Environment steps it was trained on.
        time_s: Seconds of training so far.
        returns: Of each episode; NaN where its outcome is not known (``environment.nonfinite``).
        lengths: Steps of each episode.
        info: Mean of each number of the info of the episodes' last steps.
        mean: Mean of ``returns``; None where an outcome is not known.
        best: Whether no evaluation of the run before had a higher mean.
        others: What it came to in each of ``evaluation.environments``, by name.
        video: Its video, None without one (``evaluation.video_every``).
    """

    number: int
    version: int
    env_steps: int
    time_s: float
    returns: tuple[float, ...]
    lengths: tuple[int, ...]
    info: Mapping[str, float]
    mean: float | None
    best: bool
    others: Mapping[str, Outcome] = field(default_factory=dict)
    video: Path | None = None


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that is written.

    Attributes:
        number: How many there have been in the whole run, this one included.
        path: Its directory; ``checkpoint.keep`` says how long it stays.
        version: Optimizer steps committed until then.
        env_steps: Environment steps trained on until then.
        resumed: Whether the run has just been resumed from it. It is told once more then, because
            what was decided when it was told first came after it.
    """

    number: int
    path: Path
    version: int
    env_steps: int
    resumed: bool = False


@dataclass(frozen=True)
class End:
    """The run is over, and its nodes are gone.

    Attributes:
        outcome: How it ended.
        reason: Why, a sentence with numbers.
        directory: The run's directory.
        version: Optimizer steps committed.
        env_steps: Environment steps trained on.
        time_s: Seconds of training.
        checkpoint: The newest checkpoint, None without any.
        best_policy: The file of the policy with the best evaluation, None without any.
    """

    outcome: Literal["finished", "failed", "interrupted"]
    reason: str
    directory: Path
    version: int
    env_steps: int
    time_s: float
    checkpoint: Path | None
    best_policy: Path | None


class LiveRun(Protocol):
    """The run as a callback has it in its hands; good until the method that got it returns.

    What a method asks for is done when it has returned.
    """

    @property
    def config(self) -> RunConfig:
        """The resolved configuration that the run began with."""
        ...

    @property
    def directory(self) -> Path:
        """The run's directory."""
        ...

    @property
    def values(self) -> Mapping[str, Value]:
        """What may be changed, by key of the configuration, and its value.

        What callbacks have asked for counts already.
        """
        ...

    def change(self, key: str, value: object) -> None:
        """Give a key of the configuration another value, from the next ticket on.

        Args:
            key: As ``algorithm.learning_rate``; `values` has all.
            value: What the configuration could say, or a NumPy number.

        Raises:
            ConfigError: The key can't be changed, or the value is none of its.
        """
        ...

    def stop(self, reason: str) -> None:
        """End the run in order, as a limit of ``stop`` would; ``reason`` says why."""
        ...

    def save(self) -> None:
        """Write a checkpoint at the next ticket boundary.

        Not where there is one, and not before anything has been trained (in `on_start`).

        Raises:
            ConfigError: The run keeps no checkpoints.
        """
        ...
