"""What a person is shown: plain values that the launcher fills in."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from fast_core.messages import StopReason

StopName = Literal["env_steps", "updates", "time_s", "score"]


@dataclass(frozen=True, slots=True)
class StopCondition:
    """One condition that ends the run.

    Attributes:
        name: Its key under ``stop``.
        current: Where it stands; None while unknown (no evaluation yet).
        limit: Where the run ends.
    """

    name: StopName
    current: float | None
    limit: float

    @property
    def fraction(self) -> float:
        """How much is done, from 0 to 1; a score below zero has no meaningful share."""
        if self.current is None or self.limit <= 0 or not math.isfinite(self.current):
            return 0.0
        return min(max(self.current / self.limit, 0.0), 1.0)


@dataclass(frozen=True, slots=True)
class EvaluationView:
    """One evaluation's result.

    Attributes:
        mean: Mean return over its episodes, of those whose outcome is known; NaN without any.
        std: Their standard deviation.
        version: The policy version that was evaluated.
        env_steps: Environment steps trained on when that version was published.
        quarantined: Share of its episodes whose outcome is not known, for NaN or infinity.
    """

    mean: float
    std: float
    version: int
    env_steps: int
    quarantined: float = 0.0


@dataclass(frozen=True, slots=True)
class NodeView:
    """One node's row.

    Attributes:
        name: The node's name.
        state: What it is doing, in a word.
        busy: Share of the last seconds spent working, 0 to 1; None while unknown.
        waiting: Share spent waiting for others, 0 to 1; None while unknown.
        note: Further facts: shards executed, device.
        pid: Its process id; None inline.
        threads: Threads it computes with; None while unknown.
    """

    name: str
    state: str
    busy: float | None = None
    waiting: float | None = None
    note: str = ""
    pid: int | None = None
    threads: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayView:
    """What the replay holds, and how the optimizers draw from it.

    Means and shares are over what happened of late, None before anything did; all others are
    counted since this part of the run began.

    Attributes:
        rows: Rows that are there now, final observations included.
        capacity: Rows that fit.
        learning_from: Environment steps after which steps are granted.
        updates_per_env_step: Optimizer steps per environment step since learning began; None
            before.
        age: Mean age of the drawn windows, in environment steps of the whole run.
        rejected: Share of the draws that hit no valid beginning of a window, and were repeated.
        lapped: Draws that were overwritten while they were copied, and were repeated.
        refused_values: Priorities refused because they were NaN, infinite or negative.
        refused_stale: Priorities refused because their row had been overwritten.
        empty_batches: Batches for which nothing could be drawn; their steps were skipped.
        staleness: Mean number of steps committed between a gradient's parameters and its own step.
        staleness_max: Greatest of these.
    """

    rows: int
    capacity: int
    learning_from: int = 0
    updates_per_env_step: float | None = None
    age: float | None = None
    rejected: float | None = None
    lapped: int = 0
    refused_values: int = 0
    refused_stale: int = 0
    empty_batches: int = 0
    staleness: float | None = None
    staleness_max: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundsView:
    """How the two sides of a run keep up with each other, since it began.

    Attributes:
        way: Whether rounds are collected one after the other, ahead, or ahead as the run chooses.
        collected: Rounds that all complete rollouts come to.
        merged: Rounds handed to the learner.
        trained: Rounds that it is done with.
        collecting: Share of the time that env nodes had work; None before it began.
        training: Share of the time that the learner had.
        ess: Effective sample size of the last update, as a share of its rows; None where unknown.
        clip_fraction: Share of its ratios that were clipped; None where unknown.
        evaluations: Evaluations that have a result.
        coalesced: Those that a newer one replaced before they began.
        rows_dropped: Environment steps that were collected or ordered, and not trained on.
        env_nodes_lost: Env nodes that died in this part of the run.
        stale_events: Messages that were passed over because nothing was expected of the kind.
    """

    way: str
    collected: int
    merged: int
    trained: int
    collecting: float | None = None
    training: float | None = None
    ess: float | None = None
    clip_fraction: float | None = None
    evaluations: int = 0
    coalesced: int = 0
    rows_dropped: int = 0
    env_nodes_lost: int = 0
    stale_events: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressView:
    """One refresh of the display.

    Attributes:
        run_name: The run's name.
        seed: Its seed.
        phase: What the run as a whole is doing, in a word.
        elapsed_s: Seconds of training, monotonic, earlier parts of a resumed run included; while
            it starts, seconds since it was started.
        env_steps: Environment steps trained on.
        updates: Optimizer steps.
        version: Newest policy version.
        degree: The off-policy degree in force.
        rounds: How collecting and training keep up with each other; None before that is known.
        stops: The conditions that end the run.
        mean_return: Mean return of the last 100 training episodes; None before the first.
        mean_length: Their mean length in environment steps.
        episodes: Episodes finished so far.
        quarantined: Share of the last 100 whose outcome is not known, for NaN or infinity.
        info: Means of numbers of the info of their last steps, by name.
        evaluation: The last evaluation.
        best: The best one.
        others: The last evaluation in each of ``evaluation.environments``, by name.
        lag_mean: Mean policy lag of the rows last trained on, in versions, beyond what one round
            must have: the steps on a round are behind one another.
        lag_max: The largest of any row.
        nodes: One row for each node.
        cores: The cores that the run may use, and what limits them, in words.
        replay: What is stored and drawn; None where the algorithm learns from rollouts.
        restoring: How far a resume has stepped open episodes again, in words; empty otherwise.
    """

    run_name: str
    seed: int
    phase: str
    elapsed_s: float
    env_steps: int
    updates: int
    version: int = 0
    degree: int = 0
    rounds: RoundsView | None = None
    stops: tuple[StopCondition, ...] = ()
    mean_return: float | None = None
    mean_length: float | None = None
    episodes: int = 0
    quarantined: float = 0.0
    info: Mapping[str, float] = field(default_factory=dict)
    evaluation: EvaluationView | None = None
    best: EvaluationView | None = None
    others: Mapping[str, EvaluationView] = field(default_factory=dict)
    lag_mean: float | None = None
    lag_max: int | None = None
    nodes: tuple[NodeView, ...] = ()
    cores: str = ""
    replay: ReplayView | None = None
    restoring: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """How a run ended.

    Attributes:
        outcome: Finished, failed or interrupted.
        text: Why, with figures.
        run_name: The run's name.
        run_directory: Where everything lies, as the user would type it; empty where it is gone.
        elapsed_s: Seconds since the start, monotonic.
        env_steps: Environment steps trained on, earlier parts of a resumed run included.
        updates: Optimizer steps, likewise.
        session_s: Seconds that this process trained.
        session_env_steps: Environment steps of this process, for an honest rate after a resume.
        session_updates: Optimizer steps of this process.
        best: The best evaluation.
        last: The last evaluation.
        others: The best one in each of ``evaluation.environments``, by name.
        checkpoint: The newest complete checkpoint, empty where none was written.
        report: Where ``report.html`` lies, empty where it could not be written.
        policy: Whether the policy with the best evaluation is on file.
        begun_anew: Episodes that no resume went on with; if any, the run is not exact.
        warnings: Warnings and errors logged.
        comebacks: Times that it came back from a checkpoint after the death of an optimizer.
        redone_env_steps: Environment steps that were trained on again because of that.
        deaths: How often each node died that was started anew, by name.
        nodes_back: How many of them came back.
        page: Whether it served a page.
    """

    outcome: StopReason
    text: str
    run_name: str
    run_directory: str
    elapsed_s: float
    env_steps: int
    updates: int
    session_s: float
    session_env_steps: int
    session_updates: int
    best: EvaluationView | None = None
    last: EvaluationView | None = None
    others: Mapping[str, EvaluationView] = field(default_factory=dict)
    checkpoint: str = ""
    report: str = ""
    policy: bool = False
    begun_anew: int = 0
    warnings: int = 0
    comebacks: int = 0
    redone_env_steps: int = 0
    deaths: Mapping[str, int] = field(default_factory=dict)
    nodes_back: int = 0
    page: bool = False
