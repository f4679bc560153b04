"""The folder that a run leaves behind, enough to resume, evaluate and explain it."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import re
import shutil
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from fast_core.errors import ConfigError
from fast_core.monitor.figures import printable
from fast_core.monitor.run_lock import RunLock
from fast_core.system.decoding import from_json
from fast_core.system.durable import write_durably
from fast_core.system.importing import hidden_by_current_folder, look_in_too
from fast_core.system.regular_file import read_regular
from fast_core.system.surroundings import expanded

_STAMP_FORMAT = "%Y-%m-%d_%H-%M-%S"
_STAMP = re.compile(r"(\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d)(?:_seed\d+)?(?:_(\d+))?")
_BEGAN = "began.txt"
_FIRST_YEAR = 2000  # a run of before is none of ours, and may have no Unix time
_NAMED = re.compile(r"(?P<module>[^\W\d]\w*(?:\.[^\W\d]\w*)*)(?P<name>:[^\W\d][\w./-]*)?")
_UNSAFE = re.compile(r"[^\w.\-]")
_SHOWN = 8
ENVIRONMENT_FILE = "environment.pkl"
START_FILE = "start.msgpack"
_logger = logging.getLogger(__name__)
_told: set[tuple[str, str]] = set()  # modules that are not a run's own, and where that lies
SWEEP_FILE = "sweep.yaml"  # in the folder of the runs of a sweep


class _Place:
    """A path within a run's folder."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, run: RunDirectory, _: type[RunDirectory]) -> Path:
        return run.path / self._name


class RunDirectory:
    """Paths of one run: ``<directory>/<name>/<YYYY-MM-DD_HH-MM-SS>_seed<seed>``.

    Attributes:
        path: The run's own folder, absolute.
        config: The resolved configuration.
        environment: An environment that was given as a Python object; exists only if there was one.
        start: What the run began with (``policy.from``); exists only if that was something.
        events: What the scheduler decided, one JSON object a line.
        metrics: Rows of metrics, one JSON object a line.
        superseded_metrics: Rows that a resume from an earlier step replaced.
        crash: First cause of a failure; exists only if there was one.
        trace: Every node's states on one time line, for Perfetto.
        report: The run on one page.
        versions: What each part of the run was made with.
        checkpoints: Folder of checkpoints.
        tensorboard: Folder of TensorBoard event files.
        logs: Folder of the nodes' log files.
        lock_file: Names the process that trains here; see `RunLock`.
        control: Leads to the socket at which the run listens while it goes on.
        dashboard: Says where the run's page is served, while it is.
    """

    config = _Place("config.yaml")
    environment = _Place(ENVIRONMENT_FILE)
    start = _Place(START_FILE)
    events = _Place("events.jsonl")
    metrics = _Place("metrics.jsonl")
    superseded_metrics = _Place("metrics.superseded.jsonl")
    crash = _Place("crash.txt")
    trace = _Place("trace.json")
    report = _Place("report.html")
    versions = _Place("versions.json")
    checkpoints = _Place("checkpoints")
    tensorboard = _Place("tensorboard")
    logs = _Place("logs")
    lock_file = _Place("lock")
    control = _Place("control.sock")
    dashboard = _Place("dashboard.json")

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self._made = [self.path.parent]  # folders that go with it where no other run is left

    @classmethod
    def create(cls, root: str | Path, name: str, now: datetime, seed: int = 0) -> RunDirectory:
        """Make a new folder; two launches in one second get different ones.

        Raises:
            ConfigError: The name is no single folder name, or the folder can't be made.
        """
        if not name or name.startswith(".") or "/" in name or "\0" in name:
            raise ConfigError(
                f"name must be usable as a folder name (not empty, no '/', no leading '.'); "
                f"got {name!r}. Runs land in <directory>/<name>/<time>_seed<seed>."
            )
        parent = expanded(root, "directory") / name
        fresh, run = not parent.parent.exists(), None
        try:
            parent.mkdir(parents=True, exist_ok=True)
            run = cls(_make_unique(parent, f"{now.strftime(_STAMP_FORMAT)}_seed{seed}"))
            run._made += [run.path.parent.parent] if fresh else []
            for folder in (run.checkpoints, run.tensorboard, run.logs):
                folder.mkdir()
            (run.path / _BEGAN).write_text(f"{now.astimezone(UTC).isoformat()}\n")
        except OSError as error:
            if run is not None:
                run.remove()
            raise ConfigError(
                f"can't make a run directory in {str(parent)!r}: {error.strerror or error}. "
                "Choose a writable place with directory=..."
            ) from error
        return run

    @classmethod
    def open(
        cls, path: str | Path, lacks: Callable[[RunDirectory], str] = lambda run: ""
    ) -> RunDirectory:
        """Find an existing run.

        Args:
            path: The run's folder, or ``<directory>/<name>``, which means its newest run.
            lacks: What a run lacks of what is asked for, in words; empty if nothing. Newer runs
                that lack something are passed over, which is told; where all do, the newest is
                taken.

        Raises:
            ConfigError: There is no run; the message names what was found instead.
        """
        given = expanded(path, "the run")
        if not given.is_dir():
            raise ConfigError(f"no run at {str(path)!r}: {_why_no_folder(given)}")
        if (given / "config.yaml").is_file():
            return cls(given)
        runs = [cls(run) for run in runs_in(given) if (run / "config.yaml").is_file()]
        if runs:
            return _newest(runs, lacks)
        raise ConfigError(
            f"no run at {str(path)!r}: a run directory has a config.yaml, "
            f"but this folder holds {listing(given)}. Name a run directory or <directory>/<name>, "
            "as `fastloop list` shows them."
        )

    def look_where_it_began(self) -> None:
        """Let modules be found where this run found them, if they are nowhere else.

        A module that the current folder has too is said to be that one.
        """
        folders: list[str] = []
        with contextlib.suppress(OSError, ValueError, msgspec.MsgspecError):
            parts = from_json(read_regular(self.versions), list[dict[str, str]])
            for part in reversed(parts):
                folders += part.get("modules_in", "").split("\n")
        look_in_too(folders)
        for module in self._modules() if any(folders) else ():
            own = hidden_by_current_folder(module, folders)
            if own and (module, own) not in _told:
                _told.add((module, own))
                _logger.warning(
                    "the module %r is that of the current folder, %s, not the one with which the "
                    "run was made, in %s. Start fastloop in another folder to have that one.",
                    module,
                    os.getcwd(),
                    own,
                )

    def _modules(self) -> list[str]:
        """Modules that its configuration names, in ``environment.modules`` or as module:name."""
        found: list[str] = []

        def look(value: object, key: object = "") -> None:
            if isinstance(value, dict):
                for name, each in value.items():
                    look(each, name)
            elif isinstance(value, list):
                for each in value:
                    look(each, key)
            elif isinstance(value, str):
                match = _NAMED.fullmatch(value)
                if match and (match["name"] or key == "modules"):
                    found.append(match["module"])

        with contextlib.suppress(OSError):
            import yaml  # here, because a policy file does without

            from fast_core.config.yaml_text import MOST_BYTES, read_bounded

            text = read_regular(self.config, MOST_BYTES)
            # Text alone, which is quicker, and no tag fails.
            loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
            with contextlib.suppress(yaml.YAMLError):
                look(read_bounded(loader(text))[0])
        return list(dict.fromkeys(found))

    @property
    def began(self) -> datetime | None:
        """When it was made, in UTC; None where nothing says it.

        Runs of before have it in their names alone, in the local time of where they were made.
        """
        with contextlib.suppress(OSError, ValueError, OverflowError):
            made = datetime.fromisoformat(read_regular(self.path / _BEGAN, 99).decode().strip())
            if made.tzinfo is not None:
                return made.astimezone(UTC)
        stamp = self._stamp()
        return None if stamp is None else stamp.astimezone(UTC)

    def _stamp(self) -> datetime | None:
        match = _STAMP.fullmatch(self.path.name)
        if match is None:
            return None
        try:
            made = datetime.strptime(match[1], _STAMP_FORMAT)
        except ValueError:  # there is no such day
            return None
        return made if made.year >= _FIRST_YEAR else None

    def log(self, node: str) -> Path:
        """Log file of a node; characters unfit for a file name become ``_``."""
        return self.logs / f"{_UNSAFE.sub('_', node)}.log"

    def write_config(self, text: str) -> None:
        """Write the resolved configuration, whole or not at all."""
        write_durably(self.config, text.encode())

    def remove(self) -> None:
        """Remove the folder, and those above it that it brought, if no other run is left there."""
        shutil.rmtree(self.path, ignore_errors=True)
        with contextlib.suppress(OSError):
            for folder in self._made:
                folder.rmdir()

    def lock(self) -> RunLock:
        """Claim the run for this process until `RunLock.close` or its death.

        Raises:
            ConfigError: Another process has it; the message names its process id.
        """
        return RunLock(self.lock_file)


def _make_unique(parent: Path, stamp: str) -> Path:
    # mkdir is the claim: of two launches in one second only one succeeds.
    number = 1
    while True:
        path = parent / (stamp if number == 1 else f"{stamp}_{number}")
        try:
            path.mkdir()
        except FileExistsError:
            number += 1
        else:
            return path


def named_as_run(name: str) -> bool:
    """Whether a folder's name is one that `RunDirectory.create` gives."""
    return _STAMP.fullmatch(name) is not None


def may_look_into(folder: str | Path) -> bool:
    """Whether a folder is open to this user: in one that many share, others' may not be."""
    return os.access(folder, os.R_OK | os.X_OK)


def runs_in(folder: Path) -> list[Path]:
    """Folders named like runs, oldest first: by when they were made, not by their names.

    A name has the local time of where it was made, which is another in the next zone, and comes
    twice in the hour in which clocks are set back.
    """
    found = []
    for child in folder.iterdir():
        match = _STAMP.fullmatch(child.name)
        if match is not None and child.is_dir() and may_look_into(child):
            began = RunDirectory(child).began
            seconds = -math.inf if began is None else began.timestamp()
            found.append((seconds, match[1], int(match[2] or 1), child))
    return [child for *_, child in sorted(found)]


def _newest(runs: Sequence[RunDirectory], lacks: Callable[[RunDirectory], str]) -> RunDirectory:
    """The last one that lacks nothing, else the last one."""
    passed_over: list[str] = []
    for run in reversed(runs):
        if not (lack := lacks(run)):
            break
        passed_over.append(f"{run.path.name} has {lack}")
    else:
        return runs[-1]
    if passed_over:
        shown = "; ".join(passed_over[:_SHOWN])
        more = len(passed_over) - _SHOWN
        shown += f"; and {more} more" if more > 0 else ""
        _logger.warning(
            "%s", printable(f"{run.path} is taken; newer runs are passed over: {shown}")
        )
    return run


def _why_no_folder(path: Path) -> str:
    if path.exists():
        return "it is a file. Name the folder it lies in."
    folder = path.parent
    if folder.is_dir():
        return (
            f"no such folder; {str(folder)!r} holds {listing(folder)}. `fastloop list DIR` shows "
            "the runs in a folder."
        )
    return f"no such folder, and neither is {str(folder)!r}."


def listing(folder: Path) -> str:
    """Names of the folders in ``folder``, the first few: a run is one."""
    names = sorted(child.name for child in folder.iterdir() if child.is_dir())
    if not names:
        return "no folder"
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
