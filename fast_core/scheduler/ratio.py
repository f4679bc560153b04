"""How many optimizer steps environment steps grant, exactly.

With ``R`` environment steps merged, ``G(R) = floor(ratio * max(0, R - learning_from))`` optimizer
steps have been granted in all, and a ticket grants the difference that its own steps make. The
fraction that one ticket leaves over is thus carried to the next, and since ``G`` is a function of
what is merged alone, a resumed run grants what the run never stopped would have.
"""

from __future__ import annotations

import msgspec

from fast_core.scheduler.settings import FlowSettings
from fast_core.scheduler.settled import Settled
from fast_core.scheduler.state import FlowCounters, SavedState, kept


class Grants(msgspec.Struct, kw_only=True):
    """What the ratio keeps.

    Attributes:
        granted: Optimizer steps that merged tickets grant; None in states of before there was a
            ratio, when every ticket granted the same.
        learning_from: Environment steps before the first one that grants anything.
        updates_before: Optimizer steps committed by then.
        replay_kept: Whether what the replay held is in the checkpoint too.
    """

    granted: int | None = None
    learning_from: int = 0
    updates_before: int = 0
    replay_kept: bool = False


class Ratio:
    """Optimizer steps per environment step; every operation is O(1), in integers.

    An algorithm that learns from rollouts takes the same steps for every ticket. That is the ratio
    of these steps to a ticket's rows, from the first row on.

    Attributes:
        granted: Optimizer steps that merged tickets grant.
        learning_from: Environment steps before the first one that grants anything.
    """

    def __init__(self, settings: FlowSettings, saved: SavedState | None):
        """Start afresh, or go on from ``saved``.

        A replay whose contents were not kept is filled anew before learning goes on.
        """
        ratio = settings.ratio
        self._up, self._down = ratio.numerator, ratio.denominator
        self._rows = settings.rows_per_ticket
        self._replay_kept = settings.replay is not None and settings.replay_kept
        before, done = kept(Grants, saved), kept(Settled, saved)
        tickets = kept(FlowCounters, saved).settled
        equal = settings.updates_granted * tickets
        self.granted = equal if before.granted is None else before.granted
        self.learning_from, self._updates_before = before.learning_from, before.updates_before
        if settings.replay is None:
            self.learning_from, self._updates_before = 0, 0
        elif not before.replay_kept:
            self.learning_from = done.env_steps + settings.learning_starts
            self._updates_before = done.updates

    def state(self) -> Grants:
        """What a checkpoint keeps."""
        return Grants(
            granted=self.granted,
            learning_from=self.learning_from,
            updates_before=self._updates_before,
            replay_kept=self._replay_kept,
        )

    def granted_by(self, env_steps: int) -> int:
        """Optimizer steps granted in all when ``env_steps`` are merged."""
        return self._up * max(0, env_steps - self.learning_from) // self._down

    def grant(self, env_steps: int, rows: int) -> int:
        """Optimizer steps that a ticket of ``rows`` grants that is merged after ``env_steps``."""
        return self.granted_by(env_steps + rows) - self.granted_by(env_steps)

    def tickets_for(self, updates: int, env_steps: int) -> int:
        """Fewest tickets after ``env_steps`` that together grant at least ``updates`` steps.

        Raises:
            ZeroDivisionError: No ticket grants any; settings that need some refuse that.
        """
        if updates <= 0:
            return 0
        in_all = updates + self.granted_by(env_steps)
        # floor(up / down * x) reaches a whole number where up / down * x does.
        reached_at = self.learning_from + -(-self._down * in_all // self._up)
        return -((env_steps - reached_at) // self._rows)

    def kept(self, updates: int, env_steps: int) -> float | None:
        """Committed optimizer steps per environment step since learning began; None before."""
        learned_on = env_steps - self.learning_from
        return (updates - self._updates_before) / learned_on if learned_on > 0 else None
