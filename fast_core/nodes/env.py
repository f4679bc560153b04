"""The env node: executes shards, with the policy next to the environments."""

from __future__ import annotations

from collections import deque

from fast_core.errors import EnvironmentFailed, FastLoopError
from fast_core.events import (
    Assign,
    Collect,
    Command,
    Ready,
    RolloutOrder,
    RolloutReady,
    Save,
    Saved,
)
from fast_core.memory import StatsColumn
from fast_core.node import Node, NodeContext, NodeState
from fast_core.nodes.shard import Shard, try_environment
from fast_core.scheduler.ledger import balanced_blocks


class EnvNode(Node):
    """Collects the shard rollouts it is ordered to, in order.

    Its environments exist and have been reset, and one of them stepped, before it reports ready.
    """

    consumes = frozenset({Assign, Collect, Save})
    emits = frozenset({Ready, RolloutReady, Saved})

    def __init__(self, context: NodeContext) -> None:
        """Build the policy; environments come in `setup`."""
        super().__init__(context)
        plan, memory = context.plan, context.memory
        self._policy = plan.blueprint.make_policy(plan.environment, plan.policy_setup())
        self._weights = memory.weights()
        self._flat = memory.parameters.empty()
        self._views = memory.parameters.views(self._flat)
        self._version = -1
        self._orders: deque[RolloutOrder] = deque()
        self._shards: dict[int, Shard] = {}
        self._failure: dict[str, str] = {}

    def setup(self) -> None:
        """Step one environment for real, then build the shards this node will likely be given."""
        plan = self.context.plan
        self.doing = "trying out an environment"
        try_environment(plan, self.context.rank)
        blocks = balanced_blocks(plan.config.rollout.shards, plan.env_nodes)
        for shard in blocks[self.context.rank]:
            self._build(shard, incarnation=1)

    def handle(self, command: Command) -> None:
        """Queue orders; take shards; save."""
        match command:
            case Assign(shard, incarnation):
                held = self._shards.get(shard)
                if held is None:
                    self._build(shard, incarnation)
                else:
                    held.incarnation = incarnation
            case Collect(rollouts):
                self._orders.extend(rollouts)
            case Save(checkpoint, directory):
                with self.state(NodeState.SAVING, f"saving checkpoint {checkpoint}"):
                    files = tuple(shard.save(directory) for shard in self._shards.values())
                self.context.channel.send(Saved(self.context.name, checkpoint, files))

    def work(self) -> bool:
        """Collect the oldest ordered rollout."""
        if not self._orders:
            return False
        order = self._orders.popleft()
        name, shard = self.context.name, self._shards[order.shard]
        self.context.stats.words[StatsColumn.SHARD] = order.shard
        self.context.stats.words[StatsColumn.TICKET] = order.ticket
        with self.state(
            NodeState.STEPPING, f"collecting rollout {order.rollout_id} of shard {order.shard}"
        ):
            self._refresh(order.min_version)
            if not self._collect(shard, order):
                return True
        ready = shard.ready(name, order, self._version)
        self.context.channel.send(ready)
        self._count(ready)
        return True

    def _count(self, ready: RolloutReady) -> None:
        rollout, stats = self.context.plan.config.rollout, self.context.stats
        stats.words[StatsColumn.EPISODES] += len(ready.episode_returns)
        stats.words[StatsColumn.QUARANTINED] += ready.quarantined
        if ready.episode_returns:
            stats.floats[StatsColumn.EPISODE_RETURN] = ready.episode_returns[-1]
        stats.words[StatsColumn.ENV_STEPS] += rollout.steps * rollout.envs_per_shard

    def _collect(self, shard: Shard, order: RolloutOrder) -> bool:
        if shard.incarnation != order.incarnation:
            raise FastLoopError(
                f"order for incarnation {order.incarnation} of shard {order.shard}, but this node "
                f"holds incarnation {shard.incarnation}"
            )
        channel = self.context.channel
        try:
            return shard.collect(order, self._policy, self._version, lambda: channel.stop_requested)
        except EnvironmentFailed as error:
            self._failure = error.context
            raise

    def _refresh(self, min_version: int) -> None:
        version = self._weights.read_into(self._flat.data, newer_than=self._version)
        if version > self._version:
            self._version = version
            self._policy.load(self._views)
            self.context.stats.words[StatsColumn.VERSION] = version
        if self._version < min_version:
            raise FastLoopError(
                f"the rollout needs weights of version {min_version} or newer, the newest "
                f"published are {self._version}; an optimizer reports before it publishes"
            )

    def _build(self, shard: int, incarnation: int) -> None:
        self.doing = f"building the environments of shard {shard}"
        context = self.context
        try:
            self._shards[shard] = Shard(
                context.plan, context.memory, shard, incarnation, context.stats.words
            )
        except EnvironmentFailed as error:
            self._failure = error.context
            raise

    def failure_context(self) -> dict[str, str]:
        """Shard, environment, seed, step and last action, where an environment raised."""
        return self._failure

    def close(self) -> None:
        """Close every environment once."""
        shards, self._shards = list(self._shards.values()), {}
        for shard in shards:
            shard.close()
