"""One browser: what it wants, what it has taken, and what it says. Pure."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Annotated, Literal

import msgspec

from fast_core.monitor.screens.pace import Rhythm
from fast_core.system.decoding import JsonDecoder

Mode = Literal["rgb", "obs", "both"]

# A browser that takes no message for so long is told to come again, and is given the history anew
# when it does; so what waits for it is bounded by what a run writes meanwhile.
PATIENCE_S = 10.0
LEAST_FPS, MOST_FPS = 0.1, 30.0
EARLY = 0.25  # of an interval; frames do not come to the millisecond

Number = Annotated[int, msgspec.Meta(ge=0, le=255)]


class Said(msgspec.Struct, frozen=True, tag_field="type", forbid_unknown_fields=True):
    """Base of what a browser may say."""


class Watch(Said, frozen=True, tag="watch"):
    """Which tiles it shows, how often and how; none while it is paused."""

    tiles: Annotated[tuple[Number, ...], msgspec.Meta(max_length=64)]
    fps: Annotated[float, msgspec.Meta(ge=LEAST_FPS, le=MOST_FPS)] = 5.0
    mode: Mode = "rgb"


class Ack(Said, frozen=True, tag="ack"):
    """It has drawn a picture."""

    seq: Annotated[int, msgspec.Meta(ge=0, lt=1 << 32)]


class Enlarge(Said, frozen=True, tag="enlarge"):
    """It shows one tile large, or none any more."""

    tile: Number | None


_said: JsonDecoder[Watch | Ack | Enlarge] = JsonDecoder(Watch | Ack | Enlarge)


def understand(text: str | bytes) -> Watch | Ack | Enlarge:
    """What a browser says.

    Raises:
        msgspec.DecodeError: It is nothing that the page would; a `ValueError`.
    """
    return _said.decode(text)


@dataclass
class Client:
    """What one browser wants and has taken.

    Attributes:
        tiles: Tiles that it shows.
        interval_s: Between two frames of each.
        mode: What it shows of them.
        enlarged: The tile that it shows large.
        texts: Messages that wait for it.
        now: The newest `Now` that it has not got; older ones are dropped.
    """

    tiles: frozenset[int] = frozenset()
    interval_s: float = 0.2
    mode: Mode = "rgb"
    enlarged: int | None = None
    texts: deque[bytes] = field(default_factory=deque)
    now: bytes | None = None
    _open: dict[int, set[int]] = field(default_factory=dict)  # pictures under way, by tile
    _shown: dict[int, int] = field(default_factory=dict)  # number of the last frame, by tile
    _rhythms: dict[int, Rhythm] = field(default_factory=dict)  # in seconds, by tile
    _waits_s: float = 0.0  # since when the first message waits

    def take(self, said: Watch | Ack | Enlarge) -> None:
        """Note what it says."""
        match said:
            case Watch(tiles, fps, mode):
                if mode != self.mode:  # the frame that it has it now wants otherwise
                    self._shown.clear()
                stay = self.tiles & frozenset(tiles) if 1 / fps == self.interval_s else ()
                self._rhythms = {tile: self._rhythms.get(tile, Rhythm()) for tile in stay}
                self.tiles, self.interval_s, self.mode = frozenset(tiles), 1 / fps, mode
            case Ack(seq):
                for pictures in self._open.values():
                    pictures.discard(seq)
            case Enlarge(tile):
                self.enlarged = tile

    @property
    def wanted(self) -> frozenset[int]:
        """Tiles of which it wants frames."""
        return self.tiles if self.enlarged is None else self.tiles | {self.enlarged}

    def shown(self, tile: int) -> int:
        """Number of the last frame that it was sent of a tile, -1 before the first."""
        return self._shown.get(tile, -1)

    def is_free(self, tile: int, now_s: float) -> bool:
        """Whether it may be sent a frame of a tile: it wants it, and has drawn the last one."""
        if tile not in self.wanted or self._open.get(tile):
            return False
        rhythm = self._rhythms.get(tile)
        return rhythm is None or now_s >= rhythm.due - EARLY * self.interval_s

    def sent(self, tile: int, number: int, pictures: list[int], now_s: float) -> None:
        """It is sent a frame, in pictures of these sequence numbers."""
        self._open[tile] = set(pictures)
        self._shown[tile] = number
        self._rhythms.setdefault(tile, Rhythm()).took(now_s, self.interval_s)

    def tell(self, text: bytes, now_s: float) -> None:
        """Let a message wait for it."""
        if not self.texts:
            self._waits_s = now_s
        self.texts.append(text)

    def next_text(self, now_s: float) -> bytes:
        """The message that waits longest, which it takes now."""
        self._waits_s = now_s
        return self.texts.popleft()

    def is_stuck(self, now_s: float) -> bool:
        """Whether it has taken nothing for too long."""
        return bool(self.texts) and now_s - self._waits_s > PATIENCE_S
