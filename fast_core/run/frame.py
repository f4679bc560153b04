"""A frame of one environment, as it lies on its board."""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fast_core.algorithm import Array
from fast_core.system.text import encodable

NOTE_BYTES = 480
TEXT_BYTES = 16_384  # of which no screen shows more
_TEXT = -1  # the height of a text
# taken_ns, shard, env, episode, seed, step, version, incarnation, height, width, total, fps, note
_HEADER = struct.Struct(f"<4q Q 5q 2d {NOTE_BYTES}s")


class Frame(NamedTuple):
    """What an environment looked like when its policy had just acted, before the step.

    Attributes:
        taken_ns: Monotonic clock when it was taken, ns.
        shard: Shard of the environment, -1 for an evaluation's.
        env: Its number within the shard, or among the evaluator's.
        episode: Its episode, from 0.
        seed: Seed of that episode's reset.
        step: Steps taken in it so far.
        version: Version of the policy that acted.
        incarnation: How often the shard was given out.
        total: Sum of its rewards so far.
        fps: Frames a second that its node gives it now, within its share of processor time.
        note: Why there is no picture, or what is wrong with it; empty where all is well.
        picture: ``[H, W, 3]`` uint8 of `render()`, made smaller; None where there is none.
        obs: What the policy saw, as `EnvironmentSpec.observation` has it (frames stacked).
        action: What it did, as the environment takes it.
        state: ``[S]`` float32, what a recurrent policy remembered before; empty without.
        pose: ``[n]`` the numbers from which its viewer draws a picture, where there is none.
        text: What `render()` wrote in place of a picture, its end left out where there is no room.
    """

    taken_ns: int
    shard: int
    env: int
    episode: int
    seed: int
    step: int
    version: int
    incarnation: int
    total: float
    fps: float
    note: str
    picture: NDArray[np.uint8] | None
    obs: Array
    action: Array
    state: Array
    pose: NDArray[np.float64] | None = None
    text: str = ""


class FrameLayout(NamedTuple):
    """How a frame lies in the bytes of a board.

    Attributes:
        obs: Dtype and shape of an observation.
        action: Likewise of an action.
        state: Size of what a recurrent policy remembers, 0 without.
        picture_bytes: Room for a picture, a pose or a text.
    """

    obs: tuple[np.dtype, tuple[int, ...]]
    action: tuple[np.dtype, tuple[int, ...]]
    state: int
    picture_bytes: int

    @property
    def nbytes(self) -> int:
        """Bytes of a frame."""
        return _HEADER.size + sum(self._sizes) + self.picture_bytes

    @property
    def _sizes(self) -> tuple[int, int, int]:
        obs, action = (
            int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
            for dtype, shape in (self.obs, self.action)
        )
        return obs, action, 4 * self.state

    def pack(self, frame: Frame, out: bytearray) -> None:
        """Write a frame to the beginning of ``out``, of `nbytes`."""
        picture = frame.picture
        drawn: NDArray[Any] | None = frame.pose if picture is None else picture
        # A pose lies in the room of a picture, as one without height and so many numbers wide; a
        # text as one of the height `_TEXT` and so many bytes wide.
        height, width = (0, 0) if picture is None else picture.shape[:2]
        width = len(frame.pose) if picture is None and frame.pose is not None else width
        if drawn is None and frame.text:
            most = min(self.picture_bytes, TEXT_BYTES)
            drawn = np.frombuffer(_cut(frame.text, most), np.uint8)
            height, width = _TEXT, len(drawn)
        note = _cut(frame.note, NOTE_BYTES)
        begin = frame[: Frame._fields.index("total")]
        _HEADER.pack_into(out, 0, *begin, height, width, frame.total, frame.fps, note)
        place = _HEADER.size
        parts = (frame.obs, frame.action, frame.state)
        for part, size in zip(parts, self._sizes, strict=True):
            out[place : place + size] = np.ascontiguousarray(part).tobytes()
            place += size
        if drawn is not None:
            out[place : place + drawn.nbytes] = np.ascontiguousarray(drawn).data.cast("B")

    def unpack(self, data: bytes) -> Frame:
        """The frame in ``data``, which its arrays share memory with."""
        *begin, height, width, total, fps, note = _HEADER.unpack_from(data)
        place = _HEADER.size
        parts = []
        forms = (self.obs, self.action, (np.dtype(np.float32), (self.state,)))
        for (dtype, shape), size in zip(forms, self._sizes, strict=True):
            part = np.frombuffer(data, dtype, size // dtype.itemsize, place)
            parts.append(part.reshape(shape))
            place += size
        picture = pose = None
        written = ""
        if height == _TEXT:
            written = data[place : place + width].decode("utf-8", "replace")
        elif width and not height:
            pose = np.frombuffer(data, np.float64, width, place)
        elif height:
            flat = np.frombuffer(data, np.uint8, height * width * 3, place)
            picture = flat.reshape(height, width, 3)
        text = note.rstrip(b"\0").decode("utf-8", "replace")
        return Frame._make([*begin, total, fps, text, picture, *parts, pose, written])


def _cut(text: str, most: int) -> bytes:
    data = encodable(text).encode()
    if len(data) <= most:
        return data
    return data[: most - 3].decode(errors="ignore").encode() + b"..."
