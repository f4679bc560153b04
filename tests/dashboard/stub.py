"""A server that speaks the page's protocol with figures of its own, so that the page can be tried.

    python -m tests.dashboard.stub [PORT] [--tiles N]

What it sends moves with the time since it was made. `token` and `Host` are the real server's.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import io
import itertools
import json
import socket
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import plotly.offline
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from fast_core.dashboard.pictures import Kind, header
from fast_core.dashboard.security import POLICY
from tests.dashboard.stub_run import Run, encoded, observation, picture

PAGE = Path(__file__).parents[2] / "fast_core" / "dashboard" / "page"


class Client:
    """One socket: what it watches, and which pictures it has not acknowledged."""

    def __init__(self, server: Stub, socket: WebSocket) -> None:
        self.server, self.run, self.socket = server, server.run, socket
        self.tiles: list[int] = []
        self.fps, self.mode = 5.0, "rgb"
        self.enlarged: int | None = None
        self.waiting: dict[int, tuple[int, int]] = {}
        self.numbers = itertools.count(1)

    async def serve(self) -> None:
        await self.say(self.run.hello())
        jobs = [asyncio.ensure_future(each()) for each in (self.nows, self.pictures, self.rows)]
        try:
            while True:
                self.hear(json.loads(await self.socket.receive_text()))
        except WebSocketDisconnect:
            pass
        finally:
            for job in jobs:
                job.cancel()
            await asyncio.gather(*jobs, return_exceptions=True)

    def hear(self, message: dict[str, Any]) -> None:
        self.server.heard.append((time.monotonic(), message))
        if message["type"] == "watch":
            self.tiles, self.fps = message["tiles"], message["fps"]
            self.mode = message["mode"]
        elif message["type"] == "enlarge":
            self.enlarged = message["tile"]
        elif message["type"] == "ack":
            for key, number in list(self.waiting.items()):
                if number == message["seq"]:
                    del self.waiting[key]

    async def say(self, message: dict[str, Any]) -> None:
        await self.socket.send_text(json.dumps(message))

    async def nows(self) -> None:
        while True:
            await self.say(self.run.now())
            while self.run.events:
                await self.say(self.run.events.pop(0))
            if self.enlarged is not None:
                await self.say(self.run.insight(self.enlarged))
            await asyncio.sleep(0.25)

    async def rows(self) -> None:
        second = int(self.run.at)
        while True:
            await asyncio.sleep(0.5)
            while second < int(self.run.at) and self.run.outcome is None:
                await self.say({"type": "rows", "kind": "train", "rows": [self.run.train(second)]})
                second += 1

    async def pictures(self) -> None:
        while True:
            for tile in self.tiles:
                for kind in {"rgb": (1,), "obs": (2,), "both": (1, 2)}[self.mode]:
                    if (tile, kind) not in self.waiting and tile not in self.run.blind:
                        await self.picture(tile, kind)
            await asyncio.sleep(1 / self.fps)

    async def picture(self, tile: int, kind: int) -> None:
        taken = time.monotonic()
        if kind == Kind.RGB and tile in self.run.written:
            kind, data = Kind.TEXT, self.run.written[tile].encode()
        else:
            data = encoded((picture if kind == 1 else observation)(tile, taken), kind)
        number = next(self.numbers)
        self.waiting[tile, Kind.RGB if kind == Kind.TEXT else kind] = number
        sent = time.monotonic()
        self.server.sent[number] = (taken, sent)
        head = header(Kind(kind), tile, number, 1000 * (sent - taken))
        await self.socket.send_bytes(head + data)


class Stub:
    """The server, in a thread of its own; as a context it is up from beginning to end.

    Attributes:
        run: What it shows.
        heard: What pages said, and when.
        sent: When each picture was taken and sent.
        full: Whether it takes no visitor.
        visits: How often a page came.
    """

    def __init__(self, run: Run, port: int = 0) -> None:
        self.run = run
        self.heard: list[tuple[float, dict[str, Any]]] = []
        self.sent: dict[int, tuple[float, float]] = {}
        self.full = False
        self.visits = 0
        self.socket = socket.create_server(("127.0.0.1", port), reuse_port=False)
        self.port: int = self.socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/"
        app = Starlette(routes=self.routes(), lifespan=_nothing)
        settings = uvicorn.Config(
            guarded(app), log_level="warning", ws="websockets-sansio", timeout_graceful_shutdown=1
        )
        self.server = uvicorn.Server(settings)
        self.thread = threading.Thread(target=self._serve)

    def _serve(self) -> None:
        self.server.run(sockets=[self.socket])

    def __enter__(self) -> Stub:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.should_exit = True
        self.thread.join()
        self.socket.close()

    def routes(self) -> list[Any]:
        return [
            Route("/", lambda _: FileResponse(PAGE / "index.html")),
            Route("/plotly.js", _plotly),
            Route("/api/clip", self.clip),
            WebSocketRoute("/ws", self.talk),
            Mount("/assets", StaticFiles(directory=PAGE)),
        ]

    async def talk(self, socket: WebSocket) -> None:
        await socket.accept()
        self.visits += 1
        if self.full:
            await socket.close(1013)
            return
        with contextlib.suppress(RuntimeError, WebSocketDisconnect):
            await Client(self, socket).serve()

    async def clip(self, request: Request) -> Response:
        tile = int(request.query_params["tile"])
        if request.query_params["format"] != "gif":
            return Response("imageio-ffmpeg is missing", 501, media_type="text/plain")
        frames = [picture(tile, number / 5, (150, 100)) for number in range(10)]
        out = io.BytesIO()
        frames[0].save(out, "GIF", save_all=True, append_images=frames[1:], duration=200, loop=0)
        return Response(out.getvalue(), media_type="image/gif")


def _plotly(_: Request) -> Response:
    return Response(plotly.offline.get_plotlyjs(), media_type="text/javascript")


@contextlib.asynccontextmanager
async def _nothing(_: Starlette) -> AsyncIterator[None]:
    yield


def guarded(app: ASGIApp) -> ASGIApp:
    """The same answers, with the content security policy."""

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        async def with_policy(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"].append((b"content-security-policy", POLICY.encode()))
            await send(message)

        await app(scope, receive, with_policy)

    return call


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int, nargs="?", default=8421)
    parser.add_argument("--tiles", type=int, default=8)
    chosen = parser.parse_args()
    with Stub(Run(chosen.tiles), chosen.port) as stub:
        print(stub.url, flush=True)
        threading.Event().wait()
