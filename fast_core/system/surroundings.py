"""What a process was started with, made usable or put in words: streams, descriptors, folders.

Standard library only and quick to import: the command line does this before anything else.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import pwd
import resource
import select
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TextIO

from fast_core.errors import ConfigError
from fast_core.system.text import harmless

_results: TextIO | None = None


def mend() -> None:
    """Open closed standard streams on nothing, and name a user whom the machine doesn't know.

    What standard output has no letters for is escaped, as on standard error.

    The next file opened would get the number of a closed stream, and every stray `print` would be
    written into it. Libraries (torch's compiler among them) ask for the user's name.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free: this one
    if sys.stderr is None:
        # Else what is meant for it goes to standard output.
        sys.stderr = os.fdopen(2, "w", closefd=False)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    if not any(os.environ.get(name) for name in ("LOGNAME", "USER", "LNAME", "USERNAME")):
        try:
            pwd.getpwuid(os.getuid())
        except KeyError:
            os.environ["USER"] = f"uid-{os.getuid()}"


@contextlib.contextmanager
def variables_kept(names: Iterable[str]) -> Iterator[None]:
    """Give these environment variables back as they were."""
    before = {name: os.environ.get(name) for name in names}
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def working_folder() -> str:
    """The current folder.

    Raises:
        ConfigError: It was removed.
    """
    try:
        return os.getcwd()
    except OSError as error:
        raise ConfigError(
            f"the current folder can't be read ({error.strerror}); was it removed? Change to "
            "another one"
        ) from error


def expanded(path: str | os.PathLike[str], key: str) -> Path:
    """``path`` with a leading ``~`` replaced; ``key`` names where it was given.

    Raises:
        ConfigError: There is no such home folder.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise ConfigError(
            f"{key} {str(path)!r} begins with a home folder, and there is none (neither HOME nor "
            "an entry for the user). Write the whole path, or set HOME."
        ) from error


def explained(error: OSError) -> str | None:
    """A sentence for an error that the surroundings are to blame for; None for any other."""
    if error.errno in (errno.EMFILE, errno.ENFILE):
        allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return (
            f"too many open files: this process may have {allowed}. Raise the limit, for instance "
            "with `ulimit -n 4096`"
        )
    if error.errno == errno.ENOENT and "temporary directory" in str(error.strerror):  # Python's
        return (
            f"there is no folder for temporary files: {error.strerror}. Set TMPDIR to one that can "
            "be written"
        )
    if error.errno in (errno.EACCES, errno.EPERM) and error.filename is not None:
        return f"{os.fsdecode(error.filename)!r} is closed to you: {error.strerror}"
    return None


def check_descriptors(needed: int) -> None:
    """Refuse to begin with too few file descriptors: libraries abort where they run out.

    Raises:
        ConfigError: Fewer than ``needed`` are allowed.
    """
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed != resource.RLIM_INFINITY and allowed < needed:
        raise ConfigError(
            f"this run needs up to {needed} open files in one process; {allowed} are allowed. "
            "Raise the limit, for instance with `ulimit -n 4096`, or use fewer nodes."
        )


# --- results that a machine reads ----------------------------------------------------------------


def reserve_output() -> None:
    """Keep standard output for `write_result`: what anything else prints goes to standard error.

    By Python or past it, as C code does; until the process ends, because what a library has in a
    buffer of its own may be written at its very end.

    Raises:
        ConfigError: Standard output is closed, so nobody would read the result.
    """
    global _results
    if sys.stdout is None:
        raise ConfigError("standard output is closed, and the result would be lost; open it")
    if _results is None:
        sys.stdout.flush()
        _results = os.fdopen(
            os.dup(1), "w", encoding=sys.stdout.encoding, errors="backslashreplace"
        )
        os.dup2(2, 1)


def write_result(text: str) -> None:
    """Print a result on the standard output that was reserved, or the usual one.

    It may hold what a stranger wrote, which steers no terminal.
    """
    print(harmless(text), file=_results, flush=True)


def is_unread() -> bool:
    """Whether nobody is left who reads the results, or standard output."""
    looked = select.poll()
    looked.register(1 if _results is None else _results.fileno(), 0)
    return bool(looked.poll(0))
