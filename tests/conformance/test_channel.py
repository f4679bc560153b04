"""What every channel promises: in order, at most once, nothing dropped silently."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from fast_core.errors import TransportError
from fast_core.messages import LogLine, Message, Save, Stop
from fast_core.messages.channel import Hub, NodeChannel
from fast_core.messages.inproc import InprocHub
from fast_core.messages.zmq_channel import ZmqHub, ZmqNodeChannel


class Net(Protocol):
    """A hub and a way to connect nodes to it."""

    hub: Hub

    def connect(self, node: str) -> NodeChannel: ...


class Inproc:
    def __init__(self, folder: Path) -> None:
        self.hub = InprocHub()
        self.connect = self.hub.connect

    def close(self) -> None:
        self.hub.close()


class Zmq:
    def __init__(self, folder: Path) -> None:
        self._path = str(folder / "s")
        self.hub = ZmqHub(self._path)
        self._channels: list[ZmqNodeChannel] = []

    def connect(self, node: str) -> ZmqNodeChannel:
        channel = ZmqNodeChannel(self._path, node, lambda: None)
        self._channels.append(channel)
        channel.send(LogLine(node, "INFO", "connected"))
        assert gather(self.hub, 1) == [LogLine(node, "INFO", "connected")]
        return channel

    def close(self) -> None:
        for channel in self._channels:
            channel.close()
        self.hub.close()


@pytest.fixture(params=[Inproc, Zmq], ids=["inproc", "zmq"])
def net(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Net]:
    made = request.param(tmp_path)
    yield made
    made.close()


def gather(end: Hub | NodeChannel, count: int) -> list[Any]:
    """Receive until there are ``count`` messages."""
    return poll(end.receive, count)


def poll(receive: Callable[[], list[Any]], count: int) -> list[Any]:
    found: list[Any] = []
    deadline_s = time.monotonic() + 10
    while len(found) < count:
        assert time.monotonic() < deadline_s, f"{len(found)} of {count} arrived"
        found += receive()
    return found


def lines(node: str, count: int) -> list[Message]:
    return [LogLine(node, "INFO", str(number)) for number in range(count)]


def test_nothing_is_received_before_anything_is_sent(net: Net) -> None:
    channel = net.connect("env-0")
    assert channel.receive() == []
    assert net.hub.receive() == []
    assert net.hub.wait(0.0) == []


def test_events_of_a_node_arrive_once_and_in_order(net: Net) -> None:
    first, second = net.connect("env-0"), net.connect("env-1")
    for one, other in zip(lines("env-0", 200), lines("env-1", 200), strict=True):
        first.send(one)  # type: ignore[arg-type]
        assert second.try_send(other)  # type: ignore[arg-type]
    found = gather(net.hub, 400)
    assert [event for event in found if event.node == "env-0"] == lines("env-0", 200)
    assert [event for event in found if event.node == "env-1"] == lines("env-1", 200)


def test_commands_arrive_once_in_order_and_only_where_they_were_sent(net: Net) -> None:
    first, second = net.connect("env-0"), net.connect("env-1")
    saves = [Save(number, "folder") for number in range(200)]
    for save in saves:
        net.hub.send("env-0", save)
    net.hub.send("env-1", Save(-1, ""))
    assert gather(first, 200) == saves
    assert gather(second, 1) == [Save(-1, "")]
    assert first.receive() == []


def test_stop_is_seen_before_it_is_received(net: Net) -> None:
    channel = net.connect("env-0")
    assert not channel.stop_requested
    net.hub.send("env-0", Save(1, ""))
    net.hub.send("env-0", Stop("finished"))
    deadline_s = time.monotonic() + 10
    while not channel.stop_requested:
        assert time.monotonic() < deadline_s
    assert gather(channel, 2) == [Save(1, ""), Stop("finished")]
    assert channel.stop_requested


def test_command_for_an_unknown_node_is_refused(net: Net) -> None:
    net.connect("env-0")
    with pytest.raises(TransportError, match="'env-7'"):
        net.hub.send("env-7", Stop("finished"))


def test_events_sent_before_the_close_arrive(net: Net) -> None:
    channel = net.connect("env-0")
    for event in lines("env-0", 500):
        channel.send(event)  # type: ignore[arg-type]
    channel.close()
    assert gather(net.hub, 500) == lines("env-0", 500)


def test_both_ends_may_be_closed_twice(net: Net) -> None:
    channel = net.connect("env-0")
    channel.close()
    channel.close()
    net.hub.close()
    net.hub.close()


def test_large_messages_arrive_whole(net: Net) -> None:
    channel = net.connect("env-0")
    event = LogLine("env-0", "INFO", "x" * 5_000_000)
    channel.send(event)
    assert gather(net.hub, 1) == [event]
