"""A line in the output of a notebook's cell that is replaced while a run goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fast_core.monitor.progress import PlainProgress
from fast_core.monitor.progress_line import progress_line
from fast_core.monitor.view import ProgressView

_INTERVAL_S = 1.0


class NotebookProgress(PlainProgress):
    """Log lines and the summary are printed, as everywhere; the progress stands in one place."""

    _line: Any = None  # IPython's handle of it

    def _interval_s(self, view: ProgressView, cost_s: float) -> float:
        return _INTERVAL_S

    def _draw(self, view: ProgressView) -> None:
        # here, because it is there only where a notebook is
        from IPython.display import display

        show: Callable[..., Any] = display
        text = progress_line(view, self._env_steps.per_second, self._updates.per_second)
        shown = {"text/plain": text}
        if self._line is None:
            self._line = show(shown, raw=True, display_id=True)
        else:
            self._line.update(shown, raw=True)
