"""Simulated nodes round a scheduler, driven by choice or in virtual time.

`World` holds nodes that take commands from their channels one by one: `start` takes the next
command (an env node reads the weights then), `finish` completes it and hands the event to the
scheduler. A property test chooses which node does what; `simulate` decides by durations.

With replay the first optimizer begins a ticket once the replay node has drawn for it. The replay
node notes the cut of a checkpoint when its turn comes, and writes its part from then on beside its
other work, as if `STREAM` were a node.
"""

from __future__ import annotations

import heapq
import zlib
from collections import deque
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import NamedTuple, Self

from fast_core import messages
from fast_core.messages import launching
from fast_core.scheduler import CALLBACKS, LAUNCHER, Budget, Scheduler, SchedulerSettings, Send
from tests.scheduler.audit import Audit

STREAM = "stream"

Task = (
    messages.RolloutOrder
    | messages.Transform
    | messages.Train
    | messages.Leave
    | messages.Snapshot
    | messages.Evaluate
    | messages.Change
    | messages.Save
    | launching.CommitCheckpoint
    | launching.Tell
    | launching.Respawn
    | launching.Retire
)


def make_settings(restarts: Mapping[str, int] = {}, **changes: object) -> SchedulerSettings:
    """Settings of a small run without evaluation or checkpoints.

    ``restarts`` are deaths that it survives: of ``env`` nodes, of the ``evaluator``, of the
    ``replay`` node, or of the other nodes, which are ``policy``.
    """
    values: dict[str, object] = {
        "shards": 2,
        "env_nodes": ("env0", "env1"),
        "optimizers": ("optimizer",),
        "evaluator": None,
        "degree": 0,
        "slots_per_shard": 1,
        "rows_per_rollout": 10,
        "updates_granted": 4,
        "eval_every_env_steps": None,
        "eval_episodes": 2,
        "eval_mode": "async",
        "eval_at_end": False,
        "checkpoint_every_updates": None,
        "checkpoint_at_end": False,
        "checkpoint_directory": "checkpoints",
        "stop_env_steps": 100,
        "stop_updates": None,
        "stop_time_s": None,
        "stop_score": None,
        "stop_score_held": 1,
        "stop_score_on": None,
        "start_timeout_s": 30.0,
        "work_timeout_s": None,
        "repeat_timeout_s": 120.0,
    }
    if "replay" in changes:
        values["replay_ratio"] = "1"
    values |= changes
    kinds = {"env": "env_nodes", "evaluator": "evaluator", "policy": "other_nodes"}
    kinds["replay"] = "replay"
    names = {kind: values.get(key) or () for kind, key in kinds.items()}
    names["env"] = (*values["env_nodes"], *(values.get("spare_nodes") or ()))  # type: ignore[misc]
    names["policy"] = (*names["policy"], *(values.get("spare_policies") or ()))  # type: ignore[misc]
    values["restarts"] = tuple(
        Budget(kind, (named,) if isinstance(named, str) else named, restarts[kind])  # type: ignore[arg-type]
        for kind, named in names.items()
        if kind in restarts
    )
    return SchedulerSettings(**values)  # type: ignore[arg-type]


class Cut(NamedTuple):
    """What there is when nodes are told to save: how far training is, and what was sent by then."""

    audit: Audit
    version: int
    env_steps: int
    sent: int


class Checkpoint(NamedTuple):
    """A committed checkpoint, the books at its cut, and how much had been sent by then."""

    commit: launching.CommitCheckpoint
    audit: Audit
    sent: int


class World:
    """A scheduler, its nodes, and an `Audit` of everything between them.

    Attributes:
        oldest_weights: Env nodes act with the oldest version their order allows instead of the
            newest, the worst case for the lag.
        skipped: Updates that the optimizer skips of a ticket; with replay half of them at most, as
            a ticket may grant few.
        score: Return of every evaluation episode of a version.
        asks: What callbacks ask for when they are told.
        metrics: What the learner reports of a ticket whose oldest row lags so much.
        log: Every send in order.
        changes: Every change, once for each node.
        checkpoints: Every checkpoint that the launcher was asked to commit.
        drawn: Tickets that the replay node has drawn for.
        paused: Nodes that begin nothing for now.
        forgets: Results that a node never sends, by its name and what they are of.
    """

    def __init__(
        self,
        settings: SchedulerSettings,
        *,
        resumed: Checkpoint | None = None,
        oldest_weights: bool = False,
        skipped: Callable[[int], int] = lambda ticket: 0,
        score: Callable[[int], float] = lambda version: 0.0,
        asks: Callable[[launching.Tell], tuple[launching.Asked, ...]] = lambda tell: (),
        metrics: Callable[[int], dict[str, float]] = lambda lag: {},
    ):
        self.settings = settings
        self.oldest_weights = oldest_weights
        self.skipped = skipped
        self.score = score
        self.asks = asks
        self.metrics = metrics
        commit = resumed.commit if resumed else None
        self.scheduler = Scheduler(settings, commit.scheduler if commit else None)
        self.version = commit.version if commit else 0
        self.env_steps = commit.env_steps if commit else 0
        self.audit = Audit(
            settings,
            settled=self.env_steps // settings.rows_per_ticket,
            version=self.version,
            before=resumed.audit if resumed else None,
        )
        self.now_s = 0.0
        spare = (*(settings.spare_nodes or ()), *(settings.spare_policies or ()))
        names = (*settings.nodes, *spare, STREAM, LAUNCHER, CALLBACKS)
        self.inbox: dict[str, deque[Task]] = {name: deque() for name in names}
        self.drawn = self.audit.settled
        self.paused: set[str] = set()
        self.forgets: set[tuple[str, str]] = set()
        self.rested_s = 0.0
        self.cuts: dict[int, Cut] = {}
        self.busy: dict[str, tuple[Task, int]] = {}  # node -> task, version read at its start
        self.touched: list[str] = []
        self.log: list[Send] = []
        self.checkpoints: list[Checkpoint] = []
        self.changes: list[messages.Change] = []

    @property
    def ended(self) -> launching.EndRun | None:
        """How the run ended, None while it goes on."""
        return self.audit.ended

    @property
    def end(self) -> launching.EndRun:
        """The same of one that has ended."""
        assert self.ended is not None
        return self.ended

    def told(self, what: str) -> list[str]:
        """Why, of each decision of a kind."""
        return [decision.why for decision in self.audit.decisions if decision.what == what]

    def make_ready(self) -> Self:
        """This one, with every node up."""
        for pid, node in enumerate(self.settings.nodes):
            self.deliver(messages.Ready(node, pid))
        return self

    def deliver(self, event: messages.Event | launching.LauncherEvent) -> list[Send]:
        """Hand an event to the scheduler and its commands to the nodes."""
        self.audit.event(event)
        sends = self.scheduler.handle(event, self.now_s)
        self.audit.degree = self.scheduler.statistics().degree
        self.audit.sends(sends)
        self.log.extend(sends)
        for node, command in sends:
            self._route(node, command)
        for command in {command for _, command in sends if isinstance(command, messages.Save)}:
            books = deepcopy(self.audit)
            self.cuts[command.checkpoint] = Cut(books, self.version, self.env_steps, len(self.log))
        return sends

    def _route(self, node: str, command: object) -> None:
        match command:
            case messages.Collect():
                self.inbox[node].extend(command.rollouts)
            case launching.CommitCheckpoint():
                cut = self.cuts[command.checkpoint]
                assert (command.version, command.env_steps) == (cut.version, cut.env_steps)
                self.checkpoints.append(Checkpoint(command, cut.audit, cut.sent))
                self.inbox[node].append(command)
            case launching.Tell():
                node = CALLBACKS
                self.inbox[node].append(command)
            case launching.Respawn():
                node = command.node
                assert not self.inbox[node] and node not in self.busy, "two processes of one node"
                self.inbox[node].append(command)
            case launching.Retire():
                node = command.node
                self.inbox[node].append(command)
            case messages.Change():
                self.changes.append(command)
                self.inbox[node].append(command)
            case (
                messages.Transform()
                | messages.Train()
                | messages.Leave()
                | messages.Snapshot()
                | messages.Evaluate()
                | messages.Save()
            ):
                self.inbox[node].append(command)
            case _:
                return
        self.touched.append(node)

    def can_start(self) -> list[str]:
        """Nodes that have something to do and do nothing."""
        return [node for node in self.inbox if self.may_start(node)]

    def may_start(self, node: str) -> bool:
        """Whether it has something to do, can do it now and does nothing."""
        if not self.inbox[node] or node in self.busy or node in self.paused:
            return False
        task = self.inbox[node][0]
        waits = self.settings.replay is not None and node == self.settings.optimizer
        return not (waits and isinstance(task, messages.Train) and task.ticket >= self.drawn)

    def start(self, node: str) -> Task:
        """Let a node take its next command."""
        task = self.inbox[node].popleft()
        version = self.version
        if isinstance(task, messages.RolloutOrder):
            assert version >= task.min_version, "weights are waited for that can't come"
            version = task.min_version if self.oldest_weights else version
        self.busy[node] = (task, version)
        return task

    def use_degree(self, degree: int) -> None:
        """Let the run go on at another degree, from its next event on."""
        auto = self.scheduler._life.flow.auto
        assert auto is not None
        auto.state().degree = degree

    def kill(self, node: str) -> list[Send]:
        """Let a node die, or one that is coming back: what it does and was told are gone."""
        for each in (node, STREAM) if node == self.settings.replay else (node,):
            self.inbox[each].clear()
            self.busy.pop(each, None)
        return self.deliver(messages.NodeExited(node, "killed by SIGKILL", reaped=True))

    def finish(self, node: str) -> list[Send]:
        """Let a node complete what it does."""
        task, version = self.busy.pop(node)
        self.rested_s = self.now_s
        if (node, name_of(task)) in self.forgets:
            return []
        if node == self.settings.replay and isinstance(task, messages.Train):
            if task.ticket < self.drawn:  # by the node that died
                return []
            assert task.ticket == self.drawn
            self.drawn += 1
            self.touched.append(self.settings.optimizer)
            return []
        if node == self.settings.replay and isinstance(task, messages.Save):
            self.inbox[STREAM] = deque([task])  # what it still writes of another is given up
            self.busy.pop(STREAM, None)
            self.touched.append(STREAM)
            return self.deliver(messages.Noted(node, task.checkpoint))
        return self.deliver(self._result(node, task, version))

    def do(self, node: str) -> list[Send]:
        """Let a node take its next command and complete it."""
        self.start(node)
        return self.finish(node)

    @property
    def idle_since_s(self) -> float | None:
        """Since when no node has done anything; None if one does."""
        return None if self.busy else self.rested_s

    def _result(
        self, node: str, task: Task, version: int
    ) -> messages.Event | launching.LauncherEvent:
        match task:
            case messages.RolloutOrder():
                return rollout_ready(node, task, version)
            case messages.Transform():
                return messages.Transformed(node, task.rollout)
            case messages.Train() if node in self.settings.followers:
                return messages.Followed(node, task.ticket)
            case messages.Train():
                return self._trained(node, task)
            case messages.Leave(shard):
                return messages.Left(node, shard)
            case messages.Snapshot():
                return messages.SnapshotTaken(node, task.request, self.version, self.env_steps)
            case messages.Evaluate():
                returns = (self.score(task.version),) * task.episodes
                lengths = (1,) * task.episodes
                return messages.Evaluated(
                    node, task.request, task.version, task.env_steps, returns, lengths
                )
            case messages.Save():
                name = node if node != STREAM else self.settings.replay
                assert name is not None
                return messages.Saved(name, task.checkpoint, (f"{name}.bin",))
            case launching.CommitCheckpoint():
                return launching.CheckpointWritten(task.checkpoint)
            case messages.Change(number):
                return messages.Changed(node, number)
            case launching.Respawn():
                return messages.Ready(node, 0)
            case launching.Retire():
                return messages.NodeExited(node, "", reaped=True)
            case launching.Tell(moment):
                return launching.Told(moment, self.asks(task))

    def _trained(self, node: str, task: messages.Train) -> messages.Trained:
        most = task.granted if self.settings.replay is None else task.granted // 2
        skipped = min(self.skipped(task.ticket), most)
        updates = task.granted - skipped
        versions = [self.audit.acted[key] for key in self.audit.tickets[task.ticket]]
        self.version += updates
        self.env_steps += self.settings.rows_per_ticket
        lag = self.version - 1 - min(versions) if updates else 0
        told = self.metrics(lag)
        return messages.Trained(
            node, task.ticket, self.version, updates, skipped, float(lag), lag, told
        )


def name_of(task: Task) -> str:
    """What a task is, with the shard and the number of its rollout where it is of one."""
    match task:
        case messages.RolloutOrder():
            return f"RolloutOrder {task.shard}.{task.rollout_id}"
        case messages.Transform(rollout=ref):
            return f"Transform {ref.shard}.{ref.rollout_id}"
        case messages.Train():
            return f"Train {task.ticket}"
    return type(task).__name__


def rollout_ready(
    node: str, order: messages.RolloutOrder, version: int, returns: tuple[float, ...] = (1.0,)
) -> messages.RolloutReady:
    """The report of an env node that did what it was told."""
    lengths = tuple(10 for _ in returns)
    return messages.RolloutReady(
        node,
        order.shard,
        order.incarnation,
        order.slot,
        order.rollout_id,
        order.ticket,
        version,
        returns,
        lengths,
    )


def duration(seed: int, node: str, task: Task, scale: dict[type, int]) -> int:
    """Whole virtual milliseconds a task takes: a function of what it is, not of when it runs."""
    name = f"{seed}/{node}/{type(task).__name__}"
    match task:
        case messages.RolloutOrder():
            name += f"/{task.shard}/{task.rollout_id}"
        case messages.Transform():
            name += f"/{task.rollout.shard}/{task.rollout.rollout_id}"
        case messages.Train():
            name += f"/{task.ticket}"
        case messages.Evaluate():
            name += f"/{task.version}"
        case _:
            pass
    spread = zlib.crc32(name.encode()) % 1000
    return 1 + scale.get(type(task), 1) * spread // 1000


def simulate(
    world: World,
    *,
    seed: int = 0,
    scale_ms: dict[type, int] | None = None,
    limit_s: float = 1e7,
    events: list[tuple[float, launching.LauncherEvent | Callable[[], object]]] | None = None,
    lasts_ms: Callable[[str, Task], int | None] = lambda node, task: None,
) -> launching.EndRun:
    """Run to the end in virtual time.

    Args:
        world: Nodes that are ready.
        seed: Of all durations.
        scale_ms: Longest duration of each kind of task, in milliseconds.
        limit_s: Virtual time within which the run must end.
        events: Further events by time, for instance a person's wish to stop, or what to call then.
        lasts_ms: What a node's task takes, where neither seed nor scale is to say it.

    Raises:
        AssertionError: Nothing can happen any more and the run has not ended, or the limit passed.
    """
    scale = {messages.RolloutOrder: 1000, messages.Train: 500, messages.Evaluate: 3000} | (
        scale_ms or {}
    )
    heap: list[tuple[int, int, str]] = []
    serial = 0
    outside = deque(sorted(events or [], key=lambda pair: pair[0]))
    while world.ended is None:
        for node in dict.fromkeys(world.touched):
            if world.may_start(node):
                task = world.start(node)
                serial += 1
                lasts = lasts_ms(node, task)
                if lasts is None:
                    lasts = duration(seed, node, task, scale)
                at_ms = round(world.now_s * 1000) + lasts
                heapq.heappush(heap, (at_ms, serial, node))
        world.touched.clear()
        next_s = heap[0][0] / 1000 if heap else float("inf")
        wakeup_s = world.scheduler.next_wakeup_s()
        other_s = outside[0][0] if outside else float("inf")
        now_s = min(next_s, float("inf") if wakeup_s is None else wakeup_s, other_s)
        assert now_s < limit_s, f"deadlock or too late: {world.scheduler.statistics()}"
        world.now_s = max(now_s, world.now_s)
        if outside and now_s == other_s:
            event = outside.popleft()[1]
            if isinstance(event, messages.Message):
                world.deliver(event)
            else:
                event()
        elif heap and now_s == next_s:
            node = heapq.heappop(heap)[2]
            if node in world.busy:  # not killed meanwhile
                world.finish(node)
            world.touched.append(node)
        else:
            world.deliver(launching.Tick(world.idle_since_s))
    return world.ended


def work_of(sends: list[Send]) -> list[tuple[str, str]]:
    """Commands for nodes, without what differs between a run and its resumption."""
    kept = []
    for node, command in sends:
        match command:
            case messages.Assign():
                continue
            case messages.Collect():
                orders = [(o.shard, o.slot, o.rollout_id, o.ticket) for o in command.rollouts]
                kept.append((node, f"collect {orders}"))
            case messages.Train():
                refs = [(r.shard, r.slot, r.rollout_id) for r in command.rollouts]
                which = f"{command.ticket} {refs} {command.env_steps} {command.granted}"
                kept.append((node, f"train {which} {command.oldest_version}"))
            case messages.Snapshot() | messages.Evaluate() | messages.Save() | launching.EndRun():
                kept.append((node, repr(command)))
            case _:
                continue
    return kept
