"""The page of a run: its files, what it asks for, and its websocket."""

from __future__ import annotations

import gzip
import socket
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket

from fast_core.dashboard.broadcast import Broadcast
from fast_core.dashboard.clips import KEPT_S, Form
from fast_core.dashboard.security import Access, App, Guard
from fast_core.dashboard.serving import Serving, url_of
from fast_core.dashboard.source import Source
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


def routes(broadcast: Broadcast) -> list[BaseRoute]:
    """The page of a run: its files, what it asks for, and its websocket."""

    async def state(request: Request) -> Response:
        data = msgspec.json.encode(broadcast.source.now())
        return Response(data, media_type="application/json")

    async def clip(request: Request) -> Response:
        return await _clip(broadcast, request)

    async def talk(link: WebSocket) -> None:
        await broadcast.serve(link)

    asked = [Route("/api/state", state), Route("/api/clip", clip), WebSocketRoute("/ws", talk)]
    return [*files(), *asked]


def application(broadcast: Broadcast, access: Access) -> App:
    """The page of a run, guarded."""
    return Guard(Starlette(routes=routes(broadcast)), access, broadcast.tell_once)


async def _clip(broadcast: Broadcast, request: Request) -> Response:
    asked = request.query_params
    form = FORMS.get(asked.get("format", "gif"))
    try:
        tile, seconds = int(asked.get("tile", "")), float(asked.get("seconds", "10"))
    except ValueError:
        tile, seconds = -1, 0.0
    if form is None or not 0 < seconds <= KEPT_S or tile < 0:
        text = f"a clip has tile=N, format=gif or mp4, and seconds from above 0 to {KEPT_S:g}\n"
        return PlainTextResponse(text, 400)
    clips = broadcast.clips
    try:
        data = await run_in_threadpool(clips.film, clips.shots(tile, seconds), form)
    except FastLoopError as error:
        return PlainTextResponse(f"{error}\n", 409)
    headers = {"content-disposition": f'attachment; filename="tile-{tile}.{form}"'}
    return Response(data, media_type=_MEDIA[form], headers=headers)


class PageServer:
    """Serves the page of one source until it is closed.

    Attributes:
        url: Where, without a token.
        port: At which port.
    """

    def __init__(
        self,
        source: Source,
        listening: socket.socket,
        host: str,
        *,
        token: str,
        hosts: tuple[str, ...] = (),
        warn: Callable[[str], None],
    ) -> None:
        """Begin to serve at a socket that listens; ``warn`` is called with sentences."""
        self.port = int(listening.getsockname()[1])
        self.url = url_of(host, listening)
        self._source, self._broadcast = source, Broadcast(source, warn)
        app = application(self._broadcast, Access(host, self.port, token, hosts))
        told = self._broadcast.tell_once
        self._serving = Serving(app, listening, self._broadcast.run, told=told)

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
        self._serving.close(partial(self._broadcast.end, text) if text else None)
        self._source.close()
