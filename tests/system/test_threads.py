from __future__ import annotations

import subprocess
import sys

import pytest

from fast_core.system.threads import default_threads


@pytest.mark.parametrize(("text", "threads"), [(None, 1), ("1", 1), ("3", 3), ("4,2", 4), ("x", 1)])
def test_node_computes_on_one_thread_unless_the_user_said_otherwise(
    monkeypatch: pytest.MonkeyPatch, text: str | None, threads: int
) -> None:
    """RES-01."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if text is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", text)
    assert default_threads() == threads


def test_every_loaded_library_computes_with_the_number_set() -> None:
    """RES-01: also those that were loaded before with a thread for each core."""
    program = """
import numpy, threadpoolctl
from fast_core.system.threads import set_threads
numpy.ones((64, 64)) @ numpy.ones((64, 64))
for count in (2, 1):
    set_threads(count)
    numbers = [pool["num_threads"] for pool in threadpoolctl.threadpool_info()]
    assert numbers and set(numbers) == {count}, numbers
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_library_that_is_loaded_later_computes_with_the_number_set_after_it() -> None:
    program = """
import sys, threadpoolctl
from fast_core.system.threads import set_threads
set_threads(2)
assert "numpy" not in sys.modules
import numpy
for count in (2, 1):
    set_threads(count)
    numbers = [pool["num_threads"] for pool in threadpoolctl.threadpool_info()]
    assert numbers and set(numbers) == {count}, numbers
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
