"""All runs at and below a folder: how each stands, and which belong together. Reading only."""

from __future__ import annotations

import math
import os
import secrets
import time
from collections import deque
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from urllib.parse import quote, urlsplit

import msgspec
from msgspec.structs import replace

from fast_core.config.alike import told_apart
from fast_core.dashboard.configurations import Configuration, Configurations
from fast_core.dashboard.curves import Curve, Curves
from fast_core.dashboard.sweeps import Begun, Sweeps, SweepState
from fast_core.errors import ConfigError
from fast_core.monitor.run_directory import RunDirectory
from fast_core.monitor.run_lock import holder
from fast_core.monitor.run_state import RETURN, RunState, find_runs, read_state
from fast_core.monitor.screens.served import now_served
from fast_core.system.text import encodable, error_text

# What says how a run stands.
_FILES = (
    "config.yaml",
    "metrics.jsonl",
    "events.jsonl",
    "crash.txt",
    "lock",
    "checkpoints",
    "dashboard.json",
)
_NEAR_BYTES = 1 << 16  # of metrics, where those before are known
_GONE = 10_000  # ids of runs that are no more, to tell viewers that were away

Signature = tuple[tuple[int, int, int], ...]


class RunRow(msgspec.Struct, frozen=True, kw_only=True):
    """A run as it stands in the table.

    Attributes:
        id: Stands for its path below the folder, in addresses too.
        name: Its path below the folder.
        state: As in `RunState`, or ``unknown`` where its directory can't be read.
        text: Why it ended, or what failed first.
        algorithm: Empty while it is unknown, as the environment.
        environment: Id of the environment.
        seed: The run's seed.
        began: When it was made, Unix time in seconds.
        env_steps: Environment steps trained on.
        best: Mean return of the best evaluation.
        last: That of the last one, or of training episodes.
        resumable: Whether it has a checkpoint.
        comebacks: Times that it came back by itself.
        group: Id of its configuration; empty while it is unknown.
        live: Address of its own live page; empty where it serves none.
    """

    id: str
    name: str
    state: str
    text: str = ""
    algorithm: str = ""
    environment: str = ""
    seed: int | None = None
    began: float | None = None
    env_steps: int = 0
    best: float | None = None
    last: float | None = None
    resumable: bool = False
    comebacks: int = 0
    group: str = ""
    live: str = ""


class Group(msgspec.Struct, frozen=True):
    """Runs of one configuration: alike but for their seeds.

    Attributes:
        id: Stands for what they have in common.
        name: What tells it from the other groups.
        runs: Their ids, by seed, of equal seeds the newest first.
    """

    id: str
    name: str
    runs: tuple[str, ...]


class News(msgspec.Struct, frozen=True, kw_only=True):
    """What has changed since a viewer asked last.

    Attributes:
        mark: What to ask with the next time.
        now_s: Unix time here, in seconds: viewers may have other clocks.
        whole: Whether this is everything, so that what was told before is void.
        folder: The folder's path.
        runs: Runs that are new or have changed.
        gone: Ids of runs that are no more.
        groups: Every group; None where they are as they were.
        sweeps: Every sweep; None where nothing has changed.
    """

    mark: str
    now_s: float
    whole: bool
    folder: str
    runs: tuple[RunRow, ...]
    gone: tuple[str, ...]
    groups: tuple[Group, ...] | None
    sweeps: tuple[SweepState, ...] | None


@dataclass
class _Known:
    """What is remembered of a run: its row, and what its files were like when that was read."""

    row: RunRow
    signature: Signature
    configuration: Configuration | None
    revision: int


class Overview:
    """Looks at a folder of runs again and again; only what has changed is read.

    Files of running runs are read on from where they ended; of others nothing is opened while
    their sizes and times are what they were. Not for several threads at once.

    Attributes:
        folder: The folder, absolute.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self.curves = Curves()
        self._generation = secrets.token_hex(4)
        self._revision = 0
        self._known: dict[Path, _Known] = {}
        self._paths: dict[str, Path] = {}
        self._gone: deque[tuple[int, str]] = deque(maxlen=_GONE)
        self._configurations = Configurations()
        self._groups: tuple[Group, ...] = ()
        self._groups_revision = 0
        self._sorted: dict[str, list[str]] = {}
        self._look_for_sweeps = Sweeps(self.folder)
        self._sweeps: tuple[SweepState, ...] = ()
        self._sweeps_revision = 0

    def look(self) -> None:
        """See what has changed in the folder."""
        self._revision += 1
        found = dict.fromkeys(find_runs(self.folder))
        for path in self._known.keys() - found.keys():
            self._forget(path)
        for path in found:
            self._look_at(path)
        self._group()
        sweeps = self._look_for_sweeps.look(
            Begun(path, known.row.seed, known.row.state, known.row.began or 0.0)
            for path, known in self._known.items()
        )
        if sweeps != self._sweeps:
            self._sweeps, self._sweeps_revision = sweeps, self._revision

    def news(self, mark: str = "") -> News:
        """What has changed since the ``mark`` of earlier news; everything for any other."""
        generation, _, text = mark.partition(".")
        since = int(text) if generation == self._generation and text.isdecimal() else 0
        full = len(self._gone) == _GONE and since < self._gone[0][0]
        whole = since == 0 or full or since > self._revision
        since = 0 if whole else since
        return News(
            mark=f"{self._generation}.{self._revision}",
            now_s=time.time(),
            whole=whole,
            folder=encodable(str(self.folder)),
            runs=tuple(k.row for k in self._known.values() if k.revision > since),
            gone=() if whole else tuple(one for at, one in self._gone if at > since),
            groups=self._groups if whole or self._groups_revision > since else None,
            sweeps=self._sweeps if whole or self._sweeps_revision > since else None,
        )

    def path(self, run: str) -> Path | None:
        """The directory of a run by its id; None where there is no such run."""
        return self._paths.get(run)

    def curve(self, id_: str, metric: str) -> Curve:
        """A metric of a run, or of a group over its seeds, as it is now; else nothing.

        Of runs with the same seed the newest that has a value counts.
        """
        return self.curves.curve(self._seeds(id_), metric)

    def metrics(self, id_: str) -> list[str]:
        """Every metric that a run, or one of a group, has."""
        return self.curves.names(path for paths in self._seeds(id_) for path in paths)

    def _seeds(self, id_: str) -> list[list[Path]]:
        """The runs of each seed of a group, newest first, or a run alone."""
        runs = next((each.runs for each in self._groups if each.id == id_), (id_,))
        seeds: dict[int | None, list[Path]] = {}
        for path in (self._paths[run] for run in runs if run in self._paths):
            seeds.setdefault(self._known[path].row.seed, []).append(path)
        return list(seeds.values())

    def _forget(self, path: Path) -> None:
        known = self._known.pop(path)
        del self._paths[known.row.id]
        self._gone.append((self._revision, known.row.id))
        self.curves.forget(path)

    def _look_at(self, path: Path) -> None:
        known = self._known.get(path)
        signature = _signature(path)
        # Who begins to train writes the lock; who was killed leaves everything as it was.
        same = known is not None and known.signature == signature
        if same and known is not None and known.row.state != "running":
            return
        running = holder(path / "lock") is not None
        if same and running:
            return
        row, configuration = self._read(path, running=running)
        if known is not None and known.row == row:
            known.signature = signature
            return
        self._known[path] = _Known(row, signature, configuration, self._revision)
        self._paths[row.id] = path

    def _read(self, path: Path, *, running: bool) -> tuple[RunRow, Configuration | None]:
        run, name = RunDirectory(path), path.relative_to(self.folder).as_posix()
        began = None if (made := run.began) is None else made.timestamp()
        row = RunRow(
            id=_id(name),
            name=encodable(path.name if name == "." else name),
            state="unknown",
            began=began,
        )
        if not os.access(path, os.R_OK | os.X_OK):
            return replace(row, text="its directory can't be read"), None
        try:
            return self._filled(row, run, running=running)
        except Exception as error:  # of one run's files, which must not hide the others
            return replace(row, text=f"its files can't be read: {error_text(error)}"), None

    def _filled(
        self, row: RunRow, run: RunDirectory, *, running: bool
    ) -> tuple[RunRow, Configuration | None]:
        path = run.path
        state = read_state(path, _NEAR_BYTES) if running else read_state(path)
        best, last = self._figures(state) if running else (state.best, state.last)
        try:
            configuration = self._configurations.read(run)
        except ConfigError:
            configuration = None
        row = replace(
            row,
            state=state.state,
            text=state.text,
            algorithm=state.algorithm,
            environment=state.environment,
            seed=state.seed,
            env_steps=state.env_steps,
            best=best,
            last=last,
            resumable=bool(state.checkpoint),
            comebacks=state.comebacks,
            group="" if configuration is None else configuration.id,
            live=_live(run) if running else "",
        )
        return row, configuration

    def _figures(self, state: RunState) -> tuple[float | None, float | None]:
        """Best and last of a run that goes on, whose file is long and grows."""
        curves = self.curves.of(state.path)
        last = curves.series(RETURN).last
        return _known_or_none(curves.best(RETURN)), state.last if math.isnan(last) else last

    def _group(self) -> None:
        """Sort the runs by configuration."""
        members: dict[str, list[_Known]] = {}
        for known in self._known.values():
            if known.configuration is not None:
                members.setdefault(known.configuration.id, []).append(known)
        if {id_: [known.row.id for known in each] for id_, each in members.items()} == self._sorted:
            return
        self._sorted = {id_: [known.row.id for known in each] for id_, each in members.items()}
        first = [each[0].configuration for each in members.values()]
        names = told_apart([(one.name, one.compared) for one in first if one is not None])
        self._groups = tuple(
            Group(id_, name, tuple(known.row.id for known in sorted(each, key=_by_seed)))
            for (id_, each), name in zip(members.items(), names, strict=True)
        )
        self._groups_revision = self._revision


def _by_seed(known: _Known) -> tuple[int, float, str]:
    row = known.row
    return row.seed or 0, -(row.began or 0.0), row.name


def _known_or_none(value: float) -> float | None:
    return None if math.isnan(value) else value


def _id(name: str) -> str:
    return blake2b(name.encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()


def _signature(path: Path) -> Signature:
    """What the files are like that say how a run stands."""
    found = []
    for name in _FILES:
        try:
            file = os.stat(f"{path}/{name}")
            found.append((file.st_ino, file.st_size, file.st_mtime_ns))
        except OSError:
            found.append((0, 0, 0))
    return tuple(found)


def _live(run: RunDirectory) -> str:
    """Address of the page that a run serves itself, with what lets a browser in, and no more."""
    served = now_served(run.dashboard)
    if served is None:
        return ""
    try:
        address = urlsplit(served.url)
    except ValueError:
        return ""
    if address.scheme not in ("http", "https") or not address.netloc:
        return ""
    page = f"{address.scheme}://{address.netloc.rpartition('@')[2]}/"
    return f"{page}?token={quote(served.token)}" if served.token else page
