"""The page's door: how many are let in at once, and how long one may stand in it.

Whoever can reach the port can open connections and say nothing. So those that have asked for
nothing yet make room for others, the oldest first, and nobody who asks is kept out by them.
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import socket
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

MOST = 256  # connections at once, of all browsers together
ASK_S = 10.0  # for a request to be there as a whole
ANSWER_S = 300.0  # for an answer to be taken
LEAVE_S = 10.0  # for what was said last to be taken
AT_A_TIME = 16  # that go where file descriptors are scarce: an answer needs one, too
_OUTSIDE = 1024  # connections that may wait to be let in
_LINGER_S = 0.02  # for the request of who is turned away: unread, it would take the answer with it
_SCARCE = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_NO_ROOM = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: text/plain; charset=utf-8\r\n"
    b"retry-after: 5\r\nconnection: close\r\n\r\nthe page has no room for another connection: "
    b"close some of its tabs, or try again later\n"
)


class Http(H11Protocol):
    """A connection that knows since when it asks for nothing."""

    since_s = 0.0

    def connection_made(self, transport: Any) -> None:
        """It came."""
        self.since_s = self.loop.time()
        super().connection_made(transport)

    def on_response_complete(self) -> None:
        """It has its answer, and may ask again."""
        self.since_s = self.loop.time()
        super().on_response_complete()

    @property
    def asks(self) -> bool:
        """Whether an answer to it is under way."""
        cycle: Any = self.cycle  # None before the first one
        return cycle is not None and not cycle.response_complete

    def is_late(self, now_s: float) -> bool:
        """Whether it takes too long to ask, or to take its answer."""
        return now_s - self.since_s > (ANSWER_S if self.asks else ASK_S)


class Door(socket.socket):
    """A socket that listens, at which no more than `MOST`, or a few that came with them, are in.

    Attributes:
        connections: Those that are open, as uvicorn keeps them.
    """

    def __init__(
        self, listening: socket.socket, connections: set[Any], told: Callable[[str], None]
    ) -> None:
        """Take the place of a socket that listens; ``told`` is called for who is turned away."""
        super().__init__(fileno=listening.detach())
        self.connections, self._told = connections, told
        self._most = min(MOST, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)
        self._closing: dict[Any, float] = {}  # since when connections are to end
        self._spare = os.open(os.devnull, os.O_RDONLY)  # to turn somebody away where none is left

    def listen(self, backlog: int = 0) -> None:
        """Let many wait outside, though few come in at a time: who finds no place waits seconds."""
        super().listen(_OUTSIDE)

    def accept(self) -> tuple[socket.socket, Any]:
        """Let the next one in.

        Raises:
            BlockingIOError: Nobody is there, or can be let in before others have gone.
            OSError: There is no file descriptor for it, not even to say so.
        """
        while True:
            try:
                link, address = super().accept()
            except OSError as error:
                if error.errno not in _SCARCE:
                    raise
                if self._make_room(AT_A_TIME):
                    raise BlockingIOError from error  # it is let in once those are gone
                self._told("no file descriptor is left for another connection (`ulimit -n`)")
                self._turn_away_by_spare()
                continue
            if len(self.connections) < self._most or self._make_room(1):
                return link, address
            self._told(f"{self._most} connections are open already")
            _turn_away(link)

    def close(self) -> None:
        """Listen no more; may be called twice."""
        if self._spare >= 0:
            os.close(self._spare)
            self._spare = -1
        super().close()

    def sweep(self, now_s: float) -> None:
        """End connections that take too long."""
        closing = {each for each in self.connections if each.transport.is_closing()}
        self._closing = {each: self._closing.get(each, now_s) for each in closing}
        late = [each for each, since_s in self._closing.items() if now_s - since_s > LEAVE_S]
        late += [
            each for each in self.connections if isinstance(each, Http) and each.is_late(now_s)
        ]
        for each in late:
            each.transport.abort()

    def _make_room(self, count: int) -> bool:
        """End so many of those that have asked for nothing for longest; whether one was there."""
        idle = [each for each in self.connections if isinstance(each, Http) and not each.asks]
        idle = [each for each in idle if not each.transport.is_closing()]
        for each in sorted(idle, key=lambda each: each.since_s)[:count]:
            each.transport.abort()
        return bool(idle)

    def _turn_away_by_spare(self) -> None:
        if self._spare >= 0:
            os.close(self._spare)
            self._spare = -1
        try:
            _turn_away(super().accept()[0])
        finally:
            with contextlib.suppress(OSError):  # another thread was quicker: the next time, then
                self._spare = os.open(os.devnull, os.O_RDONLY)


def _turn_away(link: socket.socket) -> None:
    with link, contextlib.suppress(OSError):
        link.settimeout(_LINGER_S)
        with contextlib.suppress(TimeoutError):
            link.recv(1 << 16)
        link.sendall(_NO_ROOM)
