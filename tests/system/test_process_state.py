"""What a process is doing, as the kernel sees it."""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import subprocess
import sys

import pytest

from fast_core.system.process_state import (
    STOPPED,
    is_held_up,
    is_traced,
    process_state,
    program_without,
)
from tests.process.harness import eventually


def test_says_what_a_process_does() -> None:
    program = "import time; time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", program]) as child:
        try:
            eventually(lambda: process_state(child.pid) == "asleep in a system call", "sleep")
            assert not is_held_up(child.pid)
            os.kill(child.pid, signal.SIGSTOP)
            eventually(lambda: process_state(child.pid) == STOPPED, "the stop")
            assert is_held_up(child.pid)
        finally:
            child.kill()
    assert process_state(child.pid) == "", "there is none any more"
    assert not is_held_up(child.pid)
    assert process_state(os.getpid()) == "computing"


def test_says_whether_a_debugger_holds_a_process() -> None:
    seize, detach = 0x4206, 17
    ptrace = ctypes.CDLL(None, use_errno=True).ptrace
    ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as child:
        try:
            assert not is_traced(child.pid)
            if ptrace(seize, child.pid, None, None) != 0:
                pytest.skip(f"ptrace: {os.strerror(ctypes.get_errno())}")
            assert is_traced(child.pid) and is_held_up(child.pid)
            ptrace(detach, child.pid, None, None)
        finally:
            child.kill()
    assert not is_traced(child.pid), "there is none any more"


def test_process_one_of_whose_threads_waits_as_for_a_disk_is_held_up() -> None:
    """`vfork` has its caller wait so until the child executes something, which it never does."""
    vfork = "import ctypes; c = ctypes.PyDLL(None); c.vfork() or c.pause()"
    thread = f"import threading; threading.Thread(target=exec, args=({vfork!r},)).start()"
    with subprocess.Popen([sys.executable, "-c", thread], process_group=0) as child:
        try:
            eventually(lambda: is_held_up(child.pid), "a thread that waits")
        finally:
            os.killpg(child.pid, signal.SIGKILL)


def test_says_what_a_process_executes_that_has_not_what_it_had() -> None:
    """A file, to be mapped; here and in a fork it is, after ``exec`` it is not."""
    file = os.memfd_create("had")
    os.ftruncate(file, 4096)
    with mmap.mmap(file, 4096):
        assert program_without(os.getpid(), file) == ""
        pid = os.fork()
        if pid == 0:
            signal.pause()
            os._exit(0)
        try:
            assert program_without(pid, file) == ""
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        with subprocess.Popen(["sleep", "60"]) as child:
            eventually(lambda: program_without(child.pid, file) == "sleep 60", "another program")
            had = os.memfd_create("had by nobody whom the kernel shows")
            assert program_without(child.pid, had) == ""
            os.close(had)
            child.kill()
        assert program_without(child.pid, file) == "", "there is none any more"
    os.close(file)
