"""What the launcher writes down and says of a run: its journal, its nodes' logs, its faults."""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Callable, Mapping
from datetime import datetime

from fast_core.launcher.failures.sources import Sources
from fast_core.launcher.shown.trace_and_crash import add_crash
from fast_core.messages import Failed, LogLine, NodeExited, Trained
from fast_core.messages.launching import Decision
from fast_core.monitor.crash import survived_report
from fast_core.monitor.figures import more_digits
from fast_core.monitor.journal import EventJournal, Fact
from fast_core.monitor.log_lines import NodeLogs
from fast_core.monitor.progress import Progress
from fast_core.monitor.run_directory import RunDirectory
from fast_core.monitor.screens.access import others_read
from fast_core.monitor.screens.served import Served
from fast_core.monitor.view import RunSummary
from fast_core.run.names import OPTIMIZER

# The scheduler's decisions that say that every node is ready.
BEGIN = ("start", "resume")
# Those that are told in words, too.
TOLD = ("not exact", "standstill", "node gone", "refused")
DEGREE = "degree"


class Chronicle:
    """Everything about a run that stays to be read.

    Attributes:
        run: Where it is kept.
        progress: Where it is shown at once.
    """

    def __init__(
        self,
        run: RunDirectory,
        progress: Progress,
        config_text: str,
        sources: Sources | None,
        elapsed_s: Callable[[], float],
    ) -> None:
        """``config_text`` becomes the run's configuration once every node has accepted it.

        What of ``sources`` has changed by then is told. ``elapsed_s`` gives the seconds since the
        run began.
        """
        self.run, self.progress = run, progress
        self._config_text, self._sources = config_text, sources
        self._quarantined = 0
        wall = datetime.now
        self._journal = EventJournal(run.events, clock=elapsed_s, wall=wall, report=self.report)
        self._logs = NodeLogs(run, wall=wall, report=self.report)

    def report(self, text: str, level: str = "WARNING") -> None:
        """Say a sentence."""
        self.progress.say(text, level)

    def log(self, line: LogLine) -> None:
        """Keep and show a line of a node's log."""
        self._logs.write(line)
        self.progress.log(line)

    def decide(self, what: str, why: str, facts: Mapping[str, Fact] | None = None) -> None:
        """Add a line of the launcher's own to the journal."""
        self._journal.write(what, why, facts)

    def decided(self, decision: Decision) -> None:
        """Note a decision of the scheduler's, and tell what is for people."""
        what, why = decision.what, decision.why
        self._journal.write(what, why)
        if what in BEGIN:
            self._write_config()
            self._tell_changed_sources()
        elif what in TOLD:
            self.report(why)
        elif what == DEGREE:
            self.report(f"off-policy degree {why}", "INFO")

    def digest(self, event: Trained) -> None:
        """Note the digest of a ticket."""
        facts: dict[str, Fact] = {"version": event.version, "digest": event.digest}
        if event.node != OPTIMIZER:
            facts["node"] = event.node
        self._journal.write("digest", f"ticket {event.ticket}", facts)

    def page(self, served: Served) -> None:
        """Note where the page is served; what lets a browser in is only shown."""
        self._journal.write("page", f"served at {served.url}", {"url": served.url})
        address = served.address
        if served.token and others_read(sys.stdout):
            command = f"fastloop watch {shlex.quote(str(self.run.path))}"
            address = (
                f"{served.url} (`{command}` shows it with its token, which other users could read "
                "here)"
            )
        self.report(f"the page of this run: {address}", "INFO")

    def died(self, event: NodeExited, life: int, *, again: bool) -> None:
        """Say and keep the end of a node's ``life`` that the run goes on after."""
        if again:
            self.report(f"{event.node} is gone: {event.cause}; it is started anew")
        if event.report is not None:
            self.survived(event.report, incarnation=life, again=again)

    def survived(self, failed: Failed, *, incarnation: int, again: bool) -> None:
        """Keep what a node failed of that the run goes on after."""
        where = str(self.run.path)
        text = survived_report(failed, incarnation=incarnation, run_directory=where, again=again)
        add_crash(self.run, text, self.progress)

    def quarantined(self, node: str, count: int) -> None:
        """Say it at the first one, then ten times more rarely each time."""
        before, self._quarantined = self._quarantined, self._quarantined + count
        if more_digits(before, self._quarantined):
            self.report(
                f"{node}: the environment gave NaN or infinite values; {self._quarantined} "
                "episodes were cut so far. environment.nonfinite=fail shows where"
            )

    def summarise(self, summary: RunSummary) -> None:
        """Add how the run ended to the journal, for the report."""
        self._journal.summarise(summary)

    def close(self) -> None:
        """Close the files."""
        self._logs.close()
        self._journal.close()
        with contextlib.suppress(OSError):  # of a page that had no time to do so
            self.run.dashboard.unlink(missing_ok=True)

    def _write_config(self) -> None:
        try:
            self.run.write_config(self._config_text)
        except OSError as error:
            self.report(f"can't write {self.run.config}: {error}; it stays as it was")

    def _tell_changed_sources(self) -> None:
        changed = self._sources.changed() if self._sources is not None else ()
        if changed:
            self.report(
                f"{', '.join(changed)} changed while the run started: its processes may execute "
                "different code, differ, or wait for each other for ever. Start it again"
            )
