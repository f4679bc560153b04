"""The scheduler's part of a checkpoint: everything that decides how the run goes on."""

from __future__ import annotations

import msgspec

from fast_core.errors import CheckpointError

FORMAT = 1


class SchedulerState(msgspec.Struct, frozen=True, kw_only=True):
    """Counters at a moment when every started rollout is settled.

    Slots and tickets in flight are absent because there are none. An evaluation in flight is kept
    as one that is due: its snapshot lives in memory alone, so a resumed run asks again under the
    same request number and evaluates the version of the cut. Synchronous evaluation is never in
    flight at a cut on the way, so there a resumed run goes on exactly as one never stopped.
    """

    format: int = FORMAT
    settled: int
    env_steps: int
    updates: int
    version: int
    incarnations: list[int]
    rollout_ids: list[int]
    elapsed_s: float
    checkpoint: int
    evaluation_due: bool
    evaluation_request: int
    evaluations_finished: int
    evaluations_coalesced: int
    evaluation_mean: float | None
    evaluation_version: int | None
    score: float | None
    score_streak: int
    episodes: int
    quarantined: int
    recent_returns: list[float]
    recent_lengths: list[int]
    lag_sum: float
    lag_last: float
    lag_max: int
    stale: int
    rollouts_dropped: int = 0
    granted: int | None = None  # None in states of before; then every ticket granted the same
    learning_from: int = 0
    updates_before: int = 0
    replay_kept: bool = False
    begun_anew: int = 0


def encode_state(state: SchedulerState) -> bytes:
    """Bytes of a state, MessagePack."""
    return msgspec.msgpack.encode(state)


def decode_state(data: bytes, shards: int) -> SchedulerState:
    """Read a state back.

    Raises:
        CheckpointError: It is damaged, of another format, or of a run with other shards.
    """
    try:
        state = msgspec.msgpack.decode(data, type=SchedulerState)
    except msgspec.MsgspecError as error:
        raise CheckpointError(
            f"the scheduler's part of the checkpoint is damaged: {error}; "
            "resume from an older checkpoint"
        ) from error
    if state.format != FORMAT:
        raise CheckpointError(
            f"the scheduler's part of the checkpoint has format {state.format!r}, this version "
            f"reads {FORMAT}; resume with the FastLoop version that wrote it"
        )
    if not len(state.incarnations) == len(state.rollout_ids) == shards:
        raise CheckpointError(
            f"the checkpoint belongs to a run with {len(state.incarnations)} shards, this run has "
            f"{shards}; set rollout.shards to {len(state.incarnations)}"
        )
    return state
