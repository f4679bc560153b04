"""What belongs to a run on this machine beside its directory, and what a dead run has left of it.

A run has a private folder and processes, and both say to which launcher they belong (`Owner`): the
folder by a link in it, the processes by an environment variable. So what nobody was left to clean
up is removed by whoever comes later, once the launcher is proven to be dead. Standard library only
and quick to import, because the watchdog is made of it.

Concurrency: any number of processes may reclaim at once. The dead don't come back, so to remove
what they left twice is as good as once. A folder that does not say whose it is stays, empty or not:
versions of FastLoop that write no link have such folders while their runs live. So a folder has its
name only while it has its link; the other name, in which it is made and removed, nobody but this
module gives, and its maker begins anew if somebody removes it.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import signal
import stat
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping

from fast_core.errors import ConfigError
from fast_core.system.owner import Owner, is_dead, this_process

# Environment variables of all processes of a run but the launcher and the watchdog: its private
# folder, its launcher, and from which of the forked processes they come.
RUN_FOLDER = "FASTLOOP_RUN"
RUN_OWNER = "FASTLOOP_OWNER"
NODE_NUMBER = "FASTLOOP_NODE"
MARKS = (RUN_FOLDER, RUN_OWNER, NODE_NUMBER)
PREFIX = "fastloop-"
# So that the path of a socket file in a private folder fits into the kernel's 107 bytes.
_PLACE_BYTES = 79
_UNNAMED = ".new"  # of a folder that is just being made, or removed
_NAME = re.compile(f"{PREFIX}[0-9a-f]{{8}}({re.escape(_UNNAMED)})?")
_LINK, _RUN = "owner", "run"
_UNKNOWN = "unknown"
_KILL_FOR_S = 1.0
_LOOK_AGAIN_S = 0.02

Marks = Mapping[str, str]


def places() -> list[str]:
    """Where runs of this user may have their private folders, the best one first.

    The last one is there in containers whose root is read-only.
    """
    wanted = [os.environ.get("XDG_RUNTIME_DIR", ""), "/tmp", "/dev/shm"]
    with contextlib.suppress(FileNotFoundError):  # none is usable
        wanted.insert(1, tempfile.gettempdir())
    return list(dict.fromkeys(place for place in wanted if place))


def new_path() -> str:
    """A short path for a private folder; nothing is made.

    Raises:
        ConfigError: There is no place for one.
    """
    for place in places():
        if len(os.fsencode(place)) <= _PLACE_BYTES and os.access(place, os.W_OK | os.X_OK):
            return os.path.join(place, f"{PREFIX}{secrets.token_hex(4)}")
    raise ConfigError(
        f"a run needs a folder for its sockets, and none of {', '.join(places())} can be written. "
        f"Set TMPDIR to one that can, on this machine and with a path of at most {_PLACE_BYTES} "
        "bytes."
    )


def make_folder(path: str) -> None:
    """Make a private folder that belongs to the calling process."""
    owner, unnamed = str(this_process() or _UNKNOWN), path + _UNNAMED
    while True:
        os.mkdir(unnamed, 0o700)
        try:
            os.symlink(owner, os.path.join(unnamed, _LINK))
        except FileNotFoundError:  # somebody took it for an abandoned one
            continue
        return os.rename(unnamed, path)


def name_run(folder: str, run: str) -> None:
    """Say in a private folder of which run it is, by its directory."""
    os.symlink(run, os.path.join(folder, _RUN))


def run_of(folder: str) -> str | None:
    """The directory of the run that has a private folder, if it says so."""
    try:
        return os.readlink(os.path.join(folder, _RUN))
    except OSError:
        return None


def remove_folder(path: str) -> None:
    """Remove a private folder; its link last, so that a death meanwhile leaves the proof."""
    path = path.removesuffix(_UNNAMED)
    with contextlib.suppress(OSError):
        for name in os.listdir(path):
            each = os.path.join(path, name)
            if os.path.isdir(each) and not os.path.islink(each):
                shutil.rmtree(each, ignore_errors=True)
            elif name != _LINK:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(each)
        os.rename(path, path + _UNNAMED)
    with contextlib.suppress(OSError):
        os.unlink(os.path.join(path + _UNNAMED, _LINK))
    with contextlib.suppress(OSError):
        os.rmdir(path + _UNNAMED)


def folders() -> Iterator[tuple[str, Owner | None]]:
    """Private folders of this user and to whom they belong; None where they don't say."""
    for place in places():
        names: list[str] = []
        with contextlib.suppress(OSError):
            names = [name for name in os.listdir(place) if _NAME.fullmatch(name)]
        for path in (os.path.join(place, name) for name in sorted(names)):
            with contextlib.suppress(OSError):
                found = os.lstat(path)
                if found.st_uid == os.getuid() and stat.S_ISDIR(found.st_mode):
                    yield path, _owner(path)


def _owner(folder: str) -> Owner | None:
    try:
        return Owner.parse(os.readlink(os.path.join(folder, _LINK)))
    except OSError:
        return None


def kill_marked(marks: Marks) -> None:
    """Kill every process of this user that has all of these marks."""
    _kill(lambda found: marks.items() <= found.items())


def _kill(belongs: Callable[[Marks], bool]) -> dict[int, Marks]:
    """Kill the processes of this user whose marks ``belongs`` is true of, until there are none.

    Returns:
        The marks of each by its process id.
    """
    killed: dict[int, Marks] = {}
    deadline_s = time.monotonic() + _KILL_FOR_S
    while found := {pid: marks for pid, marks in _marked() if belongs(marks)}:
        killed |= found
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() >= deadline_s:
            break
        time.sleep(_LOOK_AGAIN_S)
    return killed


def _marked() -> Iterator[tuple[int, Marks]]:
    """Other processes of this user that come from a run, and what says so."""
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if not name.isdecimal() or int(name) == os.getpid():
            continue
        try:
            if os.stat(f"/proc/{name}").st_uid != os.getuid():
                continue
            with open(f"/proc/{name}/environ", "rb") as file:
                variables = file.read().split(b"\0")
        except OSError:  # it is gone
            continue
        pairs = (os.fsdecode(each).partition("=") for each in variables)
        marks = {
            key: value for key, _, value in pairs if key in (RUN_FOLDER, RUN_OWNER, NODE_NUMBER)
        }
        if marks:
            yield int(name), marks


def reclaim() -> list[str]:
    """Remove what dead runs have left; returns a sentence for each of them."""
    me = this_process()
    if me is None:  # nothing can be proven
        return []
    left: dict[str, list[str]] = {}

    def died(owner: Owner | None) -> bool:
        return owner is not None and is_dead(owner, me)

    killed = _kill(lambda marks: died(Owner.parse(marks.get(RUN_OWNER, ""))))
    for pid, marks in killed.items():
        left.setdefault(marks[RUN_OWNER], []).append(f"process {pid}")
    for path, owner in folders():
        if owner is None and path.endswith(_UNNAMED):
            with contextlib.suppress(OSError):
                os.rmdir(path)  # if it is empty
        elif died(owner):
            left.setdefault(str(owner), []).append(path)
            remove_folder(path)
    return [
        f"removed what the run of process {str(text).split()[3]}, which is dead, had left: "
        + ", ".join(what)
        for text, what in left.items()
    ]
