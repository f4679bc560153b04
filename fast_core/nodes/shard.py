"""One shard as its env node executes it: environments, random stream, slots, record ring."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np

from fast_core.algorithm import Array, NoiseSpec, Policy
from fast_core.durable import write_durably
from fast_core.envs import make_batch
from fast_core.errors import CheckpointError, FastLoopError
from fast_core.events import RolloutOrder, RolloutReady
from fast_core.memory import StatsColumn
from fast_core.plan import RunPlan
from fast_core.run_memory import RolloutRecord, RunMemory
from fast_core.seeding import Role, load_stream, save_stream, stream
from fast_core.spec import SpaceSpec


class ShardState(msgspec.Struct, frozen=True):
    """A shard's part of a checkpoint."""

    shard: int
    batch: bytes
    noise: bytes


def shard_file(directory: str | Path, shard: int) -> Path:
    """Where a shard's state lies inside a checkpoint."""
    return Path(directory) / f"shard-{shard}.msgpack"


def try_environment(plan: RunPlan, rank: int) -> None:
    """Make, reset, step and close one environment: what works here will work in the shards.

    Raises:
        EnvironmentFailed: It raised, or gave what its spaces do not declare.
    """
    space = plan.environment.observation
    row = np.zeros((1, *space.shape), space.dtype)
    batch = make_batch(
        plan.config.environment, seed=plan.config.seed, shard=rank, envs=1, role=Role.PROBE
    )
    try:
        batch.reset(row)
        action = plan.environment.action
        batch.step(
            _valid_action(action)[None],
            next_obs=row,
            reward=np.zeros(1, np.float32),
            terminated=np.zeros(1, np.bool_),
            truncated=np.zeros(1, np.bool_),
            final_obs=row.copy(),
        )
    finally:
        batch.close()


def _valid_action(space: SpaceSpec) -> Array:
    """An action that the space contains: the first choice, or the point of a box nearest to 0."""
    if space.kind == "discrete":
        return np.asarray(space.start, space.dtype)
    nearest: Array = np.clip(0.0, space.low, space.high).reshape(space.shape).astype(space.dtype)
    return nearest


class ActionNoise:
    """The random numbers of a shard's policy, one stream per shard, drawn a rollout at a time."""

    def __init__(self, spec: NoiseSpec, seed: int, shard: int, steps: int, envs: int) -> None:
        self._spec, self._shape = spec, (steps, envs, *spec.shape)
        self._generator = stream(seed, Role.ACTION_NOISE, shard)

    def draw(self) -> Array:
        """Noise of one rollout, ``[T, B, ...]`` float32."""
        if self._spec.kind == "uniform":
            return self._generator.random(self._shape, dtype=np.float32)
        return self._generator.standard_normal(self._shape, dtype=np.float32)

    def state(self) -> bytes:
        """Position in the stream."""
        return save_stream(self._generator)

    def restore(self, state: bytes) -> None:
        """Continue from a saved position."""
        self._generator = load_stream(state)


class Shard:
    """A shard in the hands of one env node.

    Concurrency: while it holds the shard, the node is the only writer of the shard's slots and of
    the head of its record ring. A slot's commit word is stored last; a node that dies before
    that leaves an open slot, which nobody reads.
    """

    def __init__(
        self, plan: RunPlan, memory: RunMemory, shard: int, incarnation: int, words: memoryview
    ) -> None:
        """Build the environments and reset them, or continue from the plan's checkpoint."""
        rollout, obs = plan.config.rollout, plan.environment.observation
        self.shard, self.incarnation, self._words = shard, incarnation, words
        self._batch = make_batch(
            plan.config.environment,
            seed=plan.config.seed,
            shard=shard,
            envs=rollout.envs_per_shard,
            incarnation=incarnation,
            progress=memory.progress(shard),
            keep_actions=plan.environment.repeatable,
        )
        self._obs = np.zeros((rollout.envs_per_shard, *obs.shape), obs.dtype)
        noise = plan.blueprint.noise(plan.environment)
        self._noise = ActionNoise(
            noise, plan.config.seed, shard, rollout.steps, rollout.envs_per_shard
        )
        self._store, self._records = memory.rollouts(shard), memory.records(shard)
        if plan.checkpoint is None:
            self._batch.reset(self._obs)
        else:
            self._restore(shard_file(plan.checkpoint, shard))

    def collect(
        self, order: RolloutOrder, policy: Policy, version: int, stopping: Callable[[], bool]
    ) -> bool:
        """Step every environment ``T`` times into the ordered slot; False if told to stop."""
        slot = self._store.slot(order.slot)
        slot.open(order.rollout_id)
        obs, action, reward = slot["obs"], slot["action"], slot["reward"]
        log_prob, final_obs = slot["behaviour_log_prob"], slot["final_obs"]
        terminated, truncated = slot["terminated"], slot["truncated"]
        slot["policy_version"].fill(version)
        obs[0] = self._obs
        step, act, words = self._batch.step, policy.act, self._words
        words[StatsColumn.SLOT] = order.slot
        for t, noise in enumerate(self._noise.draw()):
            if stopping():
                return False
            words[StatsColumn.STEP] = t
            output = act(obs[t], noise=noise, explore=True)
            action[t] = output.action
            log_prob[t] = output.behaviour_log_prob
            step(
                policy.environment_action(action[t]),
                next_obs=obs[t + 1],
                reward=reward[t],
                terminated=terminated[t],
                truncated=truncated[t],
                final_obs=final_obs[t],
            )
        self._obs[...] = obs[-1]
        slot.commit(order.rollout_id)
        self._publish(order, version)
        return True

    def _publish(self, order: RolloutOrder, version: int) -> None:
        record = RolloutRecord(
            order.shard, order.incarnation, order.slot, order.rollout_id, order.ticket, version
        )
        if not self._records.try_push(record.pack()):
            raise FastLoopError(
                f"record ring of shard {self.shard} is full with {len(self._records)} rollouts "
                "that nobody trained on; the scheduler admitted more than there are slots"
            )

    def ready(self, node: str, order: RolloutOrder, version: int) -> RolloutReady:
        """The announcement of a collected rollout."""
        returns, lengths, quarantined = self._batch.take_episodes()
        return RolloutReady(
            node=node,
            shard=order.shard,
            incarnation=order.incarnation,
            slot=order.slot,
            rollout_id=order.rollout_id,
            ticket=order.ticket,
            version=version,
            episode_returns=tuple(returns),
            episode_lengths=tuple(lengths),
            quarantined=quarantined,
        )

    def save(self, directory: str) -> str:
        """Write the state to a file of the checkpoint; returns its name."""
        path = shard_file(directory, self.shard)
        state = ShardState(self.shard, self._batch.state(), self._noise.state())
        write_durably(path, msgspec.msgpack.encode(state))
        return path.name

    def _restore(self, path: Path) -> None:
        try:
            state = msgspec.msgpack.decode(path.read_bytes(), type=ShardState)
        except (OSError, msgspec.MsgspecError) as error:
            raise CheckpointError(f"can't read the state of shard {self.shard}: {error}") from error
        self._batch.restore(state.batch, self._obs)
        self._noise.restore(state.noise)

    def close(self) -> None:
        """Close every environment."""
        self._batch.close()
