"""Checkpoints as the launcher sees them: written whole, then renamed, checked before use.

A checkpoint is a directory named by the environment steps trained on. Nodes write their parts
into ``<name>.tmp``; the launcher adds its own, a manifest with the size and SHA-256 of every file,
flushes everything and renames. What has no valid manifest is no checkpoint.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec

from fast_core.errors import CheckpointError, OtherRun
from fast_core.messages.launching import CommitCheckpoint
from fast_core.monitor.checkpoint_files import (
    FORMAT,
    MANIFEST,
    DamagedCheckpoint,
    Manifest,
    check,
    complete_names,
    entry,
)
from fast_core.system.durable import sync_directory, write_durably

SCHEDULER_FILE = "scheduler.msgpack"
# What a key stands for where a checkpoint is too old for it.
BEFORE = {"environment.wrappers": "[]", "nodes.parts": "[]", "algorithm.recurrent": '"none"'}
_COPY_TRIES = 3
_BAD, _PARTIAL = ".damaged", ".tmp"


class CheckpointStore:
    """The checkpoints of one run."""

    def __init__(self, folder: Path, *, keep: int, identity: dict[str, str]) -> None:
        """``folder`` is the run's ``checkpoints``; ``keep`` the number of newest ones kept."""
        self.folder, self._keep, self._identity = folder, keep, identity

    def prepare(self, directory: str) -> None:
        """Make an empty directory for the nodes' parts."""
        shutil.rmtree(directory, ignore_errors=True)
        Path(directory).mkdir(parents=True)

    def commit(
        self, command: CommitCheckpoint, directory: str, check: Callable[[], None] = lambda: None
    ) -> Path:
        """Complete the checkpoint in ``directory`` (``*.tmp``) and give it its name.

        ``check`` is called every few milliseconds and may raise.

        Raises:
            CheckpointError: A part that a node reported is not there.
            OSError: The disk is full, or it fails.
        """
        partial = Path(directory)
        final = partial.with_suffix("")
        write_durably(partial / SCHEDULER_FILE, command.scheduler)
        try:
            names = (*command.files, SCHEDULER_FILE)
            files = {name: entry(partial / name, check) for name in names}
        except FileNotFoundError as error:
            raise CheckpointError(f"a part of checkpoint {final} is missing: {error}") from error
        manifest = Manifest(FORMAT, command.version, command.env_steps, self._identity, files)
        write_durably(partial / MANIFEST, msgspec.json.format(msgspec.json.encode(manifest)))
        shutil.rmtree(final, ignore_errors=True)
        partial.rename(final)
        sync_directory(self.folder)
        self._prune()
        return final

    def _prune(self) -> None:
        for old in complete_names(self.folder)[: -self._keep]:
            shutil.rmtree(self.folder / old, ignore_errors=True)
        drop_abandoned(self.folder)


def drop_abandoned(folder: Path) -> None:
    """Remove what a run that was killed had written of a checkpoint; it may be gigabytes.

    For the owner of the run's lock only, while it writes none.
    """
    for abandoned in folder.glob(f"*{_PARTIAL}"):
        shutil.rmtree(abandoned, ignore_errors=True)


def newest_valid(
    folder: Path, interrupt: Callable[[], None] = lambda: None
) -> tuple[Path, Manifest, list[str]]:
    """The newest checkpoint that is whole, and a line for each damaged one set aside.

    For the owner of the run's lock only, since it renames. ``interrupt`` is called every few
    milliseconds and may raise.

    Raises:
        CheckpointError: There is none, or it is of another format.
    """
    notes: list[str] = []
    for name in reversed(complete_names(folder)):
        path = folder / name
        try:
            return path, check(path, interrupt), notes
        except DamagedCheckpoint as error:
            aside = path.with_name(name + _BAD)
            shutil.rmtree(aside, ignore_errors=True)
            path.rename(aside)
            notes.append(f"{error}; kept as {aside.name}, using an older one")
    reason = "; ".join(notes) or "none was written yet"
    raise CheckpointError(f"no complete checkpoint in {folder}: {reason}")


def copy_newest(
    source: Path, target: Path, interrupt: Callable[[], None] = lambda: None
) -> tuple[Path, Manifest]:
    """Bring the newest whole checkpoint of another run, which may be training, into this one's.

    Hard links where the file system has them: nothing is copied, and nothing is lost when the
    other run drops the checkpoint meanwhile; then the next newest is taken. ``interrupt`` is called
    every few milliseconds while the copy is checked and may raise.

    Raises:
        CheckpointError: There is none.
    """
    failures: list[str] = []
    for _ in range(_COPY_TRIES):
        for name in reversed(complete_names(source)):
            copy = target / name
            try:
                link_or_copy(source / name, copy)
                return copy, check(copy, interrupt)
            except (OSError, shutil.Error, DamagedCheckpoint) as error:
                failures.append(str(error))
                shutil.rmtree(copy, ignore_errors=True)
    reason = failures[-1] if failures else "none was written yet"
    raise CheckpointError(f"no complete checkpoint in {source}: {reason}")


def link_or_copy(source: Path, target: Path) -> None:
    """Make ``target`` hold what the checkpoint ``source`` does, whatever becomes of that.

    Raises:
        OSError, shutil.Error: Part of it is not there, or can't be written.
    """
    shutil.copytree(source, target, copy_function=_link_or_copy_file)


def _link_or_copy_file(source: str, target: str) -> str:
    try:
        os.link(source, target)
    except FileNotFoundError:
        raise
    except OSError:
        shutil.copy2(source, target)
    return target


def check_identity(
    manifest: Manifest, identity: dict[str, str], checkpoint: Path, source: str
) -> None:
    """Refuse to continue a run whose defining keys differ.

    Args:
        manifest: Of the checkpoint.
        identity: The defining keys of the configuration.
        checkpoint: Where the checkpoint lies, for the message.
        source: Where the configuration came from, likewise.

    Raises:
        OtherRun: Names the key, both values and where each stands.
    """
    for key, wanted in identity.items():
        saved = manifest.identity.get(key, BEFORE.get(key))
        if saved != wanted:
            raise OtherRun(
                f"{key} must be as in the checkpoint to continue from it; {str(checkpoint)!r} "
                f"has {saved or 'none'}, {source} {wanted}. Launch a new run to change it; it can "
                "begin with the networks of this one, where spaces and network stay: `fastloop "
                f"launch CONFIG policy.from={shlex.quote(str(checkpoint.parent.parent))}`."
            )
