"""The scheduler's end of a run whose nodes are on several hosts."""

from __future__ import annotations

from collections.abc import Iterable

from fast_core.launcher.places.host_link import KIND, HostLink
from fast_core.launcher.places.mirrors import HERE, Mirror, steward_of, stewards_of
from fast_core.messages import Command, Envelope, Event, Late
from fast_core.messages.launching import LauncherCommand
from fast_core.messages.zmq_channel import ZmqHub
from fast_core.run.memory import RunMemory
from fast_core.run.plan import RunPlan


class PlacedHub(ZmqHub):
    """A hub whose messages for nodes elsewhere go to their steward, and come from it."""

    def __init__(
        self, path: str, plan: RunPlan, memory: RunMemory, mirrors: Iterable[Mirror]
    ) -> None:
        """As `ZmqHub`; ``memory`` is the launcher's."""
        super().__init__(path)
        self._places, mirrors = plan.places, tuple(mirrors)
        self._links = {
            name: HostLink(memory, mirrors, HERE, place)
            for name, place in stewards_of(plan).items()
        }

    def send(self, node: str, command: Command | LauncherCommand) -> None:
        """See `ZmqHub.send`; what was published by now is there when the node reads it."""
        if (place := self._places.get(node)) is None:
            super().send(node, command)
            return
        steward = steward_of(place)
        envelope = self._links[steward].pack(steward, command, node=node)
        super().send(steward, envelope)

    def receive(self) -> list[Event | Late]:
        """See `ZmqHub.receive`; of nodes elsewhere that have exited, that too."""
        events: list[Event | Late] = []
        for event in super().receive():
            if not isinstance(event, Envelope) or event.kind != KIND:
                events.append(event)
            elif (told := self._links[event.node].unpack_event(event)) is not None:
                events.append(told)
        return events
