"""What processes take of the machine."""

from __future__ import annotations

import os
import subprocess
import sys
import time

from fast_core.system import usage


def test_a_process_and_those_below_it_are_counted_together() -> None:
    code = "import sys; held = bytearray(b'x' * 40_000_000); print(flush=True); sys.stdin.read()"
    given = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", code], **given) as child:  # type: ignore[call-overload]
        assert child.stdout.readline()
        family = usage.family(os.getpid())
        assert family[0] == os.getpid() and child.pid in family
        assert 40e6 < usage.memory_bytes([child.pid]) < 120e6
        child.stdin.close()
    assert child.pid not in usage.family(os.getpid())
    assert usage.memory_bytes([child.pid]) == 0 == usage.cpu_s([child.pid])


def test_processor_seconds_pass_while_it_computes() -> None:
    before, begun_s = usage.cpu_s([os.getpid()]), time.thread_time()
    while time.thread_time() < begun_s + 0.05:
        pass
    assert usage.cpu_s([os.getpid()]) - before >= 0.04
