"""The page's door, besieged over real sockets."""

from __future__ import annotations

import os
import resource
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import pytest
from uvicorn.protocols.http.h11_impl import H11Protocol
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from fast_core.dashboard import broadcast, door
from fast_core.dashboard.server import PageServer
from tests.dashboard.served import Pretend, served
from tests.process.harness import eventually

Open = Callable[[int], list[socket.socket]]


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few are let in, and not sent away because they take long."""
    monkeypatch.setattr(door, "MOST", 16)
    monkeypatch.setattr(door, "ASK_S", 60.0)


@pytest.fixture
def server(said: list[str]) -> Iterator[PageServer]:
    with served(Pretend(), said) as made:
        yield made


@pytest.fixture
def come(server: PageServer) -> Iterator[Open]:
    """Opens connections that say nothing."""
    with ExitStack() as stack:

        def open_them(count: int) -> list[socket.socket]:
            made = [stack.enter_context(socket.socket()) for _ in range(count)]
            for each in made:
                each.settimeout(10)
                each.connect(("127.0.0.1", server.port))
            return made

        yield open_them


def ask(link: socket.socket) -> bytes:
    """Ask for the page; its first line."""
    link.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
    return b"".join(iter(lambda: link.recv(4096), b"")).partition(b"\r\n")[0]


def has_ended(link: socket.socket) -> bool:
    try:
        return link.recv(4096) == b""
    except ConnectionResetError:
        return True


@pytest.mark.usefixtures("small")
def test_idle_connections_make_room_for_who_asks(
    come: Open, capfd: pytest.CaptureFixture[str]
) -> None:
    idle = come(100)
    for link in come(3):
        assert ask(link) == b"HTTP/1.1 200 OK"
    for link in idle[:40]:
        assert has_ended(link), "the oldest go first"
    assert capfd.readouterr().err == ""


def test_who_is_too_many_among_busy_ones_is_told(
    come: Open, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "MOST", 8)
    monkeypatch.setattr(door.Http, "asks", True)
    with served(Pretend(), said) as server, ExitStack() as stack:
        busy = [stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))]
        while not said:
            busy.append(stack.enter_context(socket.create_connection(("127.0.0.1", server.port))))
            time.sleep(0.01)
        (last,) = busy[8:]
        assert ask(last) == b"HTTP/1.1 503 Service Unavailable"
    assert said == ["the page refused somebody: 8 connections are open already (said once)"]


@pytest.mark.parametrize(("busy", "answer"), [(False, b"200 OK"), (True, b"503 Service Un")])
def test_without_file_descriptors_there_is_an_answer_and_no_traceback(
    server: PageServer,
    said: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    busy: bool,
    answer: bytes,
) -> None:
    if busy:  # nobody can be sent away
        monkeypatch.setattr(door.Http, "asks", True)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as stack:
        links = [stack.enter_context(socket.socket()) for _ in range(50)]
        taken = {int(name) for name in os.listdir("/proc/self/fd")}
        free = [each for each in range(max(taken) + 40) if each not in taken]
        resource.setrlimit(resource.RLIMIT_NOFILE, (free[20], hard))
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        for link in links:
            link.settimeout(10)
            link.connect(("127.0.0.1", server.port))
        assert answer in ask(links[-1])
    assert capfd.readouterr().err == ""
    assert len(said) == int(busy)


def test_request_that_never_comes_to_an_end_is_not_waited_for(
    come: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "ASK_S", 0.1)
    silent, slow = come(2)
    slow.sendall(b"GET / HTTP/1.1\r\nHost: 127.")
    assert has_ended(silent) and has_ended(slow)


def test_socket_that_never_says_anything_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broadcast, "SILENT_S", 0.1)
    monkeypatch.setattr(broadcast, "UNWATCHED_S", 0.1)
    with served(Pretend()) as server, connect(f"ws://127.0.0.1:{server.port}/ws") as silent:
        with pytest.raises(ConnectionClosed):
            while True:
                silent.recv(timeout=10)
        assert silent.protocol.close_code == broadcast.AGAIN


def test_error_of_a_connection_is_one_sentence(
    server: PageServer, come: Open, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("no such thing")

    monkeypatch.setattr(door.Http, "data_received", fail)
    for link in come(20):
        link.sendall(b"x")
        assert has_ended(link)
    eventually(lambda: said, "a sentence")
    assert len(said) == 1 and "no such thing" in said[0]


def test_connection_that_does_not_take_its_end_is_cut_off() -> None:
    class Transport:
        closing, aborted = False, False

        def is_closing(self) -> bool:
            return self.closing

        def abort(self) -> None:
            self.aborted = True

    class Socket:  # a websocket, which has no time of its own
        def __init__(self) -> None:
            self.transport = Transport()

    stays, leaves = Socket(), Socket()
    leaves.transport.closing = True
    listening = socket.create_server(("127.0.0.1", 0))
    with door.Door(listening, {stays, leaves}, print) as gate:
        for now_s in (100.0, 100.0 + door.LEAVE_S):
            gate.sweep(now_s)
            assert not leaves.transport.aborted
        gate.sweep(100.5 + door.LEAVE_S)
    assert leaves.transport.aborted and not stays.transport.aborted


def test_time_to_ask_begins_anew_with_each_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(H11Protocol, "on_response_complete", lambda self: None)
    link: Any = object.__new__(door.Http)
    link.cycle = SimpleNamespace(response_complete=False)
    assert not link.is_late(door.ANSWER_S) and link.is_late(door.ANSWER_S + 1)
    link.loop = SimpleNamespace(time=lambda: 100.0)
    link.cycle.response_complete = True
    link.on_response_complete()
    assert not link.is_late(100.0 + door.ASK_S) and link.is_late(101.0 + door.ASK_S)
