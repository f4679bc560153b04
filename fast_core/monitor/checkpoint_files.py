"""What a checkpoint looks like on disk, for those who read one.

A directory named by the environment steps trained on, with a manifest that has the size and
SHA-256 of every file. What has no valid manifest is no checkpoint.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection
from pathlib import Path

import msgspec

from fast_core.errors import CheckpointError
from fast_core.system.decoding import from_json
from fast_core.system.regular_file import open_regular, read_regular

MANIFEST = "manifest.json"
LEARNER_FILE = "learner.msgpack"  # that of the first of several optimizers
FORMAT = 1
_PIECE = 1 << 20  # bytes read and hashed at once; about a millisecond


class DamagedCheckpoint(CheckpointError):
    """A checkpoint is not what its manifest says."""


class FileEntry(msgspec.Struct, frozen=True):
    """What a file of a checkpoint must look like."""

    nbytes: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True):
    """The table of contents of a checkpoint.

    Attributes:
        format: Version of this layout.
        version: Committed optimizer steps.
        env_steps: Environment steps trained on.
        identity: What must be equal for a run to continue from it, by configuration key.
        files: Every file but the manifest.
    """

    format: int
    version: int
    env_steps: int
    identity: dict[str, str]
    files: dict[str, FileEntry]


def complete_names(folder: Path) -> list[str]:
    """Names of directories that look like complete checkpoints, oldest first."""
    if not folder.is_dir():
        return []
    names = [entry.name for entry in folder.iterdir() if entry.name.isdecimal()]
    return sorted((name for name in names if (folder / name / MANIFEST).is_file()), key=int)


def newest_complete(folder: Path) -> Path | None:
    """The newest of them, as it lies on disk; an earlier part of the run may have written it."""
    names = complete_names(folder)
    return folder / names[-1] if names else None


def check(
    path: Path,
    interrupt: Callable[[], None] = lambda: None,
    *,
    only: Collection[str] | None = None,
) -> Manifest:
    """Read the manifest and verify every file against it.

    Args:
        path: The checkpoint.
        interrupt: Is called every few milliseconds and may raise.
        only: The files that matter, for those who don't read the others.

    Raises:
        DamagedCheckpoint: Names the file that is missing or differs.
        CheckpointError: It is of another format.
    """
    try:
        manifest = from_json(read_regular(path / MANIFEST), Manifest)
    except (OSError, msgspec.MsgspecError) as error:
        raise DamagedCheckpoint(
            f"checkpoint {path.name} has no readable manifest: {error}"
        ) from error
    if manifest.format != FORMAT:
        raise CheckpointError(
            f"checkpoint {path.name} has format {manifest.format}, this FastLoop reads {FORMAT}"
        )
    for name, expected in manifest.files.items():
        if name.startswith("/") or ".." in name.split("/"):
            raise DamagedCheckpoint(f"checkpoint {path.name} names {name!r}, outside its folder")
        if only is not None and name not in only:
            continue
        try:
            found = entry(path / name, interrupt)
        except OSError as error:
            raise DamagedCheckpoint(f"checkpoint {path.name} lacks {name}: {error}") from error
        if found != expected:
            raise DamagedCheckpoint(
                f"checkpoint {path.name} is damaged: {name} has {found.nbytes} bytes and SHA-256 "
                f"{found.sha256[:12]}, the manifest says {expected.nbytes} and "
                f"{expected.sha256[:12]}"
            )
    return manifest


def entry(path: Path, check: Callable[[], None]) -> FileEntry:
    """What a file looks like; ``check`` is called every few milliseconds and may raise."""
    digest, nbytes, piece = hashlib.sha256(), 0, memoryview(bytearray(_PIECE))
    with open_regular(path) as file:
        while count := file.readinto(piece):
            check()
            digest.update(piece[:count])
            nbytes += count
    return FileEntry(nbytes, digest.hexdigest())
