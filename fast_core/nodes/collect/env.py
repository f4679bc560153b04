"""The env node: executes shards, with the policy beside the environments or in policy nodes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from fast_core.config import Values
from fast_core.config.changes import attributes
from fast_core.envs.stepping.repeating import Together
from fast_core.errors import CheckpointError, EnvironmentFailed, FastLoopError
from fast_core.memory import StatsColumn
from fast_core.messages import (
    Assign,
    Change,
    Changed,
    Collect,
    Command,
    Ready,
    Release,
    Restoring,
    RolloutOrder,
    RolloutReady,
    Save,
    Saved,
)
from fast_core.nodes.act.current_policy import CurrentPolicy
from fast_core.nodes.collect.asking import Collection, Line
from fast_core.nodes.collect.shard import Shard, try_environment
from fast_core.nodes.node import SHORT_NS, Node, NodeContext, NodeState
from fast_core.nodes.show.camera import Studio
from fast_core.run.watching import WATCHING
from fast_core.system import forks
from fast_core.system.text import error_text


class EnvNode(Node):
    """Collects the shard rollouts it is ordered to, in order.

    Its environments exist and have been reset, and one of them stepped, before it reports ready.
    """

    consumes = frozenset({Assign, Release, Collect, Change, Save})
    emits = frozenset({Restoring, Ready, RolloutReady, Changed, Saved})
    reads = frozenset({"weights", "replies", WATCHING})
    writes = frozenset({"rollouts", "replay", "progress", "requests", "frames"})

    def __init__(self, context: NodeContext) -> None:
        """Build the policy if it acts here; environments come in `setup`."""
        super().__init__(context)
        self._plan = plan = context.plan
        self._current: dict[str, CurrentPolicy] = {}  # by learner, unless policy nodes act
        for key in () if plan.names.policy else plan.learners:
            own = self.context.of(plan.of(key))
            self._current[key] = CurrentPolicy(own, own.plan.policy_setup())
        self._studio = Studio.of(context)
        self._lines: dict[int, list[Line]] = {}
        self._open: list[Collection] = []
        self._orders: deque[RolloutOrder] = deque()
        self._shards: dict[int, Shard] = {}
        self._stepping = False

    def setup(self) -> None:
        """Step one environment for real, then build the shards this node will likely be given.

        One that comes back knows what it is given, and that environments can be stepped. One that
        is added while the run goes on is given its shards when it is ready.
        """
        plan = self.context.plan
        if self.context.life > 1:
            self._come_back()
            return
        try_environment(plan, self.context.rank, lambda what: self.enter(NodeState.TRYING, what))
        if self.context.name in plan.names.spare:
            return
        self.enter(NodeState.STARTING, "building shards")
        # The scheduler limits what follows, until the node is ready.
        self.context.stats.words[StatsColumn.STATE_SINCE_NS] = 0
        continues = plan.checkpoint is not None
        for shard in plan.first_shards[self.context.rank]:
            self._build(shard, incarnation=1)
            if not continues:  # before the next ones are made, which seeds global generators
                self._begin((self._shards[shard],))
        if continues:
            self._begin(tuple(self._shards.values()))

    def _come_back(self) -> None:
        self.enter(NodeState.STARTING, "building shards")
        for given in self.context.shards:
            self._build(given.shard, given.incarnation, taken_over=given.taken_over)
            self._begin((self._shards[given.shard],))

    def handle(self, command: Command) -> None:
        """Queue orders; take shards; change; save."""
        match command:
            case Assign(shard, incarnation, taken_over):
                held = self._shards.get(shard)
                if held is None:
                    doing = f"building the environments of shard {shard}"
                    with self.state(NodeState.STARTING, doing):
                        self._build(shard, incarnation, taken_over=taken_over)
                        self._begin((self._shards[shard],))
                else:
                    held.incarnation = incarnation
            case Release(shard):
                with self.state(NodeState.HANDLING, f"closing the environments of shard {shard}"):
                    self._release(shard)
            case Collect(rollouts):
                self._orders.extend(rollouts)
            case Change(number, values):
                self._change(values)
                self.context.channel.send(Changed(self.context.name, number))
            case Save(checkpoint, directory):
                doing = f"saving checkpoint {checkpoint}"
                with self.state(NodeState.SAVING, doing):
                    files = tuple(
                        shard.save(directory, lambda: self.state(NodeState.WRITING, doing))
                        for shard in self._shards.values()
                    )
                self.context.channel.send(Saved(self.context.name, checkpoint, files))

    def work(self) -> bool:
        """Collect the oldest ordered rollout; with policy nodes, a step of whoever can take one."""
        if not self._current:
            return self._advance()
        if not self._orders:
            return False
        order = self._orders.popleft()
        shard = self._held(order)
        words = self.context.stats.words
        words[StatsColumn.SHARD], words[StatsColumn.TICKET] = order.shard, order.ticket
        with self.state(
            NodeState.STEPPING, f"collecting rollout {order.rollout_id} of shard {order.shard}"
        ):
            current, channel = self._current[shard.learner], self.context.channel
            current.refresh(order.min_version)
            with _for_learner(shard.learner):
                if not shard.collect(
                    order, current.policy, current.version, lambda: channel.stop_requested
                ):
                    return True
        self._report(shard, order, current.version)
        return True

    def _report(self, shard: Shard, order: RolloutOrder, version: int) -> None:
        ready = shard.ready(self.context.name, order, version)
        self.context.channel.send(ready)
        self._count(ready)

    def _count(self, ready: RolloutReady) -> None:
        rollout, stats = self.context.plan.config.rollout, self.context.stats
        stats.words[StatsColumn.EPISODES] += len(ready.episode_returns)
        stats.words[StatsColumn.QUARANTINED] += ready.quarantined
        stats.words[StatsColumn.ENV_STEPS] += (
            self.context.plan.config.steps * rollout.envs_per_shard
        )

    def _held(self, order: RolloutOrder) -> Shard:
        """The shard of an order.

        Raises:
            FastLoopError: Another node has it by now.
        """
        shard = self._shards[order.shard]
        if shard.incarnation != order.incarnation:
            raise FastLoopError(
                f"order for incarnation {order.incarnation} of shard {order.shard}, but this node "
                f"holds incarnation {shard.incarnation}"
            )
        return shard

    # --- with policy nodes ---------------------------------------------------------------------

    def _advance(self) -> bool:
        """Begin what was ordered and step every group whose actions are there."""
        worked = bool(self._orders)
        while self._orders:
            order = self._orders.popleft()
            shard, words = self._held(order), self.context.stats.words
            self._open.append(Collection(order, shard, self._lines[order.shard], words))
        for collection in tuple(self._open):
            for group in collection.groups:
                if self.stopping:
                    return True
                worked = group.try_advance(self._enter_stepping) or worked
            if collection.done:
                self._open.remove(collection)
                collection.shard.publish(collection.order)
                self._report(collection.shard, collection.order, collection.version)
        if not worked and self._stepping:
            self._stepping = False
            what = "actions" if self._open else "work"
            self.enter(NodeState.WAITING, f"waiting for {what}", least_ns=SHORT_NS)
        return worked

    def _enter_stepping(self) -> None:
        if not self._stepping:
            self._stepping = True
            self.enter(NodeState.STEPPING, "stepping environments", least_ns=SHORT_NS)

    def _change(self, values: Values) -> None:
        """Begin episodes with other attributes; none is being stepped."""
        before = attributes(self._plan.config, self._plan.changed)
        self._plan = replace(self._plan, changed=values)
        if attributes(self._plan.config, values) == before:
            return
        with self.state(NodeState.STEPPING, "beginning episodes with other attributes"):
            for shard in self._shards.values():
                shard.change(self._plan.of_shard(shard.shard))

    # --- shards --------------------------------------------------------------------------------

    def _build(self, shard: int, incarnation: int, *, taken_over: bool = False) -> None:
        self.doing = f"building the environments of shard {shard}"
        context, plan = self.context, self._plan.of_shard(shard)
        with _for_learner(plan.key):
            built = Shard(
                plan,
                context.memory,
                shard,
                incarnation,
                context.stats.words,
                self._works,
                taken_over=taken_over,
                studio=self._studio,
            )
        self._shards[shard] = built
        if not self._current:
            self._lines[shard] = [Line(context, built, group) for group in built.groups]

    def _release(self, shard: int) -> None:
        self._lines.pop(shard, None)
        try:
            self._shards.pop(shard).close()
        except Exception as error:  # user code; nothing of the run depends on it any more
            forks.leave_if_copy(error)
            self.context.log.warning("closing shard %d failed: %s", shard, error_text(error))

    def _begin(self, shards: Sequence[Shard]) -> None:
        """Begin, or bring the environments of all these shards back to where they were.

        Raises:
            CheckpointError: One did not come back, and ``checkpoint.exact`` says that it must.
            EnvironmentFailed: An environment raised.
        """
        repetitions = [each for shard in shards for each in shard.repetitions]
        steps = sum(each.steps for each in repetitions)
        if repetitions:
            self.doing = "stepping open episodes again"
            self._tell(0, steps)
            Together(
                repetitions, lambda taken: self._tell(taken, steps), lambda: self.stopping
            ).run()
            if self.stopping:
                return
        self.doing = "beginning episodes"
        lost = [why for shard in shards for why in shard.begin().values()]
        exact = self.context.plan.config.checkpoint.exact
        if lost and exact == "require":
            raise CheckpointError(
                f"{lost[0]} checkpoint.exact is 'require'; with 'auto' the run goes on with new "
                "episodes."
            )
        if exact == "never":
            lost = ["checkpoint.exact is 'never'"] * len(lost)
        if repetitions or lost:
            self._tell(steps, steps, len(lost), lost[0] if lost else "")

    def _tell(self, taken: int, steps: int, anew: int = 0, why: str = "") -> None:
        self.context.channel.send(Restoring(self.context.name, taken, steps, anew, why))

    def close(self) -> None:
        """Close every environment once."""
        shards, self._shards = list(self._shards.values()), {}
        for shard in shards:
            shard.close()
        if self._studio is not None:
            self._studio.close()


@contextmanager
def _for_learner(key: str) -> Iterator[None]:
    """Name the learner of an environment that fails; it counts its own shards alone."""
    try:
        yield
    except EnvironmentFailed as error:
        if key:
            error.context["learner"] = key
        raise
