"""The page of all runs of a folder, and at ``/run/<id>/`` the page of each."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import BaseRoute, Mount
from starlette.types import Receive, Scope, Send

from fast_core.dashboard.broadcast import once_each
from fast_core.dashboard.files import RunOnFile
from fast_core.dashboard.folder_api import FolderApi
from fast_core.dashboard.overview import Overview
from fast_core.dashboard.server import Page, RunPage, files
from fast_core.monitor.run_directory import RunDirectory

MOST_OPEN = 16  # pages of runs; the one that nobody looks at for longest is closed first
IDLE_S = 60.0  # after which a page that nobody looks at is closed
_LOOK_S = 5.0
_GONE = 1001  # a websocket's code for what is not there any more


def page_of(path: Path, warn: Callable[[str], None]) -> Page:
    """The page of a run by what it writes; ``warn`` is called with sentences."""
    source = RunOnFile(RunDirectory(path))
    source.hello()  # reads what there is already, which others need not wait for
    return RunPage(source, warn)


@dataclass(eq=False)
class _Open:
    """The page of a run that somebody looks at, or has just looked at."""

    page: Page
    app: Starlette
    task: asyncio.Future[None]
    viewers: int = 0
    left_s: float = field(default_factory=time.monotonic)


class FolderPage:
    """What is served of a folder.

    The page of a run is opened when it is first asked for, and closed when nobody has looked at it
    for a while or its directory is gone. It costs nothing otherwise.

    Attributes:
        api: What it asks for, and the folder.
        refused: Warns of who is not let in, once for each reason.
    """

    def __init__(
        self,
        folder: Path,
        warn: Callable[[str], None],
        open_run: Callable[[Path, Callable[[str], None]], Page] = page_of,
    ) -> None:
        """``warn`` is called with sentences; ``open_run`` makes the page of a run directory."""
        self.api = FolderApi(Overview(folder))
        self._open_run, self._warn = open_run, warn
        self.refused = once_each(warn, "the page refused somebody")
        self._open: dict[str, _Open] = {}

    def routes(self) -> list[BaseRoute]:
        """The page's files, what it asks for, and the pages of runs."""
        runs = Mount("/run/{run}", app=self._of_run)
        return [*files("overview.html"), *self.api.routes(), runs]

    async def run(self) -> None:
        """Close the pages that nobody looks at."""
        while True:
            await asyncio.sleep(_LOOK_S)
            await self.tidy(time.monotonic())

    async def tidy(self, now_s: float) -> None:
        """Close pages whose runs are gone, that have ended, and that nobody looks at any more."""
        for run, each in list(self._open.items()):
            idle = not each.viewers and now_s - each.left_s > IDLE_S
            if idle or each.task.done() or self.api.overview.path(run) is None:
                await self._shut(run)

    def end(self, text: str | Callable[[], str]) -> None:
        """Tell the browsers that look at runs; that of the folder notices by itself."""
        for each in self._open.values():
            each.page.end(text)

    def close(self) -> None:
        """Let go of the runs."""
        for each in self._open.values():
            each.page.close()
        self._open.clear()

    async def _of_run(self, scope: Scope, receive: Receive, send: Send) -> None:
        run = scope["path_params"]["run"]
        page = await self._page_of(run)
        if page is None:
            await _missing(scope, receive, send)
            return
        page.viewers += 1
        try:
            await page.app(scope, receive, send)
        finally:
            page.viewers -= 1
            page.left_s = time.monotonic()

    async def _page_of(self, run: str) -> _Open | None:
        path = self.api.overview.path(run)
        if path is None and not self.api.looked:
            await asyncio.to_thread(self.api.news, "")  # an address that was kept
            path = self.api.overview.path(run)
        if path is None:
            return None
        if (known := self._open.get(run)) is not None and not known.task.done():
            return known
        if known is not None:
            await self._shut(run)
        await self._make_room()
        try:
            page = await asyncio.to_thread(self._open_run, path, self._warn)
        except OSError as error:  # it is being deleted, or another user's
            self._warn(f"the page of {path} can't be made: {error}")
            return None
        if (other := self._open.get(run)) is not None:  # somebody else asked meanwhile
            await asyncio.to_thread(page.close)
            return other
        app = Starlette(routes=page.routes())
        self._open[run] = opened = _Open(page, app, asyncio.ensure_future(page.run()))
        return opened

    async def _make_room(self) -> None:
        unseen = [(each.left_s, run) for run, each in self._open.items() if not each.viewers]
        for _, run in sorted(unseen)[: max(0, len(self._open) + 1 - MOST_OPEN)]:
            await self._shut(run)

    async def _shut(self, run: str) -> None:
        each = self._open.pop(run)
        each.task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            try:
                await each.task
            except Exception as error:  # of one run's page, which is not the folder's
                self._warn(f"the page of run {run} ended: {error!r}")
        await asyncio.to_thread(each.page.close)


async def _missing(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": _GONE, "reason": "no such run"})
        return
    answer = PlainTextResponse("there is no such run here (any more)\n", 404)
    await answer(scope, receive, send)
