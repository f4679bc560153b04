"""Two learners in one run: each is scheduled as it would be alone, whatever the other does."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fast_core.errors import CheckpointError, ConfigError
from fast_core.messages import (
    Collect,
    Ready,
    RolloutOrder,
    RolloutRef,
    Save,
    Snapshot,
    Train,
    Trained,
)
from fast_core.messages.launching import EndRun, StopRequested
from fast_core.scheduler import FlowSettings, Scheduler, SchedulerSettings, Send
from tests.scheduler.simulation import make_settings, rollout_ready

NODES = ("env0", "env1")
Work = list[tuple[Any, ...]]


def of_one(key: str, shards: int, **changes: Any) -> dict[str, Any]:
    """What is a learner's own."""
    own = {"key": key, "shards": shards, "optimizers": (f"optimizer{key}",)}
    return own | {"updates_granted": 4, "stop_env_steps": 100, "rows_per_rollout": 10} | changes


def of_two(first: dict[str, Any], second: dict[str, Any], **shared: Any) -> SchedulerSettings:
    degree = shared.get("degree", 0)
    slots = {"slots_per_shard": degree + 1, "env_nodes": NODES}
    other = FlowSettings(degree=degree, **second)
    given = {name: value for name, value in first.items() if name != "key"}
    made = make_settings(**slots, **given, **shared)
    return msgspec.structs.replace(made, others=(other,))


def of_alone(own: dict[str, Any], **shared: Any) -> SchedulerSettings:
    given = {name: value for name, value in own.items() if name != "key"}
    slots = {"slots_per_shard": shared.get("degree", 0) + 1, "env_nodes": NODES}
    return make_settings(**slots, **given, **shared)


def begun(scheduler: Scheduler, settings: SchedulerSettings) -> list[Send]:
    """What it sends when every node is ready."""
    return [send for node in settings.nodes for send in scheduler.handle(Ready(node, 0), 0.0)]


class Side:
    """One learner's work in the run of two, and the scheduler that it would have alone."""

    def __init__(self, own: dict[str, Any], first_shard: int, **shared: Any) -> None:
        self.own, self.first = own, first_shard
        self.settings = of_alone(own, **shared)
        self.scheduler = Scheduler(self.settings)
        self.running: list[RolloutOrder] = []
        self.trains: deque[Train] = deque()
        self.version, self.ended = 0, False

    def shifted(self, order: RolloutOrder | RolloutRef, by: int) -> Any:
        return msgspec.structs.replace(order, shard=order.shard + by)

    def owns(self, shard: int) -> bool:
        return self.first <= shard < self.first + self.own["shards"]

    def work(self, sends: list[Send], *, own: bool) -> Work:
        """What it is told of these, shards counted from its first; by orders, not by nodes."""
        found: Work = []
        by = 0 if own else -self.first
        for node, command in sends:
            if isinstance(command, Collect):
                kept = [o for o in command.rollouts if own or self.owns(o.shard)]
                found += [("collect", *self._told(self.shifted(o, by))) for o in kept]
            elif isinstance(command, Train) and node == self.own["optimizers"][0]:
                refs = [self.shifted(ref, by) for ref in command.rollouts]
                names = [(ref.shard, ref.slot, ref.rollout_id) for ref in refs]
                found.append(("train", command.ticket, names, command.env_steps, command.granted))
        return sorted(found, key=repr)

    @staticmethod
    def _told(order: RolloutOrder) -> tuple[int, ...]:
        return order.shard, order.slot, order.rollout_id, order.ticket, order.min_version

    def take(self, sends: list[Send]) -> None:
        """Note what is to be done in the run of two."""
        for node, command in sends:
            if isinstance(command, Collect):
                self.running += [order for order in command.rollouts if self.owns(order.shard)]
            elif isinstance(command, Train) and node == self.own["optimizers"][0]:
                self.trains.append(command)


class Two:
    """The run of two, and both runs of one, which are told the same."""

    def __init__(self, first: dict[str, Any], second: dict[str, Any], **shared: Any) -> None:
        self.settings = of_two(first, second, **shared)
        self.sides = [Side(first, 0, **shared), Side(second, first["shards"], **shared)]
        self.scheduler = Scheduler(self.settings)
        self.now_s, self.ended = 0.0, False
        sends = begun(self.scheduler, self.settings)
        for side in self.sides:
            same = begun(side.scheduler, side.settings)
            assert side.work(sends, own=False) == side.work(same, own=True)
        self._note(sends)

    def run(self, choose: Callable[[list[Any]], Any] = lambda choices: choices[0]) -> None:
        """Let something happen until the run has ended."""
        while not self.ended:
            choices = self.choices()
            assert choices, "nobody has anything to do, and the run has not ended"
            self.happen(*choose(choices))

    def _note(self, sends: list[Send]) -> None:
        for side in self.sides:
            side.take(sends)
        self.ended |= any(isinstance(command, EndRun) for _, command in sends)

    def choices(self) -> list[tuple[int, str, int]]:
        """What may happen next: of which side, what, and which."""
        found = []
        for number, side in enumerate(self.sides):
            found += [(number, "collected", k) for k in range(len(side.running))]
            if side.trains:
                found.append((number, "trained", 0))
        return found

    def happen(self, number: int, what: str, which: int) -> None:
        """Let it happen in both runs; what follows must be the same, and nothing else."""
        side, self.now_s = self.sides[number], self.now_s + 1
        name = side.own["optimizers"][0]
        if what == "collected":
            order = side.running.pop(which)
            version = max(side.version, order.min_version)
            by = -side.first
            there = self.scheduler.executors()[order.shard]
            here = side.scheduler.executors()[order.shard + by]
            events = (
                rollout_ready(there, order, version),
                rollout_ready(here, side.shifted(order, by), version),
            )
        else:
            train = side.trains.popleft()
            side.version += train.granted
            trained = Trained(name, train.ticket, side.version, train.granted, 0, 0.0, 0, {})
            events = trained, trained
        sends = self.scheduler.handle(events[0], self.now_s)
        follows = side.scheduler.handle(events[1], self.now_s)
        assert side.work(sends, own=False) == side.work(follows, own=True)
        other = self.sides[1 - number]
        assert not other.work(sends, own=False), "one learner waits for the other"
        self._note(sends)
        side.ended |= any(isinstance(command, EndRun) for _, command in follows)


@given(st.data())
def test_each_learner_is_scheduled_as_it_would_be_alone(data: st.DataObject) -> None:
    degree = data.draw(st.integers(0, 3))
    limit = st.integers(10, 300)
    sizes = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))
    two = Two(
        of_one("", sizes[0], stop_env_steps=data.draw(limit)),
        of_one("b", sizes[1], stop_env_steps=data.draw(limit), updates_granted=3),
        degree=degree,
    )
    two.run(lambda choices: data.draw(st.sampled_from(choices)))
    assert all(side.ended for side in two.sides), "it ended before both had come to their limits"
    for number, side in enumerate(two.sides):
        here, there = two.scheduler.statistics(learner=number), side.scheduler.statistics()
        for name in ("tickets_settled", "env_steps_trained", "updates", "version"):
            assert getattr(here, name) == getattr(there, name)


def test_each_learner_goes_on_from_a_checkpoint_of_both() -> None:
    first, second = of_one("", 2, stop_env_steps=40), of_one("b", 1, stop_env_steps=60)
    two = Two(first, second)
    two.run()
    state = two.scheduler.state()
    further = of_two(first, {**second, "stop_env_steps": 90})
    resumed = Scheduler(further, state)
    for learner in (0, 1):
        assert resumed.statistics(learner=learner).env_steps_trained == (40, 60)[learner]
    sends = begun(resumed, further)
    orders = [each for _, c in sends if isinstance(c, Collect) for each in c.rollouts]
    assert [(o.shard, o.rollout_id, o.ticket, o.min_version) for o in orders] == [(2, 7, 6, 24)]
    renamed = of_two(first, {**second, "key": "c"})
    had = re.escape("a run with the learners ['', 'b'], this run has ")
    with pytest.raises(CheckpointError, match=had + re.escape("['', 'c']")):
        Scheduler(renamed, state)
    with pytest.raises(CheckpointError, match=had + re.escape("['']")):
        Scheduler(of_alone(of_one("", 3)), state)
    with pytest.raises(CheckpointError, match=r"3 shards, this run has 2; set rollout\.shards"):
        Scheduler(of_alone(first), state)


def test_every_learner_has_nodes_of_its_own_and_limits_that_are_numbers() -> None:
    with pytest.raises(ConfigError, match=r"a name of its own; got \['optimizer'\] twice"):
        of_two(of_one("", 1), of_one("b", 1, optimizers=("optimizer",)))
    with pytest.raises(ConfigError, match="shards must be at least 1; got 0"):
        of_two(of_one("", 1), of_one("b", 0))


def test_what_nodes_owe_is_told_of_every_learner() -> None:
    settings = of_two(of_one("", 1), of_one("b", 1))
    scheduler = Scheduler(settings)
    begun(scheduler, settings)
    for shard, node in enumerate(scheduler.executors()):
        order = RolloutOrder(shard, 1, 0, 1, 0, 0)
        scheduler.handle(rollout_ready(node, order, 0), 1.0)
    assert scheduler.owed() == (
        "optimizer has not trained on ticket 0; optimizerb has not trained on ticket 0"
    )


def round_of(
    scheduler: Scheduler, settings: SchedulerSettings, shard: int, number: int
) -> list[Send]:
    """What follows when the learner of ``shard`` trains on its ``number``-th ticket, of one."""
    order, node = RolloutOrder(shard, 1, 0, number, number - 1, 0), scheduler.executors()[shard]
    scheduler.handle(rollout_ready(node, order, 4 * (number - 1)), 1.0)
    name = settings.flows[shard].optimizer
    return scheduler.handle(Trained(name, number - 1, 4 * number, 4, 0, 0.0, 0, {}), 1.0)


def test_checkpoint_waits_until_every_learner_rests() -> None:
    settings = of_two(of_one("", 1), of_one("b", 1), checkpoint_at_end=True)
    scheduler = Scheduler(settings)
    begun(scheduler, settings)
    round_of(scheduler, settings, 0, 1)
    scheduler.handle(StopRequested("Ctrl-C", save=True), 2.0)
    sends = round_of(scheduler, settings, 0, 2)
    assert not any(isinstance(command, Save) for _, command in sends)
    sends = round_of(scheduler, settings, 1, 1)
    saves = {node: command for node, command in sends if isinstance(command, Save)}
    assert [*saves] == ["optimizer", "optimizerb", *NODES]
    assert saves["optimizer"].directory.endswith("/000000000030.tmp"), "named by what all trained"


def test_only_the_steps_of_the_first_learner_ask_for_an_evaluation() -> None:
    evaluated = {"evaluator": "evaluator", "eval_every_env_steps": 20}
    settings = of_two(of_one("", 1), of_one("b", 1), **evaluated)
    scheduler = Scheduler(settings)
    begun(scheduler, settings)
    rounds = [round_of(scheduler, settings, *each) for each in ((1, 1), (1, 2), (0, 1), (0, 2))]
    asks = [any(isinstance(command, Snapshot) for _, command in sends) for sends in rounds]
    assert asks == [False, False, False, True]
