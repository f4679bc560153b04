"""Source files that change while a run starts.

Every process imports what it needs when it needs it, so a file that is edited meanwhile makes
processes of one run execute different code: optimizers whose replicas differ, or two ends of a
hand-over that don't understand each other and wait for ever.
"""

from __future__ import annotations

import contextlib
import os
import sys

from fast_core.system import installed

_INSTALLED = f"{os.sep}site-packages{os.sep}"


class Sources:
    """FastLoop's files, and those of the user's modules that are imported here."""

    def __init__(self) -> None:
        self._before = _stamps()

    def changed(self) -> list[str]:
        """Files that were changed since this was made."""
        now, before = _stamps(), self._before
        return sorted(name for name in before if now.get(name) != before[name])


def _stamps() -> dict[str, int]:
    stamps = {}
    for name in _files():
        with contextlib.suppress(OSError):
            stamps[name] = os.stat(name).st_mtime_ns
    return stamps


def _files() -> set[str]:
    package = os.walk(installed.FOLDER, followlinks=True)
    ours = {
        os.path.join(folder, name)
        for folder, _, names in package
        for name in names
        if name.endswith(".py")
    }
    named = {getattr(module, "__file__", None) or "" for module in list(sys.modules.values())}
    user = {name for name in named if name.endswith(".py") and _INSTALLED not in name}
    return ours | {name for name in user if not name.startswith(os.path.dirname(os.__file__))}
