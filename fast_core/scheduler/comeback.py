"""Whether a run whose optimizer is gone comes back from its newest checkpoint.

What an optimizer knows is nowhere else, so nothing can take its place in the running run: all of
it ends in order, and goes on as any run that is resumed does.
"""

from __future__ import annotations

from fast_core.events import Failed, NodeExited
from fast_core.scheduler.life import Life


def comes_back(run: Life, event: Failed | NodeExited) -> bool:
    """Whether the run goes on after this failure; not where a person has asked it to end.

    A part that came back and has not begun has nothing to lose, so another node that dies in it,
    and whose budget allows that, begins it once more.
    """
    settings, ending, left = run.settings, run.ending, 0
    if ending is not None and ending.reason == "interrupted":
        return False
    if event.node in settings.learners:
        left = settings.comebacks
    elif settings.back and run.began_s is None:
        left = run.restarts.left_of(event.node)
    if left == 0:
        return False
    if isinstance(event, NodeExited) or event.hangs:
        return True
    return settings.comebacks_on_error and not event.refused
