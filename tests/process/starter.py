"""A Python that has imported what `fastloop` imports, and forks launchers of itself.

To import it all takes a launcher and its fork server 0.4 s of a core each, more than a short run
takes, and hundreds of tests start one. A launcher that is forked here leads its own session, has
its own surroundings, folder, streams and signals, and begins with `fast_core.tools.cli`, as
`python -m` has it begin. Its fork server is a copy from before that beginning, which waits from
then on, also where none is started. What else it starts (watchdog, what environments execute) is
executed anew.
All that is forked here has one seed of hashes: what must not depend on that is compared with a
launcher that is executed (``fresh=True``).
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import setproctitle

from fast_core.launcher.processes import fork_server, tree
from fast_core.system import forks, remains

PACKET = 65_536
MARK = "FASTLOOP_TEST_MARK"  # what belongs to a launcher is known by it
NOBODYS = "0" * 32  # as long as every mark
# What is shown of a process's environment is what it was executed with, so room is kept in that.
ROOM, ROOM_SIZE = "FASTLOOP_TEST_ROOM", 4096
SHOWN = (remains.RUN_FOLDER, remains.RUN_OWNER, remains.NODE_NUMBER)
# Not `fast_core.tools.cli`, which runs as the main program.
IMPORTED = (
    "fast_core.tools.commands",
    "fast_core.launcher.run",
    "fast_core.launcher.session",
    "fast_core.launcher.next_part",
    "fast_core.config.algorithms",
    "fast_core.envs.stepping.repeating",
    "fast_core.algos.ppo.config",
    "fast_core.nodes.collect.env",
    "fast_core.nodes.learn.optimizer",
    "fast_core.nodes.metrics",
    "gymnasium.wrappers",
)
PROGRAM = "import sys; from tests.process.starter import serve; serve(int(sys.argv[1]))"


class Started:
    """A launcher that was forked; the part of `subprocess.Popen` that the harness needs.

    Attributes:
        pid: Its process, which leads a session.
        status: Its exit status as far as its starter has told; its number may be another's then.
    """

    def __init__(self, starter: Starter, pid: int) -> None:
        self.pid = pid
        self.status: int | None = None
        self._starter = starter

    def poll(self) -> int | None:
        """Its exit status, negative for a signal; None while it runs."""
        return self._starter.status(self, 0.0)

    def wait(self, timeout: float | None = None) -> int:
        """Its exit status, once it has ended.

        Raises:
            subprocess.TimeoutExpired: It still runs after so many seconds.
        """
        status = self._starter.status(self, timeout)
        if status is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired("fastloop", timeout)
        return status


class Starter:
    """The process that forks launchers; it ends with the one that made it."""

    def __init__(self, surroundings: Mapping[str, str]) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._running: dict[int, Started] = {}
        with theirs:
            self._process = subprocess.Popen(
                # A launcher's command line is known by its name; titles are one character shorter.
                [sys.executable, "-c", PROGRAM, str(theirs.fileno()), "fast_core.tools.cli", "-"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
                restore_signals=False,
                pass_fds=[theirs.fileno()],
                env={
                    **surroundings,
                    MARK: NOBODYS,
                    ROOM: "0" * ROOM_SIZE,
                    "SPT_NOENV": "1",  # as fork servers have it
                    "OPENBLAS_NUM_THREADS": "1",
                },
            )

    def start(
        self,
        arguments: Sequence[str],
        *,
        home: Path,
        screen: Path,
        surroundings: Mapping[str, str],
        ignore: Sequence[int],
    ) -> Started:
        """Run ``python -m fast_core.tools.cli ARGUMENTS`` in ``home``; it writes to ``screen``."""
        request = {
            "arguments": arguments,
            "home": str(home),
            "screen": str(screen),
            "surroundings": dict(surroundings),
            "ignore": ignore,
        }
        self._control.send(json.dumps(request).encode())
        while "status" in (report := self._report()):
            pass
        started = self._running[report["pid"]] = Started(self, report["pid"])
        return started

    def status(self, started: Started, timeout_s: float | None) -> int | None:
        """Exit status of a launcher; None if it still runs after so many seconds."""
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        while started.status is None:
            left_s = None if deadline_s is None else max(0.0, deadline_s - time.monotonic())
            if not select.select([self._control], [], [], left_s)[0]:
                return None
            self._report()
        return started.status

    def _report(self) -> dict[str, int]:
        packet = self._control.recv(PACKET)
        assert packet, "the starter has ended"
        report: dict[str, int] = json.loads(packet)
        if "status" in report:
            self._running.pop(report["pid"]).status = report["status"]
        return report

    def close(self) -> None:
        """End it."""
        self._control.close()
        self._process.wait()


def serve(descriptor: int) -> None:
    """Fork a launcher for every request, until nobody is there to ask for one."""
    for module in IMPORTED:
        with contextlib.suppress(ImportError):
            importlib.import_module(module)
    setproctitle.setproctitle(setproctitle.getproctitle())  # it looks for its place only now
    gc.collect()
    gc.freeze()
    control = socket.socket(fileno=descriptor)
    wake_in, wake_out = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, forks.nothing)
    signal.set_wakeup_fd(wake_out, warn_on_full_buffer=False)
    running = set[int]()
    while True:
        readable, _, _ = select.select([control, wake_in], [], [])
        if wake_in in readable:
            os.read(wake_in, PACKET)
            _reap(control, running)
        if control in readable:
            packet = control.recv(PACKET)
            if not packet:
                os._exit(0)
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                os.close(wake_in)
                os.close(wake_out)
                return _become(control, json.loads(packet))
            running.add(pid)


def _reap(control: socket.socket, running: set[int]) -> None:
    for pid in tuple(running):
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            running.remove(pid)
            code = os.waitstatus_to_exitcode(status)
            control.send(json.dumps({"pid": pid, "status": code}).encode())


def _become(control: socket.socket, request: Mapping[str, Any]) -> None:
    """Be a launcher; what it raises at its end, such as its exit status, Python sees to."""
    os.setsid()
    os.chdir(request["home"])
    screen = os.open(request["screen"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(screen, 1)
    os.dup2(screen, 2)
    os.close(screen)
    room = _address(ROOM)
    mark = request["surroundings"][MARK]
    assert len(mark) == len(NOBODYS)
    ctypes.memmove(_address(MARK), mark.encode(), len(mark))  # copies are shown with it, too
    os.environ.clear()
    os.environ.update(request["surroundings"])
    time.tzset()
    tempfile.tempdir = None
    sys.argv[1:] = request["arguments"]
    sys.path[0] = request["home"]
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in request["ignore"]:
        signal.signal(number, signal.SIG_IGN)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, forks.STOP_SIGNALS)
    server = os.fork()
    if server == 0:
        control.close()
        ours.close()
        return _be_fork_server(theirs, room)
    theirs.close()
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    _take_copy_for_fork_server(ours, server)
    forks.own()
    control.send(json.dumps({"pid": os.getpid()}).encode())
    control.close()
    runpy.run_module("fast_core.tools.cli", run_name="__main__", alter_sys=True)


def _address(name: str) -> int:
    """Where the value of a variable of the environment stands."""
    getenv = ctypes.CDLL(None).getenv
    getenv.restype = ctypes.c_void_p
    found = getenv(name.encode())
    assert isinstance(found, int), name
    return found


# --- its fork server -----------------------------------------------------------------------------


class _ForkServer:
    """What the launcher uses of `subprocess.Popen` for a child of its own."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._status: int | None = None

    def wait(self, timeout: float | None = None) -> int:
        deadline_s = None if timeout is None else time.monotonic() + timeout
        while self._status is None:
            found, status = os.waitpid(self.pid, 0 if deadline_s is None else os.WNOHANG)
            if found:
                self._status = os.waitstatus_to_exitcode(status)
            elif deadline_s is not None and time.monotonic() > deadline_s:
                raise subprocess.TimeoutExpired("fork server", timeout or 0.0)
            else:
                time.sleep(0.005)
        return self._status

    def kill(self) -> None:
        if self._status is None:
            os.kill(self.pid, signal.SIGKILL)


def _take_copy_for_fork_server(copy: socket.socket, pid: int) -> None:
    """Have `ProcessTree` ask the process ``pid`` to be its fork server, the first one it starts."""

    def popen(command: list[str], **how: Any) -> Any:
        if "fork_server import main" not in " ".join(command) or copy.fileno() == -1:
            return subprocess.Popen(command, **how)
        # A copy has these anyway; one that is executed has them only if it is given them.
        assert how["process_group"] == 0 and how["stdin"] == subprocess.DEVNULL
        assert how["env"]["SPT_NOENV"] == "1"
        assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) >= {*forks.STOP_SIGNALS}
        (control,) = how["pass_fds"]
        request = {"words": command[4:], "path": sys.path, "surroundings": dict(how["env"])}
        with copy, contextlib.suppress(OSError):  # it was killed, which its status tells
            os.setpgid(pid, pid)
            descriptors = [control, how["stdout"].fileno()]
            socket.send_fds(copy, [json.dumps(request).encode()], descriptors)
        return _ForkServer(pid)

    tree.subprocess = types.SimpleNamespace(**{**vars(subprocess), "Popen": popen})


def _be_fork_server(launcher: socket.socket, room: int) -> None:
    """Wait for what a fork server is started with, and be one; or end with the launcher."""
    forks.own()
    setproctitle.setproctitle("fork_server import main")
    with launcher:
        data, descriptors, _, _ = socket.recv_fds(launcher, 16 * PACKET, 2)
    if not data:
        os._exit(0)
    request = json.loads(data)
    control, log = descriptors
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    os.set_inheritable(control, True)
    sys.path[:] = request["path"]
    sys.argv[1:] = [str(control), *request["words"]]
    os.environ.clear()
    os.environ.update(request["surroundings"])
    time.tzset()
    _show({name: os.environ[name] for name in (*SHOWN, MARK)}, room)
    fork_server.main(control, int(request["words"][0]), request["words"][1:])


def _show(variables: Mapping[str, str], room: int) -> None:
    """Have these in the environment that is shown of this process and of its copies."""
    libc = ctypes.CDLL(None)
    text = b"\0"
    for name, value in variables.items():
        address = room + len(text)
        text += f"{name}={value}".encode() + b"\0"
        assert len(text) < ROOM_SIZE
        ctypes.memmove(room, text, len(text))
        libc.putenv(ctypes.c_void_p(address))
