"""What the live table, the metrics and the report show about scheduling."""

from __future__ import annotations

from collections import deque
from typing import Literal

import msgspec

from fast_core.scheduler.ledger import Rollout
from fast_core.scheduler.state import SchedulerState

Phase = Literal["starting", "training", "checkpointing", "finishing", "ended"]
RECENT = 100


class Statistics(msgspec.Struct, frozen=True, kw_only=True):
    """A reading of the scheduler.

    Attributes:
        phase: Where the run is.
        degree: Tickets that may be collected ahead of training.
        tickets_admitted: Tickets of which at least one rollout was started.
        tickets_merged: Tickets handed to the optimizer.
        tickets_settled: Tickets whose updates are committed or skipped.
        rollouts_running: Rollouts that env nodes are collecting.
        rollouts_staged: Rollouts on their way through the user's nodes.
        rollouts_ready: Rollouts that wait to be merged.
        env_steps_collected: Environment steps of accepted rollouts.
        env_steps_trained: Environment steps of settled tickets.
        updates: Committed optimizer steps.
        updates_granted: Optimizer steps that merged tickets grant.
        replay_ratio: Committed optimizer steps per trained environment step since learning began;
            None before, and for algorithms that learn from rollouts.
        learning_from: Environment steps before the first one that grants optimizer steps.
        version: Version of the newest weights.
        lag_now: Mean policy lag of the last ticket, in versions.
        lag_mean: Mean of that over all tickets.
        lag_max: Largest policy lag of any row.
        evaluations_finished: Evaluations that have a result.
        evaluations_coalesced: Requests replaced by a newer one before they started.
        evaluation_running: Whether one is in flight.
        evaluation_mean: Mean return of the last evaluation, None before the first.
        evaluation_version: Version that was evaluated last.
        score_streak: Evaluations in a row that reached the score.
        rows_dropped: Environment steps that were ordered and lost with their env node; 0 without
            deaths, since nothing else is ever dropped.
        stale_events: Events ignored because they named nothing that was expected.
        episodes: Episodes that ended in merged rollouts.
        return_mean: Mean return of the last 100 episodes, None before the first.
        length_mean: Mean length of the last 100 episodes, None before the first.
        quarantined: Episodes cut because of non-finite values.
        checkpoint: Serial number of the last checkpoint begun.
        elapsed_s: Seconds of training, earlier parts of the run included.
        begun_anew: Episodes that no resume went on with: if any, the run is not exact.
        env_nodes_lost: Env nodes that died in this part of the run, which went on without them.
    """

    phase: Phase
    degree: int
    tickets_admitted: int
    tickets_merged: int
    tickets_settled: int
    rollouts_running: int
    rollouts_staged: int
    rollouts_ready: int
    env_steps_collected: int
    env_steps_trained: int
    updates: int
    updates_granted: int
    replay_ratio: float | None
    learning_from: int
    version: int
    lag_now: float
    lag_mean: float
    lag_max: int
    evaluations_finished: int
    evaluations_coalesced: int
    evaluation_running: bool
    evaluation_mean: float | None
    evaluation_version: int | None
    score_streak: int
    rows_dropped: int
    stale_events: int
    episodes: int
    return_mean: float | None
    length_mean: float | None
    quarantined: int
    checkpoint: int
    elapsed_s: float
    begun_anew: int = 0
    env_nodes_lost: int


class Episodes:
    """Episodes of merged rollouts, in training order, so that degree 0 shows the same each time."""

    def __init__(self, state: SchedulerState | None):
        self.count = 0 if state is None else state.episodes
        self.quarantined = 0 if state is None else state.quarantined
        self.returns = deque([] if state is None else state.recent_returns, maxlen=RECENT)
        self.lengths = deque([] if state is None else state.recent_lengths, maxlen=RECENT)

    def add(self, rollouts: list[Rollout]) -> None:
        """Count the episodes that ended in these rollouts."""
        for rollout in rollouts:
            result = rollout.result
            assert result is not None
            self.quarantined += result.quarantined
            if result.episode_returns:
                self.count += len(result.episode_returns)
                self.returns.extend(result.episode_returns)
                self.lengths.extend(result.episode_lengths)

    @property
    def return_mean(self) -> float | None:
        """Mean return of the last 100 episodes."""
        return sum(self.returns) / len(self.returns) if self.returns else None

    @property
    def length_mean(self) -> float | None:
        """Mean length of the last 100 episodes."""
        return sum(self.lengths) / len(self.lengths) if self.lengths else None
