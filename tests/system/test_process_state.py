"""What a process is doing, as the kernel sees it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from fast_core.system.process_state import STOPPED, process_state
from tests.process.harness import eventually


def test_says_what_a_process_does() -> None:
    program = "import time; time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", program]) as child:
        try:
            eventually(lambda: process_state(child.pid) == "asleep in a system call", "sleep")
            os.kill(child.pid, signal.SIGSTOP)
            eventually(lambda: process_state(child.pid) == STOPPED, "the stop")
        finally:
            child.kill()
    assert process_state(child.pid) == "", "there is none any more"
    assert process_state(os.getpid()) == "computing"
