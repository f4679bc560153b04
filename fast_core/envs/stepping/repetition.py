"""Steps of open episodes that are taken again."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from fast_core.errors import CheckpointError, EnvironmentFailed, NodeFailed


class Repetition:
    """One environment, or several that are stepped together, on the way to where they were.

    Attributes:
        steps: Steps to take.
        taken: Steps taken.
        why: Why it did not come back, empty if it did.
        raised: Whether it did not because the environment raised.
    """

    def __init__(self, steps: int, attempt: Callable[[], Iterator[None]]) -> None:
        """``attempt`` begins anew and takes a step each time; it raises where something differs."""
        self.steps, self.taken = steps, 0
        self.why, self.raised = "its actions were not taken again", False
        self._attempt = attempt

    def take(self, stepped: Callable[[], None] = lambda: None) -> None:
        """Take all steps; ``stepped`` is called after each.

        Raises:
            EnvironmentFailed: A limit or Ctrl-C got it out of a call, which inline is done so.
        """
        self.taken, self.why, self.raised = 0, "", False
        try:
            for _ in self._attempt():
                self.taken += 1
                stepped()
        except EnvironmentFailed as error:
            if isinstance(error.__cause__, NodeFailed | KeyboardInterrupt):
                raise
            self.why, self.raised = str(error), True
        except CheckpointError as error:
            self.why = str(error)
