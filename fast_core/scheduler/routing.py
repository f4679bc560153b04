"""Where the messages of a user's nodes go; they are handed on unopened."""

from __future__ import annotations

from collections.abc import Iterator

from fast_core.messages import Envelope
from fast_core.scheduler.settings import Route

HELD_LIMIT = 10_000


class Routing:
    """Routes by kind, and the messages that wait until every node is ready."""

    def __init__(self, routes: tuple[Route, ...]):
        self._routes = {route.kind: route for route in routes}
        self._held: list[Envelope] = []

    def fault(self, envelope: Envelope) -> str | None:
        """What is wrong with a message; None if nothing is."""
        route = self._routes.get(envelope.kind)
        if route is None:
            return (
                f"{envelope.node} sent a message of kind {envelope.kind!r}, which no node of this "
                "run declares; name its class in `emits` of the sender and in `consumes` of who "
                "handles it"
            )
        if envelope.node not in route.senders:
            return (
                f"{envelope.node} sent a message of kind {envelope.kind!r}, but its class does not "
                f"name it in `emits`; {', '.join(route.senders)} may send it"
            )
        if len(self._held) >= HELD_LIMIT:
            return (
                f"{envelope.node} sent a message of kind {envelope.kind!r} before every node was "
                f"ready, and {HELD_LIMIT} wait already; send them after the setup"
            )
        return None

    def receivers(self, envelope: Envelope) -> tuple[str, ...]:
        """Who gets it."""
        return self._routes[envelope.kind].receivers

    def hold(self, envelope: Envelope) -> None:
        """Keep it until every node is ready."""
        self._held.append(envelope)

    def release(self) -> Iterator[tuple[str, Envelope]]:
        """What was kept, in order of arrival, with the nodes that get it."""
        held, self._held = self._held, []
        for envelope in held:
            for node in self.receivers(envelope):
                yield node, envelope
