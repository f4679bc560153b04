"""What a learner is given: rollouts as they were collected, batches and sequences from replay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.generic]


@dataclass(frozen=True)
class ShardRollout:
    """``T`` steps of the ``B`` environments of one shard; views into shared memory.

    Attributes:
        shard: Shard index.
        rollout_id: Serial number of the rollout within its shard.
        policy_version: ``[T, B]`` int64, version of the weights that acted.
        obs: ``[T + 1, B, ...]``, single frames where they are stacked; row ``t + 1`` is the
            reset observation where an episode ended at step ``t``. `take_obs` stacks.
        action: ``[T, B, ...]``.
        behaviour_log_prob: ``[T, B]`` float32.
        reward: ``[T, B]`` float32, as the environment gave it.
        terminated: ``[T, B]`` bool, the task ended: no bootstrap.
        truncated: ``[T, B]`` bool, the episode was cut off: bootstrap from ``final_obs``.
        final_obs: ``[T, B, ...]``, the true successor; valid only where an episode ended.
        state: ``[B, S]`` float32, what a recurrent policy remembered before step 0; None
            without memory. It is zero again after each episode end.
        frames: ``[frames - 1 + T + 1, B, ...]``: ``obs`` and the frames before it, None where
            frames are not stacked.
        frame_age: ``[T + 1, B]`` uint8, how many earlier frames of the same episode a row has,
            at most ``frames - 1``; None where frames are not stacked.
        quarantined: ``[T, B]`` bool, the environment answered the step with NaN or infinity
            (``environment.nonfinite``), or reset in its place (a vectorised form): it stands as
            truncated with reward 0 and its own observation as the final one, and nothing should
            be learnt from it. None where that is not known.
        extra: ``[T, B, ...]`` by name, the columns that `Blueprint.columns` declares; zeros where
            a step is quarantined and the environment writes.
    """

    shard: int
    rollout_id: int
    policy_version: Array
    obs: Array
    action: Array
    behaviour_log_prob: Array
    reward: Array
    terminated: Array
    truncated: Array
    final_obs: Array
    state: Array | None = None
    frames: Array | None = None
    frame_age: NDArray[np.uint8] | None = None
    quarantined: Array | None = None
    extra: Mapping[str, Array] = field(default_factory=dict)

    @property
    def stack(self) -> int:
        """How many frames a policy sees at once; 1 where they are not stacked."""
        return 1 if self.frames is None else len(self.frames) - len(self.obs) + 1

    def frame_steps(self, step: NDArray[np.int64], env: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where in ``frames`` the stack of each row lies: ``[N, stack]``, the newest last.

        Before an episode's first frame that frame stands again.
        """
        assert self.frame_age is not None, "frames are stacked"
        back = np.arange(self.stack - 1, -1, -1)
        age = self.frame_age[step, env].astype(np.int64)
        rows: NDArray[np.int64] = (step + self.stack - 1)[:, None] - np.minimum(back, age[:, None])
        return rows

    def take_obs(self, step: NDArray[np.int64], env: NDArray[np.int64]) -> Array:
        """What the policy saw at ``(step[i], env[i])``: ``[N, ...]``, a copy, frames stacked."""
        if self.frames is None:
            return self.obs[step, env]
        return self.frames[self.frame_steps(step, env), env[:, None]]

    def take_final_obs(self, step: NDArray[np.int64], env: NDArray[np.int64]) -> Array:
        """The final observations at ``(step[i], env[i])``: ``[N, ...]``, a copy, frames stacked."""
        final = self.final_obs[step, env]
        if self.frames is None:
            return final
        before = self.frames[self.frame_steps(step, env)[:, 1:], env[:, None]]
        return np.concatenate([before, final[:, None]], axis=1)


@dataclass(frozen=True)
class RolloutBatch:
    """Everything one ticket trains on.

    Attributes:
        rollouts: One `ShardRollout` per merged shard rollout, in merge order.
        env_steps: Environment steps trained on before this batch.
        progress: ``env_steps`` as a share of ``horizon_env_steps``, 0 where there is none.
        version: Of the learner's weights: the optimizer steps committed before this batch.
    """

    rollouts: tuple[ShardRollout, ...]
    env_steps: int
    progress: float
    version: int = 0


@dataclass(frozen=True)
class ReplayBatch:
    """``N`` n-step transitions drawn from replay.

    A window begins at a drawn row and ends after ``n`` steps or with its episode, whichever is
    first, after ``k <= n`` steps.

    Attributes:
        obs: ``[N, ...]``, what the policy saw; frames stacked.
        action: ``[N, ...]``, as stored.
        reward: ``[N]`` float32, the discounted sum of the window's rewards,
            ``r_0 + gamma r_1 + ... + gamma^(k-1) r_(k-1)``.
        discount: ``[N]`` float32, what the value of ``next_obs`` is multiplied with: ``gamma^k``,
            0 where the window ended with a terminated step.
        next_obs: ``[N, ...]``, the true observation after the window; the final one where the
            episode ended.
        weight: ``[N]`` float32, importance weights; 1 where draws are uniform.
        env_steps: Environment steps stored so far.
        progress: ``env_steps`` as a share of ``horizon_env_steps``, 0 where there is none.
        extra: ``[N, ...]`` by name, what `Blueprint.columns` declares, of the window's first step
            or summed like the reward, as the column's ``fold`` says. Of a column that the learner
            writes what it said of the window's first step last, zeros if nothing.
        written: ``[N]`` int64, the version of the learner that said it, -1 where nothing was said;
            None without such columns.
    """

    obs: Array
    action: Array
    reward: Array
    discount: Array
    next_obs: Array
    weight: Array
    env_steps: int
    progress: float
    extra: Mapping[str, Array] = field(default_factory=dict)
    written: Array | None = None


@dataclass(frozen=True)
class SequenceBatch:
    """``N`` sequences drawn from replay, each of at most ``L`` rows that follow one another.

    They lie within one episode: row ``before`` of the `Window` is the one that was drawn, earlier
    ones are there as far as the episode had begun, later ones until it ends. All else is zero.

    Attributes:
        obs: ``[N, L + 1, ...]``, what the policy saw; frames stacked. After the last row comes the
            observation after it, the final one where the episode ended.
        action: ``[N, L, ...]``, as stored.
        reward: ``[N, L]`` float32, as the environment gave it.
        terminated: ``[N, L]`` bool, the task ended with this row.
        truncated: ``[N, L]`` bool, the episode was cut off with this row.
        mask: ``[N, L]`` bool, which rows are there.
        weight: ``[N]`` float32, importance weights; 1 where draws are uniform.
        env_steps: Environment steps stored so far.
        progress: ``env_steps`` as a share of ``horizon_env_steps``, 0 where there is none.
        state: ``[N, S]`` float32, what a recurrent policy remembered before the first row that is
            there: zero where its episode began. None unless `ReplaySpec.stored_state`.
        extra: ``[N, L, ...]`` by name, what `Blueprint.columns` declares; ``[N, ...]``, of the
            first row that is there, where the column's ``fold`` says so. Of a column that the
            learner writes what it said of each row last, zeros if nothing.
        written: ``[N, L]`` int64, the version of the learner that said it, -1 where nothing was
            said; None without such columns.
    """

    obs: Array
    action: Array
    reward: Array
    terminated: Array
    truncated: Array
    mask: Array
    weight: Array
    env_steps: int
    progress: float
    state: Array | None = None
    extra: Mapping[str, Array] = field(default_factory=dict)
    written: Array | None = None
