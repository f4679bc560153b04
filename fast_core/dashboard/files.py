"""A run that does not serve the page itself: one that has ended, or was started without it."""

from __future__ import annotations

import threading
import time

from msgspec.structs import replace

from fast_core.dashboard.feed import Feed
from fast_core.dashboard.figures import now_of, why_no_frames
from fast_core.dashboard.meters import Meters
from fast_core.dashboard.source import End, Hello, Insight, News, Now, RunFacts
from fast_core.errors import TransportError
from fast_core.messages.requests import Status
from fast_core.monitor import control_socket
from fast_core.monitor.control_socket import find
from fast_core.monitor.run_directory import RunDirectory
from fast_core.monitor.run_lock import holder
from fast_core.monitor.run_state import read_state
from fast_core.monitor.screens.served import now_served
from fast_core.run.frame import Frame
from fast_core.system.text import encodable

ASK_S = 1.0
ANSWER_S = 2.0
UNWATCHED_S = 3.0  # after which nobody asks the run any more


def facts_of(run: RunDirectory) -> RunFacts:
    """What a run is, by its directory alone."""
    state = read_state(run.path)
    running = state.state == "running"
    return RunFacts(
        name=encodable(run.path.parent.name),
        seed=state.seed,
        algorithm=state.algorithm,
        environment=state.environment,
        directory=encodable(str(run.path)),
        mode="",
        running=running,
        outcome=None if running else f"{state.state}: {state.text}",
    )


class RunOnFile:
    """See `fast_core.dashboard.source.Source`; there are no frames.

    A run that goes on is asked how it is over its control socket, in a thread, while somebody
    looks: its launcher may be busy.

    Attributes:
        facts: What the run is.
    """

    def __init__(self, run: RunDirectory) -> None:
        self._run, self.facts = run, facts_of(run)
        self._feed = Feed(run)
        self._feed.catch_up()
        self._meters = Meters()
        self._status: Status | None = None
        self._asked_s = 0.0
        self._closing = threading.Event()
        self._asking = threading.Thread(target=self._ask_on, name="asks", daemon=True)
        self._asking.start()

    def _ask_on(self) -> None:
        while not self._closing.wait(ASK_S):
            looked = time.monotonic() - self._asked_s < UNWATCHED_S
            self._status = self._ask() if looked and self.facts.running else None

    def _ask(self) -> Status | None:
        path = find(self._run)
        try:
            if path is not None:
                return control_socket.status(path, ANSWER_S)
        except (OSError, TransportError):
            pass
        return None

    def check(self) -> None:
        """See whether there is more to come; of files there always may be."""

    def hello(self) -> Hello:
        """What the run is, and its history."""
        served = now_served(self._run.dashboard)
        own_page = "" if served is None else served.address
        died = served is None and self._run.dashboard.exists()
        why = why_no_frames(self.facts, own_page, died=died)
        return self._feed.hello(self.facts, why_no_frames=why)

    def news(self) -> list[News]:
        """What was written since the last call, and whether the run has begun or ended."""
        void, news = self._feed.read()
        found: list[News] = [*((self.hello(),) if void else ()), *news]
        if (holder(self._run.lock_file) is not None) != self.facts.running:
            self.facts = facts_of(self._run)
            found.append(self.hello())
            if self.facts.outcome is not None:
                found.append(End(self.facts.outcome))
        return found

    def now(self) -> Now:
        """The run at this moment, as far as it says."""
        self._asked_s = time.monotonic()
        now, status = now_of(self._feed), self._status
        if status is None:
            phase = "starting" if self.facts.running else (self.facts.outcome or "ended")
            return replace(now, phase=phase.partition(":")[0])
        return replace(
            now,
            phase=status.phase,
            elapsed_s=status.elapsed_s,
            env_steps=status.env_steps,
            updates=status.updates or now.updates,
            nodes=tuple(map(self._meters.node, status.nodes)),
        )

    def want(self, intervals_ns: dict[int, int], *, insight: bool = False) -> None:
        """There are no tiles."""

    def frame(self, tile: int, newer_than: int) -> tuple[int, Frame] | None:
        """There are no frames."""
        return None

    def insight(self, frame: Frame) -> Insight | None:
        """There are no frames."""
        return None

    def close(self) -> None:
        """Ask no more."""
        self._closing.set()
        self._asking.join(ANSWER_S + 1)
