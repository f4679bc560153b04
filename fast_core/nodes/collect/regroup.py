"""Saved groups of environments dealt out anew, when a resumed run groups them in another way."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from fast_core.envs.stepping.batch_state import (
    BatchState,
    FinishedEpisodes,
    decode_state,
    encode_state,
)
from fast_core.errors import CheckpointError
from fast_core.nodes.collect.env_group import GroupState
from fast_core.system.decoding import from_msgpack

_NOTHING = FinishedEpisodes([], [], 0)


def regrouped(saved: Sequence[GroupState], sizes: Sequence[int]) -> list[GroupState]:
    """The same environments in groups of ``sizes``, in their order.

    Raises:
        CheckpointError: They are not as many, or their state can't be read.
    """
    if [state.envs for state in saved] == list(sizes):
        return list(saved)
    total = sum(state.envs for state in saved)
    if total != sum(sizes):
        raise CheckpointError(
            f"the checkpoint has {total} environments in each shard; this run has {sum(sizes)} "
            "(rollout.envs_per_shard). Resume with the configuration of the saved run."
        )
    batches = [_decode(state) for state in saved]
    whole = GroupState(
        envs=total,
        batch=b"",
        frames=b"".join(state.frames for state in saved),
        age=b"".join(state.age for state in saved),
        memory=b"".join(state.memory for state in saved),
    )
    made, first = [], 0
    for size in sizes:
        made.append(_cut(whole, _cut_batch(batches, first, size), first, size))
        first += size
    return made


def _decode(state: GroupState) -> BatchState:
    try:
        name = from_msgpack(state.batch, _Named).id
    except msgspec.MsgspecError as error:
        raise CheckpointError(f"the saved state of the environments is damaged: {error}") from error
    return decode_state(state.batch, id=name, envs=state.envs)


class _Named(msgspec.Struct):
    id: str


def _cut_batch(batches: Sequence[BatchState], first: int, size: int) -> bytes:
    """Environments ``first`` to ``first + size - 1``; the first group keeps finished episodes."""
    opened = [episode for batch in batches for episode in batch.open]
    finished = _NOTHING
    if first == 0:
        parts = [batch.finished for batch in batches]
        finished = FinishedEpisodes(
            [value for part in parts for value in part.returns],
            [value for part in parts for value in part.lengths],
            sum(part.quarantined for part in parts),
            tuple(info for part in parts for info in part.infos),
        )
    part = msgspec.structs.replace(batches[0], finished=finished, open=opened[first : first + size])
    return encode_state(part)


def _cut(whole: GroupState, batch: bytes, first: int, size: int) -> GroupState:
    def rows(data: bytes) -> bytes:
        """The leading axis of every array is the environment, so bytes divide evenly."""
        each = len(data) // whole.envs
        return data[first * each : (first + size) * each]

    return GroupState(size, batch, rows(whole.frames), rows(whole.age), rows(whole.memory))
