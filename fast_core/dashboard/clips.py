"""The last seconds of watched tiles, and films of them."""

from __future__ import annotations

import tempfile
import threading
from collections import deque
from collections.abc import Collection
from pathlib import Path
from typing import Literal, NamedTuple

from fast_core.dashboard.pictures import Kind, Pixels, as_rgb
from fast_core.errors import ConfigError

KEPT_S = 30.0
UNWATCHED_S = 60.0
KEPT_BYTES = 8 << 20  # of each tile
ALL_BYTES = 64 << 20  # of all of them
Form = Literal["gif", "mp4"]


class KeptShot(NamedTuple):
    """A file of an image or a text, and when its frame was taken, on the monotonic clock."""

    at_s: float
    data: bytes
    kind: Kind = Kind.RGB

    @property
    def pixels(self) -> Pixels:
        """``[H, W, 3]``."""
        return as_rgb(self.data, self.kind)


class Reel:
    """The last shots of a tile of one kind, as many as fit."""

    def __init__(self) -> None:
        self.shots: deque[KeptShot] = deque()
        self._nbytes = 0

    def add(self, shot: KeptShot, most_bytes: int) -> None:
        """Keep a shot, and let those go that are too old or too many."""
        self.shots.append(shot)
        self._nbytes += len(shot.data)
        while shot.at_s - self.shots[0].at_s > KEPT_S or self._nbytes > most_bytes:
            self._nbytes -= len(self.shots.popleft().data)
            if not self.shots:
                return


class Clips:
    """Reels of the tiles that are watched, or were a moment ago: who pauses may want a clip."""

    def __init__(self) -> None:
        self._reels: dict[tuple[int, Kind], Reel] = {}
        self._watched_s: dict[int, float] = {}  # when each tile was watched last
        self._busy = threading.Lock()

    def keep(self, tiles: Collection[int], now_s: float) -> None:
        """These are watched; let the shots of those go that nobody watched for `UNWATCHED_S`."""
        self._watched_s |= dict.fromkeys(tiles, now_s)
        for each in [*self._reels]:
            if now_s - self._watched_s.get(each[0], now_s) > UNWATCHED_S:
                del self._reels[each]

    def add(self, tile: int, kind: Kind, at_s: float, data: bytes) -> None:
        """Keep an image file of a tile."""
        reel = self._reels.setdefault((tile, kind), Reel())
        reel.add(KeptShot(at_s, data, kind), min(KEPT_BYTES, ALL_BYTES // len(self._reels)))

    def shots(self, tile: int, seconds: float) -> list[KeptShot]:
        """Those of the last ``seconds``: what was rendered, or else what the network saw."""
        for kind in (Kind.RGB, Kind.TEXT, Kind.OBSERVATION):
            reel = self._reels.get((tile, kind))
            if reel is not None and reel.shots:
                last_s = reel.shots[-1].at_s
                return [shot for shot in reel.shots if last_s - shot.at_s <= seconds]
        return []

    def film(self, shots: list[KeptShot], form: Form) -> bytes:
        """A film of them; takes a while, so it is called in a thread of its own.

        Raises:
            ConfigError: There is nothing to film, another film is being made, or no encoder.
        """
        if len(shots) < 2:
            raise ConfigError("there are no frames of this tile yet; watch it for some seconds")
        if not self._busy.acquire(blocking=False):
            raise ConfigError("another clip is being made; try again in a moment")
        try:
            fps = (len(shots) - 1) / max(shots[-1].at_s - shots[0].at_s, 1e-3)
            return _gif(shots, fps) if form == "gif" else _mp4(shots, fps)
        finally:
            self._busy.release()


def _gif(shots: list[KeptShot], fps: float) -> bytes:
    import io

    from PIL import Image

    size = shots[-1].pixels.shape
    frames = (frame for frame in (shot.pixels for shot in shots) if frame.shape == size)
    images = map(Image.fromarray, frames)  # one at a time: all of them may be gigabytes
    out = io.BytesIO()
    each_ms = max(20, round(1000 / fps))
    next(images).save(out, "GIF", save_all=True, append_images=images, duration=each_ms, loop=0)
    return out.getvalue()


def _mp4(shots: list[KeptShot], fps: float) -> bytes:
    from fast_core.envs.drawing.video_file import VideoFile

    size = shots[-1].pixels.shape
    with tempfile.TemporaryDirectory(prefix="fastloop-clip-") as folder:
        path = Path(folder) / "clip.mp4"
        video = VideoFile(path, "an MP4 clip")
        try:
            for shot in shots:
                frame = shot.pixels
                if frame.shape == size:
                    video.add(frame, fps)
            video.finish()
        finally:
            video.close()
        return path.read_bytes()
