"""What callbacks are told of a run, in the records of `fast_core.callbacks`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from fast_core.callbacks import Checkpoint, End, Evaluation, Metrics, Outcome, Start
from fast_core.launcher.calling.host import Call, Host, Reply
from fast_core.launcher.listener import Listener, NewRun
from fast_core.launcher.shown.scores import Scores
from fast_core.messages import Command, Evaluated, Event, Failed, Moment, Record, Save
from fast_core.messages.launching import (
    CommitCheckpoint,
    EndRun,
    LauncherCommand,
    LauncherEvent,
    Tell,
    Told,
)
from fast_core.monitor.checkpoint_files import newest_complete
from fast_core.monitor.run_directory import RunDirectory
from fast_core.policy.file import best_policy_path
from fast_core.run.plan import RunPlan
from fast_core.scheduler import SchedulerSettings
from fast_core.scheduler.statistics import Statistics

WORK_KEY, GRACE_KEY = "supervision.work_timeout_s", "supervision.grace_s"
_METHODS: dict[str, Moment] = {"on_evaluation": "evaluation", "on_checkpoint": "checkpoint"}


class Telling(Listener):
    """Tells callbacks what happens, and has for the scheduler what they answer."""

    def __init__(self, host: Host, run: RunDirectory, plan: RunPlan, scores: Scores) -> None:
        """``host`` calls them."""
        self._host, self._scores = host, scores
        self._run, self._supervision = run, plan.config.supervision
        self._checkpoint = None if plan.checkpoint is None else Path(plan.checkpoint)
        self._evaluated: Evaluated | None = None
        self._directory = ""  # of the checkpoint that is being written
        self._written: Checkpoint | None = None
        self._begun = False

    def settle(self, settings: SchedulerSettings) -> SchedulerSettings:
        """Callbacks are waited for before the run begins, and where one wants to hear."""
        moments: list[Moment] = ["start"]
        moments += [moment for method, moment in _METHODS.items() if self._host.wants(method)]
        return msgspec.structs.replace(settings, moments=tuple(moments), callbacks_save=True)

    def begin(self, run: NewRun) -> None:
        """See `Listener.begin`."""
        self._scheduler = run.scheduler

    # --- what happens --------------------------------------------------------------------------

    def hear(self, event: Event | LauncherEvent, now_s: float) -> None:
        """Keep the result of an evaluation until it is told; the scheduler is given an answer."""
        if isinstance(event, Evaluated):
            self._evaluated = event
        elif isinstance(event, Told):
            self._host.hear(event)

    def obey(self, command: Command | LauncherCommand) -> None:
        """Tell of what has just happened, or let callbacks write their part of a checkpoint."""
        match command:
            case Tell(moment):
                self._tell(moment, self._scheduler.statistics())
            case Save(directory=directory):
                self._directory = directory
                self._host.save(command)
            case CommitCheckpoint(number, version, env_steps):
                path = Path(self._directory).with_suffix("")
                self._written = Checkpoint(number, path, version, env_steps)

    def row(self, record: Record) -> None:
        """Tell of a row of metrics, if its turn comes before the next one."""
        if self._host.wants("on_metrics"):
            row = Metrics(record.updates, record.env_steps, record.time_s, record.values)
            self._host.offer(row)

    def _tell(self, moment: Moment, now: Statistics) -> None:
        """The answer comes with `take`."""
        calls: list[Call] = []
        if moment == "start":
            self._begun, self._host.changed = True, now.changed
            calls = self._start(now)
        elif moment == "evaluation":
            calls = [("on_evaluation", self._evaluation(now))]
        elif self._written is not None:
            calls = [("on_checkpoint", self._written)]
        self._host.tell(moment, calls)

    def _start(self, now: Statistics) -> list[Call]:
        version, env_steps, path = now.version, now.env_steps_trained, self._checkpoint
        calls: list[Call] = [("on_start", Start(self._run.path, path, version, env_steps))]
        if path is not None:
            again = Checkpoint(now.checkpoint, path, version, env_steps, resumed=True)
            calls.append(("on_checkpoint", again))
        return calls

    def _evaluation(self, now: Statistics) -> Evaluation:
        assert self._evaluated is not None
        event = self._evaluated
        return Evaluation(
            number=now.evaluations_finished,
            version=event.version,
            env_steps=event.env_steps,
            time_s=now.elapsed_s,
            returns=event.returns,
            lengths=event.lengths,
            info=event.info,
            mean=event.score,
            best=self._scores.best is self._scores.last,
            others={
                name: Outcome(each.returns, each.lengths, each.info, each.score)
                for name, each in event.others.items()
            },
            video=self._run.path / event.video if event.video else None,
        )

    # --- what comes of it ----------------------------------------------------------------------

    def filenos(self) -> tuple[int, ...]:
        """See `Listener.filenos`."""
        return (self._host.fileno(),)

    @property
    def busy(self) -> bool:
        """Whether something is being called, or an answer was not taken."""
        return self._host.busy

    def take(self) -> list[Reply]:
        """What callbacks have answered."""
        return self._host.take()

    def overdue(self) -> Failed | None:
        """A call that does not return, once."""
        return self._host.overdue(self._supervision.work_timeout_s, WORK_KEY)

    def rest(self, hurry: Callable[[], bool]) -> bool:
        """Wait until everybody knows of everything; False if somebody fails or hangs."""
        return self._host.rest(self._supervision.work_timeout_s, WORK_KEY, hurry)

    def end(self, end: EndRun, hurry: Callable[[], bool]) -> tuple[list[Failed], str]:
        """Tell of the end, and wait until everybody knows.

        Returns:
            What went wrong, and what was not waited for any longer.
        """
        if not self._begun:
            return [], ""
        now = self._scheduler.statistics()
        best = best_policy_path(self._run.path)
        record = End(
            outcome=end.reason,
            reason=end.text,
            directory=self._run.path,
            version=now.version,
            env_steps=now.env_steps_trained,
            time_s=now.elapsed_s,
            checkpoint=newest_complete(self._run.checkpoints),
            best_policy=best if best.exists() else None,
        )
        limit_s, key = self._supervision.work_timeout_s, WORK_KEY
        if end.reason == "interrupted":
            limit_s, key = self._supervision.grace_s, GRACE_KEY
        left = self._host.end(record, limit_s, key, hurry)
        return [answer for answer in self._host.take() if isinstance(answer, Failed)], left
