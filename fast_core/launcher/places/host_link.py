"""What two hosts of a run tell each other: messages, each behind the news that came before it.

Whoever reads a message finds in memory what its sender had found there: a rollout is in the
learner's memory before the scheduler hears of it, weights are in an env node's before its order.
Both travel in one envelope, so no order of arrival has to be kept beside that of a channel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from fast_core.errors import TransportError
from fast_core.launcher.places.mirrors import Mirror
from fast_core.memory import Carrier, Ring, Trace, carrier_of
from fast_core.messages import Envelope, Message, NodeExited, UserMessage, WireCommand, WireEvent
from fast_core.messages.launching import LauncherCommand
from fast_core.messages.wire import seal
from fast_core.run.memory import RunMemory
from fast_core.system.decoding import MsgpackDecoder

KIND = "bundle"  # of the envelopes; those of a user's messages have a colon
FIGURES_S = 0.25  # between two times that figures travel, which are true at any time
_FIGURES = (Trace, Ring)
_encode = msgspec.msgpack.Encoder().encode


class _Bundle(msgspec.Struct, array_like=True):
    """What travels at once.

    Attributes:
        node: Whom the message is for; empty for the scheduler.
        message: It, MessagePack; empty where there are only news.
        news: What its sender had published by then, by name of the structure and in order.
    """

    node: str
    message: bytes
    news: list[tuple[str, bytes]]


_bundles = MsgpackDecoder[_Bundle](_Bundle)
_events = MsgpackDecoder[Any](WireEvent | NodeExited)
_commands = MsgpackDecoder[Any](WireCommand | LauncherCommand)


class HostLink:
    """One host's end of what it tells another one, and is told by it.

    Args:
        memory: Of this host.
        mirrors: All of the run.
        here: This host.
        there: The other one.
    """

    def __init__(self, memory: RunMemory, mirrors: Iterable[Mirror], here: str, there: str) -> None:
        self._goods: dict[str, Carrier[Any]] = {}
        self._figures: dict[str, Carrier[Any]] = {}
        self._mirrors: dict[str, tuple[Callable[[Any, bytes], None], Any]] = {}
        for row, source, target in mirrors:
            carrier = carrier_of(row.kind)
            assert carrier is not None, "refused before"
            if (source, target) == (here, there):
                carriers = self._figures if row.kind in _FIGURES else self._goods
                carriers[row.name] = carrier(memory.at(row.kind, row.name))
            elif (source, target) == (there, here):
                self._mirrors[row.name] = carrier.take, memory.at(row.kind, row.name)

    def pack(
        self, sender: str, message: Message | None, *, node: str = "", figures: bool = False
    ) -> Envelope:
        """Put a message behind what was published and not told yet.

        It counts as told now: what can't be sent is lost, as its host is then, which ends the run.

        Args:
            sender: The steward that sends it, or for which it is.
            message: A command, or an event; None for news alone.
            node: Whom a command is for.
            figures: Whether what is true at any time is told, too.
        """
        carriers = {**self._goods, **(self._figures if figures else {})}
        news = [(name, data) for name, carrier in carriers.items() for data in carrier.news()]
        if isinstance(message, UserMessage):
            message = seal(message)
        data = b"" if message is None else _encode(message)
        return Envelope(KIND, sender, _encode(_Bundle(node, data, news)))

    def unpack_event(self, envelope: Envelope) -> Any:
        """Publish the news here; returns the event behind them, None where there is none."""
        bundle = self._take(envelope)
        return _events.decode(bundle.message) if bundle.message else None

    def unpack_command(self, envelope: Envelope) -> tuple[str, Any]:
        """Publish the news here; returns the command and whom it is for."""
        bundle = self._take(envelope)
        return bundle.node, _commands.decode(bundle.message)

    def _take(self, envelope: Envelope) -> _Bundle:
        try:
            bundle = _bundles.decode(envelope.payload)
        except msgspec.MsgspecError as error:
            raise TransportError(f"not what a steward sends: {error}") from error
        for name, data in bundle.news:
            take, mirror = self._mirrors[name]
            take(mirror, data)
        return bundle
