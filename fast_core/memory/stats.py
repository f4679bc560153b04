"""Counters of every node, readable by anybody at any time."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from fast_core.memory.header import HEADER_BYTES, Planned

STATS_WORDS = 32  # four cache lines, so that no two nodes write to one


class StatsColumn(IntEnum):
    """Columns of a row, 64-bit integers; the last place is left free."""

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


@dataclass(frozen=True)
class StatsSnapshot:
    """One row as it was read.

    Attributes:
        state: Number of the node's named state.
        state_since_ns: Monotonic clock when it entered that state, ns.
        progress: Counts up with every turn of the node, and with what it does within one.
        env_steps: Environment steps made.
        updates: Optimizer steps made.
        episodes: Episodes ended.
        busy_ns: Time spent working, ns.
        waiting_ns: Time spent waiting, ns.
        version: Policy version in use.
        shard: Shard being executed.
        ticket: Ticket being worked on.
        step: Row of the rollout being made, likewise.
        quarantined: Episodes dropped for values that were not finite.
        slot: Rollout slot being written.
        group: Group of the shard's environments being executed.
        requests: Requests for actions, made by an env node or answered by a policy node.
        rows: Observations acted on in a policy node.
        batches: Forward passes of a policy node; batches filled by the replay node, or taken by an
            optimizer that learns from replay.
        late_replies: Replies that came for a request that nobody waits for.
        live_rows: Rows that the replay holds.
        drawn: Windows drawn from it.
        rejected: Rows drawn that begin no valid window, and were drawn again.
        lapped: Windows that were overwritten while they were copied, and were drawn again.
        refused_values: Priorities refused because they were NaN, infinite or negative.
        refused_stale: Priorities refused because their row had been overwritten.
        age_sum: Sum of the ages of drawn windows, counted for some batches; the age of a window
            is the number of rows that its environment has written since.
        aged: Windows in that sum.
        empty_batches: Batches for which nothing could be drawn; their steps are skipped.
        batch_wait_ns: Time an optimizer stood still although it had steps to take, ns.
        staleness_sum: Sum over the gradients applied of the steps committed since each one's base.
        staleness_max: Greatest of these.
    """

    state: int
    state_since_ns: int
    progress: int
    env_steps: int
    updates: int
    episodes: int
    busy_ns: int
    waiting_ns: int
    version: int
    shard: int
    ticket: int
    step: int
    quarantined: int
    slot: int
    group: int
    requests: int
    rows: int
    batches: int
    late_replies: int
    live_rows: int
    drawn: int
    rejected: int
    lapped: int
    refused_values: int
    refused_stale: int
    age_sum: int
    aged: int
    empty_batches: int
    batch_wait_ns: int
    staleness_sum: int
    staleness_max: int


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

    def snapshot(self) -> StatsSnapshot:
        """The row's values now."""
        return StatsSnapshot(*self.words[: len(StatsColumn)])
