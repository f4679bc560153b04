"""What the live table, the metrics and the report show about scheduling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import msgspec

from fast_core.messages import Value
from fast_core.scheduler.ledger import Rollout

Phase = Literal["starting", "training", "checkpointing", "finishing", "ended"]
Way = Literal["sync", "async", "auto"]  # degree 0, above it, or as the run chooses
RECENT = 100
MOST_INFO = 64


class Statistics(msgspec.Struct, frozen=True, kw_only=True):
    """A reading of the scheduler.

    Attributes:
        phase: Where the run is.
        way: How it comes by its degree.
        degree: Tickets that may be collected ahead of training.
        tickets_admitted: Tickets of which at least one rollout was started.
        tickets_collected: Tickets that all accepted rollouts come to.
        tickets_merged: Tickets handed to the optimizer.
        tickets_settled: Tickets whose updates are committed or skipped.
        rollouts_staged: Rollouts on their way through the user's nodes.
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
        lag_beyond: Mean lag of the last ticket beyond what one round must have, in versions.
        lag_beyond_max: Largest one of any row, likewise.
        ess: Effective sample size of the last update, as a share of its rows; None where its
            learner reports nothing that tells it.
        clip_fraction: Share of its ratios that were clipped; likewise.
        collecting_s: Seconds that env nodes had work, as their mean.
        collecting_waits_s: Seconds that they had none.
        training_s: Seconds that the learner had a ticket.
        training_waits_s: Seconds that it had none.
        evaluations_finished: Evaluations that have a result.
        evaluations_coalesced: Requests replaced by a newer one before they started.
        evaluation_running: Whether one is in flight.
        evaluation_mean: Mean return of the last evaluation, None before the first.
        evaluation_version: Version that was evaluated last.
        score_streak: Evaluations in a row that reached the score.
        rows_dropped: Environment steps that were ordered and lost with their env node, or that came
            too late where the run is told to drop such; nothing else ever is.
        stale_events: Events ignored because they named nothing that was expected.
        episodes: Episodes that ended in merged rollouts.
        return_mean: Mean return of those of the last 100 episodes whose outcome is known, None
            without any.
        return_std: Their standard deviation.
        length_mean: Their mean length.
        return_mean_50: Likewise of the last 50 episodes.
        return_mean_10: Likewise of the last 10.
        return_last: Return of the last episode whose outcome is known.
        length_last: Its length.
        info: Means over the last 100 episodes that gave the number in the info of their last step.
        quarantined: Episodes cut because of non-finite values.
        quarantined_share: Share of the last 100 episodes whose outcome is not known for that.
        checkpoint: Serial number of the last checkpoint begun.
        elapsed_s: Seconds of training, earlier parts of the run included.
        begun_anew: Episodes that no resume went on with: if any, the run is not exact.
        env_nodes: Env nodes that execute shards.
        env_nodes_lost: Deaths of env nodes that this part of the run survived.
        nodes_back: Nodes of any kind that died in it and came back.
        changed: Values that are not the configuration's, by key.
    """

    phase: Phase
    way: Way
    degree: int
    tickets_admitted: int
    tickets_collected: int
    tickets_merged: int
    tickets_settled: int
    rollouts_staged: int
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
    lag_beyond: float
    lag_beyond_max: int
    ess: float | None = None
    clip_fraction: float | None = None
    collecting_s: float
    collecting_waits_s: float
    training_s: float
    training_waits_s: float
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
    return_std: float | None
    length_mean: float | None
    return_mean_50: float | None = None
    return_mean_10: float | None = None
    return_last: float | None = None
    length_last: float | None = None
    info: dict[str, float]
    quarantined: int
    quarantined_share: float
    checkpoint: int
    elapsed_s: float
    begun_anew: int = 0
    env_nodes: int
    env_nodes_lost: int
    nodes_back: int = 0
    changed: dict[str, Value] = {}


class Episodes(msgspec.Struct, kw_only=True):
    """Episodes of merged rollouts, in training order, so that degree 0 shows the same each time.

    Attributes:
        episodes: How many have ended.
        quarantined: Those cut because of non-finite values.
        recent_returns: Of the last 100.
        recent_lengths: Likewise.
        recent_info: By name, the numbers of the info of the last 100 that gave one.
    """

    episodes: int = 0
    quarantined: int = 0
    recent_returns: list[float] = []
    recent_lengths: list[int] = []
    recent_info: dict[str, list[float]] = {}

    def add(self, rollouts: list[Rollout]) -> None:
        """Count the episodes that ended in these rollouts."""
        for rollout in rollouts:
            result = rollout.result
            assert result is not None
            self.quarantined += result.quarantined
            if result.episode_returns:
                self.episodes += len(result.episode_returns)
                self.recent_returns += result.episode_returns
                self.recent_lengths += result.episode_lengths
            for info in result.episode_infos:
                for name, value in info.items():
                    if name in self.recent_info or len(self.recent_info) < MOST_INFO:
                        values = self.recent_info.setdefault(name, [])
                        values.append(value)
                        del values[:-RECENT]
        del self.recent_returns[:-RECENT], self.recent_lengths[:-RECENT]

    @property
    def info_means(self) -> dict[str, float]:
        """Mean of each number over the last 100 episodes that gave it."""
        return {name: sum(values) / len(values) for name, values in self.recent_info.items()}

    @property
    def return_mean(self) -> float | None:
        """Mean return of the last 100 episodes, of those whose outcome is known."""
        return self.return_mean_of(RECENT)

    def return_mean_of(self, last: int) -> float | None:
        """Likewise of the last so many, 100 at most."""
        return _mean([value for value in self.recent_returns[-last:] if not math.isnan(value)])

    @property
    def last(self) -> tuple[float, int] | tuple[None, None]:
        """Return and length of the last one whose outcome is known."""
        pairs = zip(reversed(self.recent_returns), reversed(self.recent_lengths), strict=True)
        return next(
            ((value, length) for value, length in pairs if not math.isnan(value)), (None, None)
        )

    @property
    def return_std(self) -> float | None:
        """Standard deviation of the returns that `return_mean` is the mean of."""
        mean = self.return_mean
        if mean is None:
            return None
        known = [each for each in self.recent_returns if not math.isnan(each)]
        return math.sqrt(sum((each - mean) ** 2 for each in known) / len(known))

    @property
    def length_mean(self) -> float | None:
        """Mean length of the same ones."""
        pairs = zip(self.recent_returns, self.recent_lengths, strict=True)
        return _mean([length for value, length in pairs if not math.isnan(value)])

    @property
    def quarantined_share(self) -> float:
        """Share of the last 100 episodes whose outcome is not known."""
        return _mean([math.isnan(value) for value in self.recent_returns]) or 0.0

    def fault(self, limit: float) -> str | None:
        """Why training has to end: too many of the last 100 episodes met NaN or infinity."""
        if not self.quarantined or len(self.recent_returns) < RECENT:
            return None
        if (share := self.quarantined_share) <= limit:
            return None
        return (
            f"{round(share * RECENT)} of the last {RECENT} training episodes met NaN or "
            f"infinity (environment.nonfinite_share: {limit:g}). What such a step leads to is not "
            "known, so nothing is learnt from it, and nothing keeps the policy away from it. "
            "environment.nonfinite=fail shows the first one with its seed, step and action; mend "
            "the environment, or raise environment.nonfinite_share."
        )


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
