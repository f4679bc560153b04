"""Starting and ending processes: the only file that creates any.

Order of life: watchdog, fork server, children. Order of death: children (asked, then killed,
with everything in their process groups), fork server, watchdog.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fast_core.errors import NodeFailed, TransportError

_LENGTH = struct.Struct("<q")
_PACKET = 65_536
_SERVER_GRACE_S = 1.0


@dataclass
class Child:
    """A process forked by the server.

    Attributes:
        name: Name of the node, or ``probe``.
        link: Stream socket to it; one end is ours.
        pid: Process id and process group, 0 until the server reported it.
        status: Exit status, negative for a signal, None while it lives.
    """

    name: str
    link: socket.socket
    pid: int = 0
    status: int | None = None

    def give(self, value: object, descriptor: int) -> None:
        """Send the child its start-up value and a file descriptor."""
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
    remaining, chunks = _LENGTH.unpack(header)[0], []
    while remaining:
        chunk = link.recv(min(remaining, 1 << 20))
        if not chunk:
            raise SystemExit(0)
        chunks.append(chunk)
        remaining -= len(chunk)
    return pickle.loads(b"".join(chunks)), descriptors[0]


def read_all(link: socket.socket) -> bytes:
    """Everything the other side sends until it closes."""
    chunks = []
    while chunk := link.recv(1 << 20):
        chunks.append(chunk)
    return b"".join(chunks)


class ProcessTree:
    """All processes of one run and the directory of its socket."""

    def __init__(self, *, preload: Sequence[str], environment: dict[str, str], log: Path) -> None:
        """Start the watchdog and the fork server.

        Args:
            preload: Modules the server imports before it serves.
            environment: Additional environment variables of every process.
            log: File that takes the server's own output.
        """
        self.children: dict[str, Child] = {}
        self.directory = Path(_make_directory())
        package = Path(__file__).parent
        self._watchdog = subprocess.Popen(
            [sys.executable, "-I", "-S", str(package / "watchdog.py"), str(self.directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with open(log, "ab") as output:
            self._server = subprocess.Popen(
                [
                    sys.executable,
                    "-c",
                    f"import sys; sys.path[:] = {sys.path!r}; "
                    "from fast_core.launcher.fork_server import main; "
                    "main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])",
                    str(theirs.fileno()),
                    str(os.getpid()),
                    *preload,
                ],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=(theirs.fileno(),),
                env={**environment, **os.environ},
                process_group=0,
            )
        theirs.close()
        self._tell_watchdog(f"group {self._server.pid}")

    def fileno(self) -> int:
        """Readable when `poll` has something to report."""
        return self._control.fileno()

    def spawn(self, name: str, target: str, *, warm: Sequence[str] = ()) -> Child:
        """Ask for a child; it runs ``target(name, socket)`` after importing ``warm``."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        request = json.dumps({"name": name, "target": target, "warm": list(warm)}).encode()
        try:
            socket.send_fds(self._control, [request], [theirs.fileno()])
        except OSError as error:
            raise TransportError(f"the fork server is gone: {error}") from error
        finally:
            theirs.close()
        self.children[name] = Child(name, ours)
        return self.children[name]

    def poll(self) -> list[Child]:
        """Take the server's reports; returns the children that have exited since.

        Raises:
            NodeFailed: The server itself is gone, and with it every child.
        """
        exited: list[Child] = []
        while True:
            try:
                data = self._control.recv(_PACKET, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return exited
            except OSError:
                data = b""
            if not data:
                raise NodeFailed(
                    f"the fork server died (status {self._server.wait()}); its output is in logs/"
                )
            report = json.loads(data)
            child = self.children[report["name"]]
            child.pid = report["pid"]
            if report["event"] == "started":
                self._tell_watchdog(f"group {child.pid}")
            else:
                child.status = report["status"]
                self._kill_group(child)
                exited.append(child)

    def living(self) -> list[Child]:
        """Children that have not been reported gone."""
        return [child for child in self.children.values() if child.status is None]

    def wait_for_exits(self, deadline_s: float) -> None:
        """Take reports until no child lives or the monotonic ``deadline_s`` passes."""
        while self.living() and (left := deadline_s - time.monotonic()) > 0:
            self._wait_readable(left)
            self.poll()

    def _wait_readable(self, timeout_s: float) -> None:
        self._control.settimeout(timeout_s)
        with contextlib.suppress(TimeoutError, OSError):
            self._control.recv(1, socket.MSG_PEEK)
        self._control.settimeout(None)

    def signal_living(self, number: signal.Signals) -> None:
        """Send a signal to the process group of every living child."""
        for child in self.living():
            if child.pid:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(child.pid, number)

    def _kill_group(self, child: Child) -> None:
        """A dead node's own children die with it."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        child.link.close()
        self._tell_watchdog(f"gone {child.pid}")

    def _tell_watchdog(self, line: str) -> None:
        assert self._watchdog.stdin is not None
        with contextlib.suppress(OSError, ValueError):  # a killed watchdog is no reason to stop
            self._watchdog.stdin.write(line + "\n")
            self._watchdog.stdin.flush()

    def close(self, grace_s: float) -> None:
        """End whatever still lives: terminate, then kill after ``grace_s``; may be called twice."""
        try:
            if self.living():
                self.signal_living(signal.SIGTERM)
                self.wait_for_exits(time.monotonic() + grace_s)
                self.signal_living(signal.SIGKILL)
                self.wait_for_exits(time.monotonic() + _SERVER_GRACE_S)
        except NodeFailed:
            pass  # the server is gone, and the kernel killed its children
        self._control.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._server.wait(_SERVER_GRACE_S)
        self._server.kill()
        self._server.wait()
        for child in self.children.values():
            child.link.close()
        shutil.rmtree(self.directory, ignore_errors=True)
        self._tell_watchdog("done")
        if self._watchdog.stdin is not None:
            with contextlib.suppress(OSError):
                self._watchdog.stdin.close()
        self._watchdog.wait()


def _make_directory() -> str:
    """A short private directory for the socket file."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    parent = runtime if runtime and os.access(runtime, os.W_OK | os.X_OK) else None
    return tempfile.mkdtemp(prefix="fastloop-", dir=parent)
