"""The page of a run, and the server of any page."""

from __future__ import annotations

import gzip
import socket
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Protocol

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute

from fast_core.dashboard.broadcast import Broadcast
from fast_core.dashboard.clips import KEPT_S, Form
from fast_core.dashboard.security import Access, Guard
from fast_core.dashboard.serving import Serving, url_of
from fast_core.errors import FastLoopError

PAGE = Path(__file__).parent / "page"
FORMS: dict[str, Form] = {"gif": "gif", "mp4": "mp4"}
_MEDIA = {"gif": "image/gif", "mp4": "video/mp4"}
_FRESH = {"cache-control": "no-cache"}  # ask whether it has changed


def files(index: str = "index.html") -> list[BaseRoute]:
    """Routes of what lies in the package: a page, what belongs to it, and the charts' script."""

    async def page(request: Request) -> Response:
        return FileResponse(PAGE / index, headers=_FRESH)

    async def asset(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in {each.name for each in PAGE.iterdir() if each.is_file()}:
            return PlainTextResponse("there is no such file\n", 404)
        return FileResponse(PAGE / name, headers=_FRESH)

    async def charts(request: Request) -> Response:
        data = await run_in_threadpool(_plotly)
        headers = {"cache-control": "max-age=86400", "content-encoding": "gzip"}
        return Response(data, media_type="text/javascript", headers=headers)

    return [Route("/", page), Route("/assets/{name}", asset), Route("/plotly.js", charts)]


@cache
def _plotly() -> bytes:
    from plotly.offline import get_plotlyjs

    return gzip.compress(get_plotlyjs().encode(), 6)


class Page(Protocol):
    """What a `PageServer` serves."""

    def routes(self) -> Sequence[BaseRoute]:
        """Its files, and what it asks for."""
        ...

    async def run(self) -> None:
        """What is done beside answering, until it is cancelled."""
        ...

    def refused(self, text: str) -> None:
        """Somebody is not let in, for this reason."""
        ...

    def end(self, text: str | Callable[[], str]) -> None:
        """Tell every browser a last word."""
        ...

    def close(self) -> None:
        """Let go of what is shown; may take seconds."""
        ...


class RunPage(Broadcast):
    """The page of a run: its files, what it asks for, and its websocket."""

    def routes(self) -> list[BaseRoute]:
        """See `Page`."""
        state, clip = Route("/api/state", self._state), Route("/api/clip", self._clip)
        return [*files(), state, clip, WebSocketRoute("/ws", self.serve)]

    def close(self) -> None:
        """Let go of the run."""
        self.source.close()

    async def _state(self, request: Request) -> Response:
        data = msgspec.json.encode(self.source.now())
        return Response(data, media_type="application/json")

    async def _clip(self, request: Request) -> Response:
        asked = request.query_params
        form = FORMS.get(asked.get("format", "gif"))
        try:
            tile, seconds = int(asked.get("tile", "")), float(asked.get("seconds", "10"))
        except ValueError:
            tile, seconds = -1, 0.0
        if form is None or not 0 < seconds <= KEPT_S or tile < 0:
            text = f"a clip has tile=N, format=gif or mp4, and seconds from above 0 to {KEPT_S:g}\n"
            return PlainTextResponse(text, 400)
        try:
            shots = self.clips.shots(tile, seconds)
            data = await run_in_threadpool(self.clips.film, shots, form)
        except FastLoopError as error:
            return PlainTextResponse(f"{error}\n", 409)
        headers = {"content-disposition": f'attachment; filename="tile-{tile}.{form}"'}
        return Response(data, media_type=_MEDIA[form], headers=headers)


class PageServer:
    """Serves a page, guarded, until it is closed.

    Attributes:
        url: Where, without a token.
        port: At which port.
    """

    def __init__(
        self,
        page: Page,
        listening: socket.socket,
        host: str,
        *,
        token: str,
        hosts: tuple[str, ...] = (),
    ) -> None:
        """Begin to serve at a socket that listens."""
        self.port = int(listening.getsockname()[1])
        self.url = url_of(host, listening)
        self._page = page
        access = Access(host, self.port, token, hosts)
        app = Guard(Starlette(routes=page.routes()), access, page.refused)
        self._serving = Serving(app, listening, page.run, told=page.refused)

    def check(self) -> None:
        """See whether it serves.

        Raises:
            FastLoopError: It does not any more; says why.
        """
        self._serving.check()

    def close(self, text: str | Callable[[], str] = "") -> None:
        """Tell every browser what is new and ``text``, its last word, and stop; even twice.

        What gives the text is called in the thread that asks the source everything else.
        """
        self._serving.close(partial(self._page.end, text) if text else None)
        self._page.close()
