"""Writes down what the scheduler is given, in order and with its times."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from fast_core.launcher.checkpoints.store import link_or_copy
from fast_core.launcher.listener import Listener, NewRun
from fast_core.launcher.rerunning.entries import UNRECORDED, entry
from fast_core.launcher.rerunning.fingerprint import fingerprint
from fast_core.memory import StatsColumn
from fast_core.messages import Event, Failed
from fast_core.messages.launching import LauncherEvent
from fast_core.run.plan import RunPlan
from fast_core.run.schedule import (
    FORMAT,
    ScheduleHeader,
    ScheduleWriter,
    checkpoint_of,
    next_part,
)

_VERSION = int(StatsColumn.VERSION)


class Recorder(Listener):
    """The record of one part of a run.

    All randomness is keyed, so nothing else has to be known of rollouts: each says which weights
    acted in it, and the order of the scheduler's events is the order of its commands.
    """

    def __init__(self, plan: RunPlan, config_text: str, report: Callable[[str], None]) -> None:
        """``config_text`` is the run's configuration; ``report`` is told what can't be written."""
        self._plan, self._config_text, self._report = plan, config_text, report
        self._writer: ScheduleWriter | None = None  # a run that can't begin leaves no part

    def begin(self, run: NewRun) -> None:
        """Write down what is known of the run at its beginning."""
        self._stats, part = run.roster.stats, next_part(Path(self._plan.run_directory))
        self._writer = ScheduleWriter(part, self._report)
        checkpoint = None if self._plan.checkpoint is None else Path(self._plan.checkpoint)
        if checkpoint is not None:
            _keep(checkpoint, checkpoint_of(part), self._report)
        header = ScheduleHeader(
            format=FORMAT,
            fingerprint=fingerprint(),
            config=self._config_text,
            checkpoint="" if checkpoint is None else checkpoint.name,
            started_s=run.now_s,
            moments=run.settings.moments,
            callbacks_save=run.settings.callbacks_save,
            auto_degree=run.settings.auto_degree,
        )
        self._writer.write(header, run.now_s)

    def hear(self, event: Event | LauncherEvent, now_s: float) -> None:
        """Write down an event that the scheduler is about to be given."""
        if isinstance(event, UNRECORDED):
            return
        assert self._writer is not None, "it has begun"
        version = -1
        if isinstance(event, Failed) and event.node in self._stats:
            version = int(self._stats[event.node].words[_VERSION])
        self._writer.write(entry(event, now_s, version), now_s)

    def close(self) -> None:
        """Write the rest. May be called twice."""
        if self._writer is not None:
            self._writer.close()


def _keep(checkpoint: Path, copy: Path, report: Callable[[str], None]) -> None:
    try:
        link_or_copy(checkpoint, copy)
    except (OSError, shutil.Error) as error:
        report(
            f"can't keep checkpoint {checkpoint.name} in {copy}: {error}; training goes on, but "
            "from there it can't be run again"
        )
