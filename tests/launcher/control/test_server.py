"""The launcher's end of the control socket, with clients that behave and clients that don't."""

from __future__ import annotations

import os
import secrets
import select
import socket
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fast_core.launcher.control import server as module
from fast_core.launcher.control.server import MOST_CLIENTS, ControlServer
from fast_core.messages.requests import (
    REQUEST_BYTES,
    Answer,
    SaveRequest,
    StatusRequest,
    StopRequest,
    decode_answer,
    encode,
)

Connect = Callable[[], socket.socket]


@pytest.fixture
def path() -> Iterator[Path]:
    """A short one: pytest's own are longer than a socket's may be."""
    found = Path("/tmp") / f"fl-test-{secrets.token_hex(4)}"
    yield found
    found.unlink(missing_ok=True)


@pytest.fixture
def server(path: Path) -> Iterator[ControlServer]:
    made = ControlServer(str(path))
    yield made
    made.close()


@pytest.fixture
def connect(server: ControlServer, path: Path) -> Iterator[Connect]:
    made: list[socket.socket] = []

    def connected() -> socket.socket:
        link = socket.socket(socket.AF_UNIX)
        link.settimeout(5.0)
        link.connect(str(path))
        made.append(link)
        return link

    yield connected
    for link in made:
        link.close()


def test_who_has_gone_away_asks_nothing_any_more(server: ControlServer, connect: Connect) -> None:
    """While this process was stopped they were told that nobody answers."""
    connect().shutdown(socket.SHUT_WR)
    gone, half = connect(), connect()
    for link in (gone, half):
        link.sendall(encode(StopRequest()))
    gone.close()
    half.shutdown(socket.SHUT_WR)  # it still reads
    ((client, request),) = server.take()
    assert request == StopRequest()
    server.finish(client, Answer("accepted"))
    assert decode_answer(half.recv(4096).strip()) == Answer("accepted")


def read(link: socket.socket) -> list[Answer]:
    """Every answer until the connection is closed."""
    received = b""
    while data := link.recv(65_536):
        received += data
    return [decode_answer(line) for line in received.splitlines()]


def test_only_the_user_may_connect_and_no_file_is_left(path: Path) -> None:
    server = ControlServer(str(path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    server.close()
    server.close()
    assert not path.exists()


def test_request_is_answered_to_who_asked(server: ControlServer, connect: Connect) -> None:
    first, second = connect(), connect()
    first.sendall(encode(StopRequest()))
    second.sendall(encode(StatusRequest()))
    requests = {type(request): client for client, request in server.take()}
    server.send(requests[StopRequest], Answer("accepted", "it ends"))
    server.finish(requests[StatusRequest], Answer("done", "well"))
    server.close()
    assert read(first) == [Answer("accepted", "it ends")]
    assert read(second) == [Answer("done", "well")]


def test_request_may_come_in_pieces(server: ControlServer, connect: Connect) -> None:
    link, line = connect(), encode(SaveRequest())
    for byte in line[:-1]:
        link.sendall(bytes([byte]))
        assert server.take() == []
    link.sendall(line[-1:])
    assert [request for _, request in server.take()] == [SaveRequest()]
    assert server.take() == []


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (b"hello\n", "this is no request"),
        (b'{"do":"explode"}\n', "this is no request"),
        (b'{"do":"stop","now":true}\n', "this is no request"),
        (b"\xff\xfe\n", "this is no request"),
        (b'"' * (REQUEST_BYTES + 1), f"at most {REQUEST_BYTES} bytes"),
        (encode(StopRequest()) * 2, "one line"),
    ],
)
def test_rubbish_is_refused(
    server: ControlServer, connect: Connect, sent: bytes, said: str
) -> None:
    link = connect()
    link.sendall(sent)
    for _ in range(3):
        assert server.take() == []
    (answer,) = read(link)
    assert answer.kind == "refused"
    assert said in answer.text


def test_second_request_over_a_connection_is_refused(
    server: ControlServer, connect: Connect
) -> None:
    link = connect()
    link.sendall(encode(SaveRequest()))
    assert len(server.take()) == 1
    link.sendall(encode(StopRequest()))
    assert server.take() == []
    assert [answer.kind for answer in read(link)] == ["refused"]


def test_who_says_nothing_is_sent_away(
    server: ControlServer, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = connect()
    assert server.take() == []
    later = module.time.monotonic() + module.REQUEST_S + 1
    monkeypatch.setattr(module.time, "monotonic", lambda: later)
    assert server.take() == []
    assert "no request came" in read(link)[0].text


def test_who_does_not_read_or_is_gone_holds_up_nobody(
    server: ControlServer, connect: Connect
) -> None:
    deaf, gone, well = connect(), connect(), connect()
    for link in (deaf, gone, well):
        link.sendall(encode(SaveRequest()))
    clients = [client for client, _ in server.take()]
    gone.close()
    for _ in range(1000):
        server.send(clients[0], Answer("accepted", "x" * 10_000))
    for client in clients[1:]:
        server.finish(client, Answer("done"))
    assert read(well) == [Answer("done")]
    assert not select.select([server], [], [], 0)[0]


def test_one_too_many_is_sent_away(server: ControlServer, connect: Connect) -> None:
    links = [connect() for _ in range(MOST_CLIENTS)]
    server.take()
    late = connect()
    server.take()
    assert "try again in a moment" in read(late)[0].text
    links[0].sendall(encode(StopRequest()))
    assert len(server.take()) == 1


def test_descriptors_are_not_passed_on_to_programs(server: ControlServer, connect: Connect) -> None:
    connect()
    server.take()
    assert not any(map(os.get_inheritable, (server.fileno(), server._listener.fileno())))


def test_client_of_whom_a_fork_holds_a_copy_wakes_nobody_once_it_is_gone(
    server: ControlServer, connect: Connect
) -> None:
    """A callback may start processes of its own, which keep whatever is open then."""
    link = connect()
    link.sendall(encode(StatusRequest()))
    ((client, _),) = server.take()
    copy = os.dup(client.link.fileno())
    try:
        server.finish(client, Answer("done"))
        link.close()
        assert select.select([server.fileno()], [], [], 0) == ([], [], [])
    finally:
        os.close(copy)
