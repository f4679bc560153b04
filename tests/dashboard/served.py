"""A source of figures of its own, served by the real server."""

from __future__ import annotations

import json
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from websockets.sync.client import ClientConnection

from fast_core.dashboard.server import PageServer, RunPage
from fast_core.dashboard.serving import listen
from fast_core.dashboard.source import Ahead, Hello, Insight, News, Now, RunFacts, TileFacts
from fast_core.run.frame import Frame

HEADER = struct.Struct("<BBId")
NO_STATE = np.zeros(0, np.float32)


def make_frame(taken_ns: int = 0, **changes: Any) -> Frame:
    """A frame of a grey picture, whose brightness is its step."""
    made = Frame(
        taken_ns=taken_ns or time.monotonic_ns(),
        shard=0,
        env=0,
        episode=0,
        seed=3,
        step=7,
        version=1,
        incarnation=1,
        total=2.5,
        fps=5.0,
        note="",
        picture=np.full((40, 60, 3), 7, np.uint8),
        obs=np.array([0.5, -1.0, 2.0], np.float32),
        action=np.array(1),
        state=NO_STATE,
    )
    return made._replace(**changes)


class Pretend:
    """A `Source` with a frame of each tile whenever one is asked for.

    Attributes:
        coming: What `news` gives next.
        wanted: What was wanted last.
        numbers: Of the newest frame of each tile.
        changes: What is not as in `make_frame`.
    """

    def __init__(self, tiles: int = 8) -> None:
        self.tiles = tiles
        self.coming: list[News] = []
        self.wanted: dict[int, int] = {}
        self.numbers = dict.fromkeys(range(tiles), -1)
        self.changes: dict[str, Any] = {}
        self.closed = False

    def hello(self) -> Hello:
        run = RunFacts(
            name="pretend",
            seed=0,
            algorithm="ppo",
            environment="CartPole-v1",
            directory="/nowhere",
            mode="process",
            running=True,
        )
        tiles = tuple(TileFacts(n, 0, n, "env-0", "training") for n in range(self.tiles))
        return Hello(run=run, tiles=tiles, fps=30.0, frames=True, why_no_frames="", history={})

    def now(self) -> Now:
        return Now(
            phase="training",
            elapsed_s=1.0,
            env_steps=1,
            updates=1,
            rates={},
            ahead=Ahead(),
            best_tile=None,
            nodes=(),
            tiles=(),
        )

    def news(self) -> list[News]:
        found, self.coming = self.coming, []
        return found

    def want(self, intervals_ns: dict[int, int], *, insight: bool = False) -> None:
        self.wanted = intervals_ns

    def frame(self, tile: int, newer_than: int) -> tuple[int, Frame] | None:
        self.numbers[tile] += 1
        return self.numbers[tile], make_frame(env=tile, **self.changes)

    def insight(self, frame: Frame) -> Insight | None:
        return Insight(tile=frame.env, at=frame.step, value=1.5)

    def close(self) -> None:
        self.closed = True


def picture_of(link: ClientConnection) -> tuple[int, int, int, float, bytes]:
    """The next picture: kind, tile, sequence number, age in ms and image file."""
    while not isinstance(data := link.recv(timeout=10), bytes):
        pass
    return (*HEADER.unpack_from(data), data[HEADER.size :])  # type: ignore[return-value]


def ack(link: ClientConnection, picture: tuple[int, int, int, float, bytes]) -> None:
    """Say that it is drawn."""
    link.send(json.dumps({"type": "ack", "seq": picture[2]}))


@contextmanager
def served(source: Any, said: list[str] | None = None, token: str = "") -> Iterator[PageServer]:
    """Serve a source at a port of its own; ``said`` takes the warnings."""
    listening: socket.socket = listen("127.0.0.1", 0)
    warn = (said if said is not None else []).append
    server = PageServer(RunPage(source, warn), listening, "127.0.0.1", token=token)
    try:
        yield server
    finally:
        server.close()
