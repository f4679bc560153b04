"""Frames as image files and films."""

from __future__ import annotations

import io
import weakref

import numpy as np
import pytest
from PIL import Image

from fast_core.dashboard.clips import ALL_BYTES, KEPT_BYTES, KEPT_S, UNWATCHED_S, Clips, KeptShot
from fast_core.dashboard.pictures import Kind, as_rgb, encode, header, observed
from fast_core.errors import ConfigError
from tests.dashboard.served import make_frame


def test_picture_is_a_jpeg_and_an_observation_a_png_without_loss() -> None:
    picture = np.zeros((30, 40, 3), np.uint8)
    picture[:, 20:] = 200
    seen = np.random.default_rng(0).integers(0, 255, (84, 84), np.uint8)
    frame = make_frame(picture=picture, obs=seen)
    rgb, obs = encode(frame, Kind.RGB), encode(frame, Kind.OBSERVATION)
    assert (rgb[:2], obs[:4]) == (b"\xff\xd8", b"\x89PNG")
    assert np.abs(as_rgb(rgb).astype(int) - picture).mean() < 3
    assert (as_rgb(obs)[..., 0] == seen).all()


def test_header_is_that_of_the_protocol() -> None:
    assert (
        header(Kind.OBSERVATION, 7, 2**32 + 5, 1.5).hex()
        == "0207" + "05000000" + "000000000000f83f"
    )


@pytest.mark.parametrize(
    ("shape", "drawn"),
    [
        ((84, 84), (84, 84)),
        ((4, 84, 84), (84, 336)),
        ((84, 84, 4), (84, 336)),
        ((84, 84, 1), (84, 84)),
        ((84, 84, 3), (84, 84, 3)),
        ((3, 84, 84), (84, 84, 3)),
        ((4, 84, 84, 3), (84, 336, 3)),
    ],
)
def test_frames_of_a_stack_stand_side_by_side(
    shape: tuple[int, ...], drawn: tuple[int, ...]
) -> None:
    assert observed(np.ones(shape, np.uint8)).shape == drawn


def test_newest_frame_of_a_stack_is_on_the_right() -> None:
    stack = np.stack([np.full((84, 84), n, np.uint8) for n in range(4)])
    assert observed(stack)[0, ::84].tolist() == [0, 1, 2, 3]


def test_numbers_are_bars_to_the_side_of_their_sign() -> None:
    bars = observed(np.array([2.0, -1.0, np.nan, np.inf], np.float32))
    middle = bars.shape[1] // 2
    first, second = bars[1], bars[7]
    assert (first[middle + 1 :] == 220).all() and (first[:middle] == 40).all()
    assert (second[middle + 1 :] == 40).all() and (second[:middle] == 220).sum() == middle / 2
    assert (bars[13] != 220).sum() == bars.shape[1] == (bars[19] != 220).sum()


def test_composite_observation_shows_its_image_or_its_numbers() -> None:
    form = np.dtype([("speed", np.float32, (2,)), ("camera", np.uint8, (16, 16, 3))])
    assert observed(np.zeros((), form)).shape == (16, 16, 3)
    numbers = np.dtype([("speed", np.float32, (2,)), ("gear", np.int64, ())])
    assert observed(np.zeros((), numbers)).shape[0] == 3 * 6


def test_reel_holds_the_last_seconds_and_no_more_bytes_than_it_may() -> None:
    clips = Clips()
    for n in range(100):
        clips.add(0, Kind.RGB, float(n), b"x")
    assert [shot.at_s for shot in clips.shots(0, 5)] == [94, 95, 96, 97, 98, 99]
    assert len(clips.shots(0, 1000)) == KEPT_S + 1
    for n in range(20):
        clips.add(1, Kind.RGB, n / 100, bytes(KEPT_BYTES // 4))
    assert len(clips.shots(1, 1000)) == 4
    for tile in range(2, 34):
        for n in range(20):
            clips.add(tile, Kind.RGB, n / 100, bytes(KEPT_BYTES // 4))
    kept = [len(shot.data) for tile in range(34) for shot in clips.shots(tile, 1000)]
    assert sum(kept) <= 2 * ALL_BYTES
    clips.keep({0, 1}, 100.0)
    clips.keep({1}, 100.0 + UNWATCHED_S)
    assert clips.shots(0, 1000), "who pauses may still want a clip"
    clips.keep({1}, 101.0 + UNWATCHED_S)
    assert clips.shots(0, 1000) == [] and clips.shots(1, 1000)


def test_film_has_the_frames_and_their_time() -> None:
    clips = Clips()
    for n in range(6):
        data = encode(make_frame(picture=np.full((20, 30, 3), 40 * n, np.uint8)), Kind.RGB)
        clips.add(0, Kind.RGB, n / 5, data)
    with Image.open(io.BytesIO(clips.film(clips.shots(0, 10), "gif"))) as film:
        assert (film.size, getattr(film, "n_frames", 1)) == ((30, 20), 6)
        assert film.info["duration"] == 200
    with pytest.raises(ConfigError, match="no frames of this tile yet"):
        clips.film(clips.shots(3, 10), "gif")


def test_nothing_seen_is_a_picture_too() -> None:
    assert as_rgb(encode(make_frame(obs=np.zeros((0, 8), np.float32)), Kind.OBSERVATION)).any()


def test_film_is_made_of_one_picture_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hundreds of large ones, decoded, would be more than the run's machine can spare."""
    made: list[weakref.ref[Image.Image]] = []
    most, from_array = 0, Image.fromarray

    def watched(pixels: np.ndarray) -> Image.Image:
        nonlocal most
        image = from_array(pixels)
        made.append(weakref.ref(image))
        most = max(most, sum(each() is not None for each in made))
        return image

    monkeypatch.setattr(Image, "fromarray", watched)
    rng = np.random.default_rng(0)
    reel = [
        KeptShot(0.1 * n, encode(make_frame(picture=picture), Kind.RGB))
        for n, picture in enumerate(rng.integers(0, 255, (20, 40, 60, 3), np.uint8))
    ]
    film = Clips().film(reel, "gif")
    with Image.open(io.BytesIO(film)) as image:
        assert (image.n_frames, image.size) == (20, (60, 40))  # type: ignore[attr-defined]
    assert len(made) >= 20 and most <= 5
