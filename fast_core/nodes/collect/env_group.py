"""The environments of a shard that are stepped together, and what their policy sees of them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from fast_core.algorithm import Array
from fast_core.algorithm.spec import written_by
from fast_core.config.changes import attributes
from fast_core.envs import EnvBatch, make_batch
from fast_core.envs.frames import FrameStack
from fast_core.envs.stepping.batch_state import decode_state, lost_episodes
from fast_core.envs.stepping.repeating import Repetition
from fast_core.errors import CheckpointError
from fast_core.nodes.collect.rollout_rows import RolloutRows
from fast_core.nodes.show.camera import Step, Studio
from fast_core.run.columns import collected_columns
from fast_core.run.plan import RunPlan
from fast_core.system.progress import ProgressWord


class GroupState(msgspec.Struct, frozen=True):
    """A group's part of a checkpoint.

    Attributes:
        envs: Number of environments.
        batch: What `EnvBatch.state` gave.
        frames: Bytes of the stacked frames, empty where none are stacked.
        age: Bytes of their ages, likewise.
        memory: Bytes of what a recurrent policy remembers, likewise.
    """

    envs: int
    batch: bytes
    frames: bytes = b""
    age: bytes = b""
    memory: bytes = b""


class EnvGroup:
    """Environments ``envs`` of a shard: all of them, unless groups take turns.

    Attributes:
        plan: The plan of the run.
        camera: What shows those that are watched, None where none can be.
        index: Place among the groups of the shard.
        envs: Which environments of the shard.
        batch: What steps them.
        obs: ``[b, ...]``, current observation of each, single frames.
        stack: The frames that the policy sees of each, None where they are not stacked.
        memory: ``[b, S]`` float32, what a recurrent policy remembers of each, None without.
        goes_on: Of each, whether it was brought back into the episode that a checkpoint left.
    """

    def __init__(
        self,
        plan: RunPlan,
        shard: int,
        index: int,
        incarnation: int,
        progress: memoryview,
        studio: Studio | None = None,
    ) -> None:
        """Make the environments; `reset`, `take_over` or `end_restore` begins.

        ``progress`` is where they are, and until each begins an episode where the node before this
        one left it. A ``studio`` shows those that are tiles.
        """
        environment = plan.environment
        self.index, self.plan = index, plan
        self.envs = plan.group_envs(index)
        count = len(self.envs)
        self._begun = progress[ProgressWord.BEGUN :][:count]
        self.goes_on = [False] * count
        columns = collected_columns(plan)
        config = replace(plan.config.environment, attributes=attributes(plan.config, plan.changed))
        self.batch: EnvBatch = make_batch(
            config,
            seed=plan.config.seed,
            shard=shard - plan.shards.start,  # as if its learner were alone
            envs=count,
            first_env=self.envs.start,
            incarnation=incarnation,
            progress=progress,
            keep_actions=plan.keeps_actions,
            number=shard * plan.config.rollout.envs_per_shard + self.envs.start,
            draws=studio.draws(shard) if studio else (),
            columns=written_by("environment", columns),
        )
        self.camera = studio.camera(shard, self.envs, self.batch, config) if studio else None
        row, frames = environment.row, environment.frames
        size = plan.blueprint.state_size(environment)
        self.obs: Array = np.zeros((count, *row.shape), row.row_dtype)
        self.stack = FrameStack(count, row, frames) if frames > 1 else None
        self.memory: NDArray[np.float32] | None = (
            np.zeros((count, size), np.float32) if size else None
        )
        self._frames = frames
        self._declared = [column.name for column in columns]
        self._answered = [column.name for column in written_by("policy", columns)]

    @property
    def remembers(self) -> bool:
        """Whether something must be done between two steps beside stepping."""
        return self.stack is not None or self.memory is not None or bool(self._declared)

    # --- one rollout ---------------------------------------------------------------------------

    def open(self, slot: Mapping[str, Array]) -> RolloutRows:
        """Begin a rollout in ``slot``: write row 0 and what lies before it."""
        envs = slice(self.envs.start, self.envs.stop)
        rows = RolloutRows.of(slot, envs, self._frames, self._declared)
        rows.obs[0] = self.obs
        rows.quarantined.fill(False)
        if self.stack is not None:
            assert rows.frame_age is not None
            rows.before[...] = self.stack.array[:, :-1].swapaxes(0, 1)
            rows.frame_age[0] = self.stack.age
        if self.memory is not None:
            assert rows.state is not None
            rows.state[0] = self.memory
        return rows

    def stepping(self, rows: RolloutRows, incarnation: int) -> list[Step]:
        """What steps the environments in each step of a rollout."""
        steps = len(rows.reward)
        if self.camera is None:
            return [self.batch.step] * steps
        versions = rows.policy_version
        return self.camera.stepping(
            self.batch.step,
            steps,
            lambda step: self.seen(rows, step),
            self.memory,
            lambda step: int(versions[step, 0]),
            incarnation,
        )

    def seen(self, rows: RolloutRows, step: int) -> Array:
        """What the policy sees at ``step``: ``[b, ...]``."""
        return rows.obs[step] if self.stack is None else self.stack.array

    def remember(
        self, rows: RolloutRows, step: int, memory: Array | None, extra: Mapping[str, Array]
    ) -> None:
        """Take in what ``step`` led to.

        The policy returned ``memory`` ``[b, S]``, and what it writes besides, by name in ``extra``.
        """
        for name in self._answered:
            rows.extra[name][step] = extra[name]
        for name, values in self.batch.extra.items():
            rows.extra[name][step] = values
        ended = rows.terminated[step] | rows.truncated[step]
        if self.stack is not None:
            assert rows.frame_age is not None
            self.stack.push(rows.obs[step + 1], ended)
            rows.frame_age[step + 1] = self.stack.age
        if self.memory is not None:
            assert memory is not None, "a policy with a state_size returns its state"
            self.memory[...] = memory
            self.memory[ended] = 0.0
            if rows.state is not None and step + 1 < len(rows.state):
                rows.state[step + 1] = self.memory

    def close_rollout(self, rows: RolloutRows) -> None:
        """Keep where the rollout ended; the slot is not ours any more."""
        self.obs[...] = rows.obs[-1]

    def close(self) -> None:
        """Close every environment once."""
        if self.camera is None:
            self.batch.close()
        else:
            self.camera.close(self.batch.close)

    # --- beginning and going on ----------------------------------------------------------------

    def reset(self) -> None:
        """Begin an episode in every environment."""
        self.batch.reset(self.obs)
        self._begin_episodes(np.ones(len(self.obs), np.bool_))

    def take_over(self) -> None:
        """Begin the episode after the one that a dead node left, in every environment.

        With episode 0 again, the shard would play once more what was trained on already.
        """
        left = [begun - 1 for begun in self._begun]
        self.batch.restore(lost_episodes(self.batch.spec.id, left), self.obs)
        self._begin_episodes(np.ones(len(self.obs), np.bool_))

    def change(self, plan: RunPlan) -> None:
        """Begin episodes as ``plan`` says from now on; see `EnvBatch.change`."""
        began = np.zeros(len(self.obs), np.bool_)
        began[self.batch.change(attributes(plan.config, plan.changed), self.obs)] = True
        self._begin_episodes(began)

    def _begin_episodes(self, began: NDArray[np.bool_]) -> None:
        if self.stack is not None:
            self.stack.begin(self.obs, began)
        if self.memory is not None:
            self.memory[began] = 0.0

    def state(self) -> GroupState:
        """Everything that `begin_restore` needs."""
        stack, memory = self.stack, self.memory
        return GroupState(
            envs=len(self.envs),
            batch=self.batch.state(),
            frames=b"" if stack is None else stack.array.tobytes(),
            age=b"" if stack is None else stack.age.tobytes(),
            memory=b"" if memory is None else memory.tobytes(),
        )

    def begin_restore(self, state: GroupState) -> list[Repetition]:
        """Begin to continue from `state`; see `EnvBatch.begin_restore`.

        Raises:
            CheckpointError: It belongs to another configuration.
        """
        repetitions = self.batch.begin_restore(state.batch)
        saved = decode_state(state.batch, id=self.batch.spec.id, envs=len(self.envs)).open
        self.goes_on = [episode.length > 0 for episode in saved]
        if self.stack is not None:
            _fill(self.stack.array, state.frames, "stacked frames")
            _fill(self.stack.age, state.age, "ages of frames")
        if self.memory is not None:
            _fill(self.memory, state.memory, "policy's memory")
        return repetitions

    def end_restore(self) -> dict[int, str]:
        """Continue; returns why an environment begins a new episode instead, for each that does."""
        lost = self.batch.end_restore(self.obs)
        began = np.array([env in lost for env in self.envs])
        self._begin_episodes(began)
        self.goes_on = [goes and not new for goes, new in zip(self.goes_on, began, strict=True)]
        return lost


def _fill(target: Array, data: bytes, what: str) -> None:
    if len(data) != target.nbytes:
        raise CheckpointError(
            f"the checkpoint's {what} have {len(data)} bytes; this run has {target.nbytes}. "
            "Resume with the configuration of the saved run."
        )
    target[...] = np.frombuffer(data, target.dtype).reshape(target.shape)
