"""The node that serves the page of a run; it is made of what any node may use."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from fast_core.memory import Structure, Trace
from fast_core.messages import Command, Ready
from fast_core.monitor.run_directory import RunDirectory
from fast_core.monitor.screens.access import made_token, token
from fast_core.monitor.screens.served import Served, read_served
from fast_core.nodes.node import Node
from fast_core.run.plan import RunPlan
from fast_core.run.structures import INSIGHTS, insights, watching
from fast_core.run.watching import WATCHING, Watching

if TYPE_CHECKING:
    from fast_core.dashboard.live import WatchedRun
    from fast_core.dashboard.server import PageServer

NICENESS = 10


class Dashboard(Node):
    """Serves the page from a thread; the run neither waits for it nor ends with it."""

    emits = frozenset({Ready})
    reads = frozenset({"frames", "weights", INSIGHTS})
    writes = frozenset({WATCHING})
    essential = False
    _server: PageServer | None = None
    _served: Served | None = None
    _live: WatchedRun | None = None

    @classmethod
    def structures(cls, plan: RunPlan, name: str) -> Iterator[Structure]:
        """The words in which it says which tiles are watched, and a board for insights."""
        yield watching(plan)._replace(name=f"{WATCHING}/{name}")
        if (board := insights(plan)) is not None:
            yield board._replace(name=f"{INSIGHTS}/{name}")

    def setup(self) -> None:
        """Begin to serve: at the port of the process before, if there was one."""
        context, config = self.context, self.context.plan.config
        if config.mode == "process":  # first, since what follows takes a second of a core
            os.nice(NICENESS)
        # here, because the launcher imports this module and needs none of them
        from fast_core.dashboard.insight import Insights
        from fast_core.dashboard.live import WatchedRun
        from fast_core.dashboard.server import PageServer, RunPage
        from fast_core.dashboard.serving import listen

        page, path = config.dashboard, RunDirectory(Path(context.plan.run_directory)).dashboard
        before = read_served(path)
        port = page.port if before is None or context.life == 1 else before.port
        made = made_token("" if before is None else before.token)
        listening = listen(page.host, port)
        memory, name = context.memory, context.name
        words = memory.at(Trace, f"{WATCHING}/{name}")
        thoughts = Insights(context.plan, memory, f"{INSIGHTS}/{name}")
        self._live = WatchedRun(context.plan, memory, Watching(words.words), thoughts)
        self._server = server = PageServer(
            RunPage(self._live, context.log.warning),
            listening,
            page.host,
            token=token() or made,
            hosts=page.hosts,
        )
        self._served = Served(server.url, server.port, os.getpid(), made)
        try:
            self._served.write(path)
        except OSError as error:  # the disk may be full
            context.log.warning(
                "can't write %s, so nobody is told how to open the page: %s", path, error
            )
        if port not in (0, server.port):
            context.log.warning("port %d is in use; the page is at %d", port, server.port)

    def handle(self, command: Command) -> None:
        """Nothing comes: it consumes no message."""

    def work(self) -> bool:
        """See whether its thread serves; what ended it is this node's failure."""
        if self._server is not None:
            self._server.check()
        return False

    def close(self) -> None:
        """Tell the browsers of the end, and take back where it was served."""
        if self._server is not None and self._live is not None:
            self._server.close(self._live.outcome if self.stopping else "")
        if self._served is not None:
            self._served.remove(RunDirectory(Path(self.context.plan.run_directory)).dashboard)
