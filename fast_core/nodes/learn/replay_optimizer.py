"""The optimizer node of algorithms that learn from replay: one step for each batch drawn for it."""

from __future__ import annotations

import time
from collections import deque
from pathlib import Path
from typing import cast

from fast_core.algorithm import Prefetching, SharedAlgorithm, UpdateReport
from fast_core.memory import StatsColumn
from fast_core.messages import Change, Command, Save, Snapshot, Train
from fast_core.monitor.checkpoint_files import LEARNER_FILE
from fast_core.nodes.learn.batches import Stepper
from fast_core.nodes.learn.digest import digest
from fast_core.nodes.learn.learning import LearningNode
from fast_core.nodes.learn.stepping import make_stepper
from fast_core.nodes.learn.ticket_figures import TicketFigures
from fast_core.nodes.node import SHORT_NS, NodeContext, NodeState
from fast_core.nodes.replay.batch_slots import BatchChain, BatchSlots
from fast_core.system.state_file import load

# Structures through which several optimizers take their steps together.
SHARED = frozenset({"gradients", "bases", "applied", "meeting", "networks"})
DEVICE_WAIT_S = 0.0001  # between two looks at a device
_UPDATES, _BATCHES = int(StatsColumn.UPDATES), int(StatsColumn.BATCHES)
_BATCH_WAIT_NS = int(StatsColumn.BATCH_WAIT_NS)


class ReplayOptimizerNode(LearningNode):
    """Takes the steps that tickets grant, as their batches come.

    The first optimizer answers each ticket when all of its steps are taken or skipped. Others
    follow their batches alone and never hear of tickets.

    Concurrency: the only consumer of its batch slots, the only writer of their results. It waits
    for nobody: `work` returns when nothing can be done, and whoever has something for it rings.
    """

    reads = LearningNode.reads | SHARED | {"batches"}
    writes = LearningNode.writes | SHARED | {"results"}

    def __init__(self, context: NodeContext) -> None:
        """Attach memory; learner and stepper are built in `setup`."""
        super().__init__(context)
        plan = context.plan
        self._chain = BatchChain() if plan.config.diagnostics.digests else None
        self._slots = BatchSlots(plan, context.memory, context.rank, self._chain)
        self._tickets: deque[TicketFigures] = deque()
        self._at_rest: deque[Save | Change] = deque()  # to be done once nothing is half done
        self._stepper: Stepper | None = None
        self._waiting_since_ns = 0

    def setup(self) -> None:
        """Build the learner, restore it; the first optimizer publishes its first weights."""
        super().setup()
        plan, rank = self.context.plan, self.context.rank
        if rank:
            self._begin_apart()
        if isinstance(self.algorithm, Prefetching):
            self._slots.announce = self.algorithm.prefetch
        saved: dict[str, object] = {}
        if plan.checkpoint is not None:
            saved = self._continue(Path(plan.checkpoint))
        else:
            self.begin()
        self.use(plan.changed)
        self._stepper = make_stepper(plan, self.context.memory, rank, self.algorithm, self._slots)
        if isinstance(state := saved.get("stepper"), dict):
            self._stepper.load(state)
        if rank == 0:
            self.publish()

    @property
    def learner_file(self) -> str:
        """Name of its file in a checkpoint."""
        return learner_file(self.context.rank)

    @property
    def stepper(self) -> Stepper:
        """What takes the steps; there is none before `setup`."""
        assert self._stepper is not None, "setup() has run"
        return self._stepper

    def handle(self, command: Command) -> None:
        """Note a ticket, lend the policy out; change or save as soon as nothing is half done."""
        match command:
            case Train():
                if not self._tickets:
                    self._begin()
                self._tickets.append(TicketFigures(command))
            case Snapshot(request):
                self.snapshot(request)
            case Save() | Change():
                self._at_rest.append(command)

    def work(self) -> bool:
        """Answer a ticket, take a step further, or change or save."""
        if not self.stepper.asks:  # its learner may be between two versions
            self.show()
        if self._tickets and self._tickets[0].complete:
            self._answer(self._tickets.popleft())
            return True
        if (self._tickets or self.context.rank) and self._advance():
            return True
        return bool(self._at_rest) and self._go_on_if_settled(self._at_rest[0])

    # --- steps ---------------------------------------------------------------------------------

    def _begin(self) -> None:
        self._waiting_since_ns = 0  # what came before was no waiting for batches
        self._wait(time.monotonic_ns())

    def _advance(self) -> bool:
        """Go one step further; whether anything could be done."""
        stepper, slots = self.stepper, self._slots
        number, pending, started_ns = slots.number, stepper.pending, time.monotonic_ns()
        slots.version = self._version
        if self._tickets:
            slots.granted = number - 1 + self._tickets[0].left
        waited_ns = 0
        if self._waiting_since_ns and not pending and slots.ready:
            waited_ns = self._stop_waiting(started_ns)  # before it learns
        report = self._take()
        moved = slots.number != number or stepper.pending != pending or stepper.asks
        if report is None and not moved:
            self._wait(started_ns)
            return False
        waited_ns += self._stop_waiting(started_ns)
        words = self.context.stats.words
        words[_BATCHES] = slots.number - 1
        if report is not None:
            self._version += report.updates
            words[_UPDATES] = self._version
        if self._tickets:
            ticket = self._tickets[0]
            ticket.waiting_ns += waited_ns
            ticket.computing_ns += time.monotonic_ns() - started_ns
            if report is not None:
                ticket.add(report)
        return True

    def _take(self) -> UpdateReport | None:
        """Take a step further; while a device is at it, ask until it is done or somebody rings."""
        stepper, doorbell = self.stepper, self.context.doorbell
        seen = doorbell.value()
        report = stepper.advance()
        while report is None and stepper.asks:
            doorbell.wait(seen, DEVICE_WAIT_S)
            if doorbell.value() != seen:
                return None
            report = stepper.advance()
        return report

    def _wait(self, now_ns: int) -> None:
        if not self._waiting_since_ns:
            self._waiting_since_ns = now_ns
            self._enter(NodeState.WAITING)

    def _stop_waiting(self, now_ns: int) -> int:
        """Show that it computes again; returns for how long it waited with a step to take."""
        if not self._waiting_since_ns:
            return 0
        waited_ns, self._waiting_since_ns = now_ns - self._waiting_since_ns, 0
        self._enter(NodeState.LEARNING)
        if not (self._tickets or self.stepper.pending):
            return 0
        self.context.stats.words[_BATCH_WAIT_NS] += waited_ns
        return waited_ns

    def _enter(self, state: NodeState) -> None:
        what = "waiting for a batch" if state == NodeState.WAITING else "training"
        self.enter(state, what, least_ns=SHORT_NS)

    def _answer(self, ticket: TicketFigures) -> None:
        train = ticket.train
        self.answer(train, ticket.report(), (train.mean_version, train.oldest_version))
        if not self._tickets:
            self._waiting_since_ns = 0
            self.enter(NodeState.WAITING, "waiting for work", least_ns=SHORT_NS)

    def digest(self) -> str:
        """SHA-256 of everything in the learner that changes, and of all batches so far."""
        chain = self._chain.value if self._chain is not None else ""
        return digest([self.algorithm.state_dict(), chain])

    def close(self) -> None:
        """Let go of what is shared with other optimizers."""
        if self._stepper is not None:
            self._stepper.close()

    # --- checkpoints ---------------------------------------------------------------------------

    def _go_on_if_settled(self, command: Save | Change) -> bool:
        if self._tickets or self.stepper.pending or self._slots.next() is not None:
            return False
        self._at_rest.popleft()
        if isinstance(command, Change):
            self.change(command)
            return True
        try:
            self.save(command.checkpoint, Path(command.directory))
        except OSError as error:
            self.report_unsaved(command.checkpoint, error)
        return True

    def saved_state(self) -> dict[str, object]:
        """What the learner's file holds."""
        chain = self._chain.value if self._chain is not None else ""
        return {**super().saved_state(), "stepper": self.stepper.state(), "batches": chain}

    def _continue(self, directory: Path) -> dict[str, object]:
        """Continue from a checkpoint; returns what its file holds.

        What all have alike is the first one's: with ``update: async`` the others never step.
        """
        path, rank = directory / self.learner_file, self.context.rank
        saved = self.restore(directory / LEARNER_FILE)
        if rank:
            saved = self._continue_apart(path) if path.exists() else self._begin_apart()
        if self._chain is not None:
            self._chain.value = str(saved.get("batches", ""))
        return saved

    def _continue_apart(self, path: Path) -> dict[str, object]:
        """Take what is the own one's from its file."""
        algorithm, saved = cast(SharedAlgorithm, self.algorithm), load(path)
        own = cast("dict[str, object]", saved["algorithm"])
        algorithm.load_state_dict({**own, **algorithm.shared_state()})
        self._version, self._env_steps = int(str(saved["version"])), int(str(saved["env_steps"]))
        return saved

    def _begin_apart(self) -> dict[str, object]:
        """Begin as the first one, with noise of its own."""
        cast(SharedAlgorithm, self.algorithm).reseed(self.context.rank)
        return {}


def learner_file(rank: int) -> str:
    """Name of the file of an optimizer in a checkpoint."""
    return LEARNER_FILE if rank == 0 else f"learner-{rank}.msgpack"
