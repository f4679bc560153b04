"""Writing videos: real files, read again frame by frame."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from fast_core.envs.drawing import video_file as video
from fast_core.envs.drawing.video_file import VideoFile, as_frame
from fast_core.errors import ConfigError, FastLoopError


def frame(number: int, height: int = 40, width: int = 64) -> np.ndarray:
    """Black above, white below a line that moves."""
    made = np.zeros((height, width, 3), np.uint8)
    made[number:] = 255
    return made


# The package's reader leaves its pipes to the garbage collector; its writer does not.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("suffix", [".mp4", ".gif", ".MP4"])
def test_video_has_every_frame_at_its_speed_and_nothing_else_is_left(
    tmp_path: Path, suffix: str
) -> None:
    ffmpeg = pytest.importorskip("imageio_ffmpeg")
    path = tmp_path / f"play{suffix}"
    file = VideoFile(path)
    for number in range(12):
        file.add(frame(number), 20.0)
        assert not path.exists()
    file.finish()
    file.close()
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]
    reader = ffmpeg.read_frames(str(path))
    properties = next(reader)
    assert properties["size"] == (64, 40)
    assert properties["fps"] == 20.0
    read = [np.frombuffer(data, np.uint8).reshape(40, 64, 3) for data in reader]
    assert len(read) == 12
    for number, image in enumerate(read):
        assert np.abs(image.astype(int) - frame(number)).mean() < 12


def test_abandoned_video_leaves_nothing_and_the_old_file_as_it_was(tmp_path: Path) -> None:
    pytest.importorskip("imageio_ffmpeg")
    path = tmp_path / "play.mp4"
    path.write_text("older")
    file = VideoFile(path)
    file.add(frame(0), 20.0)
    file.close()
    file.close()
    assert [entry.name for entry in tmp_path.iterdir()] == ["play.mp4"]
    assert path.read_text() == "older"


def test_video_that_is_not_whole_on_disk_is_an_error(tmp_path: Path) -> None:
    """As when the disk is full: the encoder's own end tells nothing."""
    pytest.importorskip("imageio_ffmpeg")
    file = VideoFile(tmp_path / "play.mp4")
    file.add(frame(0), 20.0)
    assert file._encoder is not None
    file._encoder.close()
    file._partial.write_bytes(file._partial.read_bytes()[:100])
    with pytest.raises(FastLoopError, match=r"could not be written after 1 frames.*MiB are free"):
        file.finish()
    file.close()
    assert list(tmp_path.iterdir()) == []


def test_encoder_that_dies_is_an_error(tmp_path: Path) -> None:
    ffmpeg = pytest.importorskip("imageio_ffmpeg")
    file = VideoFile(tmp_path / "play.mp4")

    def dies(*given: object, **options: object) -> object:
        yield
        raise OSError("[Errno 32] Broken pipe\n\nFFMPEG COMMAND: ...")

    file._ffmpeg = type(ffmpeg)("fake")
    file._ffmpeg.write_frames = dies  # type: ignore[attr-defined]
    with pytest.raises(FastLoopError, match=r"after 0 frames: \[Errno 32\] Broken pipe \("):
        file.add(frame(0), 20.0)


def test_frames_of_two_sizes_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("imageio_ffmpeg")
    file = VideoFile(tmp_path / "play.mp4")
    file.add(frame(0), 20.0)
    with pytest.raises(ConfigError, match=r"frame 1 of the video is 64x20, the first was 64x40"):
        file.add(frame(0, height=20), 20.0)
    file.close()


@pytest.mark.parametrize(
    ("drawn", "shape"),
    [
        (np.zeros((4, 6, 3), np.uint8), (4, 6, 3)),
        (np.zeros((5, 7, 3), np.uint8), (6, 8, 3)),
        (np.zeros((4, 6, 4), np.uint8), (4, 6, 3)),
        (np.zeros((4, 6), np.uint8), (4, 6, 3)),
    ],
)
def test_pictures_become_frames_of_even_size(drawn: np.ndarray, shape: tuple[int, ...]) -> None:
    assert as_frame(drawn).shape == shape


@pytest.mark.parametrize(
    "drawn", [None, "text", np.zeros((4, 6, 3)), np.zeros((4, 6, 2), np.uint8)]
)
def test_what_is_no_picture_is_refused(drawn: object) -> None:
    with pytest.raises(ConfigError, match=r"render\(\) must return an image"):
        as_frame(drawn)


@pytest.mark.parametrize("name", ["play.avi", "play", "nowhere/play.mp4"])
def test_file_that_cannot_be_written_is_refused_before_anything_is_played(
    tmp_path: Path, name: str
) -> None:
    with pytest.raises(ConfigError, match="--video"):
        VideoFile(tmp_path / name)
    assert os.listdir(tmp_path) == []


def test_missing_encoder_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> None:
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(video.importlib, "import_module", missing)
    with pytest.raises(ConfigError, match=r"pip install -e '.\[video\]'"):
        VideoFile(tmp_path / "play.mp4")


def test_video_that_lacks_frames_is_an_error(tmp_path: Path) -> None:
    pytest.importorskip("imageio_ffmpeg")
    file = VideoFile(tmp_path / "play.mp4")
    for number in range(3):
        file.add(frame(number), 20.0)
    file.frames += 1
    with pytest.raises(FastLoopError, match="3 of 4 frames are in it"):
        file.finish()
    file.close()
    assert list(tmp_path.iterdir()) == []
