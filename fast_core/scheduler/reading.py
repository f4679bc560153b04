"""What others may know of a run: its statistics, and its part of a checkpoint."""

from __future__ import annotations

from fast_core.errors import CheckpointError
from fast_core.scheduler.run import Run
from fast_core.scheduler.state import SchedulerState, encode_state
from fast_core.scheduler.statistics import Phase, Statistics


def read_state(run: Run) -> bytes:
    """The scheduler's part of a checkpoint.

    Raises:
        CheckpointError: Some rollout was started and is not settled.
    """
    tickets, progress = run.tickets, run.progress
    if not tickets.quiescent:
        raise CheckpointError(
            "the scheduler can be saved only while nothing is in flight; "
            f"{run.ledger.running} rollouts run, {run.stages.inside} are with the user's nodes, "
            f"{tickets.ready} are ready, "
            f"{tickets.training} tickets train"
        )
    evaluations, episodes = run.evaluations, run.episodes
    return encode_state(
        SchedulerState(
            settled=tickets.settled,
            env_steps=progress.env_steps,
            updates=progress.updates,
            version=progress.version,
            incarnations=run.ledger.incarnations,
            rollout_ids=run.ledger.rollout_ids,
            elapsed_s=run.elapsed_s,
            checkpoint=run.checkpoints.number,
            evaluation_due=evaluations.active,
            evaluation_request=evaluations.settled_request,
            evaluations_finished=evaluations.finished,
            evaluations_coalesced=evaluations.coalesced,
            evaluation_mean=evaluations.last_mean,
            evaluation_version=evaluations.last_version,
            score=run.settings.stop_score,
            score_streak=evaluations.streak,
            episodes=episodes.count,
            quarantined=episodes.quarantined,
            recent_returns=list(episodes.returns),
            recent_lengths=list(episodes.lengths),
            lag_sum=progress.lag_sum,
            lag_last=progress.lag_last,
            lag_max=progress.lag_max,
            stale=run.stale,
            rollouts_dropped=run.rollouts_dropped,
            granted=run.granted,
            learning_from=run.ratio.learning_from,
            updates_before=run.ratio.updates_before,
            replay_kept=run.settings.replay is not None and run.settings.replay_kept,
            begun_anew=run.begun_anew,
        )
    )


def read_statistics(run: Run, now_s: float | None = None) -> Statistics:
    """The counters; time has gone on to ``now_s``, or stands at the last event."""
    evaluations, progress, tickets = run.evaluations, run.progress, run.tickets
    return Statistics(
        phase=_phase(run),
        degree=run.settings.degree,
        tickets_admitted=-(-tickets.started // run.settings.shards),
        tickets_merged=tickets.merged,
        tickets_settled=tickets.settled,
        rollouts_running=run.ledger.running,
        rollouts_staged=run.stages.inside,
        rollouts_ready=tickets.ready,
        env_steps_collected=run.collected,
        env_steps_trained=progress.env_steps,
        updates=progress.updates,
        updates_granted=run.granted,
        replay_ratio=_ratio_kept(run),
        learning_from=run.ratio.learning_from,
        version=progress.version,
        lag_now=progress.lag_last,
        lag_mean=progress.lag_sum / max(tickets.settled, 1),
        lag_max=progress.lag_max,
        evaluations_finished=evaluations.finished,
        evaluations_coalesced=evaluations.coalesced,
        evaluation_running=evaluations.in_flight,
        evaluation_mean=evaluations.last_mean,
        evaluation_version=evaluations.last_version,
        score_streak=evaluations.streak,
        rows_dropped=run.rollouts_dropped * run.settings.rows_per_rollout,
        stale_events=run.stale,
        episodes=run.episodes.count,
        return_mean=run.episodes.return_mean,
        length_mean=run.episodes.length_mean,
        quarantined=run.episodes.quarantined,
        checkpoint=run.checkpoints.number,
        elapsed_s=run.elapsed_at(run.now_s if now_s is None or run.ended else now_s),
        env_nodes_lost=len(run.deaths.lost),
        begun_anew=run.begun_anew,
    )


def _ratio_kept(run: Run) -> float | None:
    if run.settings.replay is None:
        return None
    return run.ratio.kept(run.progress.updates, run.progress.env_steps)


def _phase(run: Run) -> Phase:
    if run.ended:
        return "ended"
    if run.began_s is None:
        return "starting"
    if run.ending is not None:
        return "finishing"
    return "checkpointing" if run.checkpoints.holds else "training"
