"""The scheduler's part of a checkpoint, of which each part of the scheduler keeps its own fields.

It is taken at a moment when every started rollout is settled, so slots and tickets in flight are
absent: there are none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

import msgspec

from fast_core.errors import CheckpointError
from fast_core.system.decoding import from_msgpack

FORMAT = 1

Part = TypeVar("Part", bound=msgspec.Struct)


class Format(msgspec.Struct):
    """What every state begins with."""

    format: int


class FlowCounters(msgspec.Struct, kw_only=True):
    """What a flow keeps that belongs to no part of it alone.

    Attributes:
        settled: Tickets whose updates are committed or skipped, at the last checkpoint.
        rollouts_dropped: Rollouts whose env node died while it collected them, and late ones.
    """

    settled: int = 0
    rollouts_dropped: int = 0


class LifeCounters(msgspec.Struct, kw_only=True):
    """The same of what is once in a run.

    Attributes:
        elapsed_s: Seconds of training until the last checkpoint.
        checkpoint: Its serial number.
        stale: Events ignored because they named nothing that was expected.
        begun_anew: Episodes that no resume went on with: if any, the run is not exact.
    """

    elapsed_s: float = 0.0
    checkpoint: int = 0
    stale: int = 0
    begun_anew: int = 0


class Keyed(msgspec.Struct, kw_only=True):
    """What the flows of further learners keep, by key: `encode` of their parts."""

    flows: dict[str, bytes] = {}


class SavedState:
    """One flat map: whoever declares a `msgspec.Struct` reads the fields of its names.

    A field that was added since takes its default, and one that is known no more is passed over.
    """

    def __init__(self, data: bytes) -> None:
        """Take what `encode` gave.

        Raises:
            CheckpointError: It is damaged, or of another format.
        """
        self._data = data
        if (found := self.part(Format).format) != FORMAT:
            raise CheckpointError(
                f"the scheduler's part of the checkpoint has format {found!r}, this version "
                f"reads {FORMAT}; resume with the FastLoop version that wrote it"
            )

    def part(self, kind: type[Part]) -> Part:
        """The fields that ``kind`` declares.

        Raises:
            CheckpointError: They are damaged.
        """
        try:
            return from_msgpack(self._data, kind)
        except msgspec.MsgspecError as error:
            raise CheckpointError(
                f"the scheduler's part of the checkpoint is damaged: {error}; "
                "resume from an older checkpoint"
            ) from error


def kept_by_flows(saved: SavedState | None, keys: Sequence[str]) -> list[SavedState | None]:
    """What the flow of each learner kept; that of the first one is the whole map.

    Raises:
        CheckpointError: The run had other learners, or what one kept is damaged.
    """
    if saved is None:
        return [None] * len(keys)
    flows = saved.part(Keyed).flows
    if (before := ["", *flows]) != [*keys]:
        raise CheckpointError(
            f"the checkpoint belongs to a run with the learners {before!r}, this run has "
            f"{[*keys]!r}"
        )
    return [saved, *[SavedState(flows[key]) for key in keys[1:]]]


def kept(kind: type[Part], saved: SavedState | None) -> Part:
    """What a part had kept, or what it begins with."""
    return kind() if saved is None else saved.part(kind)


def encode(parts: Iterable[msgspec.Struct]) -> bytes:
    """What `SavedState` reads, MessagePack; no two parts have a field of one name."""
    fields: dict[str, object] = {}
    for part in (Format(FORMAT), *parts):
        fields |= msgspec.to_builtins(part, builtin_types=(bytes,))
    return msgspec.msgpack.encode(fields)
