"""The scheduler's part of a checkpoint, of which each part of the scheduler keeps its own fields.

It is taken at a moment when every started rollout is settled, so slots and tickets in flight are
absent: there are none.
"""

from __future__ import annotations

from collections.abc import Iterable
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

    def of(self, key: str) -> SavedState:
        """What the flow of a learner kept.

        Raises:
            CheckpointError: There was no such learner, or what it kept is damaged.
        """
        if not key:
            return self
        flows = self.part(Keyed).flows
        if key not in flows:
            raise CheckpointError(
                f"the checkpoint belongs to a run without learner {key!r}; it has "
                f"{', '.join(map(repr, ['', *flows]))}"
            )
        return SavedState(flows[key])


def kept(kind: type[Part], saved: SavedState | None) -> Part:
    """What a part had kept, or what it begins with."""
    return kind() if saved is None else saved.part(kind)


def encode(parts: Iterable[msgspec.Struct]) -> bytes:
    """What `SavedState` reads, MessagePack; no two parts have a field of one name."""
    fields: dict[str, object] = {}
    for part in (Format(FORMAT), *parts):
        fields |= msgspec.to_builtins(part, builtin_types=(bytes,))
    return msgspec.msgpack.encode(fields)
