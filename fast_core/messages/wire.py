"""How messages travel: MessagePack behind one version byte.

Never pickle, so a stray or hostile sender can't run code. Of a user's own messages only those
that a node declares are ever decoded, by that node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from fast_core.errors import TransportError
from fast_core.messages import (
    Command,
    Envelope,
    Event,
    Message,
    UserMessage,
    WireCommand,
    WireEvent,
)
from fast_core.system.decoding import MsgpackDecoder

PROTOCOL_VERSION = 1
# Of a user's message. Thousands may wait for a node that is busy, so this bounds the memory.
MESSAGE_LIMIT_BYTES = 65_536

_VERSION_BYTE = bytes([PROTOCOL_VERSION])
_encoder = msgspec.msgpack.Encoder()
_commands: MsgpackDecoder[WireCommand] = MsgpackDecoder(WireCommand)
_events: MsgpackDecoder[WireEvent] = MsgpackDecoder(WireEvent)


def encode(message: Message) -> bytes:
    """Wire form of a message: one version byte, then MessagePack.

    Raises:
        TransportError: A `UserMessage` holds what can't travel.
    """
    if isinstance(message, UserMessage):
        message = seal(message)
    return _VERSION_BYTE + _encoder.encode(message)


def decode_command(data: bytes) -> Command:
    """Read a command off the wire; a user's message stays in its envelope.

    Raises:
        TransportError: Another protocol version, or not a command.
    """
    try:
        return _commands.decode(_body(data))
    except msgspec.MsgspecError as error:
        raise TransportError(f"not a FastLoop command: {error}; got {data[:32]!r}") from error


def decode_event(data: bytes) -> Event:
    """Read an event off the wire; a user's message stays in its envelope.

    Raises:
        TransportError: Another protocol version, or not an event.
    """
    try:
        return _events.decode(_body(data))
    except msgspec.MsgspecError as error:
        raise TransportError(f"not a FastLoop event: {error}; got {data[:32]!r}") from error


def _body(data: bytes) -> memoryview:
    if data[:1] != _VERSION_BYTE:
        got = data[0] if data else None
        raise TransportError(
            f"message has protocol version {got!r}, this process speaks {PROTOCOL_VERSION}; "
            "use one FastLoop version for all nodes of a run"
        )
    return memoryview(data)[1:]


# --- a user's own messages ---------------------------------------------------------------------


def kind_of(message: type[UserMessage]) -> str:
    """What a user's message is called on the wire: ``module:Class``."""
    return f"{message.__module__}:{message.__qualname__}"


def seal(message: UserMessage) -> Envelope:
    """Put a user's message into its envelope.

    Raises:
        TransportError: A field holds what can't travel, or it is too large.
    """
    kind = kind_of(type(message))
    try:
        payload = _encoder.encode(message)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise TransportError(
            f"{kind} of node {message.node!r} can't travel: {error}. Its fields must be numbers, "
            "text, bytes, or tuples, lists, dicts and structs of those; arrays belong into shared "
            "memory"
        ) from error
    if len(payload) > MESSAGE_LIMIT_BYTES:
        raise TransportError(
            f"{kind} of node {message.node!r} has {len(payload):,} bytes; a message may have "
            f"{MESSAGE_LIMIT_BYTES:,}. Send it in parts; arrays belong into shared memory"
        )
    return Envelope(kind, message.node, payload)


class MessageReader:
    """Opens the envelopes of one node: of the kinds that it declares, and no others."""

    def __init__(self, consumes: Iterable[type[Message]]) -> None:
        """``consumes`` is the node's; what is no `UserMessage` in it is left out.

        Raises:
            TypeError: A field has a type that msgspec can't decode.
        """
        self._decoders: Mapping[str, MsgpackDecoder[UserMessage]] = {
            kind_of(kind): MsgpackDecoder(kind)
            for kind in consumes
            if issubclass(kind, UserMessage)
        }

    def open(self, envelope: Envelope) -> UserMessage:
        """Read the message in ``envelope``.

        Raises:
            TransportError: Of a kind that was not declared, or not what its class says.
        """
        decoder = self._decoders.get(envelope.kind)
        if decoder is None:
            raise TransportError(
                f"{envelope.node} sent {envelope.kind!r}, which this node does not consume; it "
                f"takes {sorted(self._decoders)}"
            )
        try:
            return decoder.decode(envelope.payload)
        except msgspec.MsgspecError as error:
            raise TransportError(
                f"{envelope.kind!r} of {envelope.node} is not what its class says: {error}. All "
                "nodes of a run must import the same version of it"
            ) from error
