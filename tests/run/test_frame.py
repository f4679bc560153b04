"""A frame comes back from its board as it went there."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from fast_core.run.frame import NOTE_BYTES, TEXT_BYTES, Frame, FrameLayout
from tests.dashboard.served import make_frame

WORD = st.integers(-(2**63), 2**63 - 1)
RECORD = np.dtype([("where", np.float32, (2,)), ("which", np.int64)], align=True)
DTYPES = st.sampled_from([np.dtype(name) for name in ("u1", "i8", "f4", "f8", "?")] + [RECORD])
SHAPES = arrays.array_shapes(min_dims=0, max_dims=3, max_side=4)


@st.composite
def framed(draw: st.DrawFn) -> tuple[FrameLayout, Frame]:
    obs, action = (draw(st.tuples(DTYPES, SHAPES)) for _ in range(2))
    state, most = draw(st.integers(0, 5)), draw(st.integers(1, 6))
    layout = FrameLayout(obs, action, state, 3 * most * most)
    sides = st.integers(1, most)
    drawn = arrays.arrays(np.uint8, st.tuples(sides, sides, st.just(3)))
    frame = Frame(
        *(draw(WORD) for _ in range(4)),
        draw(st.integers(0, 2**64 - 1)),
        *(draw(WORD) for _ in range(3)),
        draw(st.floats()),
        draw(st.floats()),
        draw(st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=80)),
        draw(st.none() | drawn),
        *(np.zeros(0, np.uint8),) * 3,
    )
    if frame.picture is None and draw(st.booleans()):
        numbers = st.integers(1, 3 * most * most // 8) if most > 1 else st.just(0)
        frame = frame._replace(pose=draw(arrays.arrays(np.float64, numbers)) if most > 1 else None)
    elif frame.picture is None:
        letters = st.text(st.characters(exclude_characters="\0", codec="ascii"))
        frame = frame._replace(text=draw(letters)[: 3 * most * most])
    noise = np.random.default_rng(draw(st.integers(0, 99))).integers(0, 256, 4096, np.uint8)
    parts = [_filled(noise, *each) for each in (obs, action, (np.dtype(np.float32), (state,)))]
    return layout, frame._replace(obs=parts[0], action=parts[1], state=parts[2])


def _filled(noise: np.ndarray, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    """An array of any bytes; Booleans must be 0 or 1."""
    count = int(np.prod(shape, dtype=np.int64))
    given = noise[: count * dtype.itemsize] & (1 if dtype == np.bool_ else 255)
    return given.view(dtype).reshape(shape)


def bits(frame: Frame) -> list[object]:
    """What can be compared, NaN too."""
    return [
        (each.dtype, each.shape, each.tobytes()) if isinstance(each, np.ndarray) else repr(each)
        for each in frame
    ]


@settings(max_examples=50)
@given(framed(), st.binary(min_size=1, max_size=1))
def test_frame_comes_back_whatever_lay_there_before(
    made: tuple[FrameLayout, Frame], before: bytes
) -> None:
    layout, frame = made
    room = bytearray(before * layout.nbytes)
    layout.pack(frame, room)
    assert len(room) == layout.nbytes
    assert bits(layout.unpack(bytes(room))) == bits(frame)


@pytest.mark.parametrize("letter", ["x", "ä", "界"])
def test_note_that_is_too_long_is_cut(letter: str) -> None:
    layout = FrameLayout((np.dtype("f4"), (2,)), (np.dtype("i8"), ()), 0, 3)
    nothing = np.zeros(2, np.float32), np.int64(1), np.zeros(0, np.float32)
    frame = Frame(*range(8), 0.0, 0.0, letter * (NOTE_BYTES + 1), None, *nothing)
    room = bytearray(layout.nbytes)
    layout.pack(frame, room)
    note = layout.unpack(bytes(room)).note
    assert note.endswith("...") and len(note.encode()) <= NOTE_BYTES
    assert set(note.removesuffix("...")) == {letter}


def test_note_may_have_letters_that_utf8_has_not() -> None:
    """As an error has that names a file whose name is no UTF-8: training went down with it."""
    layout = FrameLayout((np.dtype("f4"), (2,)), (np.dtype("i8"), ()), 0, 3)
    nothing = np.zeros(2, np.float32), np.int64(1), np.zeros(0, np.float32)
    room = bytearray(layout.nbytes)
    layout.pack(Frame(*range(8), 0.0, 0.0, "no file \udcff", None, *nothing), room)
    assert layout.unpack(bytes(room)).note == "no file \\udcff"


def test_text_is_cut_where_there_is_no_room() -> None:
    layout = FrameLayout(*((np.dtype(np.uint8), (1,)),) * 2, 0, 3 * 320**2)
    whole = make_frame(picture=None, text="\N{BLACK STAR}" * TEXT_BYTES)
    frame = whole._replace(obs=np.zeros(1, np.uint8), action=np.zeros(1, np.uint8))
    room = bytearray(layout.nbytes)
    layout.pack(frame, room)
    text = layout.unpack(bytes(room)).text
    assert text.endswith("\N{BLACK STAR}...") and len(text.encode()) <= TEXT_BYTES
