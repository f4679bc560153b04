"""Merging the rollouts of shards into columns side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fast_core.algorithm import Array, RolloutBatch, ShardRollout
from fast_core.algos.nets.networks import F32
from fast_core.algos.nets.observations import (
    I64,
    Bool,
    ImageTable,
    ObservationEncoder,
    ObservationTable,
)


@dataclass(frozen=True)
class MergedRollout:
    """``T`` steps of all ``N`` environments of a ticket, the shards in merge order.

    Attributes:
        obs: Row ``t * N + n`` is what environment ``n`` gave before step ``t`` of ``T + 1``; the
            final observations of the ``K`` truncated steps follow.
        action: ``[T, N, ...]``.
        behaviour_log_prob: ``[T, N]``.
        reward: ``[T, N]``.
        terminated: ``[T, N]``.
        truncated: ``[T, N]``; false where the task terminated in the same step.
        final_step: ``[K]``, steps of the final observations.
        final_column: ``[K]``, their columns.
        shards: Shards in merge order.
        state: ``[N, S]``, what a recurrent policy remembered before step 0; None without memory.
        quarantined: ``[T, N]``, steps whose outcome is not known; None where there are none.
        lag: ``[T, N]``, how many updates the weights that acted are behind the learner's.
        extra: ``[T, N, ...]`` by name, the columns that the algorithm declares.
    """

    obs: ObservationTable
    action: NDArray[np.generic]
    behaviour_log_prob: F32
    reward: F32
    terminated: Bool
    truncated: Bool
    final_step: I64
    final_column: I64
    shards: tuple[int, ...]
    state: F32 | None = None
    quarantined: Bool | None = None
    lag: I64 = field(default_factory=lambda: np.empty((0, 0), np.int64))
    extra: Mapping[str, NDArray[np.generic]] = field(default_factory=dict)


def merge(batch: RolloutBatch, encoder: ObservationEncoder, frames: FrameRoom) -> MergedRollout:
    """Copy the rollouts of ``batch``, which stay valid only for one update."""
    rollouts = batch.rollouts
    terminated = _side_by_side([r.terminated for r in rollouts]).astype(bool, copy=False)
    truncated = _side_by_side([r.truncated for r in rollouts]).astype(bool, copy=False)
    truncated &= ~terminated
    step, column = np.nonzero(truncated)
    return MergedRollout(
        obs=_Observations(rollouts, encoder, step, column).table(frames),
        action=_side_by_side([r.action for r in rollouts]),
        behaviour_log_prob=_side_by_side([r.behaviour_log_prob for r in rollouts]),
        reward=_side_by_side([r.reward for r in rollouts]).astype(np.float32, copy=False),
        terminated=terminated,
        truncated=truncated,
        final_step=step,
        final_column=column,
        shards=tuple(r.shard for r in rollouts),
        state=_states(rollouts),
        quarantined=_quarantined(rollouts),
        lag=batch.version - _side_by_side([r.policy_version for r in rollouts]),
        extra={
            name: _side_by_side([r.extra[name] for r in rollouts]) for name in rollouts[0].extra
        },
    )


def _states(rollouts: tuple[ShardRollout, ...]) -> F32 | None:
    states = [r.state for r in rollouts if r.state is not None]
    return np.concatenate(states).astype(np.float32, copy=False) if states else None


def _quarantined(rollouts: tuple[ShardRollout, ...]) -> Bool | None:
    if not any(r.quarantined is not None and r.quarantined.any() for r in rollouts):
        return None
    known = [
        np.zeros_like(r.truncated) if r.quarantined is None else r.quarantined for r in rollouts
    ]
    return _side_by_side(known).astype(bool, copy=False)


def all_observations(rollout: ShardRollout) -> Array:
    """Every observation as the policy saw it, ``[(T + 1) * B, ...]``."""
    steps, width, *shape = rollout.obs.shape
    if rollout.frames is None:
        return rollout.obs.reshape(steps * width, *shape)
    step, env = np.indices((steps, width)).reshape(2, -1)
    return rollout.take_obs(step, env)


class FrameRoom:
    """Memory for the frames of a ticket, kept: first touch is the dear part of a large copy."""

    def __init__(self) -> None:
        self._kept: dict[int, Array] = {}

    def take(self, image: int, count: int, like: Array) -> Array:
        """Room for ``count`` frames of an image; overwrites what the last call gave for it."""
        kept = self._kept.get(image)
        if kept is None or len(kept) < count:
            room = count + count // 16  # the number of final observations varies
            kept = self._kept[image] = np.empty((room, *like.shape[2:]), like.dtype)
        return kept[:count]


class _Observations:
    """Builds the table of a ticket's observations."""

    def __init__(
        self,
        rollouts: tuple[ShardRollout, ...],
        encoder: ObservationEncoder,
        final_step: I64,
        final_column: I64,
    ) -> None:
        self._rollouts, self._encoder = rollouts, encoder
        self._steps, self._width = rollouts[0].obs.shape[:2]  # T + 1, environments of a shard
        self._envs = self._width * len(rollouts)
        self._grid = self._steps * self._envs
        # Few final observations are bootstrapped from; the other rows are not even valid.
        self._finals = []
        for shard in range(len(rollouts)):
            (place,) = np.nonzero(final_column // self._width == shard)
            self._finals.append((place, final_step[place], final_column[place] % self._width))
        self._rows = self._grid + len(final_step)

    def table(self, room: FrameRoom) -> ObservationTable:
        encoder = self._encoder
        vector: F32 = np.empty((self._rows, encoder.size), np.float32)
        if encoder.size:
            self._fill(vector, encoder.vector)
        mask: Bool | None = None
        if encoder.mask_size:
            mask = np.empty((self._rows, encoder.mask_size), np.bool_)
            self._fill(mask, encoder.mask)
        images = tuple(self._image(image, room) for image in range(encoder.image_count))
        return ObservationTable(vector, images, mask)

    def _fill(self, rows: Array, encode: Callable[[Array], Any]) -> None:
        """Write what ``encode`` makes of every observation."""
        grid = rows[: self._grid].reshape(self._steps, self._envs, -1)
        for shard, rollout in enumerate(self._rollouts):
            columns = slice(shard * self._width, (shard + 1) * self._width)
            part = encode(all_observations(rollout))
            grid[:, columns] = np.reshape(part, (self._steps, self._width, -1))
            place, step, env = self._finals[shard]
            if len(place):
                rows[self._grid + place] = encode(rollout.take_final_obs(step, env))

    def _image(self, image: int, room: FrameRoom) -> ImageTable:
        """Copy the frames of one image, side by side, final ones last."""
        stored_rows = [r.obs if r.frames is None else r.frames for r in self._rollouts]
        sources = [self._encoder.frames(image, rows) for rows in stored_rows]
        history = len(sources[0]) - self._steps
        stored = len(sources[0]) * self._envs
        frames = room.take(image, stored + self._rows - self._grid, sources[0])
        side_by_side = frames[:stored].reshape(-1, self._envs, *frames.shape[1:])
        index = np.empty((self._rows, history + 1), np.int64)
        grid = index[: self._grid].reshape(self._steps, self._envs, -1)
        for shard, (rollout, source) in enumerate(zip(self._rollouts, sources, strict=True)):
            first = shard * self._width
            side_by_side[:, first : first + self._width] = source
            step, env = np.indices((self._steps, self._width)).reshape(2, -1)
            places = self._places(rollout, step, env, first)
            grid[:, first : first + self._width] = places.reshape(self._steps, self._width, -1)
            place, step, env = self._finals[shard]
            if len(place):
                final = rollout.final_obs[step, env]
                frames[stored + place] = self._encoder.frames(image, final)
                index[self._grid + place, :-1] = self._places(rollout, step, env, first)[:, 1:]
                index[self._grid + place, -1] = stored + place
        return ImageTable(frames, index)

    def _places(self, rollout: ShardRollout, step: I64, env: I64, first: int) -> I64:
        """Where the frames stand that are seen at each ``(step, env)``: ``[n, stack]``."""
        frame = step[:, None] if rollout.frames is None else rollout.frame_steps(step, env)
        places: I64 = frame * self._envs + (first + env)[:, None]
        return places


def _side_by_side(parts: list[Array]) -> NDArray[Any]:
    return np.concatenate(parts, axis=1)
