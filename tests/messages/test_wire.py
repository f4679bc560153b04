"""Messages on the wire: a user's own travel sealed, and only those declared are opened."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from fast_core.errors import TransportError
from fast_core.messages import Envelope, RolloutRef, Save, Transform, Transformed, UserMessage
from fast_core.messages.wire import (
    MESSAGE_LIMIT_BYTES,
    MessageReader,
    decode_command,
    decode_event,
    encode,
    kind_of,
    seal,
)


class News(UserMessage, frozen=True):
    shares: dict[str, tuple[int, ...]]


class Other(UserMessage, frozen=True):
    text: object


class Ambiguous(UserMessage, frozen=True):
    shape: list[int] | tuple[int, ...]


NEWS = News("first", {"a": (1, 2)})


def test_users_message_comes_back_equal_through_its_envelope() -> None:
    event = decode_event(encode(NEWS))
    assert isinstance(event, Envelope)
    assert (event.kind, event.node) == (f"{__name__}:News", "first")
    command = decode_command(encode(event))
    assert isinstance(command, Envelope)
    assert MessageReader({News, Save}).open(command) == NEWS


def test_undeclared_message_is_not_decoded() -> None:
    envelope = decode_event(encode(NEWS))
    assert isinstance(envelope, Envelope)
    with pytest.raises(TransportError, match=r"News', which this node does not consume.*Other"):
        MessageReader({Other}).open(envelope)


def test_message_that_is_not_what_its_class_says_is_refused() -> None:
    payload = msgspec.msgpack.encode({"type": "News", "node": "first", "shares": 3})
    with pytest.raises(TransportError, match=r"not what its class says.*shares"):
        MessageReader({News}).open(Envelope(kind_of(News), "first", payload))


@pytest.mark.parametrize("value", [np.zeros(2), object(), 2**70, {1: {2: object}}])
def test_what_cannot_travel_is_refused_where_it_is_sent(value: object) -> None:
    with pytest.raises(TransportError, match=r"Other of node 'first' can't travel"):
        encode(Other("first", value))


def test_message_that_is_too_large_is_refused_by_its_sender() -> None:
    """Thousands may wait for a node that is busy."""
    around = len(seal(Other("first", bytes(1000))).payload) - 1000
    fits = MESSAGE_LIMIT_BYTES - around
    assert len(seal(Other("first", bytes(fits))).payload) == MESSAGE_LIMIT_BYTES
    with pytest.raises(TransportError, match=r"has 65,537 bytes; a message may have 65,536"):
        seal(Other("first", bytes(fits + 1)))


def test_message_with_an_undecodable_field_is_refused_before_it_is_sent() -> None:
    with pytest.raises(TypeError):
        MessageReader({Ambiguous})


@pytest.mark.parametrize(
    "message", [Transform(3, RolloutRef(0, 1, 2, 3)), Transformed("first", RolloutRef(0, 1, 2, 3))]
)
def test_rollout_stages_speak_on_the_wire(message: Transform | Transformed) -> None:
    decode = decode_command if isinstance(message, Transform) else decode_event
    assert decode(encode(message)) == message
