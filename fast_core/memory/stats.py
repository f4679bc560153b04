"""Counters of every node, readable by anybody at any time."""

from __future__ import annotations

from enum import IntEnum

from fast_core.memory.header import HEADER_BYTES, Planned

STATS_WORDS = 32  # four cache lines, so that no two nodes write to one


class StatsColumn(IntEnum):
    """Columns of a row, 64-bit integers; the last place is left free.

    Attributes:
        STATE: Number of the node's named state.
        STATE_SINCE_NS: Monotonic clock when it entered that state, ns.
        PROGRESS: Counts up with every turn of the node, and with what it does within one.
        ENV_STEPS: Environment steps made.
        UPDATES: Optimizer steps made.
        EPISODES: Episodes ended.
        BUSY_NS: Time spent working, ns.
        WAITING_NS: Time spent waiting, ns.
        VERSION: Policy version in use.
        SHARD: Shard being executed.
        TICKET: Ticket being worked on.
        STEP: Row of the rollout being made, likewise.
        QUARANTINED: Episodes dropped for values that were not finite.
        SLOT: Rollout slot being written.
        GROUP: Group of the shard's environments being executed.
        REQUESTS: Requests for actions, made by an env node or answered by a policy node.
        ROWS: Observations acted on in a policy node.
        BATCHES: Forward passes of a policy node; batches filled by the replay node, or taken by an
            optimizer that learns from replay.
        LATE_REPLIES: Replies that came for a request that nobody waits for.
        LIVE_ROWS: Rows that the replay holds.
        DRAWN: Windows drawn from it.
        REJECTED: Rows drawn that begin no valid window, and were drawn again.
        LAPPED: Windows that were overwritten while they were copied, and were drawn again.
        REFUSED_VALUES: Priorities refused because they were NaN, infinite or negative.
        REFUSED_STALE: Priorities refused because their row had been overwritten.
        AGE_SUM: Sum of the ages of drawn windows, counted for some batches; the age of a window
            is the number of rows that its environment has written since.
        AGED: Windows in that sum.
        EMPTY_BATCHES: Batches for which nothing could be drawn; their steps are skipped.
        BATCH_WAIT_NS: Time an optimizer stood still although it had steps to take, ns.
        STALENESS_SUM: Sum over the gradients applied of the steps committed since each one's base.
        STALENESS_MAX: Greatest of these.
    """

    STATE = 0
    STATE_SINCE_NS = 1
    PROGRESS = 2
    ENV_STEPS = 3
    UPDATES = 4
    EPISODES = 5
    BUSY_NS = 6
    WAITING_NS = 7
    VERSION = 8
    SHARD = 9
    TICKET = 10
    STEP = 11
    QUARANTINED = 12
    SLOT = 13
    GROUP = 14
    REQUESTS = 15
    ROWS = 16
    BATCHES = 17
    LATE_REPLIES = 18
    LIVE_ROWS = 19
    DRAWN = 20
    REJECTED = 21
    LAPPED = 22
    REFUSED_VALUES = 23
    REFUSED_STALE = 24
    AGE_SUM = 25
    AGED = 26
    EMPTY_BATCHES = 27
    BATCH_WAIT_NS = 28
    STALENESS_SUM = 29
    STALENESS_MAX = 30


_PLACES = {column.name.lower(): int(column) for column in StatsColumn}


class Trace(Planned):
    """64-bit words that say where somebody is; ``trace.words[5] += 1`` is cheapest from Python.

    Concurrency:
        One node writes, anybody reads. Aligned words never tear, and nothing is published by
        them: two may be a moment apart. A dead writer's last values stay.
    """

    __slots__ = ("words",)
    what = "trace"

    def __init__(self, memory: memoryview, words: int) -> None:
        """Use ``create`` or ``attach``."""
        self.words = memory[HEADER_BYTES:][: 8 * words].cast("q")

    @staticmethod
    def nbytes(words: int) -> int:
        """Bytes of the region."""
        return HEADER_BYTES + 8 * words

    @staticmethod
    def words_nbytes(words: int) -> int:
        """All of them."""
        return 8 * words


class StatsRow:
    """The counters of one node, in a `Trace` of `STATS_WORDS` words.

    Attributes:
        words: All columns as 64-bit integers; index with plain integers in hot loops
            (``EPISODES = int(StatsColumn.EPISODES)`` once), an enum member costs a call.
    """

    __slots__ = ("words",)

    def __init__(self, words: memoryview) -> None:
        """Takes the words of the node's trace."""
        self.words = words

    def __getattr__(self, name: str) -> int:
        """The column of this name in small letters, as ``row.env_steps``."""
        try:
            return self.words[_PLACES[name]]
        except KeyError:
            raise AttributeError(f"a row of counters has no column {name!r}") from None

    def snapshot(self) -> StatsRow:
        """The row as it is now, for who reads several columns of one moment."""
        return StatsRow(memoryview(self.words.tobytes()).cast("q"))
