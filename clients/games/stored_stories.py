"""Stories of TextWorld, each made once and kept in a folder of the user's cache."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fast_core.errors import ConfigError
from fast_core.system.caches import user_folder

REWARDS = ("dense", "balanced", "sparse")
_MAKER = Path(__file__).with_name("textworld_maker.py")
_SCRATCH = ".making-"
_MOST_SEED = 2**31 - 1
_TIMEOUT_S = 300.0


def stored(seed: int, rewards: str, version: str, cache: str | None) -> Path:
    """The file of a story, which is made if nobody has made it.

    It is there as a whole or not at all: it is made in a folder of its own, which gets its name at
    the end. One process makes it and others wait for it; whoever is killed leaves that folder to
    the next one, who removes it.

    Args:
        seed: Which story.
        rewards: How often there is a point.
        version: TextWorld's, of which another may make another story.
        cache: Folder in which stories are kept; None for the user's cache.

    Raises:
        ConfigError: A value is not allowed, or the story can't be made or kept.
    """
    if type(seed) is not int or not 0 <= seed <= _MOST_SEED:
        raise ConfigError(
            f"environment.kwargs.seed of a text game must be an integer from 0 to {_MOST_SEED}; "
            f"got {seed!r}"
        )
    if rewards not in REWARDS:
        raise ConfigError(
            f"environment.kwargs.rewards of a text game must be one of {', '.join(REWARDS)}; got "
            f"{rewards!r}"
        )
    folder = user_folder("stories") if cache is None else Path(cache).expanduser().absolute()
    if folder is None:
        raise ConfigError(
            "a text game keeps its story in the user's cache (XDG_CACHE_HOME, or ~/.cache), which "
            "can't be written here; set environment.kwargs.cache to a folder that can"
        )
    place = folder / f"simple-{rewards}-{seed}-{version}"
    if not place.is_dir():
        try:
            with _alone(folder):
                if not place.is_dir():
                    _make(place, seed, rewards)
        except OSError as error:
            raise ConfigError(
                f"the story of a text game can't be kept in {str(folder)!r}: {error}. Set "
                "environment.kwargs.cache to a folder that can be written."
            ) from error
    return place / "story.z8"


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Be the one process that makes stories in a folder; the lock ends with the process."""
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _make(place: Path, seed: int, rewards: str) -> None:
    """Make a story, in a process whose temporary files are where ours are.

    Raises:
        ConfigError: TextWorld could not make it.
        OSError: It can't be kept.
    """
    for left in place.parent.glob(f"{_SCRATCH}*"):
        shutil.rmtree(left, ignore_errors=True)
    scratch = Path(tempfile.mkdtemp(prefix=_SCRATCH, dir=place.parent))
    try:
        made = scratch / "story"
        made.mkdir()
        command = [sys.executable, "-P", str(_MAKER), str(made / "story.z8"), str(seed), rewards]
        done = subprocess.run(
            command,
            cwd=scratch,
            env={**os.environ, "TMPDIR": str(scratch)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_TIMEOUT_S,
            check=False,
            text=True,
            errors="replace",
        )
        if done.returncode or not (made / "story.z8").is_file():
            raise ConfigError(
                f"TextWorld could not make the story of seed {seed} (status {done.returncode}):\n"
                f"{done.stdout[-2000:].strip() or 'it said nothing'}"
            )
        made.chmod(0o755)
        made.rename(place)
    except subprocess.TimeoutExpired as error:
        raise ConfigError(
            f"TextWorld did not make the story of seed {seed} within {_TIMEOUT_S:g} s"
        ) from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
