"""The launcher's end of the control socket: never waits, and nobody can hold it up."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import time
from dataclasses import dataclass, field
from pathlib import Path

from fast_core.errors import TransportError
from fast_core.messages.requests import (
    REQUEST_BYTES,
    Answer,
    AnyRequest,
    decode_request,
    encode,
)

MOST_CLIENTS = 16
REQUEST_S = 5.0  # for a request to be there as a whole


@dataclass(eq=False)
class Client:
    """Somebody who asks one thing.

    Attributes:
        link: The connection.
        since_s: When it was made, on the monotonic clock.
        received: What has come of the request.
        asked: Whether it is there as a whole.
    """

    link: socket.socket
    since_s: float
    received: bytearray = field(default_factory=bytearray)
    asked: bool = False


class ControlServer:
    """Takes one request of each connection, and sends what it is told to.

    Who says nothing, too much, or nothing that is a request is refused and sent away; who does not
    read its answer is too. Only this user, or root, can connect: the socket has the mode 0600.
    """

    def __init__(self, path: str) -> None:
        """Listen at ``path``.

        Raises:
            OSError: There can be no socket.
        """
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        self._clients: list[Client] = []
        try:
            self._listener.bind(path)
            os.chmod(path, 0o600)
            self._listener.listen(2 * MOST_CLIENTS)
            self._epoll = select.epoll()
        except OSError:
            self._listener.close()
            raise
        self._epoll.register(self._listener, select.EPOLLIN)
        self._path = path

    def fileno(self) -> int:
        """Readable once `take` has something to do; the same for as long as it listens."""
        return self._epoll.fileno()

    def take(self) -> list[tuple[Client, AnyRequest]]:
        """Requests that have come, and who asks."""
        self._accept()
        requests = []
        for client in [*self._clients]:
            try:
                if (request := self._read(client)) is not None:
                    requests.append((client, request))
            except TransportError as error:
                self.finish(client, Answer("refused", str(error)))
            except OSError:
                self._drop(client)
        return requests

    def _accept(self) -> None:
        while True:
            try:
                link, _ = self._listener.accept()
            except OSError:  # nobody is there, or no descriptor is left
                return
            link.setblocking(False)
            client = Client(link, time.monotonic())
            self._clients.append(client)
            self._epoll.register(link, select.EPOLLIN)
            if len(self._clients) > MOST_CLIENTS:
                text = f"{MOST_CLIENTS} others ask something of this run; try again in a moment"
                self.finish(client, Answer("refused", text))

    def _read(self, client: Client) -> AnyRequest | None:
        """The request of a client that has said all of it.

        Raises:
            TransportError: It is none, or none came in time.
            OSError: The client has gone.
        """
        try:
            data = client.link.recv(REQUEST_BYTES)
        except BlockingIOError:
            if not client.asked and time.monotonic() > client.since_s + REQUEST_S:
                raise TransportError(f"no request came within {REQUEST_S:g} s") from None
            return None
        if not data:
            raise ConnectionResetError
        if client.asked:
            raise TransportError("a connection is for one request; make another one")
        client.received += data
        line, end, rest = client.received.partition(b"\n")
        if len(client.received) > REQUEST_BYTES or rest:
            raise TransportError(f"a request is one line of at most {REQUEST_BYTES} bytes")
        if not end:
            return None
        if _has_gone(client.link):  # and was told that nobody answers, so nothing shall be done
            raise ConnectionResetError
        client.asked = True
        return decode_request(bytes(line))

    def send(self, client: Client, answer: Answer) -> None:
        """Send an answer; a client that does not read, or is gone, is dropped."""
        data = encode(answer)
        try:
            whole = client.link.send(data) == len(data)
        except OSError:
            whole = False
        if not whole:
            self._drop(client)

    def finish(self, client: Client, answer: Answer) -> None:
        """Send the last answer."""
        self.send(client, answer)
        self._drop(client)

    def _drop(self, client: Client) -> None:
        if client in self._clients:
            self._clients.remove(client)
            # It would stay if a callback has forked, whose process keeps the connection open.
            self._epoll.unregister(client.link)
        client.link.close()

    def close(self) -> None:
        """Let everybody go who waits for the end. May be called twice."""
        for client in [*self._clients]:
            self._drop(client)
        self._listener.close()
        self._epoll.close()
        with contextlib.suppress(OSError):
            Path(self._path).unlink()


def _has_gone(link: socket.socket) -> bool:
    """Whether nobody is at the other end any more; one that only says no more still reads."""
    poll = select.poll()
    poll.register(link, 0)
    return any(events & select.POLLHUP for _, events in poll.poll(0))
