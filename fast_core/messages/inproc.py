"""The channel of inline mode: plain queues, one thread, the same contract.

Messages are encoded and decoded as on the wire, so that what can't travel fails here too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from fast_core.errors import TransportError
from fast_core.messages import Command, Event, Stop
from fast_core.messages.wire import decode_command, decode_event, encode


class InprocChannel:
    """A node's end; made by `InprocHub.connect`."""

    def __init__(self, take: Callable[[Event], None]) -> None:
        self._take = take
        self._inbox: deque[bytes] = deque()
        self._stop = False

    @property
    def stop_requested(self) -> bool:
        """True from the moment a `Stop` arrived."""
        return self._stop

    def send(self, event: Event) -> None:
        """Queue an event for the scheduler."""
        self._take(event)

    def try_send(self, event: Event) -> bool:
        """Queue an event; never refuses."""
        self.send(event)
        return True

    def receive(self) -> list[Command]:
        """Everything that arrived, oldest first."""
        commands = [decode_command(data) for data in self._inbox]
        self._inbox.clear()
        return commands

    def deliver(self, command: Command) -> None:
        """Used by the hub only."""
        self._inbox.append(encode(command))
        self._stop = self._stop or isinstance(command, Stop)

    def close(self) -> None:
        """Nothing to let go of."""


class InprocHub:
    """The scheduler's end.

    Attributes:
        heard: Called with what a node has just sent, while that node has the only thread.
    """

    def __init__(self) -> None:
        self.heard: Callable[[Event], None] = lambda _: None
        self._events: deque[bytes] = deque()
        self._channels: dict[str, InprocChannel] = {}

    def connect(self, node: str) -> InprocChannel:
        """Make the end of a new node."""
        if node in self._channels:
            raise TransportError(f"a node named {node!r} is connected already; names are unique")
        self._channels[node] = InprocChannel(self._take)
        return self._channels[node]

    def _take(self, event: Event) -> None:
        self._events.append(encode(event))
        self.heard(event)

    def send(self, node: str, command: Command) -> None:
        """Queue a command for one node."""
        channel = self._channels.get(node)
        if channel is None:
            raise TransportError(f"no node {node!r} is connected; got {sorted(self._channels)}")
        channel.deliver(command)

    def receive(self) -> list[Event]:
        """Everything that arrived, oldest first."""
        events = [decode_event(data) for data in self._events]
        self._events.clear()
        return events

    def wait(self, timeout_s: float, others: Sequence[int] = ()) -> list[int]:
        """Nothing can arrive while the only thread waits, so this returns at once."""
        return []

    def close(self) -> None:
        """Nothing to let go of."""
