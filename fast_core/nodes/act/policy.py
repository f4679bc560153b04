"""The policy node: acts for the env nodes, with forward passes over what many of them ask."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import numpy as np

from fast_core.algorithm import ActionOutput, Array
from fast_core.memory import Doorbell, StatsColumn
from fast_core.messages import Command, Leave, Left, Ready, Serve
from fast_core.nodes.act.current_policy import CurrentPolicy
from fast_core.nodes.act.passes import FollowedPasses
from fast_core.nodes.learn.devices import check_device
from fast_core.nodes.node import SHORT_NS, Node, NodeContext, NodeState
from fast_core.run.mail import Reply, Request
from fast_core.run.schedule import Pass, ScheduleWriter, recording

_REQUESTS, _ROWS = int(StatsColumn.REQUESTS), int(StatsColumn.ROWS)
_BATCHES = int(StatsColumn.BATCHES)


class Inquirer:
    """A group of environments as its policy node sees it.

    Attributes:
        shard: Whose it is.
        index: Its place among those that the node has when it comes, by which a recorded run
            names it; there shards stay where they are.

    Concurrency: see `fast_core.memory.Mailbox`. This node writes the reply, and only while the
    request bears another number. Which reply was the last is read from the box, so a policy
    node that takes over answers what its predecessor did not.
    """

    def __init__(self, context: NodeContext, shard: int, group: int, index: int = 0) -> None:
        self.shard, self.index = shard, index
        self.request = context.memory.request(shard, group)
        self.reply = context.memory.reply(shard, group)
        self.rows = self.request.rows
        self._answered = self.reply.number()
        self._number, self._asked = 0, Request(0, 0, 0)

    def asks(self) -> bool:
        """Whether there is a request without a reply."""
        return self.request.number() != self._answered

    def take(self) -> int:
        """Note which request is being answered; returns the oldest weights it allows.

        The number is read first: if the shard moves meanwhile and another node asks anew, this
        reply bears the old number and nobody reads it.
        """
        self._number = self.request.number()
        self._asked = self.request.words
        return self._asked.min_version

    def answer(self, output: ActionOutput, taken: Array, rows: slice, version: int) -> int:
        """Write and publish the reply: ``rows`` of a forward pass; returns who waits for it."""
        reply = self.reply
        reply["action"][...] = output.action[rows]
        reply["behaviour_log_prob"][...] = output.behaviour_log_prob[rows]
        reply["environment_action"][...] = taken[rows]
        if output.state is not None:
            reply["state"][...] = output.state[rows]
        for name, values in output.extra.items():
            reply[name][...] = values[rows]
        self._answered = self._number
        reply.publish(self._number, Reply(self._asked.incarnation, version))
        return self._asked.asker


class PolicyNode(Node):
    """Answers the groups of the shards that it acts for: its own, until it is told otherwise.

    At degree 0 every group has a forward pass of its own, so that results don't depend on who
    asked at the same time. Otherwise all that wait are batched, up to ``nodes.policy.max_batch``
    rows, and weights may change between two passes.
    """

    consumes = frozenset({Serve, Leave})
    emits = frozenset({Ready, Left})
    reads = frozenset({"weights", "requests"})
    writes = frozenset({"replies"})

    def __init__(self, context: NodeContext) -> None:
        """Build the policy on its device."""
        super().__init__(context)
        plan = context.plan
        device = plan.config.nodes.policy.device
        if device != "cpu":
            check_device(device, "nodes.policy.device")
        self._current = CurrentPolicy(context, plan.policy_setup(device))
        self._inquirers: list[Inquirer] = []
        # One that comes while the run goes on, or comes back, is told when it is ready.
        if context.life == 1 and context.name in plan.names.policy:
            shards = range(plan.config.rollout.shards)
            self._serve([s for s in shards if plan.names.policy_of(s) == context.name])
        self._merges = plan.config.degree > 0
        self._max_rows = plan.config.nodes.policy.max_batch
        self._bells: dict[int, Doorbell] = {}
        self._acting = False
        self._recorded: ScheduleWriter | None = None
        self._followed = FollowedPasses.of(context)
        self._board = context.memory.weights()

    def setup(self) -> None:
        """Begin to record, where the run is; after a death wake everybody.

        The answer may be there of which no bell was rung.
        """
        context = self.context
        self._recorded = recording(context.plan, context.name, context.log.warning)
        if context.life > 1:
            for rank in range(len(context.plan.names.steppers)):
                self._bell(rank).ring()

    def handle(self, command: Command) -> None:
        """Act for further shards, or for one less."""
        match command:
            case Serve(shards):
                self._serve(shards)
            case Leave(shard):
                # It rests, so nothing of it is being asked; what is answered is written.
                left = [each for each in self._inquirers if each.shard != shard]
                self._inquirers = left
                self.context.channel.send(Left(self.context.name, shard))

    def _serve(self, shards: Sequence[int]) -> None:
        for shard in shards:
            for group in range(self.context.plan.groups):
                index = len(self._inquirers)
                self._inquirers.append(Inquirer(self.context, shard, group, index))

    def work(self) -> bool:
        """Answer everything that is waiting now."""
        waiting = [inquirer for inquirer in self._inquirers if inquirer.asks()]
        if not waiting:
            if self._acting:
                self._acting = False
                self.enter(NodeState.WAITING, "waiting for requests", least_ns=SHORT_NS)
            return False
        if not self._acting:
            self._acting = True
            self.enter(NodeState.ACTING, "acting", least_ns=SHORT_NS)
        acted = False
        for batch in self._batches(waiting):
            if self.stopping:
                break
            self._act(batch)
            acted = True
        return acted

    def close(self) -> None:
        """Write down the rest of what is recorded."""
        if self._recorded is not None:
            self._recorded.close()

    def _batches(self, waiting: list[Inquirer]) -> Iterator[list[Inquirer]]:
        """Who shares a forward pass."""
        if self._followed is not None:
            yield from self._followed.batches(self._inquirers, self._board.published())
            return
        batch: list[Inquirer] = []
        rows = 0
        for inquirer in waiting:
            full = self._max_rows is not None and rows + inquirer.rows > self._max_rows
            if batch and (full or not self._merges):
                yield batch
                batch, rows = [], 0
            batch.append(inquirer)
            rows += inquirer.rows
        yield batch

    def _act(self, batch: list[Inquirer]) -> None:
        current, words = self._current, self.context.stats.words
        current.refresh(max([inquirer.take() for inquirer in batch]))
        output = current.policy.act(
            _rows(batch, "obs"),
            noise=_rows(batch, "noise"),
            explore=True,
            state=_rows(batch, "state") if "state" in batch[0].request else None,
        )
        taken = current.policy.environment_action(output.action)
        first = 0
        for inquirer in batch:
            rows = slice(first, first + inquirer.rows)
            sender = inquirer.answer(output, taken, rows, current.version)
            self._bell(sender).ring()
            first = rows.stop
        words[_REQUESTS] += len(batch)
        words[_ROWS] += first
        words[_BATCHES] += 1
        self._works[self._state] += 1
        if self._recorded is not None:
            groups = tuple([inquirer.index for inquirer in batch])
            self._recorded.write(Pass(current.version, groups), time.monotonic())

    def _bell(self, rank: int) -> Doorbell:
        if rank not in self._bells:
            name = self.context.plan.names.steppers[rank]
            self._bells[rank] = self.context.memory.doorbell(name)
        return self._bells[rank]


def _rows(batch: Sequence[Inquirer], field: str) -> Array:
    """A field of all requests, one after the other; in place where there is only one."""
    if len(batch) == 1:
        return batch[0].request[field]
    return np.concatenate([inquirer.request[field] for inquirer in batch])
