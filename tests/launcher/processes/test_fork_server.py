"""The parts of the fork server that need no fork."""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
from pathlib import Path

import pytest

from fast_core.launcher.processes import fork_server
from fast_core.launcher.processes.fork_server import receive_request


def test_descriptor_of_a_request_is_not_passed_on_to_programs() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        with ours, open(os.devnull, "rb") as nothing:
            socket.send_fds(ours, [json.dumps({"name": "env-0"}).encode()], [nothing.fileno()])
            received = receive_request(theirs)
        assert received is not None
        request, descriptor = received
        assert request == {"name": "env-0"}
        assert not os.get_inheritable(descriptor)
        os.close(descriptor)
        assert receive_request(theirs) is None


def test_module_that_leaves_the_program_does_not_take_the_server_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "leaving_module.py").write_text("raise SystemExit('no main guard')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    fork_server._import("leaving_module")
    assert "no main guard" in capsys.readouterr().err
    assert "leaving_module" not in sys.modules


class TorchWithCuda:
    class cuda:
        @staticmethod
        def is_initialized() -> bool:
            return True


@pytest.fixture
def quiet_process(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """As if this process had one thread and no GPU, whatever other tests have left in it."""
    monkeypatch.setattr(threading, "enumerate", lambda: [threading.main_thread()])
    monkeypatch.setattr(fork_server, "_tasks", lambda: 1)
    monkeypatch.setitem(sys.modules, "torch", None)  # type: ignore[arg-type]
    return monkeypatch


def test_process_with_one_thread_can_be_forked(quiet_process: pytest.MonkeyPatch) -> None:
    assert fork_server.unforkable() == ""


def test_thread_of_a_module_is_named(quiet_process: pytest.MonkeyPatch) -> None:
    """ENV-12."""
    threads = [threading.main_thread(), threading.Thread(name="watcher")]
    quiet_process.setattr(threading, "enumerate", lambda: threads)
    assert fork_server.unforkable() == "starts the thread 'watcher'"


def test_thread_of_c_code_is_counted_but_not_those_of_linear_algebra(
    quiet_process: pytest.MonkeyPatch,
) -> None:
    """ENV-12, and a user who asked OpenBLAS for 4 threads."""
    quiet_process.setattr(fork_server, "threadpool_info", lambda: [{"num_threads": 4}])
    quiet_process.setattr(fork_server, "_tasks", lambda: 4)
    assert fork_server.unforkable() == ""
    quiet_process.setattr(fork_server, "_tasks", lambda: 6)
    assert fork_server.unforkable() == "starts 2 threads of C code"


def test_cuda_of_a_module_is_seen(quiet_process: pytest.MonkeyPatch) -> None:
    """ENV-12."""
    quiet_process.setitem(sys.modules, "torch", TorchWithCuda)  # type: ignore[arg-type]
    assert "CUDA" in fork_server.unforkable()
