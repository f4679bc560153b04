"""Text as a picture, for whoever watches a game in words."""

from __future__ import annotations

import functools
import importlib
import re
import textwrap
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fast_core.errors import ConfigError
from fast_core.system.extras import to_install

WIDTH, HEIGHT = 560, 420  # pixels
# Colours and the like, as terminals know them, and whatever else has no letter.
_CODE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[ -/]*[0-~]"
    r"|[\x00-\x08\x0e-\x1f\x7f]"
)
_COLUMNS, _SIZE, _LEADING, _MARGIN = 84, 12, 14, 8


def picture(text: str) -> NDArray[np.uint8]:
    """The end of a text, wrapped, dark on light, without its codes; ``[420, 560, 3]``.

    Raises:
        ConfigError: Pillow is not installed.
    """
    draw_module, font = _pillow()
    plain = _CODE.sub("", text).splitlines()
    lines = [part for line in plain for part in textwrap.wrap(line, _COLUMNS) or [""]]
    room = (HEIGHT - 2 * _MARGIN) // _LEADING
    image = importlib.import_module("PIL.Image").new("RGB", (WIDTH, HEIGHT), (250, 248, 240))
    draw = draw_module.Draw(image)
    for place, line in enumerate(lines[-room:]):
        draw.text((_MARGIN, _MARGIN + place * _LEADING), line, fill=(40, 36, 30), font=font)
    return np.asarray(image, np.uint8).copy()


@functools.cache
def _pillow() -> tuple[Any, Any]:
    """Pillow's drawing, and the font that comes with it."""
    try:
        draw, font = (importlib.import_module(f"PIL.{name}") for name in ("ImageDraw", "ImageFont"))
    except ImportError as error:
        raise ConfigError(
            f"a text game is drawn with Pillow, which can't be imported ({error}). Run "
            f"{to_install('textgame')}."
        ) from error
    return draw, font.load_default(size=_SIZE)
