"""The starter of launchers under test."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
from pathlib import Path

import pytest

from tests.process.harness import Workplace
from tests.process.starter import Starter


@pytest.mark.process
def test_copy_that_ends_after_its_launcher_is_not_left_behind(workplace: Workplace) -> None:
    """The one for a fork server, which nobody started, hears of the end as it is told of."""
    launched = workplace.toy("", "mode=inline", "stop={env_steps: 64}", made_s=0.2)
    copy = launched.node("fork server")
    os.kill(copy, signal.SIGSTOP)
    assert launched.wait() == 0, launched.screen
    assert any(process.pid == copy for process in launched.members())
    threading.Timer(0.2, os.kill, (copy, signal.SIGCONT)).start()
    launched.assert_gone()


def test_status_of_one_that_had_the_same_number_is_no_others(tmp_path: Path) -> None:
    """Numbers of processes are given anew after 32,768, which are less than a long form has."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    starter = Starter.__new__(Starter)
    starter._control, starter._running = ours, {}
    with ours, theirs:
        for report in ({"pid": 7}, {"pid": 7, "status": -9}, {"pid": 7}):
            theirs.send(json.dumps(report).encode())
        first, second = (
            starter.start([], home=tmp_path, screen=tmp_path, surroundings={}, ignore=())
            for _ in range(2)
        )
        assert (first.poll(), second.poll()) == (-9, None)
        theirs.send(json.dumps({"pid": 7, "status": 0}).encode())
        assert (first.poll(), second.poll()) == (-9, 0)
