"""One shard rollout whose actions come from a policy node, group by group.

Nothing here waits. A group that has asked is left alone until its reply is there; meanwhile its
node steps other groups.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fast_core.algorithm import Array
from fast_core.memory import Doorbell, RolloutSlot, StatsColumn
from fast_core.messages import RolloutOrder
from fast_core.nodes.collect.env_group import EnvGroup
from fast_core.nodes.collect.shard import Shard
from fast_core.nodes.node import NodeContext
from fast_core.run.mail import Request

# Enumeration members cost more than the stores they name.
_SHARD, _GROUP, _SLOT = int(StatsColumn.SHARD), int(StatsColumn.GROUP), int(StatsColumn.SLOT)
_STEP, _REQUESTS = int(StatsColumn.STEP), int(StatsColumn.REQUESTS)
_LATE, _TICKET = int(StatsColumn.LATE_REPLIES), int(StatsColumn.TICKET)


class Line:
    """A group's connection to its policy node: it asks and finds the answer.

    Attributes:
        number: Of the last request.
        reply: The policy node's mailbox; its rows are valid while `answered`.

    Concurrency: see `fast_core.memory.Mailbox`. The number goes on from what the box has, so a
    group that moved to another node never asks with a number that was used before.
    """

    def __init__(self, context: NodeContext, shard: Shard, group: EnvGroup) -> None:
        plan, memory = context.plan, context.memory
        self.request = memory.request(shard.shard, group.index)
        self.reply = memory.reply(shard.shard, group.index)
        self._memory, self._actors = memory, plan.names.actors
        self._bells: dict[int, Doorbell] = {}
        self._actor = 0
        self.turn_to(0)
        self._shard, self._rank, self._words = shard, context.rank, context.stats.words
        self.number = self.request.number()
        self._seen = self.reply.number()

    def turn_to(self, actor: int) -> None:
        """Let the policy node of this rank act, until another one is named; no request is open."""
        if actor not in self._bells:
            self._bells[actor] = self._memory.doorbell(self._actors[actor])
        self._actor = actor

    def ask(self, obs: Array, noise: Array, state: Array | None, min_version: int) -> None:
        """Ask for the actions of these rows ``[b, ...]``."""
        request = self.request
        request["obs"][...] = obs
        request["noise"][...] = noise
        if state is not None:
            request["state"][...] = state
        self.number += 1
        request.publish(self.number, Request(self._shard.incarnation, min_version, self._rank))
        self._bells[self._actor].ring()

    def answered(self) -> bool:
        """Whether the reply to the last request is there; counts others and leaves them alone."""
        number = self.reply.number()
        if number == self._seen:
            return False
        self._seen = number
        if number == self.number and self.reply.words.incarnation == self._shard.incarnation:
            return True
        self._words[_LATE] += 1
        return False


class GroupRollout:
    """A group's part of an ordered rollout.

    Attributes:
        version: Oldest weights that acted so far; None before the first step.
    """

    def __init__(
        self,
        order: RolloutOrder,
        group: EnvGroup,
        line: Line,
        slot: RolloutSlot,
        noise: Array,
        words: memoryview,
    ) -> None:
        """Write row 0 and ask for its actions; ``noise`` is ``[T, B, ...]`` of the shard."""
        self._order, self._group, self._line, self._words = order, group, line, words
        self._noise = noise[:, group.envs.start : group.envs.stop]
        self._rows = group.open(slot)
        self._steps = group.stepping(self._rows, order.incarnation)
        self._step = 0
        self.version: int | None = None
        self._ask()

    @property
    def done(self) -> bool:
        """Whether every step was taken."""
        return self._step == len(self._noise)

    def try_advance(self, entering: Callable[[], None]) -> bool:
        """Take one step if its actions are there; ``entering`` is called before it."""
        if self.done or not self._line.answered():
            return False
        entering()
        self._show()
        self._take_step()
        return True

    def _show(self) -> None:
        words, order = self._words, self._order
        words[_SHARD], words[_GROUP], words[_SLOT] = order.shard, self._group.index, order.slot
        words[_TICKET], words[_STEP] = order.ticket, self._step

    def _take_step(self) -> None:
        rows, t, reply = self._rows, self._step, self._line.reply
        batch = self._group.batch
        version = reply.words.version
        self.version = version if self.version is None else min(self.version, version)
        rows.policy_version[t] = version
        rows.action[t] = reply["action"]
        rows.behaviour_log_prob[t] = reply["behaviour_log_prob"]
        self._steps[t](
            reply["environment_action"],
            next_obs=rows.obs[t + 1],
            reward=rows.reward[t],
            terminated=rows.terminated[t],
            truncated=rows.truncated[t],
            final_obs=rows.final_obs[t],
        )
        if batch.quarantined:
            rows.quarantined[t, batch.quarantined] = True
        if self._group.remembers:
            self._group.remember(rows, t, reply.get("state"), reply)
        self._step += 1
        if self.done:
            self._group.close_rollout(rows)
        else:
            self._ask()

    def _ask(self) -> None:
        group, step = self._group, self._step
        seen = group.seen(self._rows, step)
        self._line.ask(seen, self._noise[step], group.memory, self._order.min_version)
        self._words[_REQUESTS] += 1


class Collection:
    """An ordered rollout that is being collected.

    Attributes:
        order: What was ordered.
        shard: Whose it is.
        groups: Its parts, each at a step of its own.
    """

    def __init__(
        self, order: RolloutOrder, shard: Shard, lines: Sequence[Line], words: memoryview
    ) -> None:
        """Open the slot and ask for the first actions of every group."""
        self.order, self.shard = order, shard
        for line in lines:
            line.turn_to(order.actor)
        slot, noise = shard.open(order)
        self.groups = [
            GroupRollout(order, group, line, slot, noise, words)
            for group, line in zip(shard.groups, lines, strict=True)
        ]

    @property
    def done(self) -> bool:
        """Whether every group took every step."""
        return all(group.done for group in self.groups)

    @property
    def version(self) -> int:
        """Oldest weights that acted in it; for a rollout that is done."""
        return min(group.version for group in self.groups if group.version is not None)
