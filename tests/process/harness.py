"""Starts launchers, finds everything that belongs to them, and says what they leave behind."""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import yaml

from fast_core.system.interrupts import SAME_PRESS_S
from tests.process.starter import MARK, Started, Starter

ROOT = Path(__file__).parents[2]
SHARED_MEMORY = Path("/dev/shm")
GONE_WITHIN_S = 5.0  # what FastLoop promises
# Variables that Python, the linker or numerical libraries read as they start.
READ_EARLY = ("PYTHON", "OMP_", "OPENBLAS_", "MKL_", "GOMP_", "KMP_", "LD_", "LC_")
FIGURES = "metrics.interval_s=0.05"
PATIENCE_S = 60.0  # for what has no limit of its own: a busy machine is slow, which is no failure


@dataclass(frozen=True)
class Process:
    """One line of the process table."""

    pid: int
    parent: int
    group: int
    session: int
    state: str
    command: str


def processes() -> Iterator[Process]:
    """Every process that runs; those that ended and were not reaped are left out."""
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal() and (process := read_process(int(entry.name))) is not None:
            yield process


def read_process(pid: int) -> Process | None:
    """A running process by its number."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return None
    state, parent, group, session = stat.rpartition(")")[2].split()[:4]
    if state in "ZX":
        return None
    command = b" ".join(words).decode("utf-8", "replace").strip()
    return Process(pid, int(parent), int(group), int(session), state, command)


def shared_memory() -> set[str]:
    """Names in /dev/shm, but for those of Python's multiprocessing, which FastLoop never uses."""
    foreign = ("sem.mp-", "psm_", "pym-")
    return {path.name for path in SHARED_MEMORY.iterdir() if not path.name.startswith(foreign)}


def eventually(holds: Callable[[], Any], what: str, within_s: float = PATIENCE_S) -> Any:
    """Wait until ``holds`` returns something true; returns it."""
    deadline_s = time.monotonic() + within_s
    while not (result := holds()):
        assert time.monotonic() < deadline_s, f"not within {within_s:g} s: {what}"
        time.sleep(0.01)
    return result


class Launched:
    """A launcher under test. It leads a session of its own, as under a terminal.

    Attributes:
        home: A folder of its own, with ``runs`` in it; also its temporary folder.
        pid: The launcher's process.
    """

    def __init__(
        self,
        arguments: Iterable[str],
        home: Path,
        *,
        environment: Mapping[str, str] = {},
        ignore: Iterable[signal.Signals] = (),
        starter: Starter | None = None,
    ) -> None:
        """Run ``python ARGUMENTS``, or what ``starter`` runs with them."""
        self.home = home
        self._mark = uuid.uuid4().hex
        self._memory = shared_memory()
        self._screen = home / f"screen-{self._mark[:8]}"
        self._screen.touch(0o600)  # so that it is told what is for its user alone
        given = {**surroundings(), "TMPDIR": str(home), MARK: self._mark, **environment}
        self._process: subprocess.Popen[bytes] | Started
        if starter is not None:
            self._process = starter.start(
                [*arguments], home=home, screen=self._screen, surroundings=given, ignore=[*ignore]
            )
        else:
            with self._screen.open("wb") as screen, _ignored(ignore):
                self._process = subprocess.Popen(
                    [sys.executable, *arguments],
                    stdin=subprocess.DEVNULL,
                    stdout=screen,
                    stderr=screen,
                    cwd=home,
                    start_new_session=True,
                    restore_signals=False,
                    env=given,
                )
        self.pid = self._process.pid
        self.started_s = time.monotonic()

    # --- what it does --------------------------------------------------------------------------

    @property
    def screen(self) -> str:
        """What it has written to its standard output and error so far."""
        return self._screen.read_text("utf-8", "replace")

    @property
    def run(self) -> Path:
        """The newest run directory."""
        found = sorted((self.home / "runs").glob("*/*/"), key=lambda path: path.stat().st_mtime)
        assert found, f"no run directory\n{self.screen}"
        return found[-1]

    def events(self) -> list[dict[str, Any]]:
        """The run's journal so far."""
        return read_lines(self.run / "events.jsonl")

    def told(self, what: str) -> list[str]:
        """What the journal says of each event of a kind."""
        return [event["why"] for event in self.events() if event["what"] == what]

    def members(self) -> list[Process]:
        """Everything that runs and came from this launcher: its session, and who has its mark."""
        start, mark = f"{MARK}=".encode(), f"{MARK}={self._mark}".encode()
        found = []
        for process in processes():
            marks = [line for line in _environ(process.pid) if line.startswith(start)]
            # Without it the number of the session tells, which is another's once this one is gone.
            if mark in marks or (process.session == self.pid and not marks):
                found.append(process)
        return found

    def node(self, name: str) -> int:
        """Process id of a node, the probe, or ``fork server``; waits until there is one."""

        def find() -> int | None:
            for process in self.members():
                if name == "fork server" and "fork_server import main" in process.command:
                    return process.pid
                if process.command.startswith(f"fastloop: {name}"):
                    return process.pid
            return None

        found = eventually(find, f"a process of {name}\n{self.screen}")
        assert isinstance(found, int)
        return found

    def await_training(self, within_s: float = PATIENCE_S) -> None:
        """Wait until the run has begun to train."""

        def trains() -> bool:
            assert self._process.poll() is None, f"the launcher ended:\n{self.screen}"
            with contextlib.suppress(AssertionError):
                return any(event["what"] in ("start", "resume") for event in self.events())
            return False

        eventually(trains, f"training\n{self.screen}", within_s)

    def await_update(self) -> None:
        """Wait until it has trained on something, and so has something to save.

        It must write its figures soon: `FIGURES`.
        """
        self.await_training()
        eventually(lambda: read_lines(self.run / "metrics.jsonl"), "a row of metrics")

    # --- what is done to it --------------------------------------------------------------------

    def signal(self, number: signal.Signals, *, group: bool = False) -> None:
        """Send a signal to the launcher, or to its process group as a terminal does."""
        if self._process.poll() is not None:
            return  # the number may be another's
        with contextlib.suppress(ProcessLookupError):
            (os.killpg if group else os.kill)(self.pid, number)

    def signal_twice(self, number: signal.Signals) -> None:
        """Send a signal, and once more when that has been heard for longer than one press takes."""
        self.signal(number)
        eventually(lambda: "ends at once" in self.screen, "the first is heard")
        time.sleep(2 * SAME_PRESS_S)
        self.signal(number)

    def sleep_until(self, after_start_s: float) -> None:
        """Wait until this long after its start."""
        time.sleep(max(0.0, self.started_s + after_start_s - time.monotonic()))

    def wait(self, within_s: float = PATIENCE_S) -> int:
        """Wait for the launcher's end; its exit status as a shell shows it."""
        try:
            status = self._process.wait(within_s)
        except subprocess.TimeoutExpired as error:
            table = "\n".join(map(str, self.members()))
            self.kill_all()
            raise AssertionError(
                f"the launcher still runs after {within_s:g} s\n{table}\n{self.screen}"
            ) from error
        return 128 - status if status < 0 else status

    def done(self, within_s: float = PATIENCE_S) -> Self:
        """This one, once it has ended, which it must do without an error."""
        assert self.wait(within_s) == 0, self.screen
        return self

    def ends(self, status: int = 0, within_s: float = PATIENCE_S) -> Self:
        """This one, once it has ended with this exit status and left nothing behind."""
        assert self.wait(within_s) == status, self.screen
        self.assert_gone()
        return self

    def ends_soon(self, status: int) -> None:
        """It must end so and be gone as soon as FastLoop promises, counted from now."""
        begun_s = time.monotonic()
        assert self.wait() == status, self.screen
        self.assert_gone(max(0.0, begun_s + GONE_WITHIN_S - time.monotonic()))

    def interrupted(self, within_s: float = PATIENCE_S) -> None:
        """Press Ctrl-C: it must end with the status of that and leave nothing behind."""
        self.signal(signal.SIGINT)
        self.ends(128 + signal.SIGINT, within_s)

    # --- what it leaves ------------------------------------------------------------------------

    def _left(self) -> list[str]:
        """What it has left behind so far, in words; to be looked at again, see `assert_gone`."""
        left = [f"process {process}" for process in self.members()]
        left += [f"shared memory {name}" for name in sorted(shared_memory() - self._memory)]
        left += [f"folder {path}" for path in sorted(self.home.glob("fastloop-*"))]
        # os.walk, because folders may go meanwhile
        files = (Path(folder, name) for folder, _, names in os.walk(self.home) for name in names)
        left += [f"socket {path}" for path in files if path.is_socket()]
        return left

    def assert_gone(self, within_s: float = GONE_WITHIN_S) -> None:
        """Fail unless everything of it is gone in time.

        There is no look that is over at once: who has just been killed, or ends as its launcher
        has, is there for a moment yet, on a busy machine for a long one.
        """
        deadline_s = time.monotonic() + within_s
        while (left := self._left()) and time.monotonic() < deadline_s:
            time.sleep(0.02)
        if left:
            screen = self.screen
            self.kill_all()
            raise AssertionError("\n".join(["left behind:", *left, screen]))

    def kill_all(self) -> None:
        """Leave nothing of it, whatever happened."""
        for process in self.members():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        self._process.wait()


def signal_everybody(launched: Launched, number: signal.Signals) -> None:
    """Send a signal to every process of it, as batch systems do."""
    for process in launched.members():
        with contextlib.suppress(ProcessLookupError):  # the first may have ended the others
            os.kill(process.pid, number)


def surroundings() -> dict[str, str]:
    """Variables of the environment that every launcher under test has."""
    paths = os.pathsep.join([str(ROOT), str(Path(__file__).parent)])
    left_out = ("XDG_RUNTIME_DIR", "PYTHONWARNINGS")
    inherited = {name: value for name, value in os.environ.items() if name not in left_out}
    return {**inherited, "PYTHONPATH": paths}


@functools.cache
def starter() -> Starter:
    """The one of this process that runs tests."""
    made = Starter(surroundings())
    atexit.register(made.close)
    return made


@contextlib.contextmanager
def _ignored(numbers: Iterable[signal.Signals]) -> Iterator[None]:
    """Ignore signals for a moment: a process started then ignores them from its beginning."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _environ(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The JSON objects of a file, a line each; a line that is being written is left out."""
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def digests(run: Path) -> dict[int, str]:
    """Digest of the learner after each version, by ticket."""
    rows = [event for event in read_lines(run / "events.jsonl") if event["what"] == "digest"]
    return {int(row["why"].removeprefix("ticket ")): row["facts"]["digest"] for row in rows}


def finished(
    launched: Launched, tickets: int, *, warm_up: int = 0, within_s: float = PATIENCE_S
) -> dict[int, str]:
    """Digests of a run that must have come to its end and, after ``warm_up``, have learned."""
    found = digests(launched.done(within_s).run)
    assert sorted(found) == list(range(tickets))
    learned = [found[ticket] for ticket in range(warm_up, tickets)]
    assert len(set(learned)) == len(learned), "learning must change the learner"
    return found


# --- configurations ------------------------------------------------------------------------------

# Nothing but training, whose every step leaves its digest.
BARE: dict[str, Any] = {
    "evaluation": {"every_env_steps": None},
    "checkpoint": {"every_updates": None, "at_end": False},
    "metrics": {"tensorboard": False},
    "diagnostics": {"digests": True},
}
TOY: dict[str, Any] = {
    "name": "toy",
    "environment": {"id": "fastloop/Toy-v0", "modules": ["toy_envs"]},
    "rollout": {"shards": 2, "envs_per_shard": 2, "steps": 8},
    "algorithm": {"name": "ppo", "hidden_sizes": [4], "minibatch_size": 16, "epochs": 1},
    "nodes": {"env": {"count": 2}},
    "evaluation": {"every_env_steps": None},
    "checkpoint": {"every_updates": None},
    "metrics": {"tensorboard": False},
    "stop": {"time_s": 60},
}


class Workplace:
    """Starts launchers, each with a folder of its own, and cleans up after them."""

    def __init__(self) -> None:
        # Short, because a socket file's path may have 107 characters; pytest's own are longer.
        self._root = Path(tempfile.mkdtemp(prefix="fl-test-", dir="/tmp"))
        self._started: list[Launched] = []

    def folder(self) -> Path:
        """A new folder."""
        return Path(tempfile.mkdtemp(dir=self._root))

    def start(
        self,
        arguments: Iterable[str],
        *,
        home: Path | None = None,
        environment: Mapping[str, str] = {},
        ignore: Iterable[signal.Signals] = (),
    ) -> Launched:
        """Run ``python ARGUMENTS``."""
        launched = Launched(
            arguments, home or self.folder(), environment=environment, ignore=ignore
        )
        self._started.append(launched)
        return launched

    def launch(
        self,
        *overrides: str,
        config: Mapping[str, Any] = TOY,
        home: Path | None = None,
        environment: Mapping[str, str] = {},
        ignore: Iterable[signal.Signals] = (),
        fresh: bool = False,
    ) -> Launched:
        """Run ``fastloop launch`` with this configuration; ``fresh`` imports everything itself."""
        home = home or self.folder()
        path = home / "config.yaml"
        whole = path.with_suffix(".whole")  # another launcher of this folder may be reading it
        whole.write_text(yaml.safe_dump(dict(config)))
        whole.replace(path)
        arguments = ["launch", str(path), *overrides]
        return self.fastloop(arguments, home, environment=environment, ignore=ignore, fresh=fresh)

    def toy(self, fault: str, *overrides: str, fresh: bool = False, **kwargs: Any) -> Launched:
        """Launch with the toy environment and something that goes wrong in it."""
        home = self.folder()
        values = {"fault": fault, "folder": str(home), **kwargs}
        given = [f"environment.kwargs.{name}={_scalar(value)}" for name, value in values.items()]
        return self.launch(*given, *overrides, home=home, fresh=fresh)

    def resume(self, launched: Launched, *overrides: str) -> Launched:
        """Run ``fastloop resume`` on its newest run."""
        return self.fastloop(["resume", str(launched.run), *overrides], launched.home)

    def fastloop(
        self,
        arguments: Iterable[str],
        home: Path | None = None,
        *,
        environment: Mapping[str, str] = {},
        ignore: Iterable[signal.Signals] = (),
        fresh: bool = False,
    ) -> Launched:
        """Run ``fastloop ARGUMENTS``."""
        home = home or self.folder()
        early = any(name.startswith(READ_EARLY) for name in environment)
        if fresh or early:
            arguments = ["-m", "fast_core.tools.cli", *arguments]
            return self.start(arguments, home=home, environment=environment, ignore=ignore)
        launched = Launched(
            arguments, home, environment=environment, ignore=ignore, starter=starter()
        )
        self._started.append(launched)
        return launched

    def close(self) -> None:
        """End what still runs and remove every folder."""
        for launched in self._started:
            launched.kill_all()
        shutil.rmtree(self._root, ignore_errors=True)


def _scalar(value: object) -> str:
    return json.dumps(value)


def tracebacks(launched: Launched) -> int:
    return launched.screen.count("Traceback (most recent call last)")


def assert_first_cause_is_last(launched: Launched, text: str) -> None:
    last = launched.screen.strip().splitlines()[-1]
    assert text in last, launched.screen
    assert text in (launched.run / "crash.txt").read_text().strip().splitlines()[-1]
    assert tracebacks(launched) <= 1, launched.screen
