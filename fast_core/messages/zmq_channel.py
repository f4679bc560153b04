"""The channel of process mode: a ZeroMQ router in the launcher, a dealer in every node.

The only file that imports ``zmq``. Contexts are made after the fork and belong to one process.
Linger is finite from the first moment. The router is mandatory, so a message that can't be
queued for a node is refused and counted, never dropped.

A node's sockets belong to its I/O thread. The node's own thread hands over bytes through a
deque and an event descriptor; what arrives goes into a deque and rings the node's doorbell.
So a node that computes for a minute still takes what arrives.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
import weakref
from collections import deque
from collections.abc import Sequence

import zmq

from fast_core.errors import TransportError
from fast_core.messages import Command, Envelope, Event, Late, LogLine, Stop
from fast_core.messages.channel import Notify
from fast_core.messages.launching import LauncherCommand
from fast_core.messages.wire import decode_command, decode_event, encode

HIGH_WATER_MARK = 10_000
LINGER_MS = 1_000
OUTBOX_LIMIT = 10_000
INBOX_LIMIT = 10_000
# Events that the launcher takes at once. Without a limit, nodes that send as fast as it receives
# would keep it from everything else.
RECEIVE_LIMIT = 5_000
UNIX_PATH_LIMIT = 107
# As plain integers: pyzmq's enumerations make each call a call of Python's.
_NOBLOCK, _MORE = int(zmq.NOBLOCK), int(zmq.NOBLOCK | zmq.SNDMORE)
_EVENTS, _POLLIN = int(zmq.EVENTS), int(zmq.POLLIN)


class ZmqHub:
    """The scheduler's end; used by one thread of the launcher.

    A node's peer name is its own name in its first life, and another one in each that follows.

    Attributes:
        path: The socket file that nodes connect to.
    """

    def __init__(self, path: str) -> None:
        """Listen on the socket file ``path``.

        Raises:
            TransportError: The path is longer than a Unix socket path may be.
        """
        if len(os.fsencode(path)) > UNIX_PATH_LIMIT:
            raise TransportError(
                f"socket path has {len(os.fsencode(path))} bytes, at most {UNIX_PATH_LIMIT} are "
                f"possible: {path!r}; set XDG_RUNTIME_DIR or TMPDIR to a shorter folder"
            )
        self.path = path
        self._context = zmq.Context(io_threads=1)
        self._router = self._context.socket(zmq.ROUTER)
        self._router.linger = LINGER_MS
        self._router.sndhwm = self._router.rcvhwm = HIGH_WATER_MARK
        self._router.router_mandatory = True
        self._router.bind(f"ipc://{path}")
        # Without what pyzmq wraps round them in Python: a launcher does this hundreds of times a
        # second, each time with caches that others have filled.
        self._send = super(zmq.Socket, self._router).send
        self._epoll = select.epoll()
        self._epoll.register(int(self._router.getsockopt(zmq.FD)), select.EPOLLIN)
        self._others: tuple[int, ...] = ()
        self._unreadable: TransportError | None = None
        self._arrived: bool | None = None  # whether something lies there; None where that is open
        self._peers: dict[str, str] = {}  # of nodes that are not in their first life
        self._addresses: dict[str, bytes] = {}  # what they are on the wire
        self._gone: dict[bytes, str] = {}  # peers of earlier lives

    def retire(self, node: str) -> None:
        """Take nothing any more from the process that was this node; another one will be it."""
        self._gone[self.peer(node).encode()] = node
        self._peers[node] = f"{node}/{1 + sum(gone == node for gone in self._gone.values())}"
        self._addresses.pop(node, None)

    def peer(self, node: str) -> str:
        """What this node calls itself when it connects."""
        return self._peers.get(node, node)

    def send(self, node: str, command: Command | LauncherCommand) -> None:
        """Queue a command for one node; the launcher's own are for the steward of its host.

        Raises:
            TransportError: The node is not connected, or has stopped reading.
        """
        data = encode(command)
        address = self._addresses.get(node)
        if address is None:
            address = self._addresses[node] = self.peer(node).encode()
        self._arrived = self._arrived or None
        try:
            self._send(address, _MORE)
            self._send(data, _NOBLOCK)
        except zmq.ZMQError as error:
            reason = (
                f"does not read: {HIGH_WATER_MARK} messages wait for it"
                if error.errno == zmq.EAGAIN
                else "is not connected"
            )
            what = type(command).__name__
            if isinstance(command, Envelope):
                what = f"{command.kind!r} of node {command.node!r}"
            raise TransportError(f"{what} for node {node!r} was refused: it {reason}") from error

    def receive(self) -> list[Event | Late]:
        """What arrived, oldest first per node, at most `RECEIVE_LIMIT` events; never blocks.

        Of an earlier life of a node only log lines are, and `Late` in place of everything else.

        Raises:
            TransportError: A message is not an event of this protocol version. What came before
                it is returned first, and the call after that raises.
        """
        if self._unreadable is not None:
            error, self._unreadable = self._unreadable, None
            raise error
        events: list[Event | Late] = []
        while len(events) < RECEIVE_LIMIT and (self._arrived or self._has_arrived()):
            frames = self._router.recv_multipart(_NOBLOCK)
            self._arrived = None
            try:
                event = decode_event(frames[-1])
            except TransportError as error:
                if not events:
                    raise
                self._unreadable = error
                break
            late = self._gone.get(frames[0])
            if late is None or isinstance(event, LogLine):
                events.append(event)
            else:
                events.append(Late(late))
        return events

    def _has_arrived(self) -> bool:
        """Asked, because the error of an empty queue costs more than a message.

        The descriptor tells of what comes after the answer was no, unless a message is sent: then
        ZeroMQ may take the news in itself.
        """
        self._arrived = bool(int(self._router.getsockopt(_EVENTS)) & _POLLIN)
        return self._arrived

    def wait(self, timeout_s: float, others: Sequence[int] = ()) -> list[int]:
        """Wait until an event or readability of one of ``others``; returns the readable ones.

        One of ``others`` that is closed has to be forgotten (`forget`) or left out before its
        number may be another one's.
        """
        if (asked := tuple(others)) != self._others:
            self._watch(asked)
        if self._arrived or (self._arrived is None and self._has_arrived()):
            timeout_s = 0.0
        until_s = time.monotonic() + timeout_s
        while True:
            ready = self._epoll.poll(max(0.0, timeout_s))
            found = [source for source, _ in ready if source in asked]
            # Of ZeroMQ's own it also tells, such as a connection.
            if found or not ready or self._has_arrived():
                return found
            timeout_s = until_s - time.monotonic()

    def forget(self, descriptor: int) -> None:
        """One of the ``others`` may be closed now: what bears its number next is watched anew."""
        self._watch(tuple(other for other in self._others if other != descriptor))

    def _watch(self, others: tuple[int, ...]) -> None:
        for descriptor in set(self._others) - set(others):
            with contextlib.suppress(OSError):  # closed, and so forgotten
                self._epoll.unregister(descriptor)
        for descriptor in set(others) - set(self._others):
            self._epoll.register(descriptor, select.EPOLLIN)
        self._others = others

    def close(self) -> None:
        """Close the socket and remove its file. May be called twice."""
        if not self._router.closed:
            self._epoll.close()
            self._router.close(linger=0)
            self._context.term()
            with contextlib.suppress(FileNotFoundError):  # ZeroMQ leaves it
                os.unlink(self.path)


class ZmqNodeChannel:
    """A node's end.

    Concurrency: the node's thread calls everything here; the I/O thread alone touches ZeroMQ.
    They share two deques (append and popleft are atomic) and the event descriptor. Other threads
    may `try_send` log lines at any time, so the descriptor is closed only when nobody has the
    channel any more: a number closed earlier may be another file's by the time it is written to.
    A lock would do too, but a process forked while it is held could never log again.
    """

    def __init__(self, path: str, node: str, notify: Notify, peer: str = "") -> None:
        """Connect to the launcher's socket file; ``notify`` is called after each arrival.

        ``peer`` is what `ZmqHub.peer` said, the node's name unless it is given.
        """
        self._path, self._node, self._notify = path, node, notify
        self._peer = peer or node
        self._outbox: deque[bytes] = deque()
        self._inbox: deque[Command] = deque()
        self._stop = False
        self._closing = threading.Event()
        self._fatal: TransportError | None = None
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        weakref.finalize(self, os.close, self._wake).atexit = False
        self._thread = threading.Thread(target=self._serve, name="io", daemon=True)
        self._thread.start()

    @property
    def stop_requested(self) -> bool:
        """True from the moment a `Stop` arrived, before it is received from the inbox."""
        return self._stop

    def send(self, event: Event) -> None:
        """Queue an event; blocks while the queue is full and the run goes on.

        Raises:
            TransportError: The channel is closed.
        """
        if self._closing.is_set():
            raise TransportError(
                f"{type(event).__name__} of node {self._node!r} was refused: its channel is closed"
            )
        while len(self._outbox) >= OUTBOX_LIMIT and not self._stop and self._thread.is_alive():
            time.sleep(0.001)
        self._queue(event)

    def try_send(self, event: Event) -> bool:
        """Queue an event unless the queue is half full or the channel closed."""
        if self._closing.is_set() or len(self._outbox) >= OUTBOX_LIMIT // 2:
            return False
        self._queue(event)
        return True

    def _queue(self, event: Event) -> None:
        self._outbox.append(encode(event))
        os.eventfd_write(self._wake, 1)

    def receive(self) -> list[Command]:
        """Everything that arrived, oldest first; never blocks.

        Raises:
            TransportError: The I/O thread met a message it can't read, or failed otherwise.
        """
        if self._fatal is not None:
            raise self._fatal
        commands: list[Command] = []
        while self._inbox:
            commands.append(self._inbox.popleft())
        if len(commands) >= INBOX_LIMIT:  # then the I/O thread may have ceased to read
            os.eventfd_write(self._wake, 1)
        return commands

    def close(self) -> None:
        """Deliver what is queued, for at most the linger time. May be called twice."""
        if self._closing.is_set():
            return
        self._closing.set()
        os.eventfd_write(self._wake, 1)
        self._thread.join(2 * LINGER_MS / 1000)

    # --- the I/O thread ---------------------------------------------------------------------

    def _serve(self) -> None:
        try:
            with zmq.Context(io_threads=1) as context, context.socket(zmq.DEALER) as dealer:
                dealer.linger = LINGER_MS
                dealer.sndhwm = dealer.rcvhwm = HIGH_WATER_MARK
                dealer.identity = self._peer.encode()
                dealer.connect(f"ipc://{self._path}")
                self._pump(dealer)
        except TransportError as error:
            self._fail(error)
        except Exception as error:  # the boundary of a thread: the node must not wait for ever
            failure = TransportError(
                f"the I/O thread of node {self._node!r} failed: {type(error).__name__}: {error}"
            )
            failure.__cause__ = error
            self._fail(failure)

    def _fail(self, error: TransportError) -> None:
        self._fatal = error
        self._notify()

    def _pump(self, dealer: zmq.Socket[bytes]) -> None:
        poller = zmq.Poller()
        poller.register(dealer, zmq.POLLIN)
        poller.register(self._wake, zmq.POLLIN)
        deadline_s: float | None = None
        while True:
            blocked = not self._flush(dealer)
            if self._closing.is_set():
                deadline_s = deadline_s or time.monotonic() + LINGER_MS / 1000
                if not blocked or time.monotonic() > deadline_s:
                    return
            # A full inbox is left alone: ZeroMQ's queues fill, and then the hub is refused.
            full = len(self._inbox) >= INBOX_LIMIT
            poller.register(dealer, (0 if full else zmq.POLLIN) | (zmq.POLLOUT if blocked else 0))
            ready = dict(poller.poll(None if deadline_s is None else LINGER_MS))
            if self._wake in ready:
                os.eventfd_read(self._wake)
            if ready.get(dealer, 0) & zmq.POLLIN:
                self._drain(dealer)

    def _flush(self, dealer: zmq.Socket[bytes]) -> bool:
        """Send what is queued; False when ZeroMQ takes no more for now."""
        while self._outbox:
            try:
                dealer.send(self._outbox[0], zmq.NOBLOCK)
            except zmq.Again:
                return False
            self._outbox.popleft()
        return True

    def _drain(self, dealer: zmq.Socket[bytes]) -> None:
        while len(self._inbox) < INBOX_LIMIT:
            try:
                data = dealer.recv(zmq.NOBLOCK)
            except zmq.Again:
                break
            command = decode_command(data)
            self._inbox.append(command)
            self._stop = self._stop or isinstance(command, Stop)
        self._notify()
