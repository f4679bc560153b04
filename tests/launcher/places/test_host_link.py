"""What one host tells another: each message behind the news that its sender had found."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fast_core.errors import TransportError
from fast_core.launcher.places.host_link import KIND, HostLink
from fast_core.launcher.places.mirrors import HERE, mirrors
from fast_core.launcher.topology import node_classes
from fast_core.memory import StatsColumn
from fast_core.messages import Collect, Envelope, NodeExited, Ready
from fast_core.messages.launching import Respawn
from tests.nodes.stage import Stage

FAR = "b"
STEPS = int(StatsColumn.ENV_STEPS)


class Hosts:
    """Two, each with a memory, of which the second has an env node."""

    def __init__(self, folder: Path) -> None:
        self.here, self.there = (Stage(folder / name) for name in ("here", "there"))
        plan = replace(self.here.plan, places={"env-0": FAR})
        travel = mirrors(plan, node_classes(plan))
        self.ours = HostLink(self.here.memory, travel, HERE, FAR)
        self.theirs = HostLink(self.there.memory, travel, FAR, HERE)

    def collect(self) -> Envelope:
        return self.ours.pack("steward@b", Collect(()), node="env-0")

    def publish(self, version: int) -> None:
        board = self.here.memory.weights()
        board.publish(version, bytes(board.payload_bytes))


@pytest.fixture
def hosts(tmp_path: Path) -> Hosts:
    return Hosts(tmp_path)


def test_weights_are_there_before_the_order_is(hosts: Hosts) -> None:
    for version in range(3):
        hosts.publish(version)
        envelope = hosts.collect()
        assert hosts.there.memory.weights().version() == version - 1
        assert hosts.theirs.unpack_command(envelope) == ("env-0", Collect(()))
        assert hosts.there.memory.weights().version() == version


def test_what_was_told_is_not_told_again(hosts: Hosts) -> None:
    hosts.publish(0)
    assert len(hosts.collect().payload) > hosts.here.memory.weights().payload_bytes
    assert len(hosts.collect().payload) < 50


def test_figures_travel_when_it_is_time_to(hosts: Hosts) -> None:
    hosts.there.memory.stats("env-0").words[STEPS] = 7
    told = hosts.here.memory.stats("env-0").words
    event = hosts.ours.unpack_event(hosts.theirs.pack("steward@b", Ready("env-0", 1)))
    assert (event, told[STEPS]) == (Ready("env-0", 1), 0)
    assert hosts.ours.unpack_event(hosts.theirs.pack("steward@b", None, figures=True)) is None
    assert told[STEPS] == 7


def test_ends_and_successors_of_nodes_are_told_too(hosts: Hosts) -> None:
    exited = NodeExited("env-0", "was killed by SIGKILL", reaped=True)
    assert hosts.ours.unpack_event(hosts.theirs.pack("steward@b", exited)) == exited
    respawn = Respawn("env-0", 2)
    packed = hosts.ours.pack("steward@b", respawn, node="env-0")
    assert hosts.theirs.unpack_command(packed) == ("env-0", respawn)


def test_what_no_steward_sends_is_refused(hosts: Hosts) -> None:
    with pytest.raises(TransportError, match="not what a steward sends"):
        hosts.ours.unpack_event(Envelope(KIND, "steward@b", b"\x93\x01"))
