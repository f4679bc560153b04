"""Frames as files of images or text, each made once for whoever watches."""

from __future__ import annotations

import io
import struct
from enum import IntEnum
from typing import cast

import numpy as np
from numpy.typing import NDArray

from fast_core.run.frame import Frame
from fast_core.system import text_picture

JPEG_QUALITY = 80
MOST_BARS = 256  # numbers of an observation that are drawn
_BAR, _LONG = 6, 120  # pixels: height of a number's bar, length of the longest to either side
_HEADER = struct.Struct("<BBId")  # kind, tile, sequence number, age in ms

Pixels = NDArray[np.uint8]


class Kind(IntEnum):
    """What a picture shows."""

    RGB = 1
    OBSERVATION = 2
    TEXT = 3


def header(kind: Kind, tile: int, sequence: int, age_ms: float) -> bytes:
    """What stands before an image file."""
    return _HEADER.pack(kind, tile, sequence & 0xFFFFFFFF, age_ms)


def encode(frame: Frame, kind: Kind) -> bytes:
    """JPEG of what was rendered, PNG of what the network sees, or the text in UTF-8."""
    if kind is Kind.TEXT:
        return frame.text.encode(errors="replace")
    if kind is Kind.RGB and frame.picture is not None:
        return _file(frame.picture, "JPEG", quality=JPEG_QUALITY)
    return _file(observed(frame.obs), "PNG", compress_level=1)


def as_rgb(data: bytes, kind: Kind = Kind.RGB) -> Pixels:
    """``[H, W, 3]`` of such a file."""
    if kind is Kind.TEXT:
        return text_picture.picture(data.decode())
    from PIL import Image

    with Image.open(io.BytesIO(data)) as image:
        return np.asarray(image.convert("RGB"))


def observed(obs: NDArray[np.generic]) -> Pixels:
    """An observation as a picture ``[H, W]`` or ``[H, W, 3]``.

    Frames of a stack stand side by side, the newest on the right. What is no image is drawn in
    bars, one below the other, to the left below zero and to the right above.
    """
    if obs.dtype.names is not None:  # a composite one: its image if it has any, else its numbers
        row = cast("NDArray[np.void]", obs)
        parts: list[NDArray[np.generic]] = [row[name] for name in obs.dtype.names]
        images = [part for part in parts if _is_image(part)]
        obs = images[0] if images else np.concatenate([np.ravel(part) for part in parts])
    if _is_image(obs):
        return _side_by_side(np.asarray(obs, np.uint8))
    return _bars(np.ravel(np.asarray(obs, np.float64)))


def _is_image(obs: NDArray[np.generic]) -> bool:
    """Whether it is one image of bytes, or a stack of some: two axes are long."""
    sizes = sorted(obs.shape)
    return bool(obs.dtype == np.uint8 and obs.ndim in (2, 3, 4) and sizes[0] and sizes[-2] >= 8)


def _side_by_side(obs: NDArray[np.uint8]) -> Pixels:
    if obs.ndim == 2:
        return obs
    if obs.ndim == 3:
        if obs.shape[2] == 3:
            return obs
        if obs.shape[0] == 3 and obs.shape[0] < min(obs.shape[1:]):
            return np.moveaxis(obs, 0, 2)
        frames = obs if obs.shape[0] <= obs.shape[2] else np.moveaxis(obs, 2, 0)
        return np.concatenate(list(frames), axis=1)
    return np.concatenate([_side_by_side(frame) for frame in obs], axis=1)


def _bars(values: NDArray[np.float64]) -> Pixels:
    values = values[:MOST_BARS] if values.size else np.zeros(1)  # no picture is empty
    values = np.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0)
    scale = max(1.0, float(np.abs(values).max(initial=0.0)))
    lengths = np.rint(values / scale * _LONG).astype(int)
    place = np.arange(-_LONG, _LONG + 1)
    inside = np.where(
        lengths[:, None] >= 0,
        (place >= 0) & (place <= lengths[:, None]),
        (place <= 0) & (place >= lengths[:, None]),
    )
    rows = np.repeat(np.where(inside, 220, 40).astype(np.uint8), _BAR, axis=0)
    rows[_BAR - 1 :: _BAR] = 20
    rows[:, _LONG] = 128
    return rows


def _file(pixels: Pixels, form: str, **options: int) -> bytes:
    from PIL import Image

    out = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels)).save(out, form, **options)
    return out.getvalue()
