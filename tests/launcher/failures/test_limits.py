"""A call that does not return, in a run of one process."""

from __future__ import annotations

import time
from typing import NoReturn

import pytest

from fast_core.errors import NodeFailed
from fast_core.launcher.failures.limits import Limits
from fast_core.messages import Failed
from fast_core.system.interrupts import Interrupts

LIMIT_S = 0.3
LONG_S = 20.0


def end(failed: Failed) -> NoReturn:
    raise AssertionError("the main thread comes out of it")


def test_overdue_call_is_left_with_what_was_too_long() -> None:
    begun_s = time.monotonic()
    with Interrupts() as interrupts, Limits(interrupts, end) as limits:
        limits.begin("mine", "mine did not close", "supervision.grace_s", LIMIT_S)
        with pytest.raises(NodeFailed, match=r"^mine did not close within 0\.3 s \(supervision"):
            time.sleep(LONG_S)
        limits.rest()
        assert interrupts.count == 0, "nobody asked the run to end"
    assert time.monotonic() - begun_s < LONG_S


def test_what_has_no_limit_and_what_returned_are_left_alone() -> None:
    with Interrupts() as interrupts, Limits(interrupts, end) as limits:
        limits.begin("mine", "mine did not close", "supervision.grace_s", None)
        time.sleep(2 * LIMIT_S)
        limits.begin("mine", "mine did not close", "supervision.grace_s", LIMIT_S)
        limits.rest()
        time.sleep(2 * LIMIT_S)


def test_run_that_a_debugger_stopped_has_no_limits() -> None:
    paused: dict[str, object] = {"__name__": "bdb"}
    exec("import time\ndef interaction(pause_s): time.sleep(pause_s)", paused)
    with Interrupts() as interrupts, Limits(interrupts, end) as limits:
        limits.begin("mine", "mine did not close", "supervision.grace_s", 2 * LIMIT_S)
        paused["interaction"](3 * LIMIT_S)  # type: ignore[operator]
        time.sleep(LIMIT_S)
