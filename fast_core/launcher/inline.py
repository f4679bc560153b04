"""Inline mode: every node in this process and thread, in a fixed order, for debuggers.

The same nodes, the same scheduler and the same encoded messages as in process mode; at degree 0
the results are equal bit for bit.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import NoReturn

from fast_core.envs.trying.fitting import probe_all
from fast_core.envs.trying.probe import MakingTime
from fast_core.errors import ConfigError, FastLoopError
from fast_core.launcher.failures.description import describe_failure, environment_traceback
from fast_core.launcher.failures.limits import Limits
from fast_core.launcher.failures.sources import Sources
from fast_core.launcher.failures.stall import StallDetector
from fast_core.launcher.outcome import EXIT_FAILED
from fast_core.launcher.processes.start import probe_start
from fast_core.launcher.session import Session
from fast_core.launcher.shell import Shell
from fast_core.launcher.shown.trace_and_crash import write_crash
from fast_core.launcher.verdict import Findings
from fast_core.launcher.wiring import node_class
from fast_core.messages import Event, Failed, LogLine, Ready, Restoring
from fast_core.messages.inproc import InprocHub
from fast_core.messages.launching import StopRequested
from fast_core.monitor.crash import crash_report
from fast_core.nodes.learn.devices import check_devices
from fast_core.nodes.node import Node, NodeContext, NodeState
from fast_core.run.memory import RunMemory
from fast_core.run.names import Role
from fast_core.run.plan import RunPlan
from fast_core.system import forks, remains, threads
from fast_core.system.interrupts import Interrupts
from fast_core.system.text import error_text

OTHERS_WAIT_S = 0.1  # between looks at the interrupts
EXTRA_WAIT_S = 0.002  # between turns while only a node of the user's has something to do


class InlineMode:
    """The nodes of one session in this process; see `fast_core.launcher.session.Mode`."""

    sources: Sources | None = None

    def __init__(self, session: Session, stack: ExitStack) -> None:
        """Watch over calls into user code; ``stack`` closes every node."""
        self._session, self._stack = session, stack
        self.folder = Path(remains.new_path())
        remains.make_folder(str(self.folder))
        stack.callback(remains.remove_folder, str(self.folder))
        for text in remains.reclaim():  # a run of processes has its watchdog do it
            session.progress.say(text, "INFO")
        self._hub = InprocHub()
        session.interrupts.raises = True
        self._limits = stack.enter_context(Limits(session.interrupts, self._end))

    def _end(self, failed: Failed) -> NoReturn:
        """What the main thread can't do: it does not come back."""
        run, progress = self._session.run, self._session.progress
        report = crash_report(failed, [], run_directory=str(run.path))
        write_crash(run, report, progress)
        progress.fail(report)
        progress.close()
        run.control.unlink(missing_ok=True)
        remains.remove_folder(str(self.folder))
        os._exit(EXIT_FAILED)

    def look(self) -> Findings:
        """Make the environment, reset and step it here."""
        config = self._session.config
        start, before = probe_start(config), MakingTime(self._limits.probing(config))
        check_devices(start.optimizer, start.policy_device)
        try:
            found = probe_all(
                start.environment,
                start.others,
                start.seed,
                number=start.number,
                filmed=start.filmed,
                before=before,
            )
        except ConfigError as error:
            own = environment_traceback(error)
            raise ConfigError(
                f"the environment raised:\n{own}{error}" if own else str(error)
            ) from error
        self._limits.rest()
        return Findings(config.algorithm.examine(found), config, made_s=before.longest_s)

    def prepare(self, plan: RunPlan) -> None:
        """Nothing can begin before there is memory."""

    def hub(self, plan: RunPlan, memory: RunMemory) -> InprocHub:
        """Queues in this process."""
        return self._hub

    def nodes(
        self, plan: RunPlan, memory: RunMemory, shell: Shell, refresh: Callable[[], float]
    ) -> InlineRun:
        """The nodes, to be stepped in turn."""
        interrupts = self._session.interrupts
        made = InlineRun(plan, memory, self._hub, shell, interrupts, refresh, self._limits)
        self._stack.callback(made.close)
        return made


class InlineRun:
    """Runs the nodes of one run in turn."""

    def __init__(
        self,
        plan: RunPlan,
        memory: RunMemory,
        hub: InprocHub,
        shell: Shell,
        interrupts: Interrupts,
        refresh: Callable[[], float],
        limits: Limits,
    ) -> None:
        """``refresh`` draws the display when it is time to."""
        self._limits, limits.detector = limits, StallDetector(plan, memory)
        hub.heard = self._heard
        self._plan, self._memory, self._hub = plan, memory, hub
        self._shell, self._interrupts, self._refresh = shell, interrupts, refresh
        self._nodes: list[Node] = []
        self._threads = 0
        self._seen_interrupts = 0

    def start(self) -> None:
        """Construct and set up every node; a signal gets out of a constructor at once."""
        self._interrupts.at_once = True
        try:
            self._start()
        except KeyboardInterrupt:
            if self._interrupts.count != 1:
                raise
        finally:
            self._interrupts.at_once = False
        self._take_interrupts()

    def _start(self) -> None:
        for role in self._plan.begins_with:
            self._take_interrupts()
            if self._shell.end is not None:
                return
            node: Node | None = None
            self._limit_start(role.name)
            try:
                node = node_class(role.node_class)(self._context(role))
                self._nodes.append(node)
                self._use_threads(node)
                node.setup()
            except BaseException as error:
                forks.leave_if_copy(error)
                if self._interrupts.count == 1:  # whatever became of what it raised there
                    if node in self._nodes:
                        self._nodes.remove(node)
                        self._close(node)
                    return
                self._take_failure(role.name, node, error, begun=False)
                if role.name in self._shell.roster.optional:
                    continue
                return
            self._limits.rest()
            node.enter(NodeState.WAITING, "waiting for work")
            node.context.channel.send(Ready(role.name, os.getpid()))

    def _limit_start(self, name: str) -> None:
        limit_s = self._plan.start_timeout_s
        key = "supervision.start_timeout_s"
        self._limits.begin(name, f"{name} was not ready", key, limit_s)

    def _heard(self, event: Event) -> None:
        """Wait for a node that comes forward with a resume, show it, and let it leave."""
        if not isinstance(event, Restoring):
            return
        self._limit_start(event.node)
        self._shell.receive()
        self._refresh()
        self._take_interrupts()
        if self._shell.end is not None:
            self._shell.tell_stop((event.node,))

    def _context(self, role: Role) -> NodeContext:
        return NodeContext(
            name=role.name,
            rank=role.rank,
            plan=self._plan,
            memory=self._memory,
            channel=self._hub.connect(role.name),
            log=logging.getLogger(f"fastloop.{role.name}"),
        )

    def run(self) -> None:
        """Step every node in turn until the scheduler ends the run, then close them."""
        shell = self._shell
        while shell.end is None:
            # First, so that nodes that took long to set up count as ready before the time does.
            busy = shell.receive()
            shell.tick_if_due()
            for node in [*self._nodes]:
                if shell.end is None:
                    busy = self._step(node) or busy
            self._refresh()
            self._take_interrupts()
            if not busy and shell.end is None:
                self._await_others()
        self._stop()

    def _await_others(self) -> None:
        """Wait for what does not happen in this thread: a commit, a callback, a user's node."""
        if self._shell.await_others(OTHERS_WAIT_S):
            return
        if not self._plan.config.nodes.extra:
            raise FastLoopError(
                "no node has anything to do and the run has not ended: "
                f"{self._shell.scheduler.owed() or 'nobody owes anything'}. This is a fault in "
                f"FastLoop, please report it with {self._shell.run.path / 'events.jsonl'}"
            )
        time.sleep(EXTRA_WAIT_S)  # how long it may take is limited as in processes

    def _step(self, node: Node) -> bool:
        self._limits.begin(node.context.name)
        try:
            self._use_threads(node)
            return node.step()
        except BaseException as error:
            self._take_failure(node.context.name, node, error)
            return True
        finally:
            self._limits.rest()

    def _take_failure(
        self, name: str, node: Node | None, error: BaseException, *, begun: bool = True
    ) -> None:
        forks.leave_if_copy(error)
        self._interrupts.check_forced()
        self._shell.take(describe_failure(name, node, error, begun=begun))
        if name in self._shell.roster.optional and node is not None:
            self._nodes.remove(node)
            self._close(node)

    def _use_threads(self, node: Node) -> None:
        """Every node computes with the threads that its own process would have."""
        if node.threads != self._threads:
            self._threads = node.threads
            threads.set_threads(self._threads)

    def _take_interrupts(self) -> None:
        interrupts = self._interrupts
        interrupts.keep()
        if interrupts.count > self._seen_interrupts:
            again = self._seen_interrupts > 0 or interrupts.count > 1
            self._seen_interrupts = interrupts.count
            save = self._shell.conductor.saves and not again
            self._shell.take(StopRequested(interrupts.text, save=save))

    def _stop(self) -> None:
        self._shell.stop_nodes(self._plan.names.all)
        for node in [*self._nodes]:
            self._step(node)  # the metrics node has a last row to write
        self.close()

    def close(self) -> None:
        """Close every node once."""
        nodes, self._nodes = self._nodes, []
        self._limits.detector = None  # counters stay where a failure left them
        for node in nodes:
            self._close(node)

    def _close(self, node: Node) -> None:
        name = node.context.name
        grace_s = self._plan.grace_s(name)
        self._limits.begin(name, f"{name} did not close", "supervision.grace_s", grace_s)
        try:
            node.close()
        except BaseException as error:
            forks.leave_if_copy(error)
            text = f"{error_text(error)} (while closing)"
            self._shell.take(LogLine(name, "ERROR", text))
        self._limits.rest()
