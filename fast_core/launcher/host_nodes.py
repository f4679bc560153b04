"""The nodes of one host as processes: how they begin, hang and end.

The launcher's supervisor has those of its own host, a steward those of another.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Collection
from dataclasses import replace

import msgspec

from fast_core.errors import NodeFailed
from fast_core.launcher.failures.postmortem import describe_death
from fast_core.launcher.failures.stall import StallDetector
from fast_core.launcher.processes.start import NodeStart
from fast_core.launcher.processes.tree import Child, ProcessTree, tail
from fast_core.launcher.topology import warm
from fast_core.messages import Failed, NodeExited
from fast_core.messages.launching import Respawn
from fast_core.messages.zmq_channel import ZmqHub
from fast_core.monitor.run_directory import RunDirectory
from fast_core.run.memory import RunMemory
from fast_core.run.plan import RunPlan
from fast_core.system.process_state import is_traced, process_state, program_without
from fast_core.system.resources import oom_kills
from fast_core.system.watched import describe_exit

NODE_TARGET = "fast_core.launcher.processes.node_process:node_main"


class HostNodes:
    """Forks them, and says what became of them; whether the run goes on is not its concern."""

    def __init__(
        self, plan: RunPlan, tree: ProcessTree, memory: RunMemory, hub: ZmqHub, run: RunDirectory
    ) -> None:
        """``hub`` is what they connect to, ``memory`` what they attach to."""
        self._plan, self._tree, self._memory, self._hub, self._run = plan, tree, memory, hub, run
        self._stalls = StallDetector(plan, memory, self._executes)
        self._begins: dict[str, NodeStart] = {}  # of children that have no plan yet
        self._oom_kills = oom_kills()

    def start_of(self, command: Respawn) -> NodeStart:
        """What a node is given to begin with."""
        plan, peer = replace(self._plan, changed=command.changed), self._hub.peer(command.node)
        return NodeStart(plan, self._hub.path, peer, command.life, command.shards)

    def spawn(self, command: Respawn) -> None:
        """Start a node: forked now, it gets its plan once its pid is known (`give_plans`).

        Raises:
            TransportError: The fork server is gone.
        """
        self._begins[command.node] = self.start_of(command)
        role = self._plan.roles[command.node]
        self._tree.spawn(command.node, NODE_TARGET, warm=warm(role, self._plan.config))

    def give_plans(self) -> None:
        """Give those that have begun meanwhile what they wait for."""
        for name, start in list(self._begins.items()):
            child = self._tree.children[name]
            if child.pid:
                del self._begins[name]
                with contextlib.suppress(NodeFailed):  # it is gone; the news of it is on its way
                    child.give(start, self._memory.segment.fd)

    def hanging(self, now_s: float, but: Collection[str]) -> Failed | None:
        """The first that hangs; nothing is expected of those in ``but``."""
        stall = self._stalls.check(now_s, but)
        if stall is not None and is_traced(self._tree.children[stall.node].pid):
            self._stalls.forgive(stall.node)
            return None
        return stall

    def seen_from_outside(self, stall: Failed) -> Failed:
        """With what the kernel says of the process that hangs, and its stack."""
        state = process_state(self._tree.children[stall.node].pid)
        context = stall.context | ({"process": state} if state else {})
        stack = (
            stall.traceback
            or self.stack(stall.node)
            or "It could not be made to write its stack.\n"
        )
        return msgspec.structs.replace(stall, traceback=stack, context=context)

    def stack(self, name: str) -> str:
        """Where one that hangs is, as it wrote itself; empty if it can't, or is not of here."""
        child = self._tree.children.get(name)
        return "" if child is None else self._tree.stack(child, self._run.log(name))

    def kill(self, name: str) -> None:
        """End one that lives and is of here."""
        if (child := self._tree.children.get(name)) is not None:
            self._tree.send_signal(child, signal.SIGKILL)

    def exit_of(self, child: Child, known: Failed | None) -> NodeExited:
        """The news of an end; ``known`` is what the node, or who watched it, said before."""
        name = child.name
        if known is not None:
            return NodeExited(name, f"{known.doing}: {known.error}", reaped=True, report=known)
        cause, log = self._cause(child), self._run.log(name)
        printed = tail(log) if log.is_file() else ""
        report = describe_death(self._plan, self._memory, name, cause, printed)
        return NodeExited(name, cause, reaped=True, report=report)

    def _cause(self, child: Child) -> str:
        cause = describe_exit(child.status)
        if child.status == -signal.SIGKILL:
            kills = oom_kills()
            known = kills is not None and self._oom_kills is not None
            if known and kills > self._oom_kills:  # type: ignore[operator]
                cause += "; the kernel was out of memory in this control group"
            else:
                cause += "; if nobody killed it, the machine was probably out of memory (see dmesg)"
        return cause

    def _executes(self, name: str) -> str:
        return program_without(self._tree.children[name].pid, self._memory.segment.fd)
