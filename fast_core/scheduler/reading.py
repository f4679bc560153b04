"""What others may know of a run."""

from __future__ import annotations

import msgspec

from fast_core.scheduler.degree import effective_share
from fast_core.scheduler.flow import Flow
from fast_core.scheduler.life import Life
from fast_core.scheduler.statistics import Phase, Statistics


def read_statistics(run: Life, flow: Flow, now_s: float | None = None) -> Statistics:
    """The counters of a flow; time has gone on to ``now_s``, or stands at the last event."""
    evaluations, progress, tickets = run.evaluations.kept, flow.settled, flow.tickets
    return Statistics(
        phase=_phase(run),
        way=flow.way,
        degree=flow.degree,
        tickets_admitted=-(-tickets.started // flow.settings.shards),
        tickets_collected=flow.collected // flow.settings.rows_per_ticket,
        tickets_merged=tickets.merged,
        tickets_settled=tickets.settled,
        rollouts_staged=flow.stages.inside,
        env_steps_collected=flow.collected,
        env_steps_trained=progress.env_steps,
        updates=progress.updates,
        updates_granted=flow.ratio.granted,
        replay_ratio=_ratio_kept(flow),
        learning_from=flow.ratio.learning_from,
        version=progress.version,
        lag_now=progress.lag_last,
        lag_mean=progress.lag_sum / max(tickets.settled, 1),
        lag_max=progress.lag_max,
        lag_beyond=progress.lag_beyond,
        lag_beyond_max=progress.lag_beyond_max,
        ess=effective_share(flow.reported),
        clip_fraction=flow.reported.get("clip_fraction"),
        **msgspec.structs.asdict(flow.times.sides(None if run.ended else now_s)),
        evaluations_finished=evaluations.finished,
        evaluations_coalesced=evaluations.coalesced,
        evaluation_running=run.evaluations.in_flight,
        evaluation_mean=evaluations.last_mean,
        evaluation_version=evaluations.last_version,
        score_streak=evaluations.streak,
        rows_dropped=flow.counters.rollouts_dropped * flow.settings.rows_per_rollout,
        stale_events=run.counters.stale,
        episodes=flow.episodes.episodes,
        return_mean=flow.episodes.return_mean,
        return_std=flow.episodes.return_std,
        length_mean=flow.episodes.length_mean,
        return_mean_50=flow.episodes.return_mean_of(50),
        return_mean_10=flow.episodes.return_mean_of(10),
        return_last=flow.episodes.last[0],
        length_last=flow.episodes.last[1],
        info=flow.episodes.info_means,
        quarantined=flow.episodes.quarantined,
        quarantined_share=flow.episodes.quarantined_share,
        checkpoint=run.checkpoints.number,
        elapsed_s=run.elapsed_at(run.now_s if now_s is None or run.ended else now_s),
        env_nodes=len(run.crew.members),
        env_nodes_lost=run.restarts.deaths.get("env", 0),
        nodes_back=sum(run.restarts.returned.values()) + run.optional.returned,
        begun_anew=run.counters.begun_anew,
        changed=run.changes.values,
    )


def _ratio_kept(flow: Flow) -> float | None:
    if flow.settings.replay is None:
        return None
    return flow.ratio.kept(flow.settled.updates, flow.settled.env_steps)


def _phase(run: Life) -> Phase:
    if run.ended:
        return "ended"
    if run.began_s is None:
        return "starting"
    if run.ending is not None:
        return "finishing"
    return "checkpointing" if run.checkpoints.holds else "training"
