"""Starting and ending processes: the only file that creates any but the watchdog.

Order of life: watchdog, fork server, children. Order of death: children (asked, then killed),
fork server, whatever is left in the children's process groups, watchdog.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fast_core.errors import ConfigError, NodeFailed, TransportError
from fast_core.launcher.processes.fork_server import NO_NODE, mark
from fast_core.system import remains
from fast_core.system.forks import STACK_SIGNAL
from fast_core.system.interrupts import held_back
from fast_core.system.owner import this_process
from fast_core.system.process_state import STOPPED, process_state
from fast_core.system.watched import Beats, Watchdog, describe_exit

_LENGTH = struct.Struct("<q")
_PACKET = 65_536
_REAP_S = 1.0
_STACK_WAIT_S = 0.5
_STACK_POLL_S = 0.02
_TAIL_BYTES = 4_000
_GIT_S = 2.0
# Else setproctitle writes a title over the environment that the kernel shows of a process, and the
# mark is lost on a node and on all that it forks without exec.
_KEEP_ENVIRON = {"SPT_NOENV": "1"}


@dataclass
class Child:
    """A process forked by the server.

    Attributes:
        name: Name of the node, or ``probe``.
        link: Stream socket to it; one end is ours.
        number: The how-manieth child of its tree it is; what it starts carries it as a mark.
        pid: Process id and process group, 0 until the server reported it.
        status: Exit status, negative for a signal, None while it lives.
    """

    name: str
    link: socket.socket
    number: int = 0
    pid: int = 0
    status: int | None = None

    def give(self, value: object, descriptor: int) -> None:
        """Send the child its start-up value and a file descriptor.

        Only once ``pid`` is known: from then on the watchdog has the child's process group, and
        what the child starts can't outlive a killed launcher.
        """
        assert self.pid, f"{self.name} was not reported yet; poll() the tree first"
        data = pickle.dumps(value)
        try:
            socket.send_fds(self.link, [_LENGTH.pack(len(data))], [descriptor])
            self.link.sendall(data)
        except OSError as error:
            raise NodeFailed(f"{self.name} was gone before it got its plan: {error}") from error


def take(link: socket.socket) -> tuple[object, int]:
    """In the child: what `Child.give` sent. Exits quietly if the launcher is gone.

    Only the launcher holds the other end of this anonymous socket pair, so unpickling is safe.
    """
    header, descriptors, _, _ = socket.recv_fds(link, _LENGTH.size, 1)
    if len(header) < _LENGTH.size or not descriptors:
        raise SystemExit(0)
    os.set_inheritable(descriptors[0], False)  # a simulator's own programs have no use for it
    remaining, chunks = _LENGTH.unpack(header)[0], []
    while remaining:
        chunk = link.recv(min(remaining, 1 << 20))
        if not chunk:
            raise SystemExit(0)
        chunks.append(chunk)
        remaining -= len(chunk)
    return pickle.loads(b"".join(chunks)), descriptors[0]


def frame(data: bytes) -> bytes:
    """``data`` with its length first.

    The end of a stream does not tell that all has come: whoever was forked without ``exec`` by
    the process at the other side keeps the stream open.
    """
    return _LENGTH.pack(len(data)) + data


def unframe(received: bytes) -> bytes | None:
    """What was framed; None while some of it is missing."""
    if len(received) < _LENGTH.size:
        return None
    end = _LENGTH.size + _LENGTH.unpack_from(received)[0]
    return received[_LENGTH.size : end] if len(received) >= end else None


class ProcessTree:
    """All processes of one run and the directory of its socket.

    Attributes:
        preload: Modules that the fork server imports before it forks.
        children: Every child that was asked for, by name.
        directory: The run's private folder.
        watchdog: Cleans up if this process is killed.
    """

    def __init__(
        self,
        *,
        preload: Sequence[str],
        environment: dict[str, str],
        log: Path,
        beats: Beats | None = None,
    ) -> None:
        """Start the watchdog and the fork server.

        Args:
            preload: Modules the server imports before it serves.
            environment: Additional environment variables of every process.
            log: File that takes the server's own output.
            beats: As `Watchdog` takes them.
        """
        self.preload = tuple(preload)
        self.children: dict[str, Child] = {}
        self.log = log
        self._exited: list[Child] = []
        self._closed = False
        self.directory = Path(remains.new_path())
        self._spawned = 0
        self.watchdog = Watchdog(self.directory, beats)
        # Made only now, so that there is no moment at which a killed launcher would leave it.
        remains.make_folder(str(self.directory))
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with open(log, "ab") as output, held_back():
            self._server = subprocess.Popen(
                [
                    sys.executable,
                    "-c",
                    f"import sys; sys.path[:] = {sys.path!r}; "
                    "from fast_core.launcher.processes.fork_server import main; "
                    "main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])",
                    str(theirs.fileno()),
                    str(os.getpid()),
                    *preload,
                ],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=(theirs.fileno(),),
                env={**environment, **os.environ, **self._marks(), **_KEEP_ENVIRON},
                process_group=0,
            )
        theirs.close()
        self.watchdog.add(self._server.pid)

    def _marks(self) -> dict[str, str]:
        """What tells of every process of the run to whom it belongs."""
        return {
            remains.RUN_FOLDER: str(self.directory),
            remains.RUN_OWNER: str(this_process() or ""),
            remains.NODE_NUMBER: NO_NODE,
        }

    def fileno(self) -> int:
        """Readable when `poll` has something to report."""
        return self._control.fileno()

    def spawn(self, name: str, target: str, *, warm: Sequence[str] = ()) -> Child:
        """Ask for a child; it runs ``target(name, socket)`` after importing ``warm``."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self._spawned += 1
        request = {"name": name, "number": self._spawned, "target": target, "warm": list(warm)}
        try:
            socket.send_fds(self._control, [json.dumps(request).encode()], [theirs.fileno()])
        except OSError as error:
            raise TransportError(f"the fork server is gone: {error}") from error
        finally:
            theirs.close()
        self.children[name] = Child(name, ours, self._spawned)
        return self.children[name]

    def poll(self) -> list[Child]:
        """Take the server's reports; returns the children that have exited since the last call.

        Raises:
            ConfigError: A module makes it impossible to fork.
            NodeFailed: The server itself is gone, and with it every child.
        """
        self._take_reports()
        exited, self._exited = self._exited, []
        return exited

    def _take_reports(self) -> None:
        while True:
            try:
                data = self._control.recv(_PACKET, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                raise NodeFailed(f"the fork server {self._end_of_server()}; its log is in logs/")
            report = json.loads(data)
            if report["event"] == "refused":
                raise ConfigError(
                    f"the module {report['name']!r}, which is imported before nodes are forked "
                    f"(environment.modules), {report['text']} when it is imported; that does not "
                    "work in a forked process. Start it later, for instance in the constructor "
                    "of the environment, or import the module there instead of listing it."
                )
            child = self.children[report["name"]]
            child.pid = report["pid"]
            if report["event"] == "started":
                self.watchdog.add(child.pid)
            else:
                child.status = report["status"]
                self._kill_group(child)
                self._exited.append(child)

    def _end_of_server(self) -> str:
        try:
            return describe_exit(self._server.wait(_REAP_S))
        except subprocess.TimeoutExpired:
            return "does not listen any more"

    def living(self) -> list[Child]:
        """Children that have not been reported gone."""
        return [child for child in self.children.values() if child.status is None]

    def wait_for_exits(self, deadline_s: float) -> None:
        """Take reports until no child lives or the monotonic ``deadline_s`` passes.

        Raises:
            NodeFailed: The server itself is gone.
        """
        self._wait_while(lambda: bool(self.living()), deadline_s)

    def wait_for_exit(self, child: Child, deadline_s: float) -> None:
        """Take reports until ``child`` is gone or the monotonic ``deadline_s`` passes.

        Raises:
            NodeFailed: The server itself is gone.
        """
        self._wait_while(lambda: child.status is None, deadline_s)

    def _wait_while(self, waits: Callable[[], bool], deadline_s: float) -> None:
        self._take_reports()
        while waits() and (left_s := deadline_s - time.monotonic()) > 0:
            select.select([self._control], [], [], left_s)
            self._take_reports()

    def send_signal(self, child: Child, number: signal.Signals) -> None:
        """Send a signal to the process group of a child that lives."""
        if child.pid and child.status is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, number)

    def stack(self, child: Child | None, log: Path) -> str:
        """Where a process hangs, as it writes itself into its log; empty if it does not.

        One that is stopped goes on for a moment, in which it writes that first. Without ``child``
        that of the fork server.
        """
        pid = self._server.pid if child is None else child.pid
        if not pid or (child is not None and child.status is not None):
            return ""
        before = log.stat().st_size if log.is_file() else 0
        stopped = process_state(pid) == STOPPED
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, STACK_SIGNAL)
            if stopped:
                os.kill(pid, signal.SIGCONT)
        deadline_s, written = time.monotonic() + _STACK_WAIT_S, before
        while time.monotonic() < deadline_s and log.is_file():
            time.sleep(_STACK_POLL_S)
            size, written = written, log.stat().st_size
            if size == written > before:  # it has come to its end
                break
        if stopped:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGSTOP)
        return tail(log, written - before) if written > before else ""

    def signal_living(self, number: signal.Signals) -> None:
        """Send a signal to the process group of every living child."""
        for child in self.children.values():
            self.send_signal(child, number)

    def _kill_group(self, child: Child) -> None:
        """A dead node's own children die with it, those too that left its group."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        child.link.close()
        self.watchdog.discard(child.pid)
        if child.status:  # one that ended well may have left a server for all on purpose
            self.watchdog.end_children(mark(child.number))

    # --- the end -------------------------------------------------------------------------------

    def close(self, grace_s: float) -> None:
        """End whatever still lives: terminate, then kill after ``grace_s``; may be called twice."""
        if self._closed:
            return
        self._closed = True
        # The server is gone and the kernel killed its children, or it has none.
        with contextlib.suppress(NodeFailed, ConfigError):
            self._end_children(grace_s)
        self._server.kill()  # what it has not forked yet never begins
        self._server.wait()
        with contextlib.suppress(NodeFailed, ConfigError):
            self._take_reports()  # its last ones: groups that nobody knew of
        self.signal_living(signal.SIGKILL)  # what dead children have left in their groups
        self._control.close()
        for child in self.children.values():
            child.link.close()
        remains.remove_folder(str(self.directory))
        self.watchdog.close()

    def _end_children(self, grace_s: float) -> None:
        self._take_reports()
        for child in self.living():
            child.link.close()  # who still waits for a plan leaves at once
        self.signal_living(signal.SIGTERM)
        self.wait_for_exits(time.monotonic() + grace_s)
        self.signal_living(signal.SIGKILL)
        self.wait_for_exits(time.monotonic() + _REAP_S)


def tail(path: Path, nbytes: int = _TAIL_BYTES) -> str:
    """The end of a log, where a crash in C and a call that did not return leave their stack."""
    nbytes = min(nbytes, _TAIL_BYTES)
    return path.read_bytes()[-nbytes:].decode("utf-8", "replace").strip()


def innermost(stack: str) -> str:
    """Where the main thread is, of a stack as `faulthandler` writes it: function, file and line."""
    main = stack.rpartition("(most recent call first):")[2]
    found = re.search(r'File "([^"]*)", line (\d+) in (.*)', main)
    return f"{found[3]} ({found[1]}, line {found[2]})" if found else ""


def git_commit(folder: Path) -> str:
    """The commit of the checkout at ``folder``, ``-dirty`` if files differ; empty if it is none."""
    if not (folder / ".git").exists():
        return ""
    command = ["git", "--no-optional-locks", "-C", str(folder), "describe", "--always"]
    try:
        done = subprocess.run(
            [*command, "--dirty", "--abbrev=40", "--exclude=*"],
            capture_output=True,
            text=True,
            timeout=_GIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):  # no git, or a slow disk
        return ""
    return done.stdout.strip()
