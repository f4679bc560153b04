"""What the learner has done so far."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from fast_core.messages import Trained


class Progress(NamedTuple):
    """What all learners of a run have done together: settled tickets, environment steps, updates.

    Each rises with every ticket, but for updates, of which some may all be skipped.
    """

    tickets: int
    env_steps: int
    updates: int


class Settled(msgspec.Struct, kw_only=True):
    """Counters of settled work, advanced by `Trained` alone.

    Attributes:
        env_steps: Environment steps of settled tickets.
        updates: Committed optimizer steps.
        version: Version of the newest published weights.
        lag_last: Mean policy lag of the last ticket, in versions.
        lag_sum: Sum of that over all tickets.
        lag_max: Largest policy lag of any row.
        lag_beyond: Mean policy lag of the last ticket, but for what the steps on it itself add.
        lag_beyond_max: Largest one of any row, likewise.
    """

    env_steps: int = 0
    updates: int = 0
    version: int = 0
    lag_last: float = 0.0
    lag_sum: float = 0.0
    lag_max: int = 0
    lag_beyond: float = 0.0
    lag_beyond_max: int = 0

    def fault(self, event: Trained, *, expected: int | None, granted: int) -> str | None:
        """What is wrong with a report; None if nothing is.

        Args:
            event: The report.
            expected: Ticket that is to be settled next, None if none is training.
            granted: Updates that the ticket was granted.
        """
        who = f"{event.node} reported ticket {event.ticket} as trained"
        if event.ticket != expected:
            due = "no ticket is training" if expected is None else f"ticket {expected} is next"
            return f"{who}; {due}"
        if event.updates < 0 or event.skipped < 0 or event.updates + event.skipped != granted:
            return (
                f"{who} with {event.updates} updates and {event.skipped} skipped; together they "
                f"must be the {granted} it was granted"
            )
        if event.version != self.version + event.updates:
            return (
                f"{who} with {event.updates} updates and version {event.version}; the version "
                f"counts committed updates and stood at {self.version}"
            )
        return None

    def settle(self, event: Trained, env_steps: int) -> None:
        """Count a settled ticket of ``env_steps`` environment steps."""
        self.env_steps += env_steps
        self.updates += event.updates
        self.version = event.version
        self.lag_last = event.lag_mean
        self.lag_sum += event.lag_mean
        self.lag_max = max(self.lag_max, event.lag_max)
        # Of n steps on one ticket, the last is n - 1 versions behind at the least.
        last = max(event.updates - 1, 0)
        self.lag_beyond = max(event.lag_mean - last / 2, 0.0)
        self.lag_beyond_max = max(self.lag_beyond_max, event.lag_max - last)
