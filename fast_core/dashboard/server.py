"""The page's server: a Starlette application, and uvicorn in a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gzip
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

from fast_core.dashboard.broadcast import Broadcast
from fast_core.dashboard.clips import KEPT_S, Form
from fast_core.dashboard.security import Access, App, Guard
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


def application(broadcast: Broadcast, access: Access) -> App:
    """The page's files, what it asks for, and its websocket; guarded."""
    plotly: list[bytes] = []

    async def page(request: Request) -> Response:
        return FileResponse(PAGE / "index.html", headers={"cache-control": "no-cache"})

    async def asset(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in {each.name for each in PAGE.iterdir() if each.is_file()}:
            return PlainTextResponse("there is no such file\n", 404)
        return FileResponse(PAGE / name, headers={"cache-control": "no-cache"})

    async def charts(request: Request) -> Response:
        if not plotly:
            plotly.append(await run_in_threadpool(_plotly))
        headers = {"cache-control": "max-age=86400", "content-encoding": "gzip"}
        return Response(plotly[0], media_type="text/javascript", headers=headers)

    async def state(request: Request) -> Response:
        data = msgspec.json.encode(broadcast.source.now())
        return Response(data, media_type="application/json")

    async def clip(request: Request) -> Response:
        return await _clip(broadcast, request)

    async def talk(link: WebSocket) -> None:
        await broadcast.serve(link)

    app = Starlette(
        routes=[
            Route("/", page),
            Route("/assets/{name}", asset),
            Route("/plotly.js", charts),
            Route("/api/state", state),
            Route("/api/clip", clip),
            WebSocketRoute("/ws", talk),
        ]
    )
    return Guard(app, access, broadcast.tell_once)


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


class PageServer:
    """Serves one source from a thread until it is closed.

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
        shown = f"[{host}]" if ":" in host else host
        self.url = f"http://{shown}:{self.port}/"
        self._listening, self._source = listening, source
        self._broadcast = Broadcast(source, warn)
        access = Access(host, self.port, token, hosts)
        config = uvicorn.Config(
            application(self._broadcast, access),
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
        looking = asyncio.create_task(self._broadcast.run())
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
        self._source.close()

    def _leave(self, text: str) -> None:
        if text:
            self._broadcast.end(text)
        assert self._loop is not None
        self._loop.call_later(0.1, setattr, self._server, "should_exit", True)
