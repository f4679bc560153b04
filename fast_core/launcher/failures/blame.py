"""Saying that a failure came out of a user's algorithm, before anything of the run exists."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from fast_core.config import AlgorithmConfig
from fast_core.errors import ConfigError, FastLoopError
from fast_core.system.text import error_text


@contextmanager
def blaming(algorithm: AlgorithmConfig) -> Iterator[None]:
    """Turn what the algorithm's configuration type raises into an error that names it.

    Raises:
        ConfigError: Something of the module that defines ``algorithm`` raised; errors of
            FastLoop's own pass, and so does what was raised elsewhere.
    """
    try:
        yield
    except FastLoopError:
        raise
    except BaseException as error:  # a user's code may raise anything
        file = getattr(sys.modules.get(type(algorithm).__module__), "__file__", None)
        frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == file]
        if not frames:
            raise
        raise ConfigError(
            f"algorithm.name {algorithm.name!r}: {frames[-1].name}() raised "
            f"{error_text(error)} ({frames[-1].filename}:{frames[-1].lineno})"
        ) from error
