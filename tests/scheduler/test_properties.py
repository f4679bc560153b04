"""Random interleavings of all nodes: the rules hold, and every run comes to its end."""

from __future__ import annotations

import msgspec
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from fast_core.messages import Evaluated, Failed, RolloutReady, Saved, Trained
from fast_core.messages.launching import Acted, Asked, ScaleRequested, StopRequested, Tick
from tests.scheduler.simulation import World, make_settings, rollout_ready

PICK = st.integers(0, 1_000_000)
KINDS = ("env", "policy", "evaluator")


@st.composite
def run_settings(draw: st.DrawFn) -> dict[str, object]:
    """Settings of any small run that can end."""
    some = st.none() | st.integers(1, 90)
    limits = draw(st.sampled_from(["env_steps", "updates", "time_s", "all"]))
    evaluator = draw(st.sampled_from([None, "evaluator"]))
    values: dict[str, object] = {
        "shards": draw(st.integers(1, 5)),
        "env_nodes": tuple(f"env{k}" for k in range(draw(st.integers(1, 3)))),
        "degree": draw(st.sampled_from([0, 0, 1, 2, 5])),
        "auto_degree": draw(st.booleans()),
        "stragglers": draw(st.sampled_from(["wait", "drop"])),
        "slots_per_shard": draw(st.integers(1, 4)),
        "stages": draw(st.sampled_from([(), (), ("first",), ("first", "second")])),
        "savers": ("first", "second"),
        "followers": draw(st.sampled_from([(), (), ("policy1",)])),
        "restarts": draw(st.fixed_dictionaries(dict.fromkeys(KINDS, st.integers(0, 3)))),
        "other_nodes": ("policy0", "policy1"),
        "balance": draw(st.booleans()),
        "backoff_s": 0.3,
        "max_backoff_s": 1.0,
        "moments": draw(st.sampled_from([(), ("start",), ("start", "evaluation", "checkpoint")])),
        "callbacks_save": draw(st.booleans()),
        "changeable": {"rate": 0},
        "evaluator": evaluator,
        "eval_every_env_steps": draw(some) if evaluator else None,
        "eval_mode": draw(st.sampled_from(["async", "sync"])),
        "eval_at_end": draw(st.booleans()),
        "checkpoint_every_updates": draw(st.none() | st.integers(1, 30)),
        "checkpoint_at_end": draw(st.booleans()),
        "stop_env_steps": draw(st.integers(1, 600)) if limits in ("env_steps", "all") else None,
        "stop_updates": draw(st.integers(1, 60)) if limits in ("updates", "all") else None,
        "stop_time_s": draw(st.floats(0.1, 40.0)) if limits in ("time_s", "all") else None,
    }
    if draw(st.booleans()):
        values |= draw(replay_settings())
    spare = values["shards"] - len(values["env_nodes"])  # type: ignore[operator,arg-type]
    if draw(st.booleans()):
        values["spare_nodes"] = tuple(f"env{3 + k}" for k in range(max(spare, 0)))
    if draw(st.booleans()):
        values["policy_nodes"] = values["other_nodes"]
        values["balance_policies"] = draw(st.booleans())
        if draw(st.booleans()):
            values["spare_policies"] = ("policy2", "policy3")
    if values["eval_every_env_steps"] is not None:
        values["stop_score"] = draw(st.none() | st.just(1.0))
        values["stop_score_held"] = draw(st.integers(1, 3))
    return values


@st.composite
def replay_settings(draw: st.DrawFn) -> dict[str, object]:
    """What a run that learns from replay is told besides."""
    return {
        "optimizers": ("optimizer", "second", "third")[: draw(st.integers(1, 3))],
        "replay": "replay",
        "replay_ratio": draw(st.sampled_from(["0.1", "0.333", "1", "2.5", "1000", "7/3"])),
        "learning_starts": draw(st.sampled_from([0, 1, 15, 40, 99])),
        "replay_kept": draw(st.booleans()),
        "stages": (),
        "savers": ("saver",),
    }


class Nodes(RuleBasedStateMachine):
    """Nodes act in any order; `Audit` in the world checks each step."""

    @initialize(values=run_settings(), oldest=st.booleans(), salt=st.integers(0, 5))
    def begin(self, values: dict[str, object], oldest: bool, salt: int) -> None:
        self.settings = make_settings(**values)
        self.oldest, self.salt = oldest, salt
        self.interrupted = self.failed = False
        self.scales = 0
        self.open(None)

    def open(self, resumed: object) -> None:
        self.world = World(
            self.settings,
            resumed=resumed,  # type: ignore[arg-type]
            oldest_weights=self.oldest,
            # Two updates of a ticket at most are skipped, so that update limits are reached.
            skipped=lambda ticket: (ticket * (self.salt + 1)) % 3,
            score=lambda version: float((version + self.salt) % 3 > 0),
            asks=lambda tell: (self.asked(tell.moment),),
        )
        self.world.make_ready()

    def asked(self, moment: str) -> Asked:
        settled = self.world.audit.settled
        changes = {"rate": (settled + self.salt) % 4} if self.salt else {}
        return Asked("mine", save=moment == "evaluation", changes=changes)

    @property
    def going(self) -> bool:
        return self.world.ended is None

    @precondition(lambda self: self.going and self.world.can_start())
    @rule(pick=PICK)
    def start(self, pick: int) -> None:
        nodes = self.world.can_start()
        self.world.start(nodes[pick % len(nodes)])

    @precondition(lambda self: self.going and self.world.busy)
    @rule(pick=PICK)
    def finish(self, pick: int) -> None:
        nodes = list(self.world.busy)
        self.world.now_s += 0.1
        self.world.finish(nodes[pick % len(nodes)])

    @precondition(lambda self: self.going)
    @rule(picks=st.lists(PICK, min_size=5, max_size=40))
    def many(self, picks: list[int]) -> None:
        """Long stretches, which single rules would reach only rarely."""
        for pick in picks:
            if self.going:
                self.step(pick)

    def step(self, pick: int) -> None:
        choices = [("start", node) for node in self.world.can_start()]
        choices += [("finish", node) for node in self.world.busy]
        if not choices:  # who died is not started anew yet
            wakeup_s = self.world.scheduler.next_wakeup_s()
            assert wakeup_s is not None, f"deadlock: {self.world.scheduler.statistics()}"
            self.world.now_s = max(self.world.now_s, wakeup_s)
            self.world.deliver(Tick())
            return
        what, node = choices[pick % len(choices)]
        if what == "start":
            self.world.start(node)
        else:
            self.world.now_s += 0.1
            self.world.finish(node)

    @precondition(lambda self: self.going and self.settings.auto_degree)
    @rule(degree=st.integers(0, 5))
    def another_degree(self, degree: int) -> None:
        """The run chooses another, whatever its reasons; nothing that is open may be stranded."""
        self.world.use_degree(min(degree, self.settings.degree))
        self.world.deliver(Tick())  # what it admits comes now, not with a report that is ignored

    @precondition(lambda self: self.going and self.collecting())
    @rule(pick=PICK, picks=st.lists(PICK, min_size=50, max_size=100))
    def straggle(self, pick: int, picks: list[int]) -> None:
        """One env node takes its time while all others go on as far as they may."""
        late = self.collecting()[pick % len(self.collecting())]
        for pick in picks:
            choices = [node for node in self.world.busy if node != late]
            choices += self.world.can_start()
            if not choices or not self.going:
                return
            node = choices[pick % len(choices)]
            if node in self.world.busy:
                self.world.now_s += 0.1
                self.world.finish(node)
            else:
                self.world.start(node)

    def collecting(self) -> list[str]:
        return [node for node in self.settings.env_nodes if node in self.world.busy]

    @precondition(lambda self: self.going)
    @rule(seconds=st.floats(0.0, 5.0))
    def time_passes(self, seconds: float) -> None:
        self.world.now_s += seconds
        self.world.deliver(Tick())

    @precondition(lambda self: self.going and self.world.audit.running)
    @rule(kind=st.sampled_from(["incarnation", "rollout_id", "slot", "node", "shard"]), pick=PICK)
    def stale_rollout(self, kind: str, pick: int) -> None:
        """A report that names a running rollout wrongly changes nothing."""
        audit = self.world.audit
        shard = sorted(audit.running)[pick % len(audit.running)]
        slot, rollout_id = audit.running[shard]
        good = RolloutReady(
            audit.owner[shard], shard, audit.incarnation[shard], slot, rollout_id, 0, 0, (), ()
        )
        wrong: object = "stranger" if kind == "node" else getattr(good, kind) + 1 + pick % 3
        if kind == "shard" and wrong in audit.running and rollout_id == audit.last_rollout[wrong]:
            return  # that one exists
        self.ignored(msgspec.structs.replace(good, **{kind: wrong}))

    @precondition(lambda self: self.going and self.world.audit.acted)
    @rule(pick=PICK)
    def doubled_rollout(self, pick: int) -> None:
        audit = self.world.audit
        shard, rollout_id = list(audit.acted)[pick % len(audit.acted)]
        node, incarnation = audit.owner[shard], audit.incarnation[shard]
        self.ignored(RolloutReady(node, shard, incarnation, 0, rollout_id, 0, 0, (), ()))

    @precondition(lambda self: self.going)
    @rule()
    def stale_reports(self) -> None:
        settled = self.world.audit.settled
        if settled:
            self.ignored(Trained("optimizer", settled - 1, self.world.version, 4, 0, 0.0, 0, {}))
        self.ignored(Evaluated("evaluator", 10**6, 0, 0, (1.0, 1.0), (1, 1)))
        self.ignored(Saved("optimizer", 10**6, ()))

    def ignored(self, event: object) -> None:
        scheduler = self.world.scheduler
        due_s = scheduler.next_wakeup_s()
        if due_s is not None and due_s <= self.world.now_s:
            return  # what is due comes with any event
        stale = scheduler.statistics().stale_events
        assert scheduler.handle(event, self.world.now_s) == []  # type: ignore[arg-type]
        assert scheduler.statistics().stale_events == stale + 1

    @precondition(lambda self: self.going)
    @rule(save=st.booleans(), gate=st.integers(0, 7))
    def stop(self, save: bool, gate: int) -> None:
        if gate == 0:
            self.interrupted = True
            self.world.deliver(StopRequested("SIGINT", save))
            assert save or not self.going

    @precondition(lambda self: self.going)
    @rule(gate=st.integers(0, 15))
    def fail(self, gate: int) -> None:
        if gate == 0:
            self.failed = True
            self.world.deliver(Failed("env0", "stepping", "ValueError", "", {}))
            assert not self.going

    @precondition(lambda self: self.going and self.mortal())
    @rule(pick=PICK, gate=st.integers(0, 3))
    def node_dies(self, pick: int, gate: int) -> None:
        """Within the budget the run goes on, and what the dead node still said is ignored."""
        if gate:
            return
        world, mortal = self.world, self.mortal()
        node = mortal[pick % len(mortal)]
        running = [shard for shard in world.audit.running if world.audit.owner[shard] == node]
        late = [
            RolloutReady(node, shard, world.audit.incarnation[shard], *world.audit.running[shard],
                         0, 0, (), ())
            for shard in running
        ]  # fmt: skip
        world.kill(node)
        assert self.going or (world.ended is not None and world.ended.reason != "failed")
        if not self.going:  # it was to end, and only waited for what has died
            return
        for event in late:
            self.ignored(event)

    def mortal(self) -> list[str]:
        """Processes whose death the run has leave to survive."""
        audit = self.world.audit
        return [
            node
            for budget in self.settings.restarts
            if sum(audit.deaths[each] for each in budget.nodes) < budget.deaths
            for node in budget.nodes
            if node not in audit.away or node in audit.spawned
            if node not in audit.retired
            if node in audit.members or node in (*audit.away, *self.lasting(budget.kind))
        ]

    def lasting(self, kind: str) -> tuple[str, ...]:
        """Nodes of a kind that neither come nor go."""
        others = self.settings.other_nodes if not self.settings.policy_nodes else ()
        return {"env": (), "policy": others}.get(kind, ("evaluator", "replay"))

    @precondition(lambda self: self.going)
    @rule(kind=st.sampled_from(["env", "policy"]), count=st.integers(-3, 6), relative=st.booleans())
    def scale(self, kind: str, count: int, relative: bool) -> None:
        """Nodes come and go; what is out of range changes nothing."""
        audit, settings = self.world.audit, self.settings
        before, told = len([m for m in audit.members if m.startswith(kind)]), len(audit.scaled)
        wanted = before + count if relative else count
        spare = settings.spare_nodes if kind == "env" else settings.spare_policies
        if kind == "policy" and spare is not None:
            wanted = wanted if wanted <= 4 else 0  # more have no names here
            count, relative = wanted, False
        sends = self.world.deliver(ScaleRequested(1, kind, count, relative))
        answers = audit.scaled[told:]
        never = kind == "policy" and not settings.policy_nodes
        if spare is None or never or not 1 <= wanted <= settings.shards:
            assert [bool(answer.error) for answer in answers] == [True]
            assert len(sends) == 1
        elif not answers:
            self.scales += 1

    @precondition(lambda self: self.going and self.settings.balance_policies)
    @rule(pick=PICK, busy_s=st.lists(st.floats(0.001, 1.0), min_size=4, max_size=8))
    def acting_takes(self, pick: int, busy_s: list[float]) -> None:
        """Of two policy nodes one is slower: shards may come to the other."""
        names = self.world.audit.policies
        for each_s in busy_s:
            for node, slower in ((names[pick % len(names)], 5), (names[-1], 1)):
                if self.going:
                    self.world.deliver(Acted(node, 10, each_s * slower))

    @precondition(lambda self: self.going and self.world.audit.joining)
    @rule(pick=PICK, fails=st.booleans())
    def newcomer_dies(self, pick: int, fails: bool) -> None:
        """One that was asked for can't be: the run goes on as it was."""
        audit = self.world.audit
        node = sorted(audit.joining)[pick % len(audit.joining)]
        if fails:
            self.world.deliver(Failed(node, "starting", "ValueError", "", {}))
        self.world.kill(node)
        assert self.going or (self.world.ended is not None and self.world.ended.reason != "failed")

    @precondition(lambda self: not self.going)
    @rule(event=st.sampled_from([Tick(), StopRequested("x", True), Saved("optimizer", 1, ())]))
    def after_the_end(self, event: object) -> None:
        assert self.world.scheduler.handle(event, self.world.now_s) == []  # type: ignore[arg-type]
        assert self.world.scheduler.next_wakeup_s() is None

    @precondition(lambda self: self.world.checkpoints)
    @rule(pick=PICK)
    def kill_and_resume(self, pick: int) -> None:
        """Everything dies; the run goes on from one of its checkpoints."""
        checkpoint = self.world.checkpoints[pick % len(self.world.checkpoints)]
        self.interrupted = self.failed = False
        self.open(checkpoint)

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        pick = 0
        while self.going:
            pick += 1
            assert pick < 20_000, "the run does not end"
            self.step(pick)
        self.check_the_end()

    def check_the_end(self) -> None:
        end, settings, audit = self.world.ended, self.settings, self.world.audit
        assert end is not None
        if self.failed or self.interrupted:
            assert end.reason == ("failed" if self.failed else "interrupted")
            return
        assert end.reason == "finished"
        statistics = self.world.scheduler.statistics()
        assert statistics.env_steps_collected == statistics.env_steps_trained
        assert not audit.running and not audit.ready and not audit.tickets and not audit.taken
        assert not audit.staged
        assert not audit.late
        assert statistics.rows_dropped >= audit.dropped * settings.rows_per_rollout
        lost = [audit.deaths[node] for node in (*settings.env_nodes, *(settings.spare_nodes or ()))]
        assert statistics.env_nodes_lost == sum(lost)
        assert statistics.nodes_back == audit.returned
        assert not audit.evaluating, "a running evaluation was cancelled"
        if end.text.startswith("solved:"):  # else it may have been at some time before
            self.check_score()
        else:
            self.check_limit()
            if settings.eval_at_end and settings.evaluator:
                assert statistics.evaluation_version == statistics.version

    def check_score(self) -> None:
        held, statistics = self.settings.stop_score_held, self.world.scheduler.statistics()
        assert statistics.score_streak >= held
        last = self.world.audit.evaluated[-held:]
        assert all(event.returns[0] >= 1.0 for event in last)

    def check_limit(self) -> None:
        settings, statistics = self.settings, self.world.scheduler.statistics()
        reached = []
        if settings.stop_env_steps is not None:
            tickets = -(-settings.stop_env_steps // settings.rows_per_ticket)
            assert statistics.env_steps_trained <= tickets * settings.rows_per_ticket
            reached.append(statistics.env_steps_trained == tickets * settings.rows_per_ticket)
        if settings.stop_updates is not None:
            reached.append(statistics.updates >= settings.stop_updates)
        if settings.stop_time_s is not None:
            reached.append(statistics.elapsed_s >= settings.stop_time_s - 1e-9)
        assert any(reached)


Nodes.TestCase.settings = hypothesis_settings(max_examples=80, stateful_step_count=30)
TestNodes = Nodes.TestCase


def test_reports_in_the_simulation_match_their_orders() -> None:
    """The fake env node must not be wrong in the same way as the ledger."""
    world = World(make_settings())
    world.make_ready()
    order = world.inbox["env1"][0]
    report = rollout_ready("env1", order, 3)  # type: ignore[arg-type]
    assert (report.shard, report.incarnation, report.slot, report.rollout_id) == (1, 1, 0, 1)
