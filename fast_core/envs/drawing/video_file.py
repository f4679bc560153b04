"""A video file, written frame by frame as an environment draws.

The encoder is ffmpeg, as the package imageio-ffmpeg brings it: H.264, which every browser plays,
and frames go to it as they come, so memory does not grow with the length. (OpenCV's wheels can't
encode H.264, and Pillow keeps every frame of a GIF until its end.)
"""

from __future__ import annotations

import contextlib
import importlib
import math
import os
from collections.abc import Generator
from pathlib import Path
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from fast_core.errors import ConfigError, FastLoopError
from fast_core.system.extras import to_install

Frame = NDArray[np.uint8]
SUFFIXES = (".mp4", ".gif")
DEFAULT_FPS = 30.0
# A palette for each frame, so that none has to wait for the last one.
_GIF_PALETTE = "split[a][b];[a]palettegen=stats_mode=single[p];[b][p]paletteuse=new=1:dither=bayer"


class VideoFile:
    """Writes ``path`` under a temporary name beside it, and renames when all is there."""

    def __init__(self, path: Path, what: str = "--video") -> None:
        """Check what can be checked before hours of play.

        Args:
            path: ``*.mp4`` or ``*.gif``.
            what: Who asks for it, for messages.

        Raises:
            ConfigError: Another suffix, a folder that can't be written to, or no encoder.
        """
        if path.suffix.lower() not in SUFFIXES:
            raise ConfigError(
                f"{what} must name a file that ends in {' or '.join(SUFFIXES)}; got {str(path)!r}"
            )
        if not os.access(path.parent, os.W_OK | os.X_OK) or path.is_dir():
            raise ConfigError(
                f"{what} {str(path)!r} can't be written: {str(path.parent)!r} must be a folder "
                "that exists and that you may write to, and the name must not be a folder's"
            )
        self.path = path
        self.frames = 0
        self._ffmpeg = import_encoder(what)
        self._partial = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix.lower()}")
        self._shape: tuple[int, ...] = ()
        self._encoder: Generator[None, Frame | None, None] | None = None

    def add(self, drawn: object, fps: float) -> None:
        """Append what an environment drew; the first ``fps``, frames per second, counts.

        Raises:
            ConfigError: It is no image, or of another size than the first.
            FastLoopError: The encoder refuses, for instance because the disk is full.
        """
        frame = as_frame(drawn)
        if self._encoder is None:
            self._shape = frame.shape
            self._encoder = self._start(frame, fps)
        if frame.shape != self._shape:
            raise ConfigError(
                f"frame {self.frames} of the video is {_size(frame.shape)}, the first was "
                f"{_size(self._shape)}; the environment must draw one size"
            )
        try:
            self._encoder.send(frame)
        except (OSError, StopIteration) as error:
            raise self._failure(str(error).splitlines()[0] if str(error) else "it ended") from error
        self.frames += 1

    def finish(self) -> None:
        """Complete the file and give it its name.

        Raises:
            FastLoopError: Not every frame is in it.
        """
        if self._encoder is None:
            raise FastLoopError("there is no frame to write: nothing was played")
        self._encoder.close()
        # The encoder's exit status is not told, so what it wrote is counted.
        try:
            written, _ = self._ffmpeg.count_frames_and_secs(str(self._partial))
        except (OSError, RuntimeError, ValueError) as error:
            raise self._failure("what it wrote can't be read") from error
        if written != self.frames:
            raise self._failure(f"{written} of {self.frames} frames are in it")
        os.replace(self._partial, self.path)

    def close(self) -> None:
        """Remove an unfinished file; may be called twice, and after `finish`."""
        try:
            if self._encoder is not None:
                self._encoder.close()  # a signal meanwhile kills ffmpeg
        finally:
            with contextlib.suppress(OSError):
                self._partial.unlink()

    def _start(self, frame: Frame, fps: float) -> Generator[None, Frame | None, None]:
        height, width = frame.shape[:2]
        gif = self.path.suffix.lower() == ".gif"
        options = ["-filter_complex", _GIF_PALETTE] if gif else ["-movflags", "+faststart"]
        encoder: Generator[None, Frame | None, None] = self._ffmpeg.write_frames(
            str(self._partial),
            (width, height),
            fps=fps if math.isfinite(fps) and fps > 0 else DEFAULT_FPS,
            codec="gif" if gif else "libx264",
            pix_fmt_out="pal8" if gif else "yuv420p",
            quality=None if gif else 7,
            macro_block_size=1,
            ffmpeg_log_level="fatal",
            output_params=options,
        )
        encoder.send(None)
        return encoder

    def _failure(self, cause: str) -> FastLoopError:
        try:
            free = os.statvfs(self.path.parent)
            room = f"{free.f_bavail * free.f_frsize / (1 << 20):.0f} MiB are free there"
        except OSError as error:
            room = str(error)
        return FastLoopError(
            f"the video {str(self.path)!r} could not be written after {self.frames} frames: "
            f"{cause} ({room}). Nothing is kept of it."
        )


def as_frame(drawn: object) -> Frame:
    """An image ``[height, width, 3]`` of even height and width, as video codecs want them.

    Raises:
        ConfigError: It is no image of 8 bits.
    """
    frame = np.asarray(drawn)
    if frame.ndim == 2:
        frame = np.repeat(frame[..., None], 3, axis=2)
    if frame.dtype != np.uint8 or frame.ndim != 3 or frame.shape[2] not in (3, 4) or not frame.size:
        raise ConfigError(
            "the environment's render() must return an image [height, width, 3] of uint8 with "
            f"render_mode 'rgb_array'; got {type(drawn).__name__} of shape {frame.shape} and "
            f"{frame.dtype}"
        )
    height, width = frame.shape[:2]
    odd = ((0, height % 2), (0, width % 2), (0, 0))
    even: Frame = np.ascontiguousarray(np.pad(frame[..., :3], odd, mode="edge"))
    return even


def _size(shape: tuple[int, ...]) -> str:
    return f"{shape[1]}x{shape[0]}"


def import_encoder(what: str) -> ModuleType:
    """What brings an ffmpeg.

    Raises:
        ConfigError: It is not installed, or has none; ``what`` needs it.
    """
    try:
        module = importlib.import_module("imageio_ffmpeg")
        module.get_ffmpeg_exe()
    except (ImportError, RuntimeError) as error:
        raise ConfigError(
            f"{what} needs ffmpeg: {error}. Run {to_install('video')}, which brings it."
        ) from error
    return module
