"""One shard as its env node executes it: environments, random stream, where rollouts go."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path

import msgspec
import numpy as np

from fast_core.algorithm import Array, NoiseSpec, Policy
from fast_core.algorithm.spec import written_by
from fast_core.envs import make_batch
from fast_core.envs.masks import valid_action
from fast_core.envs.stepping.repeating import Repetition
from fast_core.errors import CheckpointError, EnvironmentFailed
from fast_core.memory import RolloutSlot, StatsColumn
from fast_core.messages import RolloutOrder, RolloutReady
from fast_core.nodes.collect.env_group import EnvGroup, GroupState
from fast_core.nodes.collect.regroup import regrouped
from fast_core.nodes.collect.rollout_rows import RolloutRows
from fast_core.nodes.collect.rollout_sinks import ReplayRollouts, SharedRollouts
from fast_core.nodes.node import NodeState
from fast_core.nodes.show.camera import Studio
from fast_core.run.memory import RunMemory
from fast_core.run.plan import RunPlan
from fast_core.system.decoding import from_msgpack
from fast_core.system.durable import write_durably
from fast_core.system.regular_file import read_large
from fast_core.system.seeding import Role, load_stream, save_stream, stream

# Members of enumerations cost more than the stores.
_STATE, _STEP = int(StatsColumn.STATE), int(StatsColumn.STEP)
_ACTING, _STEPPING = int(NodeState.ACTING), int(NodeState.STEPPING)


class ShardState(msgspec.Struct, frozen=True):
    """A shard's part of a checkpoint.

    Attributes:
        shard: Which one.
        groups: Its environments.
        noise: Position in the stream of its policy's random numbers.
        made_in: Incarnation in which its environments were made, which seeded their constructors.
    """

    shard: int
    groups: tuple[GroupState, ...]
    noise: bytes
    made_in: int = 1


def shard_file(directory: str | Path, shard: int) -> Path:
    """Where a shard's state lies inside a checkpoint."""
    return Path(directory) / f"shard-{shard}.msgpack"


def _read(path: Path, shard: int) -> ShardState:
    try:
        return from_msgpack(read_large(path), ShardState)
    except (OSError, msgspec.MsgspecError) as error:
        raise CheckpointError(f"can't read the state of shard {shard}: {error}") from error


def try_environment(plan: RunPlan, rank: int, before: Callable[[str], None]) -> None:
    """Make, reset, step and close one environment: what works here will work in the shards.

    ``before`` is told what comes next, each of which may take its time.

    Raises:
        EnvironmentFailed: It raised, or gave what its spaces do not declare.
    """
    space = plan.environment.row
    row = np.zeros((1, *space.shape), space.row_dtype)
    batch = make_batch(
        plan.config.environment,
        seed=plan.config.seed,
        shard=rank,
        envs=1,
        role=Role.PROBE,
        number=plan.config.numbers.trial + rank,
        columns=written_by("environment", plan.blueprint.columns(plan.environment)),
    )
    try:
        before("resetting the environment that is tried out")
        batch.reset(row)
        before("stepping the environment that is tried out")
        mask = row[plan.environment.action_mask][0] if plan.environment.action_mask else None
        batch.step(
            valid_action(plan.environment.action, mask)[None],
            next_obs=row,
            reward=np.zeros(1, np.float32),
            terminated=np.zeros(1, np.bool_),
            truncated=np.zeros(1, np.bool_),
            final_obs=row.copy(),
        )
        before("closing the environment that is tried out")
    finally:
        batch.close()


class ActionNoise:
    """The random numbers of a shard's policy, one stream per shard, drawn a rollout at a time."""

    def __init__(
        self, spec: NoiseSpec, seed: int, key: tuple[int, ...], steps: int, envs: int
    ) -> None:
        """``key`` is the shard, and the incarnation where the shard was taken over."""
        self._spec, self._shape = spec, (steps, envs, *spec.shape)
        self._generator = stream(seed, Role.ACTION_NOISE, *key)

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

    Attributes:
        shard: Which one.
        incarnation: How often it was given out.
        learner: Key of the learner that it is collected for.
        groups: Its environments, in groups that are stepped together.
        repetitions: What is to be taken before `begin`, to go on from the plan's checkpoint.

    Concurrency: that of `fast_core.nodes.collect.rollout_sinks`; the node holds the shard alone.
    """

    def __init__(
        self,
        plan: RunPlan,
        memory: RunMemory,
        shard: int,
        incarnation: int,
        words: memoryview,
        works: memoryview,
        *,
        taken_over: bool = False,
        studio: Studio | None = None,
    ) -> None:
        """Build the environments; `begin` begins, or continues from the plan's checkpoint.

        ``plan`` is that of the learner which the shard is collected for. A shard that is
        ``taken_over`` from a dead node begins new episodes, with random numbers of its incarnation:
        what the checkpoint holds of it has been trained on since. A ``studio`` shows those of its
        environments that are tiles.
        """
        rollout = plan.config.rollout
        self.shard, self.incarnation = shard, incarnation
        self._words, self._works = words, works
        seeded = shard - plan.shards.start  # as if its learner were alone
        self.groups: list[EnvGroup] = []
        noise = plan.blueprint.noise(plan.environment)
        self._noise = ActionNoise(
            noise,
            plan.config.seed,
            (seeded, incarnation) if taken_over else (seeded,),
            plan.config.steps,
            rollout.envs_per_shard,
        )
        saved = None
        if plan.checkpoint is not None and not taken_over:
            saved = _read(shard_file(plan.checkpoint, shard), shard)
        self.learner = plan.key
        self._made_in = incarnation if saved is None else saved.made_in
        self._plan, self._memory, self._taken_over = plan, memory, taken_over
        self._continues = saved is not None
        self.repetitions: list[Repetition] = []
        try:
            for index in range(plan.groups):
                progress = memory.progress(shard, index)
                made = EnvGroup(plan, shard, index, self._made_in, progress, studio)
                self.groups.append(made)
            if saved is not None:
                self._restore(saved)
        except BaseException:
            with suppress(EnvironmentFailed):  # the first error is the cause
                self.close()
            raise

    def _restore(self, saved: ShardState) -> None:
        groups = regrouped(saved.groups, [len(group.envs) for group in self.groups])
        for group, state in zip(self.groups, groups, strict=True):
            self.repetitions += group.begin_restore(state)
        self._noise.restore(saved.noise)

    def begin(self) -> dict[int, str]:
        """Begin episodes, or go on in those of the checkpoint.

        Returns:
            Why an environment begins a new one instead, for each that does.

        Raises:
            EnvironmentFailed: An environment raised.
        """
        lost: dict[int, str] = {}
        for group in self.groups:
            if self._continues:
                lost |= group.end_restore()
            elif self._taken_over:
                group.take_over()
            else:
                group.reset()
        self.repetitions.clear()
        self._sink = self._make_sink()
        return lost

    def _make_sink(self) -> SharedRollouts | ReplayRollouts:
        if not self._plan.replays:
            return SharedRollouts(self._memory, self.shard)
        goes_on = [each for group in self.groups for each in group.goes_on]
        return ReplayRollouts(self._plan, self._memory, self.shard, goes_on)

    # --- with the policy beside the environments -----------------------------------------------

    def collect(
        self, order: RolloutOrder, policy: Policy, version: int, stopping: Callable[[], bool]
    ) -> bool:
        """Step every environment ``T`` times into the ordered slot; False if told to stop.

        The node's state shows whose turn it is, the policy's or that of the environments.
        """
        (group,) = self.groups
        slot, noise = self.open(order)
        rows = group.open(slot)
        rows.policy_version.fill(version)
        if not self._collect(group, rows, policy, noise, stopping):
            return False
        group.close_rollout(rows)
        self.publish(order)
        return True

    def _collect(
        self,
        group: EnvGroup,
        rows: RolloutRows,
        policy: Policy,
        noise: Array,
        stopping: Callable[[], bool],
    ) -> bool:
        """The hot loop: what every policy does in locals, the rest only where it is asked for."""
        obs, action, log_prob = rows.obs, rows.action, rows.behaviour_log_prob
        reward, final_obs = rows.reward, rows.final_obs
        terminated, truncated = rows.terminated, rows.truncated
        batch, act, words, works = group.batch, policy.act, self._words, self._works
        remembers = group.remembers
        state = {"state": group.memory} if remembers else {}
        steps = group.stepping(rows, self.incarnation)
        for t, (drawn, step) in enumerate(zip(noise, steps, strict=True)):
            if stopping():
                return False
            words[_STEP], words[_STATE] = t, _ACTING
            output = act(group.seen(rows, t), noise=drawn, explore=True, **state)
            action[t] = output.action
            log_prob[t] = output.behaviour_log_prob
            taken = policy.environment_action(action[t])
            works[_ACTING] += 1
            words[_STATE] = _STEPPING
            step(
                taken,
                next_obs=obs[t + 1],
                reward=reward[t],
                terminated=terminated[t],
                truncated=truncated[t],
                final_obs=final_obs[t],
            )
            if batch.quarantined:
                rows.quarantined[t, batch.quarantined] = True
            if remembers:
                group.remember(rows, t, output.state, output.extra)
        return True

    # --- the beginning and the end of any rollout ----------------------------------------------

    def open(self, order: RolloutOrder) -> tuple[RolloutSlot, Array]:
        """Where the rollout is to be written, and its noise ``[T, B, ...]``."""
        slot = self._sink.open(order)
        self._words[StatsColumn.SLOT] = order.slot
        return slot, self._noise.draw()

    def publish(self, order: RolloutOrder) -> None:
        """Let others see the rollout."""
        self._sink.publish(order)

    def ready(self, node: str, order: RolloutOrder, version: int) -> RolloutReady:
        """The announcement of a collected rollout."""
        episodes = [group.batch.take_episodes() for group in self.groups]
        return RolloutReady(
            node=node,
            shard=order.shard,
            incarnation=order.incarnation,
            slot=order.slot,
            rollout_id=order.rollout_id,
            ticket=order.ticket,
            version=version,
            episode_returns=tuple(value for each in episodes for value in each.returns),
            episode_lengths=tuple(value for each in episodes for value in each.lengths),
            quarantined=sum(each.quarantined for each in episodes),
            episode_infos=tuple(info for each in episodes for info in each.infos if info),
        )

    def change(self, plan: RunPlan) -> None:
        """Begin episodes as ``plan`` says from now on.

        Raises:
            EnvironmentFailed: An environment raised.
        """
        for group in self.groups:  # where whoever watches sees that they come forward
            self._words[StatsColumn.SHARD] = self.shard
            self._words[StatsColumn.GROUP] = group.index
            group.change(plan)

    # --- checkpoints ---------------------------------------------------------------------------

    def save(
        self, directory: str, writing: Callable[[], AbstractContextManager[None]] = nullcontext
    ) -> str:
        """Write the state to a file of the checkpoint, within ``writing``; returns its name."""
        path = shard_file(directory, self.shard)
        groups = tuple(group.state() for group in self.groups)
        state = ShardState(self.shard, groups, self._noise.state(), self._made_in)
        data = msgspec.msgpack.encode(state)
        with writing():
            write_durably(path, data)
        return path.name

    def close(self) -> None:
        """Close every environment."""
        groups, self.groups = self.groups, []
        for group in groups:
            group.close()
