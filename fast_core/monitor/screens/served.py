"""Where a page is served, in a file of the run that only its user may read."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import msgspec

from fast_core.monitor.screens.access import with_token
from fast_core.system.decoding import from_json
from fast_core.system.regular_file import read_regular


class Served(msgspec.Struct, frozen=True):
    """Where a page is served.

    Attributes:
        url: Its address, without a token.
        port: The port of it.
        pid: The process that serves it; 0 for none, between two that do.
        token: What was made for it to be shown; empty where it is that of the environment variable.
    """

    url: str
    port: int
    pid: int
    token: str = ""

    @property
    def address(self) -> str:
        """What a browser is let in by."""
        return with_token(self.url, self.token)

    def write(self, path: Path) -> None:
        """Write it, whole or not at all.

        Raises:
            OSError: It can't be written.
        """
        partial = path.with_name(f".{path.name}.{self.pid}")
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(msgspec.json.encode(self))
            os.replace(partial, path)
        except OSError:
            partial.unlink()
            raise

    def remove(self, path: Path) -> None:
        """Take it away, unless it is another's by now."""
        if read_served(path) == self:
            with contextlib.suppress(OSError):
                path.unlink()


def read_served(path: Path) -> Served | None:
    """What a file says; None where there is none, or one that says nothing."""
    try:
        return from_json(read_regular(path), Served)
    except (OSError, msgspec.DecodeError):
        return None


def now_served(path: Path) -> Served | None:
    """The same, if the process that serves it is there, as far as it can be seen from here."""
    served = read_served(path)
    if served is None or served.pid <= 0:
        return None
    try:
        os.kill(served.pid, 0)
    except ProcessLookupError:
        return None
    except OSError:  # it is another user's
        pass
    return served
