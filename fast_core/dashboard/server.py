"""The page's server: a Starlette application, and uvicorn in a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gzip
import socket
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Protocol

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket

from fast_core.dashboard.broadcast import Broadcast
from fast_core.dashboard.clips import KEPT_S, Form
from fast_core.dashboard.security import Access, Guard
from fast_core.dashboard.source import Source
from fast_core.errors import ConfigError, FastLoopError

PAGE = Path(__file__).parent / "page"
MOST_MESSAGE = 4096  # bytes; a browser's messages are far smaller
PORTS = 100  # that are tried one after the other
START_S, STOP_S = 10.0, 2.0
FORMS: dict[str, Form] = {"gif": "gif", "mp4": "mp4"}
_MEDIA = {"gif": "image/gif", "mp4": "video/mp4"}


def listen(host: str, port: int) -> socket.socket:
    """Listen at an address, at the next free port where that one is taken.

    Raises:
        ConfigError: It is no address of this machine, or no port is free.
    """
    last = 1 if port == 0 else PORTS
    for each in range(port, min(port + last, 65536)):
        try:
            family, _, _, _, address = socket.getaddrinfo(host, each, type=socket.SOCK_STREAM)[0]
            listening = socket.socket(family, socket.SOCK_STREAM)
        except OSError as error:
            raise ConfigError(_no_address(host, error)) from error
        try:
            # So that a port is free again the moment that the process is gone.
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
            listening.listen()
        except OSError as error:
            listening.close()
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise ConfigError(_no_address(host, error)) from error
        else:
            return listening
    raise ConfigError(
        f"no port from {port} to {port + PORTS - 1} is free for the page; choose another with "
        "--port (dashboard.port), or 0 for any"
    )


def _no_address(host: str, error: OSError) -> str:
    return (
        f"the page can't be served at dashboard.host {host!r}: {error.strerror or error}. Use "
        "127.0.0.1, or an address of this machine."
    )


class Page(Protocol):
    """What is served at an address; all of it is called in the thread that serves."""

    def routes(self) -> list[BaseRoute]:
        """Where its files are, and what they ask for."""
        ...

    async def run(self) -> None:
        """Do what is to be done beside answering, until it is cancelled."""
        ...

    def refused(self, text: str) -> None:
        """Somebody was not let in."""
        ...

    def end(self, text: str) -> None:
        """Tell every browser its last word."""
        ...

    def close(self) -> None:
        """Let go of everything; from any thread, when nothing is served any more."""
        ...


class RunPage:
    """The page of one run."""

    def __init__(self, source: Source, warn: Callable[[str], None]) -> None:
        self._broadcast = Broadcast(source, warn)

    def routes(self) -> list[BaseRoute]:
        """The page's files, what it asks for, and its websocket."""
        return [
            *file_routes("index.html"),
            Route("/api/state", self._state),
            Route("/api/clip", self._clip),
            WebSocketRoute("/ws", self._talk),
        ]

    async def run(self) -> None:
        """Look at the run, and hand on what is seen."""
        await self._broadcast.run()

    def refused(self, text: str) -> None:
        """Warn of it once."""
        self._broadcast.tell_once(text)

    def end(self, text: str) -> None:
        """Tell every browser its last word."""
        self._broadcast.end(text)

    def close(self) -> None:
        """Let go of the run."""
        self._broadcast.source.close()

    async def _state(self, request: Request) -> Response:
        data = msgspec.json.encode(self._broadcast.source.now())
        return Response(data, media_type="application/json")

    async def _clip(self, request: Request) -> Response:
        return await _clip(self._broadcast, request)

    async def _talk(self, link: WebSocket) -> None:
        await self._broadcast.serve(link)


def file_routes(start: str) -> list[BaseRoute]:
    """The file that a page begins with, those that it names, and the charts' script."""

    async def page(request: Request) -> Response:
        return FileResponse(PAGE / start, headers={"cache-control": "no-cache"})

    async def asset(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in {each.name for each in PAGE.iterdir() if each.is_file()}:
            return PlainTextResponse("there is no such file\n", 404)
        return FileResponse(PAGE / name, headers={"cache-control": "no-cache"})

    async def charts(request: Request) -> Response:
        data = await run_in_threadpool(_plotly)
        headers = {"cache-control": "max-age=86400", "content-encoding": "gzip"}
        return Response(data, media_type="text/javascript", headers=headers)

    return [Route("/", page), Route("/assets/{name}", asset), Route("/plotly.js", charts)]


@cache
def _plotly() -> bytes:
    from plotly.offline import get_plotlyjs

    return gzip.compress(get_plotlyjs().encode(), 6)


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


class Server:
    """Serves a page from a thread until it is closed.

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
        shown = f"[{host}]" if ":" in host else host
        self.url = f"http://{shown}:{self.port}/"
        self._listening, self._page = listening, page
        access = Access(host, self.port, token, hosts)
        config = uvicorn.Config(
            Guard(Starlette(routes=page.routes()), access, page.refused),
            log_config=None,
            log_level="critical",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            lifespan="off",
            ws="websockets-sansio",
            ws_max_size=MOST_MESSAGE,
            h11_max_incomplete_event_size=MOST_MESSAGE * 4,
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)
        self._loop: asyncio.AbstractEventLoop | None = None
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="page", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # whoever has this looks at it
            self.error = error

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        looking = asyncio.create_task(self._page.run())
        serving = asyncio.create_task(self._server.serve(sockets=[self._listening]))
        done, _ = await asyncio.wait((looking, serving), return_when=asyncio.FIRST_COMPLETED)
        self._server.should_exit = True
        await serving
        looking.cancel()
        for each in done:
            each.result()

    def check(self) -> None:
        """See whether it serves.

        Raises:
            FastLoopError: It does not any more; says why.
        """
        if self.error is not None:
            raise FastLoopError(f"the page is not served any more: {self.error!r}") from self.error
        if not self._thread.is_alive():
            raise FastLoopError("the page is not served any more")

    def close(self, text: str = "") -> None:
        """Tell every browser ``text``, its last word, and stop; may be called twice."""
        loop = self._loop
        if self._thread.is_alive() and loop is not None:
            with contextlib.suppress(RuntimeError):  # it has just ended
                loop.call_soon_threadsafe(self._leave, text)
        self._thread.join(STOP_S)
        self._listening.close()
        self._page.close()

    def _leave(self, text: str) -> None:
        if text:
            self._page.end(text)
        assert self._loop is not None
        self._loop.call_later(0.1, setattr, self._server, "should_exit", True)


class PageServer(Server):
    """Serves the page of one run from a thread until it is closed."""

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
        super().__init__(RunPage(source, warn), listening, host, token=token, hosts=hosts)
