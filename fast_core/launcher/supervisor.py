"""Process mode: starts the nodes of a run, watches them, ends them.

One thread, one poll: the router, the fork server's reports, signals, timers.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterable, Sequence, Set

import msgspec

from fast_core.errors import NodeFailed, TransportError
from fast_core.launcher.acting_times import ActingTimes
from fast_core.launcher.checkpoints.last_save import LastSave
from fast_core.launcher.failures.stall import CHECK_INTERVAL_S
from fast_core.launcher.host_nodes import HostNodes
from fast_core.launcher.places.mirrors import stewards_of
from fast_core.launcher.processes.beginning import EXIT_NEWS_S, PROBE, await_started, give
from fast_core.launcher.processes.start import NodeStart, StewardStart
from fast_core.launcher.processes.tree import (
    Child,
    ProcessTree,
    innermost,
)
from fast_core.launcher.shell import Shell
from fast_core.memory import StatsColumn
from fast_core.messages import Failed, NodeExited
from fast_core.messages.launching import Respawn, StopRequested
from fast_core.messages.zmq_channel import ZmqHub
from fast_core.run.memory import RunMemory
from fast_core.run.plan import RunPlan
from fast_core.scheduler.decisions import late_text
from fast_core.system.interrupts import Interrupts
from fast_core.system.watched import describe_exit

POLL_LIMIT_S = 0.25
UNTOLD_POLL_S = 0.02
LAST_WORDS_S = 0.02
FORCED_GRACE_S = 0.3
TERMINATE_GRACE_S = 0.3
_UPDATES, _BATCHES = int(StatsColumn.UPDATES), int(StatsColumn.BATCHES)


class Supervisor:
    """Runs the nodes of one run to their end."""

    def __init__(
        self,
        plan: RunPlan,
        tree: ProcessTree,
        memory: RunMemory,
        hub: ZmqHub,
        shell: Shell,
        interrupts: Interrupts,
        refresh: Callable[[], float],
    ) -> None:
        """``refresh`` draws the display and returns when it wants to be called again."""
        self._plan, self._tree, self._memory, self._hub = plan, tree, memory, hub
        self._shell, self._interrupts, self._refresh = shell, interrupts, refresh
        self._sources: tuple[int, ...] = ()
        self._next_draw_s = self._next_look_s = 0.0
        self._seen_interrupts = 0
        self._last_save: LastSave | None = None
        self._learners = [memory.stats(name) for name in plan.names.optimizers]
        balanced = plan.names.actors if plan.config.nodes.policy.balance else ()
        self._acting = ActingTimes({name: memory.stats(name) for name in balanced})
        self._stewards = stewards_of(plan)
        self._nodes = HostNodes(plan, tree, memory, hub, shell.run)
        self._due_s: dict[str, float] = {}  # when those that come back must be ready
        self._retired_s: dict[str, float] = {}  # when those must be gone that were told to stop

    def start(self) -> None:
        """Hand every waiting child its plan.

        Raises:
            NodeFailed: The fork server or a node died.
            Interrupted: A signal came before every node was there.
        """
        optional = self._shell.roster.optional
        starts: dict[str, NodeStart | StewardStart] = {
            role.name: self._nodes.start_of(Respawn(role.name, 1, (), self._plan.changed))
            for role in self._plan.begins_with
            if role.name not in optional and not role.place
        }
        for name, place in self._stewards.items():
            starts[name] = StewardStart(self._plan, place, self._hub.path)
        children = [self._tree.children[name] for name in starts]
        timeout_s = self._plan.start_timeout_s
        await_started(self._tree, children, self._interrupts, timeout_s)
        for child, start in zip(children, starts.values(), strict=True):
            give(self._tree, child, start, self._memory.segment.fd, self._interrupts)
        # What becomes of these is no concern of the others' start.
        for name in sorted(optional - self._plan.places.keys()):
            self.spawn(Respawn(name, 1, (), self._plan.changed))

    def run(self) -> None:
        """Supervise until the scheduler ends the run, then stop every node.

        Most of what wakes it are messages, hundreds a second; the rest is done when it is due.
        """
        shell = self._shell
        self._sources = self._watched()
        wakeup_s: float | None = 0.0
        while shell.end is None:
            now_s = time.monotonic()
            if now_s >= self._next_draw_s:
                self._next_draw_s = self._refresh()
            ready = self._hub.wait(self._timeout_s(now_s, wakeup_s), self._sources)
            shell.receive(ready)
            if ready:
                self._take_news(ready)
            now_s = time.monotonic()
            if ready or now_s >= self._next_look_s or self._last_save is not None:
                self._look(now_s)
            wakeup_s = shell.scheduler.next_wakeup_s()
            if wakeup_s is not None and now_s >= wakeup_s:
                self._check_start()
                shell.tick_if_due()
                wakeup_s = shell.scheduler.next_wakeup_s()
            if shell.roster.has_orders:
                self._watch_retired(shell.roster.take_retired())
                for respawn in shell.roster.take_respawns():
                    self.spawn(respawn)
        self._stop()

    def _look(self, now_s: float) -> None:
        """See what nobody tells of; rounds may be far shorter than the time between two looks."""
        looks = now_s >= self._next_look_s
        if looks or self._last_save is not None or self._interrupts.count > self._seen_interrupts:
            self._take_interrupts()
        if looks:
            self._next_look_s = now_s + CHECK_INTERVAL_S
            self._check_stalls()
            for acted in self._acting.look(now_s):
                self._shell.take(acted)
            for unreachable in self._shell.roster.take_unreachable():
                self._shell.take(unreachable)
            self._shell.tick_if_due()
            self._watch_retired(())

    def _watched(self) -> tuple[int, ...]:
        """Descriptors that wake it, besides messages."""
        watchdog = self._tree.watchdog.fileno
        sources = (self._tree.fileno(), self._interrupts.fileno(), *self._shell.filenos())
        return sources if watchdog is None else (*sources, watchdog)

    def _timeout_s(self, now_s: float, wakeup_s: float | None) -> float:
        """How long nothing is to be done, as far as is known."""
        until_s = min(self._next_draw_s, self._next_look_s)
        if wakeup_s is not None:
            until_s = min(until_s, wakeup_s)
        if self._last_save is not None:
            until_s = min(until_s, self._last_save.deadline_s)
        return max(0.0, until_s - now_s)

    # --- what can happen -----------------------------------------------------------------------

    def _take_news(self, ready: Sequence[int]) -> None:
        """Read the descriptors that have something, but for the shell's own."""
        # First, because what sent the signal may have killed nodes by it too.
        if self._interrupts.fileno() in ready:
            self._interrupts.drain()
            self._take_interrupts()
        if self._tree.fileno() in ready:
            self._take_exits()
        watchdog = self._tree.watchdog.fileno
        if watchdog is not None and watchdog in ready:
            self._hub.forget(watchdog)  # its successor may have the same number
            self._hear_watchdog()
            self._sources = self._watched()

    def _take_exits(self) -> None:
        try:
            exited = self._tree.poll()
        except NodeFailed as error:
            self._shell.take(NodeExited("fork server", str(error)))
            return
        for child in exited:
            self._hear_out(child)
            known = self._shell.failures.has(child.name)
            if child.name in self._stewards:
                self._shell.take(NodeExited(child.name, describe_exit(child.status)))
            elif child.name in self._plan.names.possible and not known:
                self._take_exit(child)
        self._nodes.give_plans()

    def _watch_retired(self, names: Iterable[str]) -> None:
        """Kill those that are to stop and do not; some may have by the time they are named."""
        now_s, children = time.monotonic(), self._tree.children
        own = (name for name in names if name in children)  # others' stewards see to it
        living = (name for name in own if children[name].status is None)
        self._retired_s = {n: now_s + self._plan.grace_s(n) for n in living} | self._retired_s
        for name, due_s in list(self._retired_s.items()):
            if now_s >= due_s:
                del self._retired_s[name]
                text = self._describe_kill(name)
                self._shell.chronicle.decide("kill", text)
                self._shell.progress.say(text)
                self._tree.send_signal(children[name], signal.SIGKILL)

    def _take_exit(self, child: Child) -> None:
        self._due_s.pop(child.name, None)
        if child.name in self._shell.roster.absent:  # it was told to
            self._retired_s.pop(child.name, None)
            self._shell.roster.dying.pop(child.name, None)
            self._hub.retire(child.name)
            self._shell.take(NodeExited(child.name, "", reaped=True))
            return
        _, known = self._shell.roster.dying.pop(child.name, (0.0, None))
        event = self._nodes.exit_of(child, known)
        if self._shell.survives(event):
            self._hub.retire(child.name)
        self._shell.take(event)

    # --- nodes that come back ------------------------------------------------------------------

    def spawn(self, command: Respawn) -> None:
        """Start a node in the running run, or have its steward do so."""
        name = command.node
        if name in self._plan.places:
            self._hub.send(name, command)
            return
        self._due_s[name] = time.monotonic() + self._plan.start_timeout_s
        try:
            self._nodes.spawn(command)
        except TransportError as error:
            self._shell.take(NodeExited("fork server", str(error)))

    def _end_dying(self, now_s: float) -> None:
        """Kill nodes that hang, and those that raised and do not come to their end."""
        for name, (at_s, _) in self._shell.roster.dying.items():
            if now_s >= at_s:
                self._nodes.kill(name)

    def _overdue(self, now_s: float) -> Failed | None:
        """A node that was started anew and is not ready in time."""
        for name, due_s in list(self._due_s.items()):
            if self._shell.roster.is_there(name):
                del self._due_s[name]
            elif now_s >= due_s and name not in self._shell.roster.dying:
                limit_s = self._plan.start_timeout_s
                text = f"it was not ready within {limit_s:g} s (supervision.start_timeout_s)"
                return Failed(name, "starting", text, "", {})
        return None

    def _hear_watchdog(self) -> None:
        done, death = self._tree.watchdog.take()
        for text in done:
            self._shell.chronicle.decide("reclaimed", text)
            self._shell.progress.say(text, "INFO")
        if death:
            self._shell.chronicle.decide("watchdog", death)
            self._shell.progress.say(death)

    def _hear_out(self, child: Child) -> None:
        """What it said last comes before the news of its end, though that may be quicker."""
        self._shell.receive()
        deadline_s = time.monotonic() + EXIT_NEWS_S
        while self._shell.end is None and (child.status or 0) > 0:
            left_s = deadline_s - time.monotonic()
            known = self._shell.failures.has(child.name) or child.name in self._shell.roster.dying
            if left_s <= 0 or known:
                return
            self._hub.wait(left_s)
            self._shell.receive()

    def _take_interrupts(self) -> None:
        interrupts, now_s = self._interrupts, time.monotonic()
        interrupts.keep()  # a user's modules are imported here too
        if interrupts.count > self._seen_interrupts:
            again = self._seen_interrupts > 0 or interrupts.count > 1
            self._seen_interrupts = interrupts.count
            limit_s = self._plan.config.supervision.save_s
            self._last_save = LastSave(limit_s, self._shell.round_s(now_s), now_s)
            self._shell.take(StopRequested(interrupts.text, save=not again))
        elif self._last_save is not None:
            self._watch_save(self._last_save, now_s)

    def _watch_save(self, save: LastSave, now_s: float) -> None:
        """Give up a last checkpoint that does not come forward, and tell of one that takes long."""
        steps = self._shell.rounds
        steps += sum(row.words[_UPDATES] + row.words[_BATCHES] for row in self._learners)
        save.look(self._shell.saving.so_far(), steps, now_s)
        if now_s >= save.deadline_s:
            self._last_save = None
            text = "there was no time for a last checkpoint (supervision.save_s)"
            self._shell.take(StopRequested(f"{self._interrupts.text}; {text}", False))
        elif (nbytes := save.due_news(now_s)) is not None:
            written = f"{nbytes / 2**20:,.0f} MiB are written"
            text = (
                f"saving a last checkpoint: {written if nbytes else 'the open round comes first'}; "
                f"{self._interrupts.again} ends at once, without it"
            )
            self._shell.progress.say(text, "INFO")

    def _check_stalls(self) -> None:
        now_s = time.monotonic()
        shell = self._shell
        gone = shell.roster.gone() | self._plan.places.keys()
        stall = self._nodes.hanging(now_s, gone) or self._overdue(now_s)
        if stall is not None:
            stall = self._nodes.seen_from_outside(stall)
            news = NodeExited(stall.node, stall.error, reaped=True, report=stall)
            if self._shell.survives(news):
                self._shell.roster.dying[stall.node] = (now_s, stall)
            elif self._plan.roles[stall.node].kind == "optimizer":  # which is no better than dead
                self._shell.take(msgspec.structs.replace(news, reaped=False))
            else:
                self._shell.take(stall)
        self._end_dying(now_s)

    def _check_start(self) -> None:
        """Before the scheduler has the time, which would end the run without a stack."""
        if overdue := self._shell.overdue():
            first, limit_s = overdue[0], self._plan.start_timeout_s
            told = [event for _, event in self._shell.roster.restoring.values()]
            restoring = any(event.taken < event.steps for event in told)
            text = late_text(overdue, limit_s, restoring=restoring)
            self._shell.take(Failed(first, "starting", text, self._nodes.stack(first), {}))

    # --- the end -------------------------------------------------------------------------------

    def _stop(self) -> None:
        """Ask every node to stop, give it the grace time, then use force."""
        names = self._plan.names.possible
        living = {child.name for child in self._tree.living()} | self._plan.places.keys()
        untold = self._shell.stop_nodes([name for name in names if name in living])
        terminated = set[str]()
        begun_s = time.monotonic()
        try:
            while self._tree.living() and time.monotonic() < begun_s + self._grace_s:
                for name in set(untold) - terminated - self._plan.places.keys():
                    child = self._tree.children[name]
                    if child.pid:  # most likely still importing; it has nothing to close
                        terminated.add(name)
                        self._tree.send_signal(child, signal.SIGTERM)
                self._await_exit(UNTOLD_POLL_S if untold else POLL_LIMIT_S, terminated)
                untold = self._shell.tell_stop(untold)
        except NodeFailed:
            pass  # the fork server is gone; the kernel has killed every node
        else:
            self._hear_last()
            for child in self._tree.living():
                if child.name != PROBE:
                    text = self._describe_kill(child.name)
                    self._shell.chronicle.decide("kill", text)
                    self._shell.progress.say(text)
        self._tree.close(TERMINATE_GRACE_S)

    def _hear_last(self) -> None:
        """What nodes said last may come after the news that they are gone."""
        heard, until_s = True, time.monotonic() + FORCED_GRACE_S  # one that lives may go on and on
        while heard and time.monotonic() < until_s:
            self._hub.wait(LAST_WORDS_S, ())
            heard = self._shell.receive()

    def _describe_kill(self, name: str) -> str:
        limit_s = self._grace_s if self._interrupts.count > 1 else self._plan.grace_s(name)
        text = f"{name} did not stop within {limit_s:g} s (supervision.grace_s) and is killed"
        place = "" if self._interrupts.count > 1 else innermost(self._nodes.stack(name))
        return f"{text}; it was in {place}, see logs/{name}.log" if place else text

    @property
    def _grace_s(self) -> float:
        """The longest of any node that still lives; a second Ctrl-C cuts it short."""
        if self._interrupts.count > 1:
            return FORCED_GRACE_S
        living = (child.name for child in self._tree.living() if child.name != PROBE)
        return max(map(self._plan.grace_s, living), default=0.0)

    def _await_exit(self, limit_s: float, terminated: Set[str]) -> None:
        self._hub.wait(limit_s, (self._tree.fileno(), self._interrupts.fileno()))
        self._interrupts.drain()
        self._shell.receive()
        for child in self._tree.poll():
            self._shell.receive()
            asked = child.name in terminated and child.status == -signal.SIGTERM
            if child.name != PROBE and child.status and not asked:
                self._shell.take(NodeExited(child.name, describe_exit(child.status)))
