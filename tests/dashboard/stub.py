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
import math
import socket
import struct
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import plotly.offline
import uvicorn
from PIL import Image, ImageDraw
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

PAGE = Path(__file__).parents[2] / "fast_core" / "dashboard" / "page"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADER = struct.Struct("<BBId")
NODES = ("env-0", "env-1", "optimizer-0", "evaluator-0", "metrics-0", "dashboard-0")
CYCLES = {
    "env": ("stepping", "stepping", "inferring", "waiting"),
    "optimizer": ("waiting", "learning", "learning", "publishing"),
    "evaluator": ("waiting", "evaluating", "evaluating", "waiting"),
    "metrics": ("waiting", "waiting", "writing"),
    "dashboard": ("waiting",),
}
SHARES = {"env": 0.2, "optimizer": 0.35, "evaluator": 0.6, "metrics": 0.97, "dashboard": 0.9}


def picture(tile: int, at: float, size: tuple[int, int] = (300, 200)) -> Image.Image:
    """Something like a cart with a pole; the colour of its top left corner tells the time."""
    width, height = size
    image = Image.new("RGB", size, (255, 255, 255))
    draw = ImageDraw.Draw(image)
    draw.line((0, height * 0.75, width, height * 0.75), (60, 60, 60))
    x = width * (0.5 + 0.3 * math.sin(at * 0.7 + tile))
    angle = 0.4 * math.sin(at * 2.3 + 2 * tile)
    draw.rectangle((x - 24, height * 0.72, x + 24, height * 0.78), (20, 20, 20))
    tip = (x + 80 * math.sin(angle), height * 0.73 - 80 * math.cos(angle))
    draw.line((x, height * 0.73, *tip), (202, 152, 101), 8)
    return image


def observation(tile: int, at: float) -> Image.Image:
    """Four numbers as a strip of bars."""
    image = Image.new("RGB", (256, 64), (24, 28, 34))
    draw = ImageDraw.Draw(image)
    for place in range(4):
        value = math.sin(at * (place + 1) * 0.6 + tile)
        draw.rectangle(
            (place * 64 + 8, 32 - max(value, 0) * 28, place * 64 + 56, 32 - min(value, 0) * 28),
            (90, 162, 245) if value > 0 else (224, 164, 82),
        )
    return image


def encoded(image: Image.Image, kind: int) -> bytes:
    out = io.BytesIO()
    image.save(out, "JPEG" if kind == 1 else "PNG")
    return out.getvalue()


class Run:
    """A made-up run.

    Attributes:
        notes: Note of each tile that has one.
        blind: Tiles of which there are no pictures.
        outcome: How it ended; None while it goes on.
        delay: Of every picture, seconds.
    """

    def __init__(self, tiles: int = 8, evaluation: bool = True, past: int = 300) -> None:
        self.began = time.monotonic()
        self.count = tiles
        self.evaluation = evaluation
        self.past = past
        self.notes: dict[int, str] = {}
        self.blind: set[int] = set()
        self.outcome: str | None = None
        self.frames = True
        self.replay = False
        self.events: list[dict[str, Any]] = []

    @property
    def at(self) -> float:
        return self.past + time.monotonic() - self.began

    def hello(self) -> dict[str, Any]:
        tiles = [
            {"tile": n, "shard": n % 4, "env": n // 4, "node": f"env-{n % 2}", "kind": "training"}
            for n in range(self.count)
        ]
        if self.evaluation:
            last = {"tile": self.count, "shard": -1, "env": 0, "node": "evaluator-0"}
            tiles.append({**last, "kind": "evaluation"})
        why = "The run was started without --dashboard. To see frames: `fastloop stop runs/x`."
        return {
            "type": "hello",
            "version": 1,
            "run": {
                "name": "ppo_cartpole",
                "seed": 7,
                "algorithm": "ppo",
                "environment": "CartPole-v1",
                "directory": "runs/ppo_cartpole/2026-11-28_seed7",
                "mode": "process",
                "running": self.outcome is None,
                "outcome": self.outcome,
            },
            "tiles": tiles,
            "fps": 5,
            "frames": self.frames,
            "why_no_frames": "" if self.frames else why,
            "history": self.history(),
        }

    def history(self) -> dict[str, Any]:
        last = int(self.at)
        kinds = {
            "train": [self.train(second) for second in range(last)],
            "evaluation": [self.evaluated(second) for second in range(10, last, 20)],
        }
        return {
            kind: {name: [row[name] for row in rows] for name in rows[0]}
            for kind, rows in kinds.items()
            if rows
        }

    def reward(self, second: float) -> float:
        return 480 / (1 + math.exp(-(second - 120) / 40))

    def train(self, second: int) -> dict[str, float | None]:
        wave = math.sin(second / 9)
        last = max(self.reward(second) + 60 * math.sin(second * 12.9898), 9.0)
        row: dict[str, float | None] = {
            "env_steps": second * 2048,
            "updates": second * 32,
            "time_s": float(second),
            "rollout/return_mean": self.reward(second - 50),
            "rollout/return_mean_50": self.reward(second - 25),
            "rollout/return_mean_10": self.reward(second - 5) + 20 * math.sin(second / 3),
            "rollout/return_last": last,
            "rollout/length_mean": self.reward(second - 50),
            "rollout/length_last": last,
            "train/policy_loss": -0.01 + 0.004 * wave,
            "train/value_loss": 40 * math.exp(-second / 120) + 3 + wave,
            "time/env_steps_per_s": 2048 + 200 * wave,
            "time/updates_per_s": 32 + 3 * wave,
            "time/collecting_s": second * 0.8,
            "time/collecting_waits_s": second * 0.2,
            "time/training_s": second * 0.65,
            "time/training_waits_s": second * 0.35,
            "scheduler/lag_mean": 16 + 4 * wave,
            "scheduler/lag_max": 32.0,
        }
        if self.replay:
            row["replay/updates_per_env_step"] = 0.25
        return row

    def evaluated(self, second: int) -> dict[str, float]:
        mean = self.reward(second)
        return {
            "env_steps": second * 2048,
            "updates": second * 32,
            "time_s": float(second),
            "eval/return_mean": mean,
            "eval/return_std": 20 + 0.1 * (500 - mean),
            "evaluation/windy/return_mean": 0.7 * mean,
            "evaluation/windy/return_std": 30.0,
        }

    def now(self) -> dict[str, Any]:
        at = self.at
        over = self.outcome is not None
        return {
            "type": "now",
            "phase": "training",
            "elapsed_s": at,
            "env_steps": int(at * 2048),
            "updates": int(at * 32),
            "rates": {"env_steps_per_s": 2048.0, "updates_per_s": 32.0, "replay_ratio": 0.0156},
            "async": {
                "degree": 2,
                "admitted": int(at * 8) + 2,
                "merged": int(at * 8),
                "trained": int(at * 8) - 1,
                "lag_mean": 16.4,
                "lag_max": 32,
            },
            "best_tile": 2 if self.count > 2 else 0,
            "nodes": [] if over else [self.node(name, at) for name in NODES],
            "tiles": [self.tile(n, at) for n in range(self.count + self.evaluation)],
        }

    def node(self, name: str, at: float) -> dict[str, Any]:
        kind = name.split("-")[0]
        cycle = CYCLES[kind]
        place = int(at * 1.7 + len(name) + int(name[-1])) % len(cycle)
        waits = SHARES[kind] + 0.05 * math.sin(at)
        return {
            "name": name,
            "state": cycle[place],
            "doing_s": at % 0.6,
            "busy_share": 1 - waits,
            "waiting_share": waits,
            "life": 1,
        }

    def tile(self, n: int, at: float) -> dict[str, Any]:
        if n in self.blind and n not in self.notes:
            keys = ("R", "S", "episode", "version", "seed")
            blank = dict.fromkeys(keys)
            return {"tile": n, **blank, "state": "restarting", "fps": 0.0, "note": ""}
        steps = int(at * 50 + 37 * n) % 500
        states = {4: "waiting for policy", 5: "restarting"} if self.count > 5 else {}
        return {
            "tile": n,
            "R": float(steps),
            "S": steps,
            "episode": int(at / 10) + n,
            "version": int(at * 32),
            "seed": 1_837_465_102 + n,
            "state": states.get(n, "running"),
            "fps": 5.0,
            "note": self.notes.get(n, ""),
        }

    def insight(self, tile: int) -> dict[str, Any]:
        at = self.at
        left = 0.5 + 0.4 * math.sin(at * 1.3)
        return {
            "type": "insight",
            "tile": tile,
            "at": self.tile(tile, at)["S"] or 0,
            "value": 60 + 30 * math.sin(at / 3),
            "probabilities": [left, 1 - left],
            "q": [20 + 5 * math.sin(at), 21 + 4 * math.cos(at)],
            "actions": ["left", "right"],
        }


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
        made = (picture if kind == 1 else observation)(tile, taken)
        data = encoded(made, kind)
        number = next(self.numbers)
        self.waiting[tile, kind] = number
        sent = time.monotonic()
        self.server.sent[number] = (taken, sent)
        head = HEADER.pack(kind, tile, number, 1000 * (sent - taken))
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
