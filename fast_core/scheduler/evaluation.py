"""When to evaluate, and whether the score is reached.

One evaluation is in flight from its `Snapshot` to its `Evaluated`, or until callbacks have been
told of it. Requests that come meanwhile coalesce: the newest waits, those it replaces are counted.
A running evaluation is never cancelled.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from fast_core.messages import Evaluate, Evaluated, Snapshot, SnapshotTaken, Value
from fast_core.scheduler.settings import SchedulerSettings
from fast_core.scheduler.settled import Settled
from fast_core.scheduler.state import SavedState, kept


class EvaluationState(msgspec.Struct, kw_only=True):
    """What evaluations keep.

    Attributes:
        due: An evaluation is wanted that has not been started. In a checkpoint, one in flight
            counts too: its snapshot lives in memory alone, so a resumed run asks again, under the
            same number, for the version of the cut. A synchronous one never is in flight there.
        request: Number of the last evaluation that was started; in a checkpoint, of the last that
            has a result.
        finished: Evaluations that have a result.
        coalesced: Requests replaced by a newer one before they started.
        last_mean: Mean return of the last evaluation, where the score counts; None before the first
            and where an outcome was not known.
        last_version: Version that was evaluated last.
        score: The score that the streak is about.
        score_on: The environment that it is reached in, as `SchedulerSettings.stop_score_on`.
        streak: Evaluations in a row that reached it.
    """

    due: bool = msgspec.field(default=False, name="evaluation_due")
    request: int = msgspec.field(default=0, name="evaluation_request")
    finished: int = msgspec.field(default=0, name="evaluations_finished")
    coalesced: int = msgspec.field(default=0, name="evaluations_coalesced")
    last_mean: float | None = msgspec.field(default=None, name="evaluation_mean")
    last_version: int | None = msgspec.field(default=None, name="evaluation_version")
    score: float | None = None
    score_on: str | None = None
    streak: int = msgspec.field(default=0, name="score_streak")


class Solved(NamedTuple):
    """An evaluation that reached the score: its version, and its result as words."""

    version: int
    text: str


class Evaluations:
    """Schedule, the evaluation in flight, and the last result.

    Attributes:
        kept: What a checkpoint keeps of it, as of now.
        replaced: How many coalesced requests the request that is due stands for.
        solved_by: The newest evaluation of this part of the run with which the score had been held
            for as long as asked, None without any.
    """

    def __init__(self, settings: SchedulerSettings, saved: SavedState | None):
        """Continue from ``saved``; one in flight when it was saved is asked for again."""
        self._settings = settings
        self._stage: str | None = None
        self._version = 0
        self._command: Evaluate | None = None
        self._changed: dict[str, Value] = {}
        self.replaced = 0
        self.solved_by: Solved | None = None
        self.kept = kept(EvaluationState, saved)
        self.kept.due &= settings.evaluator is not None
        goal = settings.stop_score, settings.stop_score_on
        if (self.kept.score, self.kept.score_on) != goal:
            self.kept.score, self.kept.score_on = goal
            self.kept.streak = 0
        self._next_env_steps = self._after(kept(Settled, saved).env_steps)

    def _after(self, env_steps: int) -> int:
        every = self._settings.eval_every_env_steps or 1
        return every * (env_steps // every + 1)

    def state(self) -> EvaluationState:
        """What a checkpoint keeps."""
        flying = self.in_flight and not self.telling
        due = self.kept.due or flying
        return msgspec.structs.replace(self.kept, due=due, request=self.kept.request - flying)

    @property
    def in_flight(self) -> bool:
        """Whether an evaluation has begun and is not over."""
        return self._stage is not None

    @property
    def stage(self) -> str | None:
        """What the one in flight waits for: ``snapshot``, ``evaluate`` or ``told``."""
        return self._stage

    @property
    def telling(self) -> bool:
        """Whether it has its result, of which callbacks are being told."""
        return self._stage == "told"

    @property
    def active(self) -> bool:
        """Whether an evaluation is wanted or in flight."""
        return self.kept.due or self.in_flight

    @property
    def solved(self) -> bool:
        """Whether the score has been held for as long as asked."""
        score = self._settings.stop_score
        return score is not None and self.kept.streak >= self._settings.stop_score_held

    def wanted_at(self, env_steps: int) -> bool:
        """Whether training that has come so far asks for one: it crosses a multiple."""
        return self._settings.evaluates and env_steps >= self._next_env_steps

    def trained(self, env_steps: int) -> None:
        """Ask for an evaluation if training crossed a multiple of the interval."""
        if self.wanted_at(env_steps):
            self._next_env_steps = self._after(env_steps)
            self.ask()

    def ask(self) -> None:
        """Want an evaluation of the newest version."""
        if self.kept.due:
            self.kept.coalesced += 1
            self.replaced += 1
        self.kept.due = True

    def start(self, changed: dict[str, Value]) -> Snapshot:
        """Start the evaluation that is due; the optimizer is asked for its policy first.

        ``changed`` are the values that are not the configuration's, as of now.
        """
        assert self.kept.due and not self.in_flight
        self._changed = changed
        self.kept.due, self.replaced, self._stage = False, 0, "snapshot"
        self.kept.request += 1
        return Snapshot(self.kept.request)

    def awaits(self, event: SnapshotTaken) -> bool:
        """Whether this is the snapshot of the evaluation in flight."""
        return self._stage == "snapshot" and event.request == self.kept.request

    def snapshot_taken(self, event: SnapshotTaken) -> Evaluate:
        """Command for the evaluator, now that the evaluation slot is filled."""
        self._stage, self._version = "evaluate", event.version
        if self.kept.due:
            # `Trained` stands before `SnapshotTaken` in the optimizer's channel, so whatever asked
            # meanwhile asked for a version that this snapshot holds.
            self.kept.due, self.replaced = False, 0
            self.kept.coalesced += 1
        episodes = self._settings.eval_episodes
        self._command = Evaluate(
            event.request, event.version, event.env_steps, episodes, self._changed
        )
        return self._command

    @property
    def open(self) -> Evaluate | None:
        """What the evaluator was told and has not answered; a successor is told the same."""
        return self._command if self._stage == "evaluate" else None

    def expects(self, event: Evaluated) -> bool:
        """Whether this is the result of the evaluation in flight."""
        return (
            self._stage == "evaluate"
            and event.request == self.kept.request
            and event.version == self._version
        )

    def evaluated(self, event: Evaluated) -> None:
        """Take the result of the evaluation in flight."""
        self._stage = "told" if "evaluation" in self._settings.moments else None
        last = self.kept
        last.finished += 1
        last.last_mean = event.played[self._settings.stop_score_on].score
        again = event.version == last.last_version  # the same episodes once more prove nothing
        last.last_version = event.version
        if last.score is not None:
            reached = last.last_mean is not None and last.last_mean >= last.score
            last.streak = last.streak + (not again) if reached else 0
        if self.solved:
            self.solved_by = Solved(event.version, self.result_text())

    def told(self) -> None:
        """Callbacks have been told of its result."""
        if self.telling:
            self._stage = None

    def result_text(self) -> str:
        """The last result as words, empty before the first."""
        last = self.kept
        if last.last_version is None:
            return ""
        played = f"{self._settings.eval_episodes} episodes of version {last.last_version}"
        if self._settings.stop_score_on is not None:
            played += f" in {self._settings.stop_score_on!r}"
        if last.last_mean is None:
            return f"no mean return, since some of {played} met NaN or infinity"
        return f"mean return {last.last_mean:.6g} over {played}"
