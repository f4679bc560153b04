"""Writes down what the scheduler is given, in order and with its times."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from fast_core.events import Event, Failed, LauncherEvent
from fast_core.launcher.checkpoints.store import link_or_copy
from fast_core.launcher.listener import Listener, NewRun
from fast_core.launcher.rerunning.entries import UNRECORDED, entry
from fast_core.launcher.rerunning.fingerprint import fingerprint
from fast_core.memory import StatsColumn, StatsRow
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

    def __init__(
        self,
        plan: RunPlan,
        config_text: str,
        stats: Mapping[str, StatsRow],
        report: Callable[[str], None],
    ) -> None:
        """``config_text`` is the run's configuration; ``report`` is told what can't be written."""
        self._plan, self._config_text, self._stats, self._report = plan, config_text, stats, report
        self._part = next_part(Path(plan.run_directory))
        self._writer = ScheduleWriter(self._part, report)

    def begin(self, run: NewRun) -> None:
        """Write down what is known of the run at its beginning."""
        checkpoint = None if self._plan.checkpoint is None else Path(self._plan.checkpoint)
        if checkpoint is not None:
            _keep(checkpoint, checkpoint_of(self._part), self._report)
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
        version = -1
        if isinstance(event, Failed) and event.node in self._stats:
            version = int(self._stats[event.node].words[_VERSION])
        self._writer.write(entry(event, now_s, version), now_s)

    def close(self) -> None:
        """Write the rest. May be called twice."""
        self._writer.close()


def _keep(checkpoint: Path, copy: Path, report: Callable[[str], None]) -> None:
    try:
        link_or_copy(checkpoint, copy)
    except (OSError, shutil.Error) as error:
        report(
            f"can't keep checkpoint {checkpoint.name} in {copy}: {error}; training goes on, but "
            "from there it can't be run again"
        )
