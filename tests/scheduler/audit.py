"""The rules of scheduling, checked from outside on what the scheduler is told and says.

It keeps books of its own and shares no code with the scheduler.

`train` commands of a run with replay name no rollouts, so the books say which ones they must be:
those that may be left out no longer, and then those that were complete first.
"""

from __future__ import annotations

from collections import Counter, deque
from fractions import Fraction

from fast_core import messages
from fast_core.messages import launching
from fast_core.scheduler import LAUNCHER, SchedulerSettings, Send

Key = tuple[int, int]  # shard, rollout id
FEW = 8


class Audit:
    """Books over one part of a run, from its start or a restored checkpoint to its end."""

    def __init__(
        self,
        settings: SchedulerSettings,
        *,
        settled: int = 0,
        version: int = 0,
        before: Audit | None = None,
    ):
        """Open the books; ``before`` are those of the run at the checkpoint it resumes from."""
        self.settings = settings
        self.degree = 0 if settings.auto_degree else settings.degree  # in force
        self.settled = settled
        self.merged = settled
        self.started = settled * settings.shards
        self.owner: dict[int, str] = {}
        self.unbegun: set[int] = set()  # moved, and nothing heard of it from where it is now
        self.incarnation: dict[int, int] = dict(before.incarnation) if before else {}
        self.last_rollout: dict[int, int] = dict(before.last_rollout) if before else {}
        self.running: dict[int, tuple[int, int]] = {}  # shard -> slot, rollout id
        self.staged: dict[Key, tuple[int, int, str]] = {}  # slot, incarnation, whose it is
        self.entered = settled * settings.shards  # rollouts that the first stage got
        self.ready: dict[Key, tuple[int, int]] = {}  # completion order: slot, incarnation
        self.dropped = 0
        self.away: set[str] = set()  # died, and not ready again
        self.spawned: set[str] = set()  # of those, who was started anew
        self.members = {*settings.env_nodes, *settings.policy_nodes}
        self.policies = (*settings.policy_nodes, *(settings.spare_policies or ()))
        self.actor: dict[int, str] = {}  # who acts for each shard, nobody while it is handed over
        if settings.policy_nodes:
            count = len(settings.policy_nodes)
            self.actor = {s: settings.policy_nodes[s % count] for s in range(settings.shards)}
        self.told_to_leave: set[int] = set()
        self.joining: set[str] = set()  # asked for, and not ready
        self.retired: set[str] = set()  # told to stop, and not gone
        self.scaled: list[launching.Scaled] = []
        self.deaths: Counter[str] = Counter()
        self.returned = 0
        self.lives: dict[str, int] = {}
        self.taken: set[tuple[int, int]] = set()  # shard, slot
        self.tickets: dict[int, list[Key]] = {}
        self.slots_of: dict[int, set[tuple[int, int]]] = {}
        self.acted: dict[Key, int] = {}
        self.end_version = {settled - 1: version}  # version at the end of each ticket
        self.last_ticket: dict[Key, int] = {}  # that may train on it, by the degree at its start
        self.late: set[Key] = set()  # running, and given up
        self.degree_of: dict[Key, int] = {}  # when it was started
        self.granted: dict[int, int] = {}  # of each ticket that trains
        self.steps_merged = self.steps_settled = 0  # granted since learning last began anew
        self.learning_from = settings.learning_starts
        if before is not None:
            self._resume(before)
        self.evaluating = False
        self.saving: set[str] = set()  # whose parts are missing
        self.checkpoint = self.noted = 0
        self.committing = False
        self.changing: set[str] = set()  # nodes that were told of other values
        self.telling: set[str | None] = set()
        self.followed = dict.fromkeys(settings.followers, settled)  # tickets that each answered
        # Of tickets that some follower is not done with.
        self.reports: deque[messages.Trained] = deque()
        self.ended: launching.EndRun | None = None
        self.evaluated: list[messages.Evaluated] = []
        self.decisions: list[launching.Decision] = []

    def _resume(self, before: Audit) -> None:
        if self.settings.replay_kept:
            self.learning_from = before.learning_from
            self.steps_merged = self.steps_settled = before.steps_settled
        else:
            self.learning_from += before.settled * self.settings.rows_per_ticket

    def event(self, event: object) -> None:
        """Note an event that is about to be handled."""
        if self.ended is not None:
            return
        match event:
            case messages.RolloutReady():
                slot, rollout_id = self.running.pop(event.shard)
                self.unbegun.discard(event.shard)
                assert (event.slot, event.rollout_id) == (slot, rollout_id)
                key = (event.shard, event.rollout_id)
                if key in self.late:
                    self._forget(key, slot)
                elif self.settings.stages:
                    self.staged[key] = (slot, event.incarnation, "")
                else:
                    self.ready[key] = (slot, event.incarnation)
                if key in self.late:
                    self.late.discard(key)
                else:
                    self.acted[key] = event.version
            case messages.Transformed():
                self._transformed(event)
            case messages.NodeExited(node) if node in self.retired or node in self.joining:
                self.retired.discard(node)
                self.joining.discard(node)
            case messages.Ready(node) if node in self.joining:
                self.joining.discard(node)
                self.members.add(node)
            case messages.NodeExited():
                self._exited(event)
            case messages.Ready(node) if node in self.away:
                assert node in self.spawned
                self.away.discard(node)
                self.spawned.discard(node)
                self.returned += 1
            case messages.Left(node, shard):
                assert self.actor.pop(shard) == node
                self.told_to_leave.remove(shard)
            case messages.Trained():
                self.reports.append(event)
                self._settle()
            case messages.Followed(node, ticket):
                assert ticket == self.followed[node] < self.merged
                self.followed[node] += 1
                self._settle()
            case messages.Evaluated():
                self.evaluating = False
                self.evaluated.append(event)
            case messages.Noted():
                if (event.node, event.checkpoint) == (self.settings.replay, self.checkpoint):
                    self.noted = event.checkpoint
            case messages.Saved():
                if event.checkpoint == self.checkpoint:
                    self.saving.discard(event.node)
            case launching.CheckpointWritten():
                self.committing = False
            case messages.Changed(node):
                self.changing.discard(node)
            case launching.Told(moment):
                self.telling.discard(moment)
            case _:
                pass

    def _forget(self, key: Key, slot: int) -> None:
        self.taken.discard((key[0], slot))
        del self.last_ticket[key], self.degree_of[key]

    def _give_up(self, ticket: int) -> None:
        """What still runs though it must be in ``ticket`` at the latest is late."""
        for shard, (_, rollout_id) in self.running.items():
            key = (shard, rollout_id)
            if key not in self.late and self.last_ticket[key] <= ticket:
                self.late.add(key)
                self.started -= 1
                self.dropped += 1

    def _transformed(self, event: messages.Transformed) -> None:
        key = (event.rollout.shard, event.rollout.rollout_id)
        slot, incarnation, stage = self.staged[key]
        assert event.node == stage
        if stage == self.settings.stages[-1]:
            del self.staged[key]
            self.ready[key] = (slot, incarnation)
        else:
            self.staged[key] = (slot, incarnation, f"left {stage}")

    def _exited(self, event: messages.NodeExited) -> None:
        """What an env node was collecting is not open any more; it must be ordered anew."""
        self.deaths[event.node] += 1
        self.away.add(event.node)
        self.spawned.discard(event.node)
        self.changing.discard(event.node)
        for shard in [s for s, actor in self.actor.items() if actor == event.node]:
            self.told_to_leave.discard(shard)
            del self.actor[shard]
        for shard in self._shards(event.node):
            self.unbegun.discard(shard)
            self.incarnation[shard] += 1
            if shard in self.running:
                slot, rollout_id = self.running.pop(shard)
                key = (shard, rollout_id)
                self._forget(key, slot)
                self.last_rollout[shard] = rollout_id - 1
                if key not in self.late:
                    self.started -= 1
                    self.dropped += 1
                self.late.discard(key)

    def _shards(self, node: str) -> list[int]:
        return [shard for shard, owner in self.owner.items() if owner == node]

    def _respawn(self, command: launching.Respawn) -> None:
        node = command.node
        if node not in self.away:  # it was asked for
            assert node not in self.members and node not in self.joining
            assert not command.shards
            self.joining.add(node)
            return
        assert node in self.away and node not in self.spawned
        assert command.life > self.lives.get(node, 1)
        self.lives[node] = command.life
        self.spawned.add(node)
        shards = {each.shard: each.incarnation for each in command.shards}
        assert shards == {shard: self.incarnation[shard] for shard in self._shards(node)}
        assert all(each.taken_over for each in command.shards)

    def _transform(self, node: str, command: messages.Transform) -> None:
        ref, stages = command.rollout, self.settings.stages
        key = (ref.shard, ref.rollout_id)
        slot, incarnation, stage = self.staged[key]
        assert (ref.slot, ref.incarnation) == (slot, incarnation)
        place = stages.index(node)
        assert stage == (f"left {stages[place - 1]}" if place else "")
        if self.settings.degree == 0 and place == 0:
            assert ref.shard == self.entered % self.settings.shards
        self.entered += place == 0
        self.staged[key] = (slot, incarnation, node)

    def _settle(self) -> None:
        """A ticket is settled when the learner and all that follow are done with it."""
        least = min(self.followed.values(), default=self.merged)
        while self.reports and self.reports[0].ticket < least:
            self._trained(self.reports.popleft())

    def _trained(self, event: messages.Trained) -> None:
        ticket = event.ticket
        assert ticket == self.settled
        self.settled += 1
        assert event.updates + event.skipped == self.granted[ticket]
        self.steps_settled += self.granted.pop(ticket)
        self.end_version[ticket] = event.version
        for key in self.tickets.pop(ticket):
            version, degree = self.acted.pop(key), self.degree_of.pop(key)
            del self.last_ticket[key]
            oldest = self.end_version.get(ticket - degree - 1)
            if oldest is not None:
                # lag = (event.version - 1) - version <= U_{i-eta} + ... + U_i - 1
                assert version >= oldest, f"ticket {ticket} trained on version {version}"
        self.taken -= self.slots_of.pop(ticket)

    def sends(self, sends: list[Send]) -> None:
        """Check what the scheduler answered."""
        told: set[str] = set()
        moving: set[int] = set()  # released, and not assigned yet
        drawn: messages.Train | None = None
        for node, command in sends:
            if self.ended is not None:
                assert isinstance(command, launching.Decision), f"{command!r} after the end"
            match command:
                case messages.Release(shard):
                    assert self.owner.pop(shard) == node and shard not in self.running
                    assert shard not in self.unbegun, "two nodes may be making its environments"
                    assert not self.changing and self.saving <= {self.settings.replay}
                    moving.add(shard)
                case messages.Leave(shard):
                    assert self.actor[shard] == node and node not in self.away
                    assert shard not in self.running and shard not in self.told_to_leave
                    self.told_to_leave.add(shard)
                case messages.Serve(shards):
                    self._serve(node, shards)
                case launching.Retire(name) if name in self.policies:
                    assert node == LAUNCHER and name not in self.actor.values()
                    self.members.remove(name)
                    self.retired.add(name)
                case launching.Retire(name):
                    assert node == LAUNCHER and not self._shards(name)
                    assert not self.changing and self.saving <= {self.settings.replay}
                    self.members.remove(name)
                    self.retired.add(name)
                case launching.Scaled():
                    assert node == LAUNCHER
                    self.scaled.append(command)
                case messages.Assign():
                    assert command.taken_over == (command.shard in moving)
                    moving.discard(command.shard)
                    assert command.shard not in self.owner, "two nodes have one shard"
                    assert node in self.members
                    assert command.incarnation == self.incarnation.get(command.shard, 0) + 1
                    assert node not in self.away and command.shard not in self.running
                    self.owner[command.shard] = node
                    if command.taken_over:
                        self.unbegun.add(command.shard)
                    self.incarnation[command.shard] = command.incarnation
                case messages.Collect():
                    assert node not in told, "two Collects for one node in one decision"
                    assert node not in self.away
                    told.add(node)
                    self._collect(node, command)
                case messages.Transform():
                    self._transform(node, command)
                case messages.Train(ticket) if node in self.followed:
                    assert node not in self.away and self.followed[node] <= ticket <= self.merged
                case messages.Train(ticket) if (
                    node == self.settings.replay and ticket < self.merged
                ):
                    assert self.granted[ticket] == command.granted, "told again of what is open"
                case messages.Train() if node == self.settings.replay:
                    assert drawn is None and node not in self.away
                    drawn = command
                case messages.Train():
                    replay = self.settings.replay
                    assert drawn is command or replay is None or replay in self.away
                    drawn = None
                    self._train(node, command)
                case messages.Snapshot():
                    assert node == self.settings.optimizer
                    assert not self.evaluating, "two evaluations in flight"
                    self.evaluating = True
                    sync = self.settings.eval_mode == "sync"
                    assert not (sync and self.tickets), "it evaluates a later version"
                case messages.Evaluate():
                    assert node == self.settings.evaluator and self.evaluating
                    assert node not in self.away
                case messages.Save():
                    assert not self.running and not self.ready and not self.tickets
                    assert not self.staged and node not in self.away and not self.committing
                    if command.checkpoint != self.checkpoint:
                        self.checkpoint = command.checkpoint
                        self.saving.clear()
                    self.saving.add(node)
                    assert node in self.members or not node.startswith("env")
                case launching.CommitCheckpoint():
                    assert node == LAUNCHER and not self.saving
                    self.committing = True
                case launching.AbandonCheckpoint():
                    assert node == LAUNCHER and not self.saving, "a node may still write to it"
                    self.committing = False
                case messages.Change():
                    assert not self.running and not self.ready and not self.tickets
                    assert not self.staged and node not in self.away
                    assert node not in self.changing
                    self.changing.add(node)
                case launching.Tell(moment):
                    assert node == LAUNCHER and moment in self.settings.moments
                    assert moment not in self.telling, "more than one of a kind is told of"
                    self.telling.add(moment)
                case launching.Respawn():
                    assert node == LAUNCHER
                    self._respawn(command)
                case launching.EndRun():
                    self.ended = command
                case launching.Decision():
                    self.decisions.append(command)
                case _:
                    raise AssertionError(f"unexpected {command!r}")
        assert not moving, "a shard has no node"
        assert drawn is None, "the optimizer isn't told what the replay node draws for"
        if told and self.settings.shards <= FEW:  # every shard is looked at
            self._check_turns(
                [command for _, command in sends if isinstance(command, messages.Collect)]
            )
        if self.settings.replay is not None:
            self._check_ratio()

    def _serve(self, node: str, shards: tuple[int, ...]) -> None:
        """One acts for a shard at a time, and is told so once in its life."""
        assert node in self.members and node in self.policies and node not in self.away
        for shard in shards:
            assert shard not in self.actor, "two policy nodes act for one shard"
            self.actor[shard] = node

    def _check_turns(self, given: list[messages.Collect]) -> None:
        """No shard that could collect is left out for one that has started more rollouts."""
        most = max(order.rollout_id for command in given for order in command.rollouts) - 1
        slots = self.settings.slots_per_shard if self.settings.degree else 1
        for shard, owner in self.owner.items():
            used = sum(taken == shard for taken, _ in self.taken)
            if shard not in self.running and owner not in self.away and used < slots:
                held = self.policies and (shard in self.told_to_leave or shard not in self.actor)
                waits = held or self.last_rollout.get(shard, 0) >= most
                assert waits, f"shard {shard} is forgotten"

    def _check_ratio(self) -> None:
        """Neither side is ahead by more than the rounds of the degree, and a carried fraction."""
        settings = self.settings
        ratio = Fraction(settings.replay_ratio)
        round_steps = ratio * settings.rows_per_ticket
        merged = self.merged * settings.rows_per_ticket
        due = ratio * max(0, merged - self.learning_from)
        assert self.steps_merged <= due < self.steps_merged + 1, "fractions are lost"
        assert 0 <= due - self.steps_settled < (settings.degree + 1) * round_steps + 1
        # The other way round: what is collected, merged or not, but not learnt from.
        collected = self.started * settings.rows_per_rollout
        ahead = ratio * max(0, collected - self.learning_from) - self.steps_settled
        assert 0 <= ahead < (settings.degree + 1) * round_steps + 1

    def _collect(self, node: str, command: messages.Collect) -> None:
        settings = self.settings
        assert self.saving <= {settings.replay}, "work is given out while nodes save"
        assert settings.replay is not None or not self.committing
        assert "start" not in self.telling and not self.changing
        assert settings.replay not in self.saving or self.noted == self.checkpoint
        shards = [order.shard for order in command.rollouts]
        assert shards == sorted(set(shards))
        for order in command.rollouts:
            shard = order.shard
            assert self.owner[shard] == node
            assert self.incarnation[shard] == order.incarnation
            assert shard not in self.running, "a shard runs two rollouts"
            if self.policies:
                assert shard not in self.told_to_leave, "who acts for it was told to leave it"
                actor = self.policies[order.actor]
                assert actor in self.away or self.actor[shard] == actor, "nobody would answer"
                assert self.actor.get(shard, actor) == actor
            assert order.rollout_id == self.last_rollout.get(shard, 0) + 1
            self.last_rollout[shard] = order.rollout_id
            assert 0 <= order.slot < settings.slots_per_shard
            assert (shard, order.slot) not in self.taken, "a slot is written before it is free"
            self.taken.add((shard, order.slot))
            self.running[shard] = (order.slot, order.rollout_id)
            key = (shard, order.rollout_id)
            self.last_ticket[key] = self.settled + self.degree
            if settings.auto_degree:  # where it has fallen, those started before come no later
                for earlier, last in self.last_ticket.items():
                    self.last_ticket[earlier] = min(last, self.last_ticket[key])
            self.degree_of[key] = self.degree
            oldest = self.end_version.get(order.ticket - self.degree - 1, 0)
            assert oldest <= order.min_version <= self.end_version[self.settled - 1]
            self.started += 1
        # Within one decision the orders of several nodes share the places, so tickets are
        # compared as a whole: no order may name a ticket that is not open.
        assert self.started <= settings.shards * (self.settled + 1 + self.degree)
        assert all(o.ticket <= self.settled + self.degree for o in command.rollouts)
        if settings.stop_env_steps is not None:
            needed = -(-settings.stop_env_steps // settings.rows_per_ticket)
            assert self.started <= settings.shards * needed, "work that nobody needs"

    def _train(self, node: str, command: messages.Train) -> None:
        settings = self.settings
        assert node == settings.optimizer and command.ticket == self.merged
        if settings.stragglers == "drop":
            self._give_up(command.ticket)
        self.merged += 1
        assert command.env_steps == command.ticket * settings.rows_per_ticket
        self.granted[command.ticket] = command.granted
        self.steps_merged += command.granted
        if settings.replay is not None:
            self._merge(command)
            return
        assert command.granted == settings.updates_granted
        assert len(command.rollouts) == settings.shards
        keys = [(ref.shard, ref.rollout_id) for ref in command.rollouts]
        chosen = set(keys)
        if self.degree == 0:
            shards = [shard for shard, _ in keys]
            assert shards == (sorted(shards) if settings.auto_degree else [*range(len(keys))])
        else:
            assert keys == [key for key in self.ready if key in chosen]
        slots = set()
        for ref, key in zip(command.rollouts, keys, strict=True):
            slot, incarnation = self.ready.pop(key)
            assert (slot, incarnation) == (ref.slot, ref.incarnation)
            slots.add((ref.shard, slot))
        self.slots_of[command.ticket] = slots
        self.tickets[command.ticket] = keys
        self._check_left_behind(command.ticket)

    def _check_left_behind(self, ticket: int) -> None:
        """What may be trained on in this ticket at the latest is in it, or was in one before."""
        trains = {key for keys in self.tickets.values() for key in keys}
        for key, last in self.last_ticket.items():
            assert last > ticket or key in trains or key in self.late, f"{key} is overtaken"

    def _merge(self, command: messages.Train) -> None:
        shards = self.settings.shards
        assert command.rollouts == () and len(self.ready) >= shards
        due = [key for key in self.ready if self.last_ticket[key] <= command.ticket]
        others = [key for key in self.ready if key not in due]
        keys = (due + others)[:shards]
        versions = [self.acted[key] for key in keys]
        assert command.oldest_version == min(versions)
        assert command.mean_version == sum(versions) / shards
        self.slots_of[command.ticket] = {(key[0], self.ready.pop(key)[0]) for key in keys}
        self.tickets[command.ticket] = keys
