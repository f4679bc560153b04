"""What every browser is sent, from one source: each frame is encoded once, whoever watches.

All of it happens in the one thread of the page's server.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec
from starlette.websockets import WebSocket, WebSocketDisconnect

from fast_core.dashboard.clients import Ack, Client, understand
from fast_core.dashboard.clips import Clips
from fast_core.dashboard.pictures import Kind, encode, header
from fast_core.dashboard.source import End, RunSource
from fast_core.run.frame import Frame
from fast_core.system.text import error_text

LOOK_S = 0.03  # between looks at the boards while somebody watches
NOW_S = 0.3
NEWS_S = 0.5
WANT_S = 1.0  # see `fast_core.run.watching.STALE_NS`
UNWATCHED_S = 2.0  # between looks at the files while no browser is there
CLOSE_S = 1.0
SILENT_S = 30.0  # for a browser to say what it shows; the page says so at once
MOST_CLIENTS = 32
REFUSED, AGAIN, GONE = 1008, 1013, 1001  # codes with which a connection is closed

_KINDS = {"rgb": (Kind.RGB,), "obs": (Kind.OBSERVATION,), "both": (Kind.RGB, Kind.OBSERVATION)}
_json = msgspec.json.Encoder()


@dataclass
class Newest:
    """The newest frame of a tile, and what was made of it."""

    number: int
    frame: Frame
    files: dict[Kind, tuple[int, bytes]] = field(default_factory=dict)  # sequence number, image


@dataclass(eq=False)
class Connection:
    """A browser that is connected.

    Attributes:
        client: What it wants and has taken.
        wake: Set where there may be something to send.
        over: Set once it is to be closed, with ``code``.
        came_s: When it came; infinity once it has said something.
    """

    client: Client = field(default_factory=Client)
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    over: asyncio.Event = field(default_factory=asyncio.Event)
    code: int = GONE
    came_s: float = field(default_factory=time.monotonic)

    def refuse(self, code: int) -> None:
        """Close it, even if it takes nothing more."""
        self.code = code
        self.over.set()


def once_each(warn: Callable[[str], None], what: str) -> Callable[[str], None]:
    """Warns of ``what`` happened, once for each kind of reason, of which it is called with one."""
    told: set[str] = set()

    def tell(why: str) -> None:
        kind = why[:40]
        if kind not in told and len(told) < 20:
            told.add(kind)
            warn(f"{what}: {why} (said once)")

    return tell


class Broadcast:
    """Looks at the source while somebody watches, and gives each browser what it can take.

    Attributes:
        source: What is shown.
        refused: Warns of who is not let in, once for each reason.
        clips: The last seconds of what is watched.
    """

    def __init__(self, source: RunSource, warn: Callable[[str], None]) -> None:
        """``warn`` is called with a sentence."""
        self.source = source
        self.refused = once_each(warn, "the page refused somebody")
        self._failed = once_each(warn, "the page can't send what a browser wants")
        self.clips = Clips()
        self._connections: set[Connection] = set()
        self._newest: dict[int, Newest] = {}
        self._seen: dict[int, int] = {}  # number of the last frame taken, by tile
        self._sequence = 0
        self._asked = asyncio.Event()  # something changed that the loop need not wait for
        self._wanted: dict[int, int] = {}
        self._tiles = frozenset[int]()
        self._interval_s = 0.0

    def _tell_fault(self, error: BaseException | None) -> None:
        """Warn, once, of what ended a connection and should not have."""
        gone = (WebSocketDisconnect, OSError, RuntimeError)  # a browser that has left
        if error is not None and not isinstance(error, gone):
            self._failed(error_text(error))

    # --- the loop ------------------------------------------------------------------------------

    async def run(self) -> None:
        """Look, and hand on, until it is cancelled."""
        hello = self.source.hello()
        self._tiles = frozenset(each.tile for each in hello.tiles)
        self._interval_s = 1 / hello.fps
        due_now_s = due_news_s = due_want_s = 0.0
        while True:
            now_s = time.monotonic()
            if now_s >= due_want_s:
                due_want_s = now_s + WANT_S
                self._want()
            if now_s >= due_news_s:
                due_news_s = now_s + (NEWS_S if self._connections else UNWATCHED_S)
                self._tell_news()
                for connection in self._connections:
                    silent = now_s - connection.came_s > SILENT_S
                    if silent or connection.client.is_stuck(now_s):
                        connection.refuse(AGAIN)
            if self._connections and now_s >= due_now_s:
                due_now_s = now_s + NOW_S
                self._tell_now()
            self._look()
            await self._rest()

    async def _rest(self) -> None:
        """Wait until it is time to look again, or a browser wants something."""
        if self._wanted:
            await asyncio.sleep(LOOK_S)
            return
        self._asked.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._asked.wait(), NOW_S if self._connections else WANT_S)

    def end(self, text: str | Callable[[], str]) -> None:
        """Tell everybody what is new, and that there is no more."""
        self._tell_news()
        self._tell(_json.encode(End(text if isinstance(text, str) else text())))

    def _tell_news(self) -> None:
        for each in self.source.news():
            self._tell(_json.encode(each))

    def _want(self) -> None:
        """Let the source know which tiles somebody wants, and how often at most."""
        wanted: dict[int, float] = {}
        for each in self._connections:
            for tile in each.client.wanted & self._tiles:
                interval_s = max(each.client.interval_s, self._interval_s)
                wanted[tile] = min(interval_s, wanted.get(tile, interval_s))
        self._wanted = {tile: round(1e9 * interval_s) for tile, interval_s in wanted.items()}
        large = any(each.client.enlarged in self._tiles for each in self._connections)
        self.source.want(self._wanted, insight=large)
        for tile in self._newest.keys() - self._wanted.keys():
            del self._newest[tile]
        self.clips.keep(self._wanted, time.monotonic())

    def _look(self) -> None:
        """Take new frames, and wake whoever may want one."""
        for tile in self._wanted:
            # Of a tile that was not watched for a while an old frame may be there.
            found = self.source.frame(tile, self._seen.get(tile, -1))
            if found is not None:
                self._seen[tile] = found[0]
                self._newest[tile] = Newest(*found)
                self._make_insight(tile, found[1])
        for each in self._connections:
            if any(self._has_news(each.client, tile) for tile in each.client.wanted):
                each.wake.set()

    def _has_news(self, client: Client, tile: int) -> bool:
        newest = self._newest.get(tile)
        if newest is None or newest.number <= client.shown(tile):
            return False
        return client.is_free(tile, time.monotonic())

    def _make_insight(self, tile: int, frame: Frame) -> None:
        large = [each for each in self._connections if each.client.enlarged == tile]
        insight = self.source.insight(frame) if large else None
        for each in large if insight is not None else ():
            self._tell_one(each, _json.encode(insight))

    def _tell_now(self) -> None:
        text = _json.encode(self.source.now())
        for each in self._connections:
            each.client.now = text
            each.wake.set()

    def _tell(self, text: bytes) -> None:
        for each in self._connections:
            self._tell_one(each, text)

    def _tell_one(self, connection: Connection, text: bytes) -> None:
        connection.client.tell(text, time.monotonic())
        connection.wake.set()

    # --- a browser -----------------------------------------------------------------------------

    async def serve(self, socket: WebSocket) -> None:
        """Talk with one browser until it leaves or is refused."""
        await socket.accept()
        if len(self._connections) >= MOST_CLIENTS:
            self.refused(f"{MOST_CLIENTS} browsers watch already")
            await socket.close(AGAIN)
            return
        connection = Connection()
        self._tell_one(connection, _json.encode(self.source.hello()))
        connection.client.now = _json.encode(self.source.now())
        self._connections.add(connection)
        self._asked.set()
        talks = [
            asyncio.create_task(self._listen(socket, connection)),
            asyncio.create_task(self._send(socket, connection)),
            asyncio.create_task(connection.over.wait()),
        ]
        try:
            ended, _ = await asyncio.wait(talks, return_when=asyncio.FIRST_COMPLETED)
            for each in ended:
                self._tell_fault(each.exception())
        finally:
            self._connections.discard(connection)
            for each in talks:
                each.cancel()
            await asyncio.gather(*talks, return_exceptions=True)
            self._want()
        # It may be gone, or read nothing any more.
        with contextlib.suppress(RuntimeError, WebSocketDisconnect, TimeoutError):
            await asyncio.wait_for(socket.close(connection.code), CLOSE_S)

    async def _listen(self, socket: WebSocket, connection: Connection) -> None:
        while True:
            message = await socket.receive()
            if message["type"] != "websocket.receive":
                return
            try:
                said = understand(message.get("text") or message.get("bytes") or b"")
            except ValueError as error:
                self.refused(f"a browser sent what the page never does: {error}")
                connection.refuse(REFUSED)
                return
            connection.came_s = math.inf
            connection.client.take(said)
            if not isinstance(said, Ack):
                self._want()
                self._asked.set()
            connection.wake.set()

    async def _send(self, socket: WebSocket, connection: Connection) -> None:
        client = connection.client
        while True:
            await connection.wake.wait()
            connection.wake.clear()
            while client.texts:
                text = client.next_text(time.monotonic())
                await socket.send_text(text.decode())
            if client.now is not None:
                text, client.now = client.now, None
                await socket.send_text(text.decode())
            for tile in sorted(client.wanted):
                if self._has_news(client, tile):
                    await self._send_frame(socket, client, tile)

    async def _send_frame(self, socket: WebSocket, client: Client, tile: int) -> None:
        newest = self._newest[tile]
        files = [(kind, *self._file(tile, newest, kind)) for kind in self._kinds(client, newest)]
        now_s = time.monotonic()
        client.sent(tile, newest.number, [sequence for _, sequence, _ in files], now_s)
        for kind, sequence, data in files:
            age_ms = (time.monotonic_ns() - newest.frame.taken_ns) / 1e6
            await socket.send_bytes(header(kind, tile, sequence, age_ms) + data)

    def _kinds(self, client: Client, newest: Newest) -> tuple[Kind, ...]:
        """What a browser is shown of a frame: without picture and text, what the network sees."""
        if newest.frame.text:
            return tuple(Kind.TEXT if kind is Kind.RGB else kind for kind in _KINDS[client.mode])
        return _KINDS[client.mode] if newest.frame.picture is not None else (Kind.OBSERVATION,)

    def _file(self, tile: int, newest: Newest, kind: Kind) -> tuple[int, bytes]:
        """The file of a frame, made when it is first wanted."""
        if kind not in newest.files:
            self._sequence += 1
            data = encode(newest.frame, kind)
            newest.files[kind] = self._sequence, data
            self.clips.add(tile, kind, newest.frame.taken_ns / 1e9, data)
        return newest.files[kind]
