"""The fork server: imports once what many processes need, then forks them in milliseconds.

Why not ``multiprocessing``'s own: it imports the launcher's main script in every child, hands
each child the descriptor that keeps the server alive, leaves its listener's file behind when the
launcher is killed, and starts a resource tracker. This one talks over one anonymous socket pair:

* request (one packet): JSON ``{"name", "number", "target", "warm"}`` and one descriptor, the
  child's own socket to the launcher;
* reports (one packet each): JSON ``{"event": "started" | "exited", "name", "pid", "status"}``, or
  ``{"event": "refused", "name", "text"}`` in place of all others.

It has one thread and runs no tensor operation, so forking it is safe. A module that starts a
thread or CUDA while it is imported would change that: its locks and its GPU context don't work in
a forked process. Then nothing is forked, and the launcher is told which module it was.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import importlib
import json
import os
import select
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable
from typing import cast

from threadpoolctl import threadpool_info

from fast_core.system import forks
from fast_core.system.guard import die_with_parent
from fast_core.system.importing import user_module
from fast_core.system.remains import NODE_NUMBER

PACKET = 65_536
_LIBRARIES = ("torch", "envpool")  # a stray file of a user's must not stand in for them
FAILED_STATUS = 1
NO_NODE = "000000"  # as long as every `mark`


def main(descriptor: int, launcher: int, preload: list[str]) -> None:
    """Serve requests on ``descriptor`` until the launcher closes its end."""
    for number in forks.STOP_SIGNALS:
        forks.take(number, forks.leave_to_parent)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, forks.STOP_SIGNALS)  # held back until now
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    die_with_parent(launcher)
    forks.write_stacks()
    control = socket.socket(fileno=descriptor)
    for module in preload:
        _import(module)
        if what := unforkable():
            return _refuse(control, module, what)
    # After the imports, which may set handlers of their own, or block signals.
    wake_in, wake_out = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    forks.take(signal.SIGCHLD, forks.nothing)
    for number in forks.STOP_SIGNALS:
        forks.take(number, forks.leave_to_parent)
    forks.take_wakeup(wake_out)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    names: dict[int, str] = {}
    while True:
        readable, _, _ = select.select([control.fileno(), wake_in], [], [])
        if wake_in in readable:
            os.read(wake_in, PACKET)
            _reap(control, names)
        if control.fileno() in readable:
            received = receive_request(control)
            if received is None:
                return
            request, descriptor = received
            ours = (control.fileno(), wake_in, wake_out)
            pid = _fork(request, descriptor, ours)
            names[pid] = str(request["name"])
            _report(control, event="started", name=names[pid], pid=pid, status=0)


def mark(number: int) -> str:
    """What the environment of a child, and of all that it starts, has in place of `NO_NODE`."""
    return f"{number:0{len(NO_NODE)}d}"


def _take_mark(number: int) -> None:
    """Mark this child, in place: what it forks without ``exec`` is shown with this memory too."""
    getenv = ctypes.CDLL(None).getenv
    getenv.restype = ctypes.c_void_p
    place = getenv(NODE_NUMBER.encode())
    if place:
        ctypes.memmove(place, mark(number).encode(), len(NO_NODE))
        os.environ[NODE_NUMBER] = mark(number)


def receive_request(control: socket.socket) -> tuple[dict[str, object], int] | None:
    """The next request and its descriptor; None once the launcher has closed its end."""
    data, descriptors, _, _ = socket.recv_fds(control, PACKET, 1)
    if not data:
        return None
    os.set_inheritable(descriptors[0], False)  # what a simulator executes must not keep it open
    return json.loads(data), descriptors[0]


def _import(module: str) -> None:
    """Import for speed only: a module that fails is imported again, and reported, by the child."""
    try:
        (importlib.import_module if module in _LIBRARIES else user_module)(module)
    except BaseException:  # a script without a main guard may leave
        traceback.print_exc()


def unforkable() -> str:
    """What in this process would not survive a fork, in words; empty when all is well."""
    if found := _cuda():
        return found
    python = [thread.name for thread in threading.enumerate()]
    if len(python) > 1:
        return f"starts the thread {python[1]!r}"
    # Python does not know threads of C code. Those of linear algebra libraries are made anew in
    # a child, so a user who asks for many (OPENBLAS_NUM_THREADS) may have them.
    if _tasks() == 1:
        return ""
    others = _tasks() - 1 - sum(pool["num_threads"] - 1 for pool in threadpool_info())
    return f"starts {others} thread{'s' * (others > 1)} of C code" if others > 0 else ""


def _cuda() -> str:
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        return "starts CUDA (torch.cuda)"
    for name in os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else ():
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/self/fd/{name}").startswith("/dev/nvidia"):
                return "opens a GPU"
    return ""


def _tasks() -> int:
    """Threads of this process as the kernel counts them."""
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:
        return 1


def _refuse(control: socket.socket, module: str, what: str) -> None:
    """Tell the launcher why nothing will be forked, and wait for it to end this server."""
    report = {"event": "refused", "name": module, "text": what}
    with contextlib.suppress(OSError):
        control.send(json.dumps(report).encode())
        while (request := receive_request(control)) is not None:
            os.close(request[1])


def _report(control: socket.socket, *, event: str, name: str, pid: int, status: int) -> None:
    report = {"event": event, "name": name, "pid": pid, "status": status}
    try:
        control.send(json.dumps(report).encode())
    except OSError:
        sys.exit(0)  # the launcher is gone, and so are we


def _reap(control: socket.socket, names: dict[int, str]) -> None:
    while names:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        if pid in names:  # an imported module may have started something of its own
            code = os.waitstatus_to_exitcode(status)
            _report(control, event="exited", name=names.pop(pid), pid=pid, status=code)


def _fork(request: dict[str, object], descriptor: int, ours: tuple[int, ...]) -> int:
    """Fork a child for ``request``; it keeps ``descriptor`` and closes ``ours``."""
    server = os.getpid()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, forks.STOP_SIGNALS)
    pid = os.fork()
    if pid == 0:
        status = FAILED_STATUS
        try:
            os.setpgid(0, 0)
            die_with_parent(server)
            _take_mark(int(str(request["number"])))
            forks.own()
            for number in {*forks.STOP_SIGNALS} - {signal.SIGTERM}:  # which ends one that imports
                forks.take(number, forks.leave_to_parent)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            for each in ours:
                os.close(each)
            status = _child(request, socket.socket(fileno=descriptor))
        except BaseException as error:
            status = forks.exit_status(error)
        finally:
            atexit._run_exitfuncs()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    os.close(descriptor)
    with contextlib.suppress(OSError):  # the child does it too; whoever comes first
        os.setpgid(pid, pid)
    return pid


def _child(request: dict[str, object], parent: socket.socket) -> int:
    for module in cast("list[str]", request["warm"]):
        _import(module)
    module, _, function = str(request["target"]).partition(":")
    target: Callable[[str, socket.socket], int]
    target = getattr(importlib.import_module(module), function)
    return target(str(request["name"]), parent)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
