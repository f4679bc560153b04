"""Wrong schedulers: each is caught by the property tests, or they prove nothing.

Each mutant replaces one function of the core by one that makes a single mistake, of those that
were made before. What catches it are the books of the simulation in virtual time, or the very state
machine of `test_properties`, both with fixed seeds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import Phase
from hypothesis import settings as hypothesis_settings
from hypothesis.stateful import run_state_machine_as_test

from fast_core.messages import Leave, RolloutOrder, RolloutReady, Serve
from fast_core.messages.launching import ScaleRequested
from fast_core.scheduler import flow
from fast_core.scheduler.acting import Acting
from fast_core.scheduler.ledger import Ledger, Rollout
from fast_core.scheduler.ratio import Ratio
from fast_core.scheduler.tickets import Tickets
from tests.forms import slow_but
from tests.scheduler.simulation import World, make_settings, simulate
from tests.scheduler.test_properties import Nodes

# Always the same examples. The first failure is the end: nobody reads a smaller one.
FIXED = hypothesis_settings(
    max_examples=500,
    stateful_step_count=30,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    report_multiple_bugs=False,
)
Sound = Callable[..., Any]


def overwrites_a_finished_round(sound: Sound) -> Sound:
    """The slot of a rollout is free as soon as it is complete, not when it was trained on."""

    def complete(self: Ledger, event: RolloutReady) -> Rollout | None:
        rollout = sound(self, event)
        if rollout is not None:
            self._free[event.shard] |= 1 << event.slot
        return rollout  # type: ignore[no-any-return]

    return complete


def admits_one_ticket_too_many(sound: Sound) -> Sound:
    """The bound is one ticket beyond the degree."""
    return lambda **known: sound(**{**known, "degree": known["degree"] + 1})


def admits_one_rollout_too_many(sound: Sound) -> Sound:
    """The bound is one rollout beyond the last ticket's."""
    return lambda **known: sound(**{**known, "started": known["started"] - 1})


def trains_one_ticket_too_late(sound: Sound) -> Sound:
    """A rollout may be overtaken by one ticket more than the lag guarantee allows."""

    def start(self: Ledger, ticket: int, min_version: int, last_ticket: int, *more: Any) -> Any:
        return sound(self, ticket, min_version, last_ticket + 1, *more)

    return start


def drops_a_shard(sound: Sound) -> Sound:
    """A ticket trains without the last of its rollouts, which is never trained on."""

    def merge(self: Tickets, *args: Any, **kwargs: Any) -> list[Rollout] | None:
        rollouts = sound(self, *args, **kwargs)
        return rollouts[:-1] or None if rollouts else rollouts

    return merge


def forgets_a_shard(sound: Sound) -> Sound:
    """The last shard is never told to collect again; the others take its place."""

    def wait(self: Ledger, shard: int) -> None:
        if shard < len(self.owners) - 1 or not self.rollout_ids[shard]:
            sound(self, shard)

    return wait


def trains_before_the_data(sound: Sound) -> Sound:
    """A rollout counts as ready when it is ordered, so the learner runs ahead of it."""

    def begin(self: Tickets, rollout: Rollout, *more: Any) -> None:
        sound(self, rollout, *more)
        if self.ready == self.shards - 1:
            self.complete(rollout)

    return begin


def takes_a_step_too_many(sound: Sound) -> Sound:
    """Tickets grant more optimizer steps than the replay ratio does."""
    return lambda self, env_steps, rows: sound(self, env_steps, rows) + 1


def takes_arrival_order(sound: Sound) -> Sound:
    """At degree 0 the rollouts of a ticket stand in the order in which they came."""

    def mark(self: Tickets, chosen: list[Rollout], *more: Any, **kwargs: Any) -> None:
        sound(self, chosen, *more, **kwargs)
        chosen.sort(key=lambda rollout: rollout.completion)

    return mark


def believes_an_old_incarnation(sound: Sound) -> Sound:
    """What a node still said before it died counts for its successor."""

    def complete(self: Ledger, event: RolloutReady) -> Rollout | None:
        if event.shard < len(self._running) and (open := self._running[event.shard]) is not None:
            own = {"node": self.owners[event.shard], "incarnation": open.order.incarnation}
            event = msgspec.structs.replace(event, **own)
        return sound(self, event)  # type: ignore[no-any-return]

    return complete


def gives_the_same_incarnation_again(sound: Sound) -> Sound:
    """A shard that moves keeps the incarnation that it had."""

    def assign(self: Ledger, shard: int, *args: Any, **kwargs: Any) -> Any:
        self.incarnations[shard] -= self.incarnations[shard] > 0
        return sound(self, shard, *args, **kwargs)

    return assign


def loses_a_rollout_in_a_move(sound: Sound) -> Sound:
    """The rollout that a dead node was collecting counts as started for ever."""
    return lambda self, rollout: None


def moves_without_ordering_anew(sound: Sound) -> Sound:
    """The numbers of the lost rollouts are used up: their shards' next ones are others."""

    def park(self: Ledger, node: str) -> list[Rollout]:
        dropped: list[Rollout] = sound(self, node)
        for rollout in dropped:
            self.rollout_ids[rollout.order.shard] += 1
        return dropped

    return park


def begins_what_is_handed_over(sound: Sound) -> Sound:
    """A shard collects while one policy node leaves it to another."""
    return lambda self, shard: None


def waits_for_a_dead_policy_node(sound: Sound) -> Sound:
    """A policy node that died is still to say that it has left a shard."""
    return lambda self, node: []


def forgets_whom_a_policy_node_acts_for(sound: Sound) -> Sound:
    """One that comes back is told of none of its shards."""
    return lambda self, node: Serve(())


def simulate_policies() -> None:
    """Policy nodes that come, go and die meanwhile."""
    names = tuple(f"policy{k}" for k in range(3))
    kinds = {"policy_nodes": names[:2], "other_nodes": names[:2], "spare_policies": names[2:]}

    def kill(world: World, node: str) -> None:
        if node in world.audit.members - world.audit.away:
            world.kill(node)

    for seed in range(3):
        world = World(
            make_settings(shards=4, restarts={"policy": 9}, stop_env_steps=800, **kinds)
        ).make_ready()
        events: list[Any] = [
            (2.0, ScaleRequested(1, "policy", 1, False)),
            (3.7, lambda world=world: kill(world, "policy1")),
            (9.0, ScaleRequested(2, "policy", 3, False)),
            (12.0, lambda world=world: kill(world, "policy0")),
        ]
        assert simulate(world, seed=seed, scale_ms={Leave: 5000}, events=events)


def simulate_some() -> None:
    """Runs whose books see most mistakes at once."""
    nodes = tuple(f"env{k}" for k in range(3))
    for seed in range(5):
        for degree in (0, 1):
            given = {"degree": degree, "slots_per_shard": degree + 2, "stop_env_steps": 600}
            world = World(
                make_settings(shards=3, env_nodes=nodes, **given), oldest_weights=True
            ).make_ready()
            simulate(world, seed=seed, scale_ms={RolloutOrder: 5000})


MUTANTS = {
    overwrites_a_finished_round: (Ledger, "complete"),
    admits_one_ticket_too_many: (flow, "places"),
    admits_one_rollout_too_many: (flow, "places"),
    trains_one_ticket_too_late: (Ledger, "start"),
    drops_a_shard: (Tickets, "merge"),
    forgets_a_shard: (Ledger, "_wait"),
    trains_before_the_data: (Tickets, "begin"),
    takes_a_step_too_many: (Ratio, "grant"),
    takes_arrival_order: (Tickets, "_mark"),
    believes_an_old_incarnation: (Ledger, "complete"),
    gives_the_same_incarnation_again: (Ledger, "assign"),
    loses_a_rollout_in_a_move: (Tickets, "drop"),
    moves_without_ordering_anew: (Ledger, "park"),
    begins_what_is_handed_over: (Ledger, "hold"),
    waits_for_a_dead_policy_node: (Acting, "bury"),
    forgets_whom_a_policy_node_acts_for: (Acting, "again"),
}


QUICK = (
    overwrites_a_finished_round,
    admits_one_rollout_too_many,
    drops_a_shard,
    trains_before_the_data,
    takes_arrival_order,
    believes_an_old_incarnation,
    loses_a_rollout_in_a_move,
    begins_what_is_handed_over,
    waits_for_a_dead_policy_node,
    forgets_whom_a_policy_node_acts_for,
)


@pytest.mark.parametrize("mutant", slow_but(QUICK, MUTANTS), ids=lambda mutant: mutant.__name__)
def test_wrong_scheduler_is_caught(
    monkeypatch: pytest.MonkeyPatch, mutant: Callable[[Sound], Any]
) -> None:
    place, name = MUTANTS[mutant]
    monkeypatch.setattr(place, name, mutant(getattr(place, name)))
    with pytest.raises((AssertionError, KeyError)):  # the books know nothing of it
        simulate_policies()
        simulate_some()
        run_state_machine_as_test(Nodes, settings=FIXED)


def test_sound_scheduler_is_not_caught() -> None:
    simulate_policies()
    simulate_some()  # the machine has a test of its own
