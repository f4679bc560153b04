"""Serves an ASGI application at an address of this machine, from a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import uvicorn

from fast_core.dashboard.door import Door, Http
from fast_core.dashboard.security import App
from fast_core.errors import ConfigError, FastLoopError
from fast_core.system.text import error_text

MOST_MESSAGE = 4096  # bytes; what a browser says is far smaller
AT_ONCE = 8  # connections that are let in before they are counted, two or three times
PORTS = 100  # that are tried one after the other
STOP_S = 2.0
TURN_S = 0.5
HANGS_S = 30.0  # without a turn
PAUSE_S = 5.0
LAST_WORD_S = 0.1  # for what is said last to be sent


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


def url_of(host: str, listening: socket.socket) -> str:
    """The address of what is served at a socket."""
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{listening.getsockname()[1]}/"


class Serving:
    """A thread that serves; what is done ``beside`` runs in it too, and ends it with its error."""

    def __init__(
        self,
        app: App,
        listening: socket.socket,
        beside: Callable[[], Awaitable[None]] | None = None,
        *,
        told: Callable[[str], None],
    ) -> None:
        """Begin to serve at a socket that listens; ``told`` is called for who is turned away."""
        self._beside, self._told = beside, told
        config = uvicorn.Config(
            app,
            log_config=None,
            log_level="critical",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            lifespan="off",
            http=Http,
            backlog=AT_ONCE,
            ws="websockets-sansio",
            ws_max_size=MOST_MESSAGE,
            ws_per_message_deflate=False,  # pictures are compressed already
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)
        self._door = Door(listening, self._server.server_state.connections, told)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._turns = 0
        self._looked = (0, 0.0, 0.0)  # turns, when they were seen to change, when it was looked at
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="page", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # `check` raises it where somebody looks
            self._error = error

    async def _serve(self) -> None:
        self._loop = loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._failed)
        serving = asyncio.create_task(self._server.serve(sockets=[self._door]))
        beside = asyncio.ensure_future(self._beside()) if self._beside is not None else serving
        turning = asyncio.create_task(self._turn())
        await asyncio.wait((serving, beside), return_when=asyncio.FIRST_COMPLETED)
        turning.cancel()
        self._server.should_exit = True
        await serving
        if not beside.cancel():
            await beside

    async def _turn(self) -> None:
        while True:
            self._turns += 1
            self._door.sweep(asyncio.get_running_loop().time())
            await asyncio.sleep(TURN_S)

    def _failed(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Tell what ended a connection, where asyncio would write a traceback of each."""
        error = context.get("exception")
        self._told(context["message"] + (f": {error_text(error)}" if error is not None else ""))

    def check(self) -> None:
        """See whether it serves; called every second or so.

        Raises:
            FastLoopError: It does not any more; says why.
        """
        now_s = time.monotonic()
        turns, since_s, looked_s = self._looked
        if turns != self._turns or now_s > looked_s + PAUSE_S:  # this process was stopped, maybe
            since_s = now_s
        self._looked = self._turns, since_s, now_s
        if now_s > since_s + HANGS_S:
            raise FastLoopError(f"the thread of the page has not come back for {HANGS_S:g} s")
        if not self._thread.is_alive():
            error = self._error
            why = "" if error is None else f": {type(error).__name__}: {error}"
            raise FastLoopError(f"the page is not served any more{why}") from error

    def close(self, say: Callable[[], None] | None = None) -> None:
        """Stop, after ``say`` was called in the thread; may be called twice."""
        loop = self._loop
        if self._thread.is_alive() and loop is not None:
            with contextlib.suppress(RuntimeError):  # it has just ended
                if say is not None:
                    loop.call_soon_threadsafe(say)
                wait_s = 0.0 if say is None else LAST_WORD_S
                loop.call_soon_threadsafe(loop.call_later, wait_s, self._leave)
        self._thread.join(STOP_S)
        self._door.close()

    def _leave(self) -> None:
        self._server.should_exit = True
