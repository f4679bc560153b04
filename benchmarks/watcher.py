"""A viewer of a run's page without a browser: watches every tile, and says how many frames came.

    python -m benchmarks.watcher RUN_DIRECTORY FPS

It waits for the page, watches until the run ends, takes every picture apart as a browser would, and
prints one JSON object. Ages are those of frames when the page's server sent them, and the time that
it took to decode them; the first picture of each tile, for which drivers are loaded, is left out.
"""

from __future__ import annotations

import io
import json
import statistics
import struct
import sys
import time
from pathlib import Path
from typing import Any

from PIL import Image
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

_HEAD = struct.Struct("<BBId")
POLL_S = 0.02
START_LIMIT_S = 60.0


def address(directory: Path) -> tuple[str, str]:
    """Where the page of the one run below ``directory`` is served, and its token.

    Raises:
        RuntimeError: It is not, after a while.
    """
    deadline_s = time.monotonic() + START_LIMIT_S
    while time.monotonic() < deadline_s:
        for path in directory.glob("*/*/dashboard.json"):
            try:
                page = json.loads(path.read_text())
                return str(page["url"]), str(page.get("token", ""))
            except (OSError, ValueError):
                continue  # it is being written, or is gone again
        time.sleep(POLL_S)
    raise RuntimeError(f"no run below {directory} served its page within {START_LIMIT_S:g} s")


def watch(url: str, token: str, fps: float) -> dict[str, float]:
    """Watch every tile at ``fps`` until the run ends."""
    ages_ms: list[float] = []
    pictures, seen = 0, set[int]()
    begun_s = ended_s = 0.0
    tiles: list[int] = []
    where = url.replace("http", "ws", 1).rstrip("/") + "/ws"
    headers = {"Authorization": f"Bearer {token}"}
    origin: Any = url.rstrip("/")
    with connect(where, origin=origin, additional_headers=headers, max_size=None) as link:
        try:
            for message in link:
                if isinstance(message, bytes):
                    _, tile, number, age_ms = _HEAD.unpack_from(message)
                    came_s = time.monotonic()
                    Image.open(io.BytesIO(message[_HEAD.size :])).load()
                    ended_s = time.monotonic()
                    begun_s = begun_s or ended_s
                    if tile in seen:
                        ages_ms.append(age_ms + 1e3 * (ended_s - came_s))
                    pictures, seen = pictures + 1, seen | {tile}
                    link.send(json.dumps({"type": "ack", "seq": number}))
                    continue
                told = json.loads(message)
                if told["type"] == "hello":
                    tiles = [each["tile"] for each in told["tiles"] if each["kind"] == "training"]
                    wanted = {"type": "watch", "tiles": tiles, "fps": fps, "mode": "rgb"}
                    link.send(json.dumps(wanted))
                elif told["type"] == "end":
                    break
        except ConnectionClosed:
            pass
    time_s = ended_s - begun_s
    return {
        "tiles": float(len(tiles)),
        "fps_per_tile": (pictures - 1) / time_s / len(tiles) if pictures > 1 else 0.0,
        "age_median_ms": statistics.median(ages_ms) if ages_ms else 0.0,
        "age_95_ms": sorted(ages_ms)[int(0.95 * len(ages_ms))] if ages_ms else 0.0,
    }


if __name__ == "__main__":
    print(json.dumps(watch(*address(Path(sys.argv[1])), float(sys.argv[2]))))
