"""The contract between nodes and the scheduler's shell: small messages, in order, none lost.

Delivery, per node and direction: in order, at most once, and never dropped silently. A message
that can't be queued is refused with `TransportError`, which ends the run with that cause.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from fast_core.messages import Command, Event, Late

Notify = Callable[[], None]


class NodeChannel(Protocol):
    """A node's end."""

    @property
    def stop_requested(self) -> bool:
        """True from the moment a `Stop` arrived, before it is received from the inbox."""
        ...

    def send(self, event: Event) -> None:
        """Queue an event for the scheduler; blocks only while the queue is full."""
        ...

    def try_send(self, event: Event) -> bool:
        """Queue an event unless the queue is half full; for what may be dropped (log lines)."""
        ...

    def receive(self) -> list[Command]:
        """Everything that arrived, oldest first; never blocks."""
        ...

    def close(self) -> None:
        """Deliver what is queued, for a bounded time, then let go. May be called twice."""
        ...


class Hub(Protocol):
    """The scheduler's end: one for all nodes."""

    def send(self, node: str, command: Command) -> None:
        """Queue a command for one node.

        Raises:
            TransportError: The node is unknown or does not read; nothing was queued.
        """
        ...

    def receive(self) -> Sequence[Event | Late]:
        """What arrived, oldest first per node; never blocks. Ask again: there may be more."""
        ...

    def wait(self, timeout_s: float, others: Sequence[int] = ()) -> list[int]:
        """Wait until an event, or readability of one of ``others``; returns the readable ones."""
        ...

    def close(self) -> None:
        """Let go of everything. May be called twice."""
        ...
