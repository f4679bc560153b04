"""What evaluations of a run came to."""

from __future__ import annotations

import math

from fast_core.errors import CheckpointError
from fast_core.messages import Evaluated
from fast_core.messages.launching import EndRun
from fast_core.messages.metrics import RunEnd
from fast_core.monitor.run_directory import RunDirectory
from fast_core.monitor.view import EvaluationView
from fast_core.policy.episodes import evaluation_figures
from fast_core.policy.file import best_policy_path, read_origin
from fast_core.scheduler.statistics import Statistics


class Scores:
    """The last evaluation and the best one in each environment.

    Attributes:
        lasts: The last one by name of the environment; None is that of training.
        bests: The best one, of earlier parts of the run too, likewise.
    """

    def __init__(self, run: RunDirectory, environments: tuple[str, ...]) -> None:
        """``environments`` are the names of those beside that of training."""
        self.lasts: dict[str | None, EvaluationView] = {}
        self.bests: dict[str | None, EvaluationView] = {}
        for name in (None, *environments):
            if (best := _best_on_file(run, name)) is not None:
                self.bests[name] = best

    def add(self, event: Evaluated) -> None:
        """Take an evaluation."""
        for name, played in event.played.items():
            figures = evaluation_figures(played.returns, played.lengths)
            mean, std = figures.get("return_mean", math.nan), figures.get("return_std", math.nan)
            quarantined = figures["quarantined_share"]
            view = EvaluationView(mean, std, event.version, event.env_steps, quarantined)
            self.lasts[name] = view
            if not quarantined and (name not in self.bests or mean >= self.bests[name].mean):
                self.bests[name] = view

    @property
    def last(self) -> EvaluationView | None:
        """The last evaluation in the environment of training."""
        return self.lasts.get(None)

    @property
    def best(self) -> EvaluationView | None:
        """The best one there."""
        return self.bests.get(None)


def run_end(end: EndRun, now: Statistics, scores: Scores) -> RunEnd:
    """What metrics are told of the end of a run that has come so far."""
    best, last = scores.best, scores.last
    return RunEnd(
        outcome="interrupted" if end.again else end.reason,
        text=f"{end.text}; it comes back" if end.again else end.text,
        env_steps=now.env_steps_trained,
        updates=now.updates,
        elapsed_s=now.elapsed_s,
        best_return=None if best is None else best.mean,
        last_return=None if last is None else last.mean,
    )


def _best_on_file(run: RunDirectory, environment: str | None = None) -> EvaluationView | None:
    path = best_policy_path(run.path, environment)
    try:
        best = read_origin(path) if path.exists() else None
    except CheckpointError:
        return None
    if best is None:
        return None
    return EvaluationView(best.mean_return, best.std_return, best.version, best.env_steps)
