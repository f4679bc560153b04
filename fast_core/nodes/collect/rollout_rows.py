"""The columns of one open rollout slot, cut to the environments that are stepped together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self, cast

import numpy as np
from numpy.typing import NDArray

from fast_core.algorithm import Array


@dataclass(frozen=True)
class RolloutRows:
    """Where a group of ``b`` environments writes its part of a rollout; views of the slot.

    Attributes:
        before: ``[frames - 1, b, ...]``, the frames before row 0; empty where none are stacked.
        obs: ``[T + 1, b, ...]``.
        action: ``[T, b, ...]``.
        behaviour_log_prob: ``[T, b]``.
        reward: ``[T, b]``.
        terminated: ``[T, b]``.
        truncated: ``[T, b]``.
        quarantined: ``[T, b]``, true where `EnvBatch.quarantined` said so.
        final_obs: ``[T, b, ...]``.
        policy_version: ``[T, b]``.
        frame_age: ``[T + 1, b]``, None where no frames are stacked.
        state: ``[T, b, S]`` where every row's is kept, otherwise ``[1, b, S]``, before row 0; None
            for policies without memory.
        extra: ``[T, b, ...]`` by name, what the algorithm declares besides.
    """

    before: Array
    obs: Array
    action: Array
    behaviour_log_prob: Array
    reward: NDArray[np.float32]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    quarantined: NDArray[np.bool_]
    final_obs: Array
    policy_version: Array
    frame_age: Array | None
    state: Array | None
    extra: Mapping[str, Array]

    @classmethod
    def of(
        cls, slot: Mapping[str, Array], envs: slice, frames: int, declared: Iterable[str] = ()
    ) -> Self:
        """Cut the columns of ``slot``, ``declared`` ones among them, to ``envs``."""
        obs, age, state = slot["obs"], slot.get("frame_age"), slot.get("state")
        return cls(
            before=obs[: frames - 1, envs],
            obs=obs[frames - 1 :, envs],
            action=slot["action"][:, envs],
            behaviour_log_prob=slot["behaviour_log_prob"][:, envs],
            reward=cast("NDArray[np.float32]", slot["reward"][:, envs]),
            terminated=cast("NDArray[np.bool_]", slot["terminated"][:, envs]),
            truncated=cast("NDArray[np.bool_]", slot["truncated"][:, envs]),
            quarantined=cast("NDArray[np.bool_]", slot["quarantined"][:, envs]),
            final_obs=slot["final_obs"][:, envs],
            policy_version=slot["policy_version"][:, envs],
            frame_age=None if age is None else age[:, envs],
            state=None if state is None else (state if state.ndim == 3 else state[None])[:, envs],
            extra={name: slot[name][:, envs] for name in declared},
        )
