"""When the run is finished, and how it comes to its end."""

from __future__ import annotations

from dataclasses import dataclass

from fast_core.messages import StopReason
from fast_core.scheduler.ratio import Ratio
from fast_core.scheduler.settings import FlowSettings
from fast_core.scheduler.settled import Settled


@dataclass(frozen=True, slots=True)
class Ending:
    """An end that has been decided but not reached.

    Attributes:
        reason: Outcome of the run.
        text: Why, with numbers.
        evaluate: Evaluations that are due are still run, and the last version is evaluated if
            the configuration asks for it.
        wait: An evaluation in flight is waited for.
        save: A last checkpoint is written.
    """

    reason: StopReason
    text: str
    evaluate: bool
    wait: bool
    save: bool


def tickets_needed(
    settings: FlowSettings, progress: Settled, ratio: Ratio, settled: int
) -> int | None:
    """Number of tickets the whole run can need, None if nothing bounds it.

    Updates may be skipped, so for ``stop_updates`` the number can grow while training goes on; it
    never falls, and so no ticket is started that turns out not to be needed.
    """
    needed = None
    if settings.stop_env_steps is not None:
        missing = settings.stop_env_steps - progress.env_steps
        needed = -(-missing // settings.rows_per_ticket)
    if settings.stop_updates is not None:
        missing = settings.stop_updates - progress.updates
        tickets = ratio.tickets_for(missing, progress.env_steps)
        needed = tickets if needed is None else min(needed, tickets)
    return None if needed is None else settled + max(needed, 0)


def limit_reached(settings: FlowSettings, progress: Settled) -> str | None:
    """Which limit on steps or updates has been reached, with numbers; None for none."""
    env_steps, updates = progress.env_steps, progress.updates
    if settings.stop_env_steps is not None and env_steps >= settings.stop_env_steps:
        return f"{env_steps} env steps trained (stop.env_steps: {settings.stop_env_steps})"
    if settings.stop_updates is not None and updates >= settings.stop_updates:
        return f"{updates} updates (stop.updates: {settings.stop_updates})"
    return None
