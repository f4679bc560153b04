"""Whether a run whose optimizer is gone comes back from its newest checkpoint.

What an optimizer knows is nowhere else, so nothing can take its place in the running run: all of
it ends in order, and goes on as any run that is resumed does.
"""

from __future__ import annotations

from fast_core.events import Failed, NodeExited
from fast_core.scheduler.settings import SchedulerSettings
from fast_core.scheduler.stopping import Ending


def comes_back(
    settings: SchedulerSettings, event: Failed | NodeExited, ending: Ending | None
) -> bool:
    """Whether the run goes on after this failure; not where a person has asked it to end."""
    if event.node not in settings.optimizers or settings.comebacks == 0:
        return False
    if ending is not None and ending.reason == "interrupted":
        return False
    if isinstance(event, NodeExited):
        return True
    return settings.comebacks_on_error and not event.refused
