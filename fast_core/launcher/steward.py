"""The steward of a host that is not the launcher's: its memory, its processes, its judgement.

To the nodes of its host it is what the launcher is to those of its own: they connect to it, attach
to its segment and are forked, watched and ended by it. To the scheduler it is one channel, through
which all their messages pass with what their memory has to tell (`fast_core.launcher.places`).
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import setproctitle

from fast_core.errors import TransportError
from fast_core.launcher.failures.stall import CHECK_INTERVAL_S
from fast_core.launcher.host_nodes import HostNodes
from fast_core.launcher.places.host_link import FIGURES_S, HostLink
from fast_core.launcher.places.mirrors import HERE, held_at, mirrors, steward_of
from fast_core.launcher.process_mode import SOCKET_NAME, process_tree
from fast_core.launcher.processes.node_process import FAILED_STATUS
from fast_core.launcher.processes.start import StewardStart
from fast_core.launcher.processes.tree import Child, ProcessTree, take
from fast_core.launcher.topology import node_classes
from fast_core.messages import Command, Envelope, Failed, NodeExited, Ready, Stop
from fast_core.messages.launching import LauncherCommand, Respawn
from fast_core.messages.zmq_channel import ZmqHub, ZmqNodeChannel
from fast_core.monitor.run_directory import RunDirectory
from fast_core.run.memory import RunMemory
from fast_core.run.plan import RunPlan
from fast_core.system import forks, remains
from fast_core.system.text import error_text, traceback_text

WAIT_S = 0.1


def steward_main(name: str, link: socket.socket) -> int:
    """Be the steward that the launcher's `StewardStart` describes."""
    start, descriptor = take(link)
    os.close(descriptor)  # of the launcher's memory, which is another host's
    link.close()
    assert isinstance(start, StewardStart)
    for number in {*forks.STOP_SIGNALS} - {signal.SIGTERM}:
        forks.take(number, forks.leave_to_parent)
    for mark in remains.MARKS:  # its processes are its own: who ends the launcher's spares them
        os.environ.pop(mark, None)
    setproctitle.setproctitle(f"fastloop: {name} of {start.plan.config.name}")
    wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
    channel = ZmqNodeChannel(start.socket_path, name, lambda: os.eventfd_write(wake, 1))
    try:
        with ExitStack() as stack:
            _steward(start, channel, wake, stack).run()
        return 0
    except Exception as error:  # the boundary of a process
        channel.send(Failed(name, "serving", error_text(error), traceback_text(error), {}))
        return FAILED_STATUS
    finally:
        channel.close()
        os.close(wake)


def _steward(start: StewardStart, channel: ZmqNodeChannel, wake: int, stack: ExitStack) -> Steward:
    """It with all that it owns, which ``stack`` ends."""
    place, nodes = start.place, node_classes(start.plan)
    travels = mirrors(start.plan, nodes)
    plan = replace(start.plan, held=held_at(start.plan, nodes, place))
    run = RunDirectory(Path(plan.run_directory))
    tree = process_tree(plan.config, run.log(f"fork-server@{place}"), stack)
    memory = RunMemory.create(plan)
    stack.callback(memory.close)
    hub = ZmqHub(str(tree.directory / SOCKET_NAME))
    stack.callback(hub.close)
    link = HostLink(memory, travels, place, HERE)
    own = HostNodes(plan, tree, memory, hub, run)
    return Steward(plan, place, tree, own, link, hub, channel, wake)


class Steward:
    """Starts the nodes of its host, carries their messages, and says how they ended."""

    def __init__(
        self,
        plan: RunPlan,
        place: str,
        tree: ProcessTree,
        nodes: HostNodes,
        link: HostLink,
        hub: ZmqHub,
        channel: ZmqNodeChannel,
        wake: int,
    ) -> None:
        """``channel`` leads to the scheduler; ``wake`` is readable when something came of it."""
        self._plan, self._tree, self._nodes, self._link = plan, tree, nodes, link
        self._hub, self._channel, self._wake = hub, channel, wake
        self._name = steward_of(place)
        self._own = {name for name, at in plan.places.items() if at == place}
        self._told: set[str] = set()  # to stop
        self._due_s: dict[str, float] = {}  # when those must be gone that are to end
        self._away: set[str] = set()  # those that have ended, until they are ready again
        self._known: dict[str, Failed] = {}  # why those end that have not ended yet
        self._figures_s = self._look_s = 0.0

    def run(self) -> None:
        """Serve until every node was told to stop, and has."""
        for name in self._plan.names.all:
            if name in self._own:
                self._spawn(Respawn(name, 1, (), self._plan.changed))
        while self._own - self._told or self._tree.living():
            sources = (self._tree.fileno(), self._wake)
            self._hub.wait(WAIT_S, sources)
            with contextlib.suppress(BlockingIOError):
                os.eventfd_read(self._wake)
            self._carry_down()
            self._carry_up()
            self._take_exits()
            self._look(time.monotonic())

    # --- messages ------------------------------------------------------------------------------

    def _carry_down(self) -> None:
        for envelope in self._channel.receive():
            assert isinstance(envelope, Envelope), "nothing else is sent to a steward"
            self._obey(*self._link.unpack_command(envelope))

    def _obey(self, node: str, command: Command | LauncherCommand) -> None:
        if isinstance(command, Respawn):
            self._spawn(command)
            return
        if isinstance(command, Stop):
            self._told.add(node)
            self._limit(node)
        try:
            self._hub.send(node, command)
        except TransportError:  # it is not there yet, or not any more; the news is on its way
            if isinstance(command, Stop) and node in self._tree.children:  # not a spare one
                self._tree.send_signal(self._tree.children[node], signal.SIGTERM)

    def _carry_up(self) -> None:
        for event in self._hub.receive():
            if isinstance(event, Failed):
                self._known[event.node] = event
                self._limit(event.node)
            elif isinstance(event, Ready):
                self._away.discard(event.node)
            self._tell(event)

    def _tell(self, message: object, *, figures: bool = False) -> None:
        self._channel.send(self._link.pack(self._name, message, figures=figures))  # type: ignore[arg-type]

    # --- nodes ---------------------------------------------------------------------------------

    def _spawn(self, command: Respawn) -> None:
        self._told.discard(command.node)
        self._nodes.spawn(command)

    def _limit(self, node: str) -> None:
        """It comes to its end within its grace time, or is brought to it."""
        self._due_s.setdefault(node, time.monotonic() + self._plan.grace_s(node))

    def _take_exits(self) -> None:
        for child in self._tree.poll():
            self._carry_up()  # what it said last
            self._hub.retire(child.name)
            self._due_s.pop(child.name, None)
            self._away.add(child.name)
            self._tell(self._exit_of(child), figures=True)
        self._nodes.give_plans()

    def _exit_of(self, child: Child) -> NodeExited:
        if child.name in self._told and child.status in (0, -signal.SIGTERM):
            return NodeExited(child.name, "", reaped=True)
        return self._nodes.exit_of(child, self._known.pop(child.name, None))

    def _look(self, now_s: float) -> None:
        """What nobody tells of: nodes that hang or do not stop, and figures."""
        for name, due_s in self._due_s.items():
            if now_s >= due_s:
                self._nodes.kill(name)
        if now_s >= self._look_s:
            self._look_s = now_s + CHECK_INTERVAL_S
            if (stall := self._nodes.hanging(now_s, self._away)) is not None:
                self._known[stall.node] = self._nodes.seen_from_outside(stall)
                self._nodes.kill(stall.node)
        if now_s >= self._figures_s:
            self._figures_s = now_s + FIGURES_S
            self._tell(None, figures=True)
