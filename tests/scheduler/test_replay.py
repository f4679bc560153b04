"""Runs that learn from replay: who is told what, and how closely the ratio is kept."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from fast_core.messages import Collect, Event, Noted, Save, Saved, Snapshot, Train, Trained
from fast_core.messages.launching import EndRun, LauncherEvent, StopRequested
from fast_core.scheduler import Send
from tests.scheduler.simulation import World, make_settings, rollout_ready, simulate, work_of
from tests.scheduler.test_training import collect_all, commands


def replay_world(**changes: object) -> World:
    values: dict[str, object] = {"replay": "replay", "optimizers": ("optimizer", "second")}
    return World(make_settings(**(values | changes))).make_ready()


def train_one(world: World) -> list[Send]:
    world.do("replay")
    return world.do("optimizer")


def test_replay_node_and_first_optimizer_get_the_same_ticket_without_rollouts() -> None:
    world = replay_world(degree=1, slots_per_shard=2, replay_ratio="0.35")
    world.version = 9
    for version, node in ((3, "env1"), (6, "env0")):
        order = world.inbox[node].popleft()
        sends = world.deliver(rollout_ready(node, order, version))  # type: ignore[arg-type]
    train = Train(0, (), 0, 7, 3, 4.5)
    assert commands(sends, Train) == [("replay", train), ("optimizer", train)]


def test_snapshots_are_asked_of_the_first_optimizer() -> None:
    world = replay_world(evaluator="evaluator", eval_every_env_steps=20)
    collect_all(world)
    assert commands(train_one(world), Snapshot) == [("optimizer", Snapshot(1))]


def test_every_part_of_a_checkpoint_is_asked_for() -> None:
    world = replay_world(checkpoint_every_updates=1, savers=("mine",))
    collect_all(world)
    nodes = [node for node, _ in commands(train_one(world), Save)]
    assert nodes == ["optimizer", "second", "replay", "env0", "env1", "mine"]


@pytest.mark.parametrize("granted", [(0, 6, 7), (0, 7, 6)])
def test_report_is_held_against_the_grant_of_its_own_ticket(granted: tuple[int, ...]) -> None:
    """Three tickets train: the first grants none, the next 6, the last 7."""
    world = replay_world(degree=2, slots_per_shard=3, replay_ratio="0.333", learning_starts=20)
    collect_all(world)
    version = 0
    for ticket, updates in enumerate(granted):
        version += updates
        world.scheduler.handle(Trained("optimizer", ticket, version, updates, 0, 0.0, 0, {}), 0.0)
    right = granted == (0, 6, 7)
    assert world.scheduler.statistics().tickets_settled == (3 if right else 1)
    assert world.scheduler._life.ended != right


def test_report_of_another_optimizer_is_counted_and_ignored() -> None:
    world = replay_world()
    collect_all(world)
    assert world.scheduler.handle(Trained("second", 0, 20, 20, 0, 0.0, 0, {}), 0.0) == []
    assert world.scheduler.statistics().stale_events == 1


def test_counters_show_what_was_granted_and_what_was_kept() -> None:
    world = World(
        make_settings(
            replay="replay",
            replay_ratio="0.5",
            learning_starts=30,
            checkpoint_at_end=True,
        ),
        skipped=lambda ticket: 2,
    ).make_ready()
    assert world.scheduler.statistics().replay_ratio is None
    simulate(world)
    before = world.scheduler.statistics()
    assert (before.env_steps_trained, before.updates_granted, before.learning_from) == (100, 35, 30)
    assert before.updates == 35 - 2 * 4, "the ticket that began learning granted 5 as others 10"
    assert before.replay_ratio == 27 / 70
    resumed = World(world.settings, resumed=world.checkpoints[-1]).scheduler.statistics()
    assert (resumed.updates_granted, resumed.replay_ratio) == (35, 27 / 70)


# --- limits ------------------------------------------------------------------------------------


@pytest.mark.parametrize("degree", [0, 3])
@pytest.mark.parametrize(
    ("ratio", "starts", "updates", "tickets"),
    [
        ("1", 0, 41, 3),
        ("0.1", 0, 5, 3),  # 50 env steps
        ("0.1", 95, 5, 8),  # 145
        ("0.01", 0, 1, 5),
        ("1000", 19, 1, 1),
    ],
)
def test_update_limit_is_reached_with_no_ticket_too_many(
    ratio: str, starts: int, updates: int, tickets: int, degree: int
) -> None:
    world = replay_world(
        replay_ratio=ratio,
        learning_starts=starts,
        stop_updates=updates,
        stop_env_steps=None,
        degree=degree,
        slots_per_shard=4,
    )
    simulate(world)
    statistics = world.scheduler.statistics()
    assert statistics.updates >= updates
    assert statistics.env_steps_collected == statistics.env_steps_trained == 20 * tickets


def test_run_that_ends_before_learning_begins_ends() -> None:
    world = replay_world(learning_starts=1000, stop_env_steps=100, checkpoint_at_end=True)
    assert simulate(world).reason == "finished"
    statistics = world.scheduler.statistics()
    assert (statistics.env_steps_trained, statistics.updates) == (100, 0)
    assert statistics.replay_ratio is None


# --- both sides wait for each other ------------------------------------------------------------


class Watched(World):
    """Keeps ``ratio * merged - steps`` and what is unlearnt after every event, with the time."""

    def deliver(self, event: Event | LauncherEvent) -> list[Send]:
        sends = super().deliver(event)
        merged = self.audit.merged * self.settings.rows_per_ticket
        if not hasattr(self, "seen"):
            self.seen: list[tuple[float, int, int]] = []
        self.seen.append((self.now_s, merged, self.audit.steps_settled))
        return sends


@pytest.mark.parametrize("degree", [0, 1])
@pytest.mark.parametrize("paused", ["optimizer", "replay", "env0"])
def test_drift_stays_in_a_band_and_nobody_loses_anything(degree: int, paused: str) -> None:
    """SCH-07: ratio 4, at least 100 items, slack 40; whoever pauses for 30 s is waited for.

    At degree 0 a round of 10 env steps is all that one side is ever ahead of the other.
    """
    settings = make_settings(
        replay="replay",
        replay_ratio="4",
        learning_starts=100,
        rows_per_rollout=5,
        stop_env_steps=1000,
        degree=degree,
        slots_per_shard=degree + 1,
    )
    world = Watched(settings)
    world.make_ready()

    def wake() -> None:
        world.paused.clear()
        world.touched.append(paused)

    simulate(
        world,
        scale_ms={Train: 900},
        events=[(20.0, lambda: world.paused.add(paused)), (50.0, wake)],
    )
    drift = [4 * merged - steps for _, merged, steps in world.seen if merged > 100]
    assert min(drift) >= 360 and max(drift) == 440 + 40 * degree
    assert all(steps == 0 for _, merged, steps in world.seen if merged <= 100)
    moving = {(merged, steps) for now_s, merged, steps in world.seen if 25.0 < now_s < 50.0}
    assert len(moving) <= 1, "the other side went on without the one that paused"
    assert any(now_s >= 50.0 for now_s, _, _ in world.seen)
    statistics = world.scheduler.statistics()
    assert (statistics.env_steps_collected, statistics.env_steps_trained) == (1000, 1000)
    assert statistics.rows_dropped == 0 and statistics.updates == 3600


@hypothesis_settings(max_examples=30)
@given(
    ratio=st.sampled_from(["0.1", "0.333", "1/3", "2.5", "1000"])
    | st.integers(1, 9999).map(lambda thousandths: str(thousandths / 1000)),
    degree=st.integers(0, 10),
    starts=st.integers(0, 200),
    shards=st.integers(1, 6),
    rows=st.integers(1, 7),
    seed=st.integers(0, 99),
    slow=st.sampled_from(["env", "learner", "replay", "nobody"]),
    deaths=st.integers(0, 1),
)
def test_ratio_is_kept_by_any_run(
    ratio: str, degree: int, starts: int, shards: int, rows: int, seed: int, slow: str, deaths: int
) -> None:
    """`Audit` holds it to the bound at every moment, in both directions."""
    world = replay_world(
        shards=shards,
        rows_per_rollout=rows,
        replay_ratio=ratio,
        learning_starts=starts,
        degree=degree,
        slots_per_shard=degree + 1,
        stop_env_steps=400,
        restarts={"env": deaths},
        checkpoint_every_updates=50,
    )
    scale = {"env": {Train: 10}, "learner": {Train: 9000}, "replay": {Save: 20000}, "nobody": {}}
    kill = [(1.0, lambda: world.kill("env0"))] if deaths else []
    assert simulate(world, seed=seed, scale_ms=scale[slow], events=kill).reason == "finished"
    statistics = world.scheduler.statistics()
    assert statistics.updates == world.audit.steps_settled == statistics.updates_granted
    assert statistics.updates == world.scheduler._life.flow.ratio.granted_by(
        statistics.env_steps_trained
    )


# --- resuming ----------------------------------------------------------------------------------


@pytest.mark.parametrize("ratio", ["0.1", "0.333", "2.5", "7"])
@pytest.mark.parametrize("degree", [0, 3])
def test_resumed_run_grants_what_the_uninterrupted_one_granted(ratio: str, degree: int) -> None:
    values: dict[str, object] = {"shards": 5, "degree": degree, "slots_per_shard": 2}
    values |= {"stop_env_steps": 2000, "checkpoint_every_updates": 17, "rows_per_rollout": 7}
    whole = replay_world(**values, replay_ratio=ratio, learning_starts=111)
    simulate(whole, scale_ms={Save: 5})
    assert len(whole.checkpoints) >= 4

    def work(sends: list[Send]) -> list[tuple[str, str]]:
        apart = ("Save", "EndRun")  # the end says whether it was reached before the resume
        return [(node, text) for node, text in work_of(sends) if not text.startswith(apart)]

    for checkpoint in whole.checkpoints[:: len(whole.checkpoints) // 3]:
        resumed = World(whole.settings, resumed=checkpoint).make_ready()
        simulate(resumed, scale_ms={Save: 5})
        if degree == 0:
            assert work(resumed.log) == work(whole.log[checkpoint.sent :])
        left = grants(whole)[checkpoint.commit.env_steps // whole.settings.rows_per_ticket :]
        assert grants(resumed) == left
        assert resumed.scheduler.statistics().updates == whole.scheduler.statistics().updates


def grants(world: World) -> list[tuple[int, int, int]]:
    trains = [command for node, command in world.log if isinstance(command, Train)]
    return [(train.ticket, train.env_steps, train.granted) for train in trains[::2]]


def test_resumed_without_its_contents_a_replay_is_filled_anew_before_learning() -> None:
    world = replay_world(
        learning_starts=40, checkpoint_every_updates=40, replay_kept=False, stop_env_steps=300
    )
    simulate(world)
    resumed = World(world.settings, resumed=world.checkpoints[1]).make_ready()
    simulate(resumed)
    begun = world.checkpoints[1].commit.env_steps
    assert [granted for _, _, granted in grants(resumed)[:3]] == [0, 0, 20]
    assert resumed.scheduler.statistics().learning_from == begun + 40
    assert resumed.scheduler.statistics().replay_ratio == 1.0
    assert resumed.audit.decisions[0].why.endswith(f"learning begins at {begun + 40} env steps")


# --- checkpoints that are streamed -------------------------------------------------------------


OTHERS = ("optimizer", "second", "env0", "env1")


def saving_world(**changes: object) -> World:
    values: dict[str, object] = {"checkpoint_every_updates": 20, "stop_env_steps": 200}
    world = replay_world(**(values | changes))
    collect_all(world)
    assert len(commands(train_one(world), Save)) == 5
    return world


def save_parts(world: World, nodes: tuple[str, ...] = ("replay", *OTHERS)) -> list[Send]:
    """All parts but the one of the replay node, which notes what the cut is."""
    return [send for node in nodes for send in world.do(node)]


def test_training_goes_on_while_the_replay_node_still_writes() -> None:
    world = saving_world()
    state = world.scheduler.state()
    assert world.scheduler.statistics().phase == "checkpointing"
    assert len(commands(save_parts(world), Collect)) == 2
    assert world.scheduler.statistics().phase == "training"
    collect_all(world)
    assert len(commands(train_one(world), Collect)) == 2
    world.do("stream")
    (checkpoint,) = world.checkpoints
    assert (checkpoint.commit.version, checkpoint.commit.env_steps) == (20, 20), "those of the cut"
    assert checkpoint.commit.scheduler == state
    assert checkpoint.commit.files == tuple(
        f"{node}.bin" for node in ("optimizer", "second", "replay", "env0", "env1")
    )


def test_training_waits_for_the_other_parts_though_the_replay_node_is_first() -> None:
    world = saving_world()
    world.do("replay")
    assert commands(world.do("stream"), Collect) == []
    sends = save_parts(world, OTHERS)
    assert len(world.checkpoints) == 1
    assert len(commands(sends, Collect)) == 2, "and not for the launcher"


def test_training_waits_until_the_replay_node_has_noted_the_cut() -> None:
    """Or env nodes would append before it has looked where their logs end."""
    world = saving_world()
    assert commands(save_parts(world, OTHERS), Collect) == []
    wrong = (Noted("optimizer", 1), Noted("replay", 2), Noted("env0", 1))
    assert [world.deliver(event) for event in wrong] == [[], [], []]
    assert world.scheduler.statistics().stale_events == 3
    assert len(commands(world.do("replay"), Collect)) == 2
    assert world.deliver(Noted("replay", 1)) == []
    assert world.scheduler.statistics().stale_events == 4


def test_part_of_the_replay_node_counts_as_noted() -> None:
    world = saving_world()
    assert commands(world.deliver(Saved("replay", 1, ("replay.bin",))), Collect) == []
    assert len(commands(save_parts(world, OTHERS), Collect)) == 2


def test_next_checkpoint_waits_for_one_that_is_still_written() -> None:
    world = saving_world()
    world.skipped = lambda ticket: 10  # from now on: one ticket alone crosses no multiple
    save_parts(world)
    for _ in range(2):  # the second one crosses another multiple of the interval
        collect_all(world)
        assert commands(train_one(world), Save) == []
    assert commands(world.do("stream"), Save) == []
    collect_all(world)  # it is held once the launcher has committed the one before
    assert commands(world.do("launcher"), Save) == []
    sends = train_one(world)
    assert commands(sends, Collect) == []
    save = Save(2, "checkpoints/000000000080.tmp")
    assert {command for _, command in commands(sends, Save)} == {save}
    save_parts(world)
    world.do("stream")
    world.do("launcher")
    assert world.scheduler.statistics().phase == "training", "one was asked for, not two"


def test_end_waits_for_one_that_is_still_written_and_saves_the_last_state_too() -> None:
    world = saving_world(stop_env_steps=40, checkpoint_at_end=True, checkpoint_every_updates=15)
    save_parts(world)
    collect_all(world)
    assert commands(train_one(world), Save) == [] and world.ended is None
    world.do("stream")
    assert len(commands(world.do("launcher"), Save)) == 5
    save_parts(world)
    assert world.ended is None
    world.do("stream")
    assert isinstance(world.do("launcher")[-1].command, EndRun)
    assert [found.commit.env_steps for found in world.checkpoints] == [20, 40]


def test_death_while_only_the_replay_node_writes_costs_no_checkpoint() -> None:
    world = saving_world(restarts={"env": 1})
    save_parts(world)
    world.kill("env0")
    sends = world.do("env0")  # it is back
    assert commands(sends, Save) == [] and len(commands(sends, Collect)) == 1
    world.do("stream")
    assert world.checkpoints[0].commit.checkpoint == 1


def test_death_before_every_other_part_is_there_begins_anew() -> None:
    world = saving_world(restarts={"env": 1})
    world.do("replay")
    world.start("stream")
    assert commands(world.kill("env0"), Save) == []
    again = commands(world.do("env0"), Save)
    assert [node for node, _ in again] == ["optimizer", "second", "replay", "env0", "env1"]
    save = again[0].command
    assert isinstance(save, Save) and save.checkpoint == 2
    simulate(world)
    assert world.checkpoints[0].commit.checkpoint == 2


def test_late_part_of_a_checkpoint_that_was_begun_anew_is_ignored() -> None:
    world = saving_world(restarts={"env": 1})
    world.kill("env0")
    for event in (Noted("replay", 1), Saved("replay", 1, ("replay.bin",))):
        assert world.deliver(event) == []
    assert world.scheduler.statistics().stale_events == 2
    world.do("env0")  # it is back
    for _ in range(2):  # what they were told of the first one, and of the one begun anew
        assert commands(save_parts(world, ("optimizer", "second", "env1")), Collect) == []
    assert commands(world.do("env0"), Collect) == []
    assert commands(world.do("replay"), Collect) == []
    assert len(commands(world.do("replay"), Collect)) == 2


def test_interrupted_run_saves_where_it_stands_after_the_one_being_written() -> None:
    world = saving_world()
    save_parts(world)
    world.deliver(StopRequested("Ctrl-C", save=True))
    simulate(world)
    assert world.end.reason == "interrupted"
    assert [found.commit.env_steps for found in world.checkpoints] == [20, 40]
    resumed = World(world.settings, resumed=world.checkpoints[-1]).make_ready()
    assert simulate(resumed).reason == "finished"


def test_no_time_left_ends_without_the_one_being_written() -> None:
    world = saving_world()
    save_parts(world)
    world.deliver(StopRequested("Ctrl-C", save=True))
    world.deliver(StopRequested("Ctrl-C; no time", save=False))
    assert world.end.reason == "interrupted"
    assert world.checkpoints == []


# --- a replay node that dies -------------------------------------------------------------------


def test_successor_is_told_of_every_ticket_that_is_not_settled() -> None:
    """What comes while there is none is for it, too, and nothing twice."""
    world = replay_world(degree=2, slots_per_shard=3, restarts={"replay": 1}, stop_env_steps=200)
    collect_all(world)
    train_one(world)
    world.do("replay")  # has drawn ticket 1, on which nobody has trained
    world.kill("replay")
    assert {node for node, _ in commands(collect_all(world), Train)} == {"optimizer"}
    merged = world.audit.merged
    told = [command for node, command in world.do("replay") if node == "replay"]
    tickets = [train.ticket for train in told if isinstance(train, Train)]
    assert tickets == list(range(1, merged)) and len(tickets) == 3
    simulate(world)
    assert world.end.reason == "finished"
    assert world.scheduler.statistics().env_steps_trained == 200


def test_checkpoint_that_a_dead_replay_node_was_writing_is_cut_anew() -> None:
    world = saving_world(restarts={"replay": 1})
    save_parts(world)
    assert commands(world.kill("replay"), Save) == []
    assert commands(collect_all(world), Collect) == [], "it is held for the next cut"
    world.do("replay")  # it is back
    again = commands(train_one(world), Save)
    assert {command.checkpoint for _, command in again if isinstance(command, Save)} == {2}
    simulate(world)
    assert world.checkpoints[0].commit.checkpoint == 2
