"""What environments draw becomes a picture that fits, or a sentence that says why not."""

from __future__ import annotations

import io

import numpy as np
import pytest

from fast_core.monitor.screens.picture import NoPicture, as_drawn, as_picture


@pytest.mark.parametrize(
    ("height", "width", "most"),
    [(40, 60, 60), (40, 61, 60), (400, 600, 320), (7, 500, 100), (50, 2000, 64), (3000, 3, 64)],
)
def test_large_picture_is_the_mean_of_its_squares(height: int, width: int, most: int) -> None:
    drawn = np.random.default_rng(0).integers(0, 256, (height, width, 3), np.uint8)
    picture = as_picture(drawn, most)
    size = -(-max(height, width) // most)
    assert max(picture.shape[:2]) <= most and picture.flags.c_contiguous
    assert picture.dtype == np.uint8 and picture.shape[2] == 3 and picture.size
    if size <= 16 and min(height, width) >= size:
        rows, columns = (length // size for length in (height, width))
        whole = drawn[: rows * size, : columns * size]
        squares = whole.reshape(rows, size, columns, size, 3)
        assert (picture == squares.mean((1, 3)).astype(np.uint8)).all()


def test_text_stays_text_and_all_else_is_a_picture() -> None:
    assert as_drawn("SF\nFG", 64) == as_drawn(io.StringIO("SF\nFG"), 64) == "SF\nFG"
    assert as_drawn("", 64) == " ", "there is something to show, and nothing is in it"
    assert np.shape(as_drawn(np.zeros((4, 4), np.uint8), 64)) == (4, 4, 3)
    with pytest.raises(NoPicture, match="returned a list"):
        as_drawn(["SF"], 64)


def test_picture_is_a_copy() -> None:
    drawn = np.zeros((4, 4, 3), np.uint8)
    picture = as_picture(drawn, 64)
    drawn[:] = 9
    assert not picture.any()


@pytest.mark.parametrize("shape", [(5, 4), (5, 4, 1)])
def test_grey_is_shown_in_three_channels(shape: tuple[int, ...]) -> None:
    drawn = np.arange(20, dtype=np.uint8).reshape(shape)
    assert (as_picture(drawn, 64) == drawn.reshape(5, 4, 1)).all()


@pytest.mark.parametrize(
    ("drawn", "says"),
    [
        (None, r"returned None"),
        ("+---+", r"returned a str, not an array"),
        ([np.zeros((2, 2, 3), np.uint8)], r"returned a list"),
        (np.zeros((2, 2, 3)), r"float64 of the shape \(2, 2, 3\)"),
        (np.zeros((2, 2, 4), np.uint8), r"\(2, 2, 4\); a picture is uint8 \[height, width, 3\]"),
        (np.zeros((0, 2, 3), np.uint8), r"\(0, 2, 3\)"),
        (np.zeros(3, np.uint8), r"\(3,\)"),
    ],
)
def test_what_is_no_picture_is_said(drawn: object, says: str) -> None:
    with pytest.raises(NoPicture, match=says):
        as_picture(drawn, 64)
