"""What callbacks are told of a run, in the records of `fast_core.callbacks`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from fast_core.callbacks import Checkpoint, End, Evaluation, Metrics, Outcome, Start
from fast_core.config import SupervisionConfig
from fast_core.events import (
    CommitCheckpoint,
    EndRun,
    Evaluated,
    Failed,
    Moment,
    Record,
    Save,
    Told,
)
from fast_core.launcher.calling.host import Answer, Call, Host
from fast_core.monitor.run_directory import RunDirectory
from fast_core.policy.file import best_policy_path
from fast_core.run.checkpoint_files import complete_names
from fast_core.scheduler import SchedulerSettings
from fast_core.scheduler.statistics import Statistics

WORK_KEY, GRACE_KEY = "supervision.work_timeout_s", "supervision.grace_s"
_METHODS: dict[str, Moment] = {"on_evaluation": "evaluation", "on_checkpoint": "checkpoint"}


class Telling:
    """What the shell needs of callbacks; where there are none, nothing happens.

    Attributes:
        host: What calls them, None where there are none.
    """

    def __init__(
        self,
        host: Host | None,
        run: RunDirectory,
        supervision: SupervisionConfig,
        checkpoint: Path | None,
    ) -> None:
        """``checkpoint`` is what the run goes on from."""
        self.host = host
        self._run, self._supervision, self._checkpoint = run, supervision, checkpoint
        self._evaluated: tuple[Evaluated, bool] | None = None
        self._written: Checkpoint | None = None
        self._begun = False

    def settle(self, settings: SchedulerSettings) -> SchedulerSettings:
        """The scheduler's settings, with what it must wait for."""
        if self.host is None:
            return settings
        moments: list[Moment] = ["start"]
        moments += [moment for method, moment in _METHODS.items() if self.host.wants(method)]
        return msgspec.structs.replace(settings, moments=tuple(moments), callbacks_save=True)

    # --- what happens --------------------------------------------------------------------------

    def evaluated(self, event: Evaluated, *, best: bool) -> None:
        """Keep the result of an evaluation until it is told."""
        self._evaluated = event, best

    def committing(self, command: CommitCheckpoint, directory: str) -> None:
        """Keep what a checkpoint will be until it is told."""
        if self.host is not None:
            path, version = Path(directory).with_suffix(""), command.version
            self._written = Checkpoint(command.checkpoint, path, version, command.env_steps)

    def metrics(self, record: Record) -> None:
        """Tell of a row of metrics, if its turn comes before the next one."""
        if self.host is not None and self.host.wants("on_metrics"):
            self.host.offer(Metrics(record.updates, record.env_steps, record.time_s, record.values))

    def tell(self, moment: Moment, now: Statistics) -> None:
        """Tell of what has just happened; the answer comes with `take`."""
        assert self.host is not None, "the scheduler tells only where somebody listens"
        calls: list[Call] = []
        if moment == "start":
            self._begun, self.host.changed = True, now.changed
            calls = self._start(now)
        elif moment == "evaluation":
            calls = [("on_evaluation", self._evaluation(now))]
        elif self._written is not None:
            calls = [("on_checkpoint", self._written)]
        self.host.tell(moment, calls)

    def _start(self, now: Statistics) -> list[Call]:
        version, env_steps, path = now.version, now.env_steps_trained, self._checkpoint
        calls: list[Call] = [("on_start", Start(self._run.path, path, version, env_steps))]
        if path is not None:
            again = Checkpoint(now.checkpoint, path, version, env_steps, resumed=True)
            calls.append(("on_checkpoint", again))
        return calls

    def _evaluation(self, now: Statistics) -> Evaluation:
        assert self._evaluated is not None
        event, best = self._evaluated
        return Evaluation(
            number=now.evaluations_finished,
            version=event.version,
            env_steps=event.env_steps,
            time_s=now.elapsed_s,
            returns=event.returns,
            lengths=event.lengths,
            info=event.info,
            mean=event.score,
            best=best,
            others={
                name: Outcome(each.returns, each.lengths, each.info, each.score)
                for name, each in event.others.items()
            },
            video=self._run.path / event.video if event.video else None,
        )

    # --- what comes of it ----------------------------------------------------------------------

    def save(self, command: Save) -> None:
        """Let callbacks write their part of a checkpoint."""
        assert self.host is not None
        self.host.save(command)

    def hear(self, told: Told) -> None:
        """The scheduler is given this answer now."""
        if self.host is not None:
            self.host.hear(told)

    def take(self) -> list[Answer]:
        """What callbacks have answered."""
        return self.host.take() if self.host is not None else []

    def overdue(self) -> Failed | None:
        """A call that does not return, once."""
        if self.host is None:
            return None
        return self.host.overdue(self._supervision.work_timeout_s, WORK_KEY)

    def rest(self, hurry: Callable[[], bool]) -> bool:
        """Wait until everybody knows of everything; False if somebody fails or hangs."""
        if self.host is None:
            return True
        return self.host.rest(self._supervision.work_timeout_s, WORK_KEY, hurry)

    def end(
        self, end: EndRun, now: Statistics, hurry: Callable[[], bool]
    ) -> tuple[list[Failed], str]:
        """Tell of the end, and wait until everybody knows.

        Returns:
            What went wrong, and what was not waited for any longer.
        """
        if self.host is None or not self._begun:
            return [], ""
        names, best = complete_names(self._run.checkpoints), best_policy_path(self._run.path)
        record = End(
            outcome=end.reason,
            reason=end.text,
            directory=self._run.path,
            version=now.version,
            env_steps=now.env_steps_trained,
            time_s=now.elapsed_s,
            checkpoint=self._run.checkpoints / names[-1] if names else None,
            best_policy=best if best.exists() else None,
        )
        limit_s, key = self._supervision.work_timeout_s, WORK_KEY
        if end.reason == "interrupted":
            limit_s, key = self._supervision.grace_s, GRACE_KEY
        left = self.host.end(record, limit_s, key, hurry)
        return [answer for answer in self.host.take() if isinstance(answer, Failed)], left
