"""Merging the rollouts of shards into columns side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from algos.distributions import I64
from algos.networks import F32
from algos.observations import ObservationEncoder
from fast_core.algorithm import RolloutBatch, ShardRollout

Bool = NDArray[np.bool_]


@dataclass(frozen=True)
class MergedRollout:
    """``T`` steps of all ``N`` environments of a ticket, the shards in merge order.

    Attributes:
        obs: ``[T + 1, N, in]``, encoded.
        action: ``[T, N, ...]``.
        behaviour_log_prob: ``[T, N]``.
        reward: ``[T, N]``.
        terminated: ``[T, N]``.
        truncated: ``[T, N]``; false where the task terminated in the same step.
        final_obs: ``[K, in]``, encoded final observations of the ``K`` truncated steps.
        final_step: ``[K]``, their steps.
        final_column: ``[K]``, their columns.
        shards: Shards in merge order.
    """

    obs: F32
    action: NDArray[np.generic]
    behaviour_log_prob: F32
    reward: F32
    terminated: Bool
    truncated: Bool
    final_obs: F32
    final_step: I64
    final_column: I64
    shards: tuple[int, ...]


def merge(batch: RolloutBatch, encoder: ObservationEncoder) -> MergedRollout:
    """Copy the rollouts of ``batch``, which stay valid only for one update."""
    rollouts = batch.rollouts
    terminated = _side_by_side([r.terminated for r in rollouts]).astype(bool, copy=False)
    truncated = _side_by_side([r.truncated for r in rollouts]).astype(bool, copy=False)
    truncated &= ~terminated
    step, column = np.nonzero(truncated)
    return MergedRollout(
        obs=_side_by_side([_encoded(r.obs, encoder) for r in rollouts]),
        action=_side_by_side([r.action for r in rollouts]),
        behaviour_log_prob=_side_by_side([r.behaviour_log_prob for r in rollouts]),
        reward=_side_by_side([r.reward for r in rollouts]).astype(np.float32, copy=False),
        terminated=terminated,
        truncated=truncated,
        final_obs=encoder.encode(_final_obs(rollouts, step, column)),
        final_step=step,
        final_column=column,
        shards=tuple(r.shard for r in rollouts),
    )


def _final_obs(rollouts: tuple[ShardRollout, ...], step: I64, column: I64) -> NDArray[np.generic]:
    """Pick the few final observations that are bootstrapped from; most rows are not valid."""
    envs = rollouts[0].final_obs.shape[1]
    picked = [rollouts[c // envs].final_obs[t, c % envs] for t, c in zip(step, column, strict=True)]
    first = rollouts[0].final_obs
    return np.asarray(picked, first.dtype).reshape(len(picked), *first.shape[2:])


def _encoded(obs: NDArray[np.generic], encoder: ObservationEncoder) -> F32:
    steps, envs = obs.shape[:2]
    return encoder.encode(obs.reshape(steps * envs, *obs.shape[2:])).reshape(steps, envs, -1)


def _side_by_side(parts: list[NDArray[np.generic]]) -> NDArray[Any]:
    return np.concatenate(parts, axis=1)
