"""Asking an ASGI application, without a socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from fast_core.dashboard.security import App

HOST = "127.0.0.1:1"


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def _scope(kind: str, address: str, headers: Mapping[str, str]) -> dict[str, Any]:
    path, _, query = address.partition("?")
    given = {"host": HOST, **headers}
    return {
        "type": kind,
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http" if kind == "http" else "ws",
        "path": unquote(path),
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in given.items()],
        "server": ("127.0.0.1", 1),
        "client": ("127.0.0.1", 2),
        "subprotocols": [],
    }


async def ask(app: App, address: str, **headers: str) -> Answer:
    """GET an address, which is not normalised."""
    sent: list[Any] = []
    said: asyncio.Queue[Any] = asyncio.Queue()
    said.put_nowait({"type": "http.request", "body": b"", "more_body": False})

    async def send(message: Any) -> None:
        sent.append(message)

    await app(_scope("http", address, headers), said.get, send)
    found = {name.decode(): value.decode() for name, value in sent[0].get("headers", ())}
    body = b"".join(message.get("body", b"") for message in sent[1:])
    return Answer(sent[0]["status"], found, body)


class Link:
    """A websocket, open while the block is."""

    def __init__(self, app: App, address: str, **headers: str) -> None:
        self._app, self._scope = app, _scope("websocket", address, headers)
        self._inbox: asyncio.Queue[Any] = asyncio.Queue()
        self._outbox: asyncio.Queue[Any] = asyncio.Queue()

    async def __aenter__(self) -> Link:
        self._inbox.put_nowait({"type": "websocket.connect"})
        serving = self._app(self._scope, self._inbox.get, self._outbox.put)
        self._task = asyncio.ensure_future(serving)
        return self

    async def __aexit__(self, *error: object) -> None:
        self._inbox.put_nowait({"type": "websocket.disconnect", "code": 1000})
        await self._task

    async def said(self) -> Any:
        """The next message of the application, as ASGI has it."""
        return await asyncio.wait_for(self._outbox.get(), 10)
