"""What is special about the channel between processes: silence, crowding, endings."""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq

from fast_core.errors import TransportError
from fast_core.messages import Command, Event, LogLine, Ready, Save, Stop, zmq_channel
from fast_core.messages.wire import decode_event, encode
from fast_core.messages.zmq_channel import HIGH_WATER_MARK, RECEIVE_LIMIT, ZmqHub, ZmqNodeChannel

ROOT = Path(__file__).parents[2]


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "s")


@pytest.fixture
def hub(path: str) -> Iterator[ZmqHub]:
    made = ZmqHub(path)
    yield made
    made.close()


def receive_until(hub: ZmqHub, count: int, kind: type[Event] = LogLine) -> list[Event]:
    found: list[Event] = []
    deadline_s = time.monotonic() + 10
    while len(found) < count:
        assert time.monotonic() < deadline_s
        hub.wait(0.1)
        found += [event for event in hub.receive() if isinstance(event, kind)]
    return found


def test_too_long_path_is_refused_with_a_remedy(tmp_path: Path) -> None:
    path = str(tmp_path / ("x" * 120))
    with pytest.raises(TransportError, match=r"at most 107 are possible.*XDG_RUNTIME_DIR"):
        ZmqHub(path)


def test_news_that_zeromq_takes_in_while_it_sends_is_not_slept_over(hub: ZmqHub, path: str) -> None:
    channel = ZmqNodeChannel(path, "env-0", lambda: None)
    try:
        channel.send(LogLine("env-0", "INFO", "first"))
        receive_until(hub, 1)
        for number in range(20):
            channel.send(LogLine("env-0", "INFO", "second"))
            assert select.select([hub._router.getsockopt(zmq.FD)], [], [], 10)[0]
            time.sleep(0.002)  # ZeroMQ looks once a millisecond at most where it sends
            hub.send("env-0", Save(number, ""))
            began_s = time.monotonic()
            hub.wait(20.0)
            assert time.monotonic() - began_s < 10
            receive_until(hub, 1)
    finally:
        channel.close()


def test_other_descriptors_wake_it_for_as_long_as_they_are_named(hub: ZmqHub) -> None:
    (first, first_in), (second, second_in) = os.pipe(), os.pipe()
    try:
        os.write(first_in, b"x")
        os.write(second_in, b"x")
        assert sorted(hub.wait(10.0, (first, second))) == sorted((first, second))
        assert hub.wait(10.0, (second,)) == [second]
        os.close(second)
        assert hub.wait(10.0, (first,)) == [first]
    finally:
        for descriptor in (first, first_in, second_in):
            os.close(descriptor)


def test_descriptor_that_bears_the_number_of_a_closed_one_wakes_it_too(hub: ZmqHub) -> None:
    first, first_in = os.pipe()
    assert hub.wait(0.0, (first,)) == []
    second, second_in = os.pipe()
    try:
        hub.forget(first)
        os.dup2(second, first)
        os.write(second_in, b"x")
        assert hub.wait(10.0, (first,)) == [first]
    finally:
        for descriptor in (first, first_in, second, second_in):
            os.close(descriptor)


def test_sender_that_never_stops_does_not_keep_the_launcher(hub: ZmqHub, path: str) -> None:
    """It has a display, signals and deaths to see to."""
    channel, ended = ZmqNodeChannel(path, "env-0", lambda: None), threading.Event()

    def talk() -> None:
        while not ended.is_set():
            channel.send(LogLine("env-0", "INFO", "again"))

    talker = threading.Thread(target=talk)
    talker.start()
    try:
        for _ in range(3):
            hub.wait(1.0)
            assert 0 < len(hub.receive()) <= RECEIVE_LIMIT
    finally:
        ended.set()
        while talker.is_alive():
            hub.receive()
        channel.close()


def test_what_was_left_is_received_next(
    hub: ZmqHub, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zmq_channel, "RECEIVE_LIMIT", 2)
    channel = ZmqNodeChannel(path, "env-0", lambda: None)
    for number in range(5):
        channel.send(LogLine("env-0", "INFO", str(number)))
    found = receive_until(hub, 5)
    assert [line.text for line in found if isinstance(line, LogLine)] == list("01234")
    channel.close()


def test_wait_returns_which_descriptors_are_readable(hub: ZmqHub) -> None:
    quiet_in, quiet_out = os.pipe()
    loud_in, loud_out = os.pipe()
    try:
        os.write(loud_out, b"x")
        assert hub.wait(1.0, (quiet_in, loud_in)) == [loud_in]
        assert hub.wait(0.0, (quiet_in,)) == []
        assert hub.wait(0.0) == []
    finally:
        for descriptor in (quiet_in, quiet_out, loud_in, loud_out):
            os.close(descriptor)


def test_arrival_rings(hub: ZmqHub, path: str) -> None:
    rang = threading.Event()
    channel = ZmqNodeChannel(path, "env-0", rang.set)
    try:
        channel.send(LogLine("env-0", "INFO", "here"))
        receive_until(hub, 1)
        hub.send("env-0", Save(1, ""))
        assert rang.wait(5)
        assert channel.receive() == [Save(1, "")]
    finally:
        channel.close()


def test_full_inbox_is_left_alone_and_nothing_is_lost(
    hub: ZmqHub, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zmq_channel, "INBOX_LIMIT", 10)
    arrivals = threading.Semaphore(0)
    channel = ZmqNodeChannel(path, "env-0", arrivals.release)
    try:
        channel.send(LogLine("env-0", "INFO", "here"))
        receive_until(hub, 1)
        for number in range(50):
            hub.send("env-0", Save(number, ""))
        found: list[Command] = []
        while len(found) < 50:
            assert arrivals.acquire(timeout=5)
            commands = channel.receive()
            assert len(commands) <= 20  # ten, and ten more while those are taken
            found += commands
        assert found == [Save(number, "") for number in range(50)]
    finally:
        channel.close()


def test_message_of_another_protocol_version_is_an_error(hub: ZmqHub, path: str) -> None:
    context = zmq.Context()
    dealer = context.socket(zmq.DEALER)
    try:
        dealer.connect(f"ipc://{path}")
        dealer.send(b"\x63" + encode(LogLine("x", "INFO", ""))[1:])
        hub.wait(5.0)
        with pytest.raises(TransportError, match="protocol version 99"):
            hub.receive()
    finally:
        dealer.close(linger=0)
        context.term()


def test_command_that_a_node_can_not_read_fails_the_node(path: str) -> None:
    context = zmq.Context()
    router = context.socket(zmq.ROUTER)
    router.bind(f"ipc://{path}")
    rang = threading.Event()
    channel = ZmqNodeChannel(path, "env-0", rang.set)
    try:
        channel.send(LogLine("env-0", "INFO", "here"))
        identity = router.recv_multipart()[0]
        router.send_multipart([identity, b"nonsense"])
        assert rang.wait(5)
        with pytest.raises(TransportError):
            channel.receive()
    finally:
        channel.close()
        router.close(linger=0)
        context.term()
        os.unlink(path)


def test_lines_that_may_be_dropped_are_refused_when_half_full_and_events_are_not(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zmq_channel, "HIGH_WATER_MARK", 10)
    monkeypatch.setattr(zmq_channel, "OUTBOX_LIMIT", 40)
    monkeypatch.setattr(zmq_channel, "LINGER_MS", 50)
    channel = ZmqNodeChannel(path, "env-0", lambda: None)  # nobody listens
    try:
        results = [channel.try_send(LogLine("env-0", "INFO", "")) for _ in range(200)]
        assert not results[-1]
        assert sum(results) < 100
        channel.send(Ready("env-0", 1))  # neither refused nor blocked
    finally:
        channel.close()


def test_closed_channel_takes_nothing_more(hub: ZmqHub, path: str) -> None:
    channel = ZmqNodeChannel(path, "env-0", lambda: None)
    channel.close()
    assert not channel.try_send(LogLine("env-0", "INFO", "late"))
    with pytest.raises(TransportError, match="Ready of node 'env-0' was refused"):
        channel.send(Ready("env-0", 1))


def test_descriptor_stays_open_while_a_line_may_still_be_logged(
    hub: ZmqHub, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread is past the check when the channel closes."""
    channel = ZmqNodeChannel(path, "env-0", lambda: None)
    channel.send(LogLine("env-0", "INFO", "here"))
    receive_until(hub, 1)

    def close_meanwhile(event: Event) -> bytes:
        channel.close()
        return encode(event)

    monkeypatch.setattr(zmq_channel, "encode", close_meanwhile)
    assert channel.try_send(LogLine("env-0", "INFO", "late"))


def test_channel_that_nobody_has_any_more_keeps_nothing_open(hub: ZmqHub, path: str) -> None:
    before = len(os.listdir("/proc/self/fd"))
    count = 20
    for number in range(count):
        # Of its own name: a router drops who comes back before it saw that he had left.
        channel = ZmqNodeChannel(path, f"env-{number}", lambda: None)
        channel.send(LogLine("env-0", "INFO", "here"))
        receive_until(hub, 1)
        channel.close()
        del channel
    gc.collect()
    deadline_s = time.monotonic() + 20
    # The hub sees the end of a connection later, and other tests' objects come and go here too.
    while len(os.listdir("/proc/self/fd")) >= before + count // 2:
        assert time.monotonic() < deadline_s
        hub.wait(0.01)
        hub.receive()


def test_failing_io_thread_fails_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it was: a node that waits for ever would be the alternative."""
    rang = threading.Event()
    channel = ZmqNodeChannel("/" + "x" * 200, "env-0", rang.set)
    try:
        assert rang.wait(5)
        with pytest.raises(TransportError, match="I/O thread of node 'env-0' failed: ZMQError"):
            channel.receive()
    finally:
        channel.close()


def test_events_before_an_unreadable_one_are_not_lost(
    hub: ZmqHub, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = zmq.Context()
    dealer = context.socket(zmq.DEALER)

    def decode_when_the_next_is_there(data: bytes) -> Event:
        event = decode_event(data)
        monkeypatch.setattr(zmq_channel, "decode_event", decode_event)
        dealer.send(b"nonsense")
        hub.wait(5.0)
        return event

    try:
        dealer.connect(f"ipc://{path}")
        monkeypatch.setattr(zmq_channel, "decode_event", decode_when_the_next_is_there)
        dealer.send(encode(LogLine("x", "INFO", "")))
        hub.wait(5.0)
        assert hub.receive() == [LogLine("x", "INFO", "")]
        with pytest.raises(TransportError):
            hub.receive()
        dealer.send(encode(LogLine("y", "INFO", "")))
        hub.wait(5.0)
        assert hub.receive() == [LogLine("y", "INFO", "")]
    finally:
        dealer.close(linger=0)
        context.term()


@pytest.mark.process
def test_close_does_not_wait_for_who_never_answers(path: str) -> None:
    """SCH-01."""
    channel = ZmqNodeChannel(path, "env-0", lambda: None)
    for number in range(1000):
        channel.send(LogLine("env-0", "INFO", str(number)))
    begun_s = time.monotonic()
    channel.close()
    assert time.monotonic() - begun_s < 2.0


PEER = """
import sys, time
from fast_core.messages.zmq_channel import ZmqNodeChannel
from fast_core.messages import Ready, Stop
import json, os
channel = ZmqNodeChannel(sys.argv[1], "peer", lambda: None)
channel.send(Ready("peer", os.getpid()))
numbers = []
while True:
    for command in channel.receive():
        if isinstance(command, Stop):
            print(json.dumps(numbers))
            channel.close()
            raise SystemExit
        numbers.append(command.checkpoint)
    time.sleep(0.001)
"""


@pytest.mark.process
def test_stopped_node_loses_nothing_silently(hub: ZmqHub, path: str) -> None:
    """SCH-02: received and refused add up to sent, in order, and others are not disturbed."""
    other = ZmqNodeChannel(path, "other", lambda: None)
    peer = subprocess.Popen(
        [sys.executable, "-c", PEER, path],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    try:
        other.send(LogLine("other", "INFO", "here"))
        receive_until(hub, 1)
        while not any(type(event).__name__ == "Ready" for event in hub.receive()):
            hub.wait(0.1)
        os.kill(peer.pid, signal.SIGSTOP)
        accepted, refused = [], 0
        for number in range(3 * HIGH_WATER_MARK):
            try:
                hub.send("peer", Save(number, "x" * 200))
                accepted.append(number)
            except TransportError as error:
                assert "does not read" in str(error)
                refused += 1
        assert refused > 0
        assert len(accepted) >= HIGH_WATER_MARK
        hub.send("other", Save(1, ""))
        deadline_s = time.monotonic() + 5
        while other.receive() != [Save(1, "")]:
            assert time.monotonic() < deadline_s
        os.kill(peer.pid, signal.SIGCONT)
        while True:
            try:
                hub.send("peer", Stop("finished"))
                break
            except TransportError:
                time.sleep(0.01)
        output, _ = peer.communicate(timeout=20)
        assert json.loads(output) == accepted
    finally:
        peer.kill()
        peer.communicate()
        other.close()
