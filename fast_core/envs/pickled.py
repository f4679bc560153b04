"""Environments that were given as Python objects: functions and classes in a file of a run."""

from __future__ import annotations

import functools
import linecache
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import cloudpickle

from fast_core.errors import ConfigError
from fast_core.system.text import error_text

Maker = Callable[..., Any]


@functools.lru_cache(maxsize=8)
def load(path: str) -> Maker:
    """What makes the environment. The file is code: loading it executes it.

    Raises:
        ConfigError: There is no such file, or what it needs is not there.
    """
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(
            f"environment.pickled {path!r} can't be read: {error.strerror or error}. It lies "
            "beside the config.yaml of the run that was trained from Python; copy both."
        ) from error
    try:
        return loads(data)
    except BaseException as error:  # it executes a user's code, and imports a user's modules
        raise ConfigError(
            f"environment.pickled {path!r} can't be loaded: {error_text(error)}. It holds code of "
            "a Python program: it needs the same version of Python, and the modules that it uses "
            "where this is started, on PYTHONPATH or installed."
        ) from error


def loads(data: bytes) -> Maker:
    """What makes the environment; ``data`` is executed."""
    return plain(cast("Maker", cloudpickle.loads(data)))


def plain(made: Maker) -> Maker:
    """The same as a function or class: Gymnasium copies anything else, each time."""
    return made if isinstance(made, type) else lambda **kwargs: made(**kwargs)


def code_with_source(filename: str, source: str, *parts: Any) -> types.CodeType:
    """Code as it was where it was pickled, with the text of what stands in no file."""
    if source and not linecache.getlines(filename):
        linecache.cache[filename] = len(source), None, source.splitlines(keepends=True), filename
    return types.CodeType(*parts).replace(co_filename=filename)
