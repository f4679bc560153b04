import math

import msgspec
import pytest

from fast_core.messages import Collect, RolloutReady, Train, Trained
from fast_core.messages.launching import EndRun
from fast_core.scheduler import Send
from tests.scheduler.simulation import World, make_settings


def ready_world(**changes: object) -> World:
    return World(make_settings(**changes)).make_ready()


def commands(sends: list[Send], kind: type) -> list[Send]:
    return [send for send in sends if isinstance(send.command, kind)]


def collect_all(world: World) -> list[Send]:
    """Let every env node do all it was told; returns what the last report led to."""
    sends: list[Send] = []
    while nodes := [node for node in world.can_start() if node in world.settings.env_nodes]:
        sends = world.do(nodes[0])
    return sends


def train_one(world: World) -> list[Send]:
    return world.do("optimizer")


def ticket(world: World) -> list[Send]:
    """Collect and train on one."""
    collect_all(world)
    return train_one(world)


def test_synchronous_run_alternates() -> None:
    world = ready_world(shards=3, stop_env_steps=90)
    for ticket in range(3):
        sends = collect_all(world)
        assert [type(send.command) for send in sends] == [Train]
        train = sends[0].command
        assert isinstance(train, Train)
        assert (train.ticket, train.env_steps, train.granted) == (ticket, 30 * ticket, 4)
        assert [ref.shard for ref in train.rollouts] == [0, 1, 2]
        assert [ref.rollout_id for ref in train.rollouts] == [ticket + 1] * 3
        sends = train_one(world)
        assert len(commands(sends, Collect)) == (2 if ticket < 2 else 0)
    assert world.end.text == "90 env steps trained (stop.env_steps: 90)"


def test_collects_are_batched_by_node_in_shard_order() -> None:
    world = ready_world(shards=5)
    collects = {node: c for node, c in world.log if isinstance(c, Collect)}
    shards = {node: [order.shard for order in c.rollouts] for node, c in collects.items()}
    assert shards == {"env0": [0, 1], "env1": [2, 3, 4]}


def test_orders_ask_for_the_weights_of_the_last_settled_ticket() -> None:
    world = ready_world()
    collect_all(world)
    (_, first), (_, second) = commands(train_one(world), Collect)
    assert isinstance(first, Collect) and isinstance(second, Collect)
    assert first.rollouts[0].min_version == second.rollouts[0].min_version == 4
    assert first.rollouts[0].ticket == 1


def test_degree_allows_that_many_tickets_ahead_of_training() -> None:
    for degree in (0, 1, 3):
        world = ready_world(degree=degree, slots_per_shard=8, stop_env_steps=1000)
        collect_all(world)
        statistics = world.scheduler.statistics()
        assert statistics.tickets_admitted == statistics.tickets_merged == degree + 1
        assert statistics.tickets_settled == 0


def test_slots_bound_collection_too() -> None:
    world = ready_world(degree=9, slots_per_shard=2, stop_env_steps=1000)
    collect_all(world)
    assert world.scheduler.statistics().tickets_admitted == 2
    sends = train_one(world)
    ((node, _),) = commands(sends, Collect)
    assert node == "env0", "ticket 0 held both slots of shard 0, which completed first"


def test_rollout_with_weights_older_than_ordered_ends_the_run() -> None:
    world = ready_world(degree=9, slots_per_shard=2, stop_env_steps=1000)
    ticket(world)
    shard, (slot, rollout_id) = next(iter(world.audit.running.items()))
    node = world.audit.owner[shard]
    sends = world.deliver(RolloutReady(node, shard, 1, slot, rollout_id, 2, 3, (), ()))
    end = sends[-1].command
    assert isinstance(end, EndRun), "nothing follows the end, though the shard is idle"
    assert "version 3; it was told to wait for 4" in end.text


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"ticket": 1}, "ticket 0 is next"),
        ({"updates": 3}, "3 updates and 0 skipped; together they must be the 4"),
        ({"updates": 5, "skipped": -1}, "5 updates and -1 skipped"),
        ({"version": 5}, "version 5; the version counts committed updates and stood at 0"),
        ({"version": 3}, "version 3"),
    ],
)
def test_impossible_report_of_the_optimizer_ends_the_run(change: dict[str, int], text: str) -> None:
    world = ready_world()
    collect_all(world)
    good = Trained("optimizer", 0, 4, 4, 0, 0.0, 0, {})
    sends = world.scheduler.handle(msgspec.structs.replace(good, **change), 0.0)
    end = sends[-1].command
    assert isinstance(end, EndRun)
    assert end.reason == "failed" and text in end.text


def test_training_report_without_training_ends_the_run() -> None:
    world = ready_world()
    sends = world.scheduler.handle(Trained("optimizer", 0, 4, 4, 0, 0.0, 0, {}), 0.0)
    assert isinstance(sends[-1].command, EndRun)
    assert "no ticket is training" in sends[-1].command.text


def test_doubled_training_report_is_counted_and_ignored() -> None:
    world = ready_world()
    ticket(world)
    assert world.scheduler.handle(Trained("optimizer", 0, 4, 4, 0, 0.0, 0, {}), 0.0) == []
    assert world.scheduler.statistics().stale_events == 1


def test_skipped_updates_settle_a_ticket() -> None:
    world = World(make_settings(), skipped=lambda ticket: 3).make_ready()
    ticket(world)
    statistics = world.scheduler.statistics()
    assert (statistics.tickets_settled, statistics.updates, statistics.version) == (1, 1, 1)


def test_episodes_are_counted_in_training_order() -> None:
    world = ready_world(shards=2, stop_env_steps=1000)
    for shard, returns in ((1, (5.0, 6.0)), (0, (1.0,))):
        node = world.audit.owner[shard]
        world.deliver(
            RolloutReady(node, shard, 1, 0, 1, 0, 0, returns, (2,) * len(returns), quarantined=1)
        )
    statistics = world.scheduler.statistics()
    assert (statistics.episodes, statistics.quarantined) == (3, 2)
    assert statistics.return_mean == 4.0 and statistics.length_mean == 2.0
    assert world.scheduler._life.flow.episodes.recent_returns == [1.0, 5.0, 6.0]


def test_means_are_over_the_last_hundred_episodes() -> None:
    world = ready_world(shards=1, env_nodes=("env0",))
    returns = (7.0,) * 50 + (1.0,) * 50 + (3.0,) * 40 + (5.0,) * 9 + (math.nan,)
    world.deliver(RolloutReady("env0", 0, 1, 0, 1, 0, 0, returns, (2,) * 148 + (4, 9)))
    statistics = world.scheduler.statistics()
    assert statistics.episodes == 150
    assert statistics.return_mean == pytest.approx((50 * 1 + 40 * 3 + 9 * 5) / 99)
    assert statistics.return_mean_50 == pytest.approx((40 * 3 + 9 * 5) / 49)
    assert statistics.return_mean_10 == 5.0
    assert (statistics.return_last, statistics.length_last) == (5.0, 4)


def quarantined_of(episodes: int, quarantined: int, limit: float = 0.5) -> World:
    """A world in which so many of so many episodes have no known outcome, the last ones."""
    world = ready_world(shards=1, env_nodes=("env0",), stop_env_steps=1000, nonfinite_share=limit)
    returns = (3.0,) * (episodes - quarantined) + (math.nan,) * quarantined
    world.deliver(
        RolloutReady("env0", 0, 1, 0, 1, 0, 0, returns, (2,) * episodes, quarantined=quarantined)
    )
    train_one(world)
    return world


@pytest.mark.parametrize(
    ("episodes", "quarantined", "limit"), [(100, 50, 0.5), (99, 99, 0.5), (200, 100, 1.0)]
)
def test_episodes_without_a_known_outcome_make_no_mean(
    episodes: int, quarantined: int, limit: float
) -> None:
    world = quarantined_of(episodes, quarantined, limit)
    assert world.ended is None
    statistics = world.scheduler.statistics()
    assert statistics.quarantined_share == min(1.0, quarantined / min(episodes, 100))
    assert statistics.return_mean == (3.0 if statistics.quarantined_share < 1 else None)
    assert statistics.length_mean == (2.0 if statistics.quarantined_share < 1 else None)


def test_more_quarantined_episodes_than_allowed_end_the_run_with_the_cause() -> None:
    world = quarantined_of(100, 51)
    assert world.end.reason == "failed"
    assert "51 of the last 100 training episodes met NaN or infinity" in world.ended.text
    assert "environment.nonfinite_share: 0.5" in world.ended.text


def lags(world: World, ticket: int, mean: float, largest: int) -> None:
    """Settle a ticket whose rows lag so much."""
    collect_all(world)
    world.busy.clear()
    world.inbox["optimizer"].clear()
    world.version += 4
    world.deliver(Trained("optimizer", ticket, world.version, 4, 0, mean, largest, {}))


def test_lag_is_shown_now_mean_and_largest() -> None:
    world = ready_world(stop_env_steps=1000)
    for ticket, (mean, largest) in enumerate([(1.0, 3), (2.0, 2)]):
        lags(world, ticket, mean, largest)
    statistics = world.scheduler.statistics()
    assert (statistics.lag_now, statistics.lag_mean, statistics.lag_max) == (2.0, 1.5, 3)


@pytest.mark.parametrize(("stop", "tickets"), [(100, 5), (101, 6), (1, 1), (20, 1), (21, 2)])
@pytest.mark.parametrize("degree", [0, 1, 4])
def test_exactly_the_tickets_that_env_steps_need(stop: int, tickets: int, degree: int) -> None:
    world = ready_world(stop_env_steps=stop, degree=degree, slots_per_shard=3)
    while world.ended is None:
        ticket(world)
    statistics = world.scheduler.statistics()
    assert statistics.env_steps_collected == statistics.env_steps_trained == 20 * tickets


@pytest.mark.parametrize("skipped", [0, 1, 3])
@pytest.mark.parametrize("degree", [0, 2])
def test_update_limit_collects_nothing_in_vain(skipped: int, degree: int) -> None:
    settings = make_settings(stop_env_steps=None, stop_updates=10, degree=degree, slots_per_shard=3)
    world = World(settings, skipped=lambda ticket: skipped).make_ready()
    while world.ended is None:
        ticket(world)
    statistics = world.scheduler.statistics()
    each = 4 - skipped
    assert statistics.updates >= 10
    assert statistics.env_steps_collected == statistics.env_steps_trained
    if degree == 0:
        assert statistics.updates < 10 + each


def test_time_limit_ends_the_run_at_rest() -> None:
    world = ready_world(stop_env_steps=None, stop_time_s=5.0)
    world.now_s = 4.0
    collect_all(world)
    assert world.scheduler.next_wakeup_s() == 5.0
    world.now_s = 5.0
    sends = train_one(world)
    assert commands(sends, Collect) == []
    assert world.end.text == "5.0 s of training (stop.time_s: 5)"


def test_time_limit_lets_a_begun_ticket_train() -> None:
    world = ready_world(stop_env_steps=None, stop_time_s=5.0)
    world.start("env0")
    world.now_s = 6.0
    world.finish("env0")
    assert world.ended is None and world.scheduler.next_wakeup_s() is None
    ticket(world)
    assert world.ended is not None
    assert world.scheduler.statistics().env_steps_trained == 20


def test_steps_on_a_round_itself_are_no_lag_beyond_it() -> None:
    """Of four steps on one ticket the last is three versions behind, their mean 1.5."""
    world = ready_world(stop_env_steps=1000)
    seen = []
    for ticket, (mean, largest) in enumerate([(1.5, 3), (3.5, 5), (1.5, 3)]):
        lags(world, ticket, mean, largest)
        now = world.scheduler.statistics()
        seen.append((now.lag_beyond, now.lag_beyond_max))
    assert seen == [(0.0, 0), (2.0, 2), (0.0, 2)]
