"""Writes down what the scheduler is given, in order and with its times."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from fast_core.events import Event, Failed, LauncherEvent
from fast_core.launcher.checkpoints.store import link_or_copy
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
from fast_core.scheduler import SchedulerSettings

_VERSION = int(StatsColumn.VERSION)


class Recorder:
    """The record of one part of a run.

    All randomness is keyed, so nothing else has to be known of rollouts: each says which weights
    acted in it, and the order of the scheduler's events is the order of its commands.
    """

    def __init__(
        self,
        plan: RunPlan,
        config_text: str,
        stats: Mapping[str, StatsRow],
        settings: SchedulerSettings,
        now_s: float,
        report: Callable[[str], None],
    ) -> None:
        """Begin with what is known of the run; ``now_s`` is the scheduler's time."""
        self._stats = stats
        part = next_part(Path(plan.run_directory))
        self._writer = ScheduleWriter(part, report)
        if plan.checkpoint is not None:
            _keep(Path(plan.checkpoint), checkpoint_of(part), report)
        header = ScheduleHeader(
            format=FORMAT,
            fingerprint=fingerprint(),
            config=config_text,
            checkpoint="" if plan.checkpoint is None else Path(plan.checkpoint).name,
            started_s=now_s,
            moments=settings.moments,
            callbacks_save=settings.callbacks_save,
            auto_degree=settings.auto_degree,
        )
        self._writer.write(header, now_s)

    def note(self, event: Event | LauncherEvent, now_s: float) -> None:
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
