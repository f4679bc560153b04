"""What `render()` returned, as a text or as a picture that fits its place."""

from __future__ import annotations

import io

import numpy as np
from numpy.typing import NDArray

Picture = NDArray[np.uint8]

_MOST_SUMMED = 16  # pixels in a row whose squares' sums fit 16 bits


class NoPicture(ValueError):
    """What was returned is none; the message says what it is."""


def as_drawn(drawn: object, most: int) -> Picture | str:
    """A text, which environments of the render mode ``ansi`` return, or `as_picture`.

    Raises:
        NoPicture: It is something else.
    """
    text = as_text(drawn)
    return as_picture(drawn, most) if text is None else text or " "  # an empty one is one, too


def as_text(drawn: object) -> str | None:
    """The text that was returned; None where it is none."""
    drawn = drawn.getvalue() if isinstance(drawn, io.StringIO) else drawn
    return drawn if isinstance(drawn, str) else None


def as_picture(drawn: object, most: int) -> Picture:
    """A copy of what was drawn, at most ``most`` pixels wide and high.

    Takes ``[H, W, 3]``, and ``[H, W]`` or ``[H, W, 1]`` in grey, uint8. Where it is made smaller,
    each pixel is the mean of a square.

    Raises:
        NoPicture: It is something else.
    """
    if drawn is None:
        raise NoPicture("render() returned None")
    if not isinstance(drawn, np.ndarray):
        raise NoPicture(f"render() returned a {type(drawn).__name__}, not an array")
    if drawn.ndim == 3 and drawn.shape[2] == 1:
        drawn = drawn[..., 0]
    if drawn.ndim == 2:
        drawn = np.broadcast_to(drawn[..., None], (*drawn.shape, 3))
    if drawn.dtype != np.uint8 or drawn.ndim != 3 or drawn.shape[2] != 3 or not drawn.size:
        raise NoPicture(
            f"render() returned {drawn.dtype} of the shape {drawn.shape}; a picture is uint8 "
            "[height, width, 3]"
        )
    return smaller(drawn, most)


def smaller(picture: Picture, most: int) -> Picture:
    """A copy of ``picture`` ``[H, W, 3]`` of at most ``most`` in both directions."""
    size = -(-max(picture.shape[:2]) // most)
    if size == 1:
        return picture.copy()
    if size > _MOST_SUMMED:
        skipped = -(-size // _MOST_SUMMED)
        picture, size = picture[::skipped, ::skipped], -(-size // skipped)
    height, width = (length // size for length in picture.shape[:2])
    if not height or not width:  # a line, of which no square is whole
        return picture[:: max(1, size), :: max(1, size)].copy()
    picture = picture[: height * size, : width * size]
    rows = picture[::size].astype(np.uint16)
    for row in range(1, size):
        rows += picture[row::size]
    total = rows[:, ::size].copy()
    for column in range(1, size):
        total += rows[:, column::size]
    total //= size * size
    return total.astype(np.uint8)
