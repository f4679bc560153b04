"""When to evaluate, and whether the score is reached.

One evaluation is in flight from its `Snapshot` to its `Evaluated`. Requests that come meanwhile
coalesce: the newest waits, those it replaces are counted. A running evaluation is never cancelled.
"""

from __future__ import annotations

from typing import NamedTuple

from fast_core.events import Evaluate, Evaluated, Snapshot, SnapshotTaken
from fast_core.scheduler.settings import SchedulerSettings
from fast_core.scheduler.state import SchedulerState


class Solved(NamedTuple):
    """An evaluation that reached the score: its version, and its result as words."""

    version: int
    text: str


class Evaluations:
    """Schedule, the evaluation in flight, and the last result.

    Attributes:
        due: An evaluation is wanted that has not been started.
        finished: Evaluations that have a result.
        coalesced: Requests replaced by a newer one before they started.
        replaced: How many of those the request that is due stands for.
        last_mean: Mean return of the last evaluation, None before the first and where an outcome
            was not known.
        last_version: Version that was evaluated last.
        streak: Evaluations in a row that reached the score.
        solved_by: The newest evaluation of this part of the run with which the score had been held
            for as long as asked, None without any.
    """

    def __init__(self, settings: SchedulerSettings, state: SchedulerState | None):
        """Continue from ``state``; one in flight when it was saved is asked for again."""
        self._settings = settings
        self._request = 0
        self._stage: str | None = None
        self._version = 0
        self.due = False
        self.finished = 0
        self.coalesced = 0
        self.replaced = 0
        self.last_mean: float | None = None
        self.last_version: int | None = None
        self.streak = 0
        self.solved_by: Solved | None = None
        self._next_env_steps = settings.eval_every_env_steps
        if state is not None:
            self._restore(state)

    def _restore(self, state: SchedulerState) -> None:
        self._request = state.evaluation_request
        self.due = state.evaluation_due and self._settings.evaluator is not None
        self.finished = state.evaluations_finished
        self.coalesced = state.evaluations_coalesced
        self.last_mean = state.evaluation_mean
        self.last_version = state.evaluation_version
        if state.score == self._settings.stop_score:
            self.streak = state.score_streak
        every = self._settings.eval_every_env_steps
        if every is not None:
            self._next_env_steps = every * (state.env_steps // every + 1)

    @property
    def in_flight(self) -> bool:
        """Whether an evaluation is between its `Snapshot` and its `Evaluated`."""
        return self._stage is not None

    @property
    def active(self) -> bool:
        """Whether an evaluation is wanted or in flight."""
        return self.due or self._stage is not None

    @property
    def request(self) -> int:
        """Number of the last evaluation that was started."""
        return self._request

    @property
    def settled_request(self) -> int:
        """Number of the last evaluation that has a result; one in flight does not count."""
        return self._request - (1 if self.in_flight else 0)

    @property
    def solved(self) -> bool:
        """Whether the score has been held for as long as asked."""
        score = self._settings.stop_score
        return score is not None and self.streak >= self._settings.stop_score_held

    def wanted_at(self, env_steps: int) -> bool:
        """Whether training that has come so far asks for one: it crosses a multiple."""
        return self._settings.evaluates and env_steps >= (self._next_env_steps or 0)

    def trained(self, env_steps: int) -> None:
        """Ask for an evaluation if training crossed a multiple of the interval."""
        if not self.wanted_at(env_steps):
            return
        every = self._settings.eval_every_env_steps or 1
        self._next_env_steps = every * (env_steps // every + 1)
        self.ask()

    def ask(self) -> None:
        """Want an evaluation of the newest version."""
        if self.due:
            self.coalesced += 1
            self.replaced += 1
        self.due = True

    def start(self) -> Snapshot:
        """Start the evaluation that is due; the optimizer is asked for its policy first."""
        assert self.due and not self.in_flight
        self.due, self.replaced, self._stage = False, 0, "snapshot"
        self._request += 1
        return Snapshot(self._request)

    def awaits(self, event: SnapshotTaken) -> bool:
        """Whether this is the snapshot of the evaluation in flight."""
        return self._stage == "snapshot" and event.request == self._request

    def snapshot_taken(self, event: SnapshotTaken) -> Evaluate:
        """Command for the evaluator, now that the evaluation slot is filled."""
        self._stage, self._version = "evaluate", event.version
        if self.due:
            # `Trained` stands before `SnapshotTaken` in the optimizer's channel, so whatever asked
            # meanwhile asked for a version that this snapshot holds.
            self.due, self.replaced = False, 0
            self.coalesced += 1
        return Evaluate(event.request, event.version, event.env_steps, self._settings.eval_episodes)

    def expects(self, event: Evaluated) -> bool:
        """Whether this is the result of the evaluation in flight."""
        return (
            self._stage == "evaluate"
            and event.request == self._request
            and event.version == self._version
        )

    def evaluated(self, event: Evaluated) -> None:
        """Take the result of the evaluation in flight."""
        self._stage = None
        self.finished += 1
        self.last_mean = event.score
        again = event.version == self.last_version  # the same episodes once more prove nothing
        self.last_version = event.version
        score = self._settings.stop_score
        if score is not None:
            reached = self.last_mean is not None and self.last_mean >= score
            self.streak = self.streak + (not again) if reached else 0
        if self.solved:
            self.solved_by = Solved(event.version, self.result_text())

    def result_text(self) -> str:
        """The last result as words, empty before the first."""
        if self.last_version is None:
            return ""
        played = f"{self._settings.eval_episodes} episodes of version {self.last_version}"
        if self.last_mean is None:
            return f"no mean return, since some of {played} met NaN or infinity"
        return f"mean return {self.last_mean:.6g} over {played}"
