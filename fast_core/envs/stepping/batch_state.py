"""The saved form of a batch of environments."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from fast_core.algorithm import Array
from fast_core.algorithm.spec import SpaceSpec
from fast_core.config import Values
from fast_core.envs.masks import valid_action
from fast_core.envs.stepping.actions import ActionLog
from fast_core.envs.stepping.no_reward import NoReward
from fast_core.envs.stepping.open_episodes import OpenEpisodes
from fast_core.errors import CheckpointError
from fast_core.system.decoding import from_msgpack

VERSION = 1
NOT_KEPT = "its actions were not kept"


class FinishedEpisodes(NamedTuple):
    """Episodes that ended since they were last taken, in the order in which they ended.

    Attributes:
        returns: Undiscounted sum of rewards of each episode; NaN where it was quarantined, since
            what it would have come to is not known.
        lengths: Steps of each episode.
        quarantined: How many values that were not finite were kept out (`EnvBatch`).
        infos: Numbers of the info of each one's last step, by name (`EpisodeInfo`).
    """

    returns: list[float]
    lengths: list[int]
    quarantined: int
    infos: tuple[dict[str, float], ...] = ()


class OpenEpisode(msgspec.Struct, frozen=True):
    """One environment's open episode.

    Attributes:
        episode: Its number.
        seed: Seed it was reset with.
        length: Steps so far.
        total: Sum of rewards so far.
        obs: Bytes of the current observation.
        actions: Bytes of its actions ``[length, ...]``, or None where they were not kept.
        start: What its reset needs beside the seed, often nothing (`Instance.episode_start`).
        attributes: What ``environment.attributes`` were when it began.
        unrewarded: Steps since its last reward other than 0, where they are counted.
    """

    episode: int
    seed: int
    length: int
    total: float
    obs: bytes
    actions: bytes | None
    start: bytes = b""
    attributes: Values = {}
    unrewarded: int = 0


class BatchState(msgspec.Struct, frozen=True):
    """Everything `EnvBatch.begin_restore` needs.

    Attributes:
        version: Layout of this record.
        id: Environment.
        finished: Episodes that ended and were not yet taken.
        open: Open episodes, by environment.
    """

    version: int
    id: str
    finished: FinishedEpisodes
    open: list[OpenEpisode]


def encode_state(state: BatchState) -> bytes:
    """``state`` as MessagePack."""
    return msgspec.msgpack.encode(state)


def encode_open(
    id: str,
    finished: FinishedEpisodes,
    episodes: OpenEpisodes,
    log: ActionLog | None,
    *,
    returns: NDArray[np.float64],
    obs: Array,
    starts: Sequence[bytes] | None = None,
    attributes: Sequence[Values],
    no_reward: NoReward | None,
) -> bytes:
    """State of environments ``id`` in the midst of their open episodes.

    Args:
        id: Environment.
        finished: Episodes that ended and were not yet taken.
        episodes: Which episode each environment is in.
        log: Their actions, or None where they are not kept.
        returns: ``[B]``, the sums of rewards so far.
        obs: ``[B, ...]``, the current observations.
        starts: What the reset of each needs beside the seed.
        attributes: What ``environment.attributes`` were when each began.
        no_reward: What counts steps without a reward, if anything does.
    """
    open_episodes = [
        OpenEpisode(
            episode=episode,
            seed=episodes.seed(place),
            length=episodes.length(place),
            total=float(returns[place]),
            obs=obs[place].tobytes(),
            actions=None if log is None else log.since(place, episodes.start[place]).tobytes(),
            start=b"" if starts is None else starts[place],
            attributes=attributes[place],
            unrewarded=0 if no_reward is None else int(no_reward.steps[place]),
        )
        for place, episode in enumerate(episodes.episode)
    ]
    return encode_state(BatchState(VERSION, id, finished, open_episodes))


def lost_episodes(id: str, episodes: Iterable[int]) -> bytes:
    """State of environments ``id`` of which only the numbers of their open episodes are known.

    A batch that restores it begins the episodes after those.
    """
    lost = [OpenEpisode(number, 0, 0, 0.0, b"", None) for number in episodes]
    return encode_state(BatchState(VERSION, id, FinishedEpisodes([], [], 0), lost))


def decode_state(data: bytes, *, id: str, envs: int) -> BatchState:
    """Read what `encode_state` wrote for ``envs`` environments called ``id``.

    Raises:
        CheckpointError: It is damaged, of another version, or of other environments.
    """
    try:
        state = from_msgpack(data, BatchState)
    except msgspec.MsgspecError as error:
        raise CheckpointError(f"the saved state of the environments is damaged: {error}") from error
    if state.version != VERSION:
        raise CheckpointError(
            f"the saved state of the environments has version {state.version}; this FastLoop "
            f"reads version {VERSION}. Resume with the FastLoop that wrote it."
        )
    if (state.id, len(state.open)) != (id, envs):
        raise CheckpointError(
            f"the saved state is of {len(state.open)} environments {state.id!r}; this run has "
            f"{envs} of {id!r}. Resume with the configuration of the saved run."
        )
    return state


def aligned_actions(saved: Sequence[OpenEpisode], space: SpaceSpec) -> tuple[Array, list[int]]:
    """Actions ``[n, B, ...]`` of open episodes up to now, and where those of each begin.

    What stands before they begin are actions that ``space`` contains.

    Raises:
        CheckpointError: As `decode_actions`.
    """
    actions = [decode_actions(episode, space) for episode in saved]
    count = max(map(len, actions))
    rows = np.empty((count, len(saved), *space.shape), space.dtype)
    rows[...] = valid_action(space)
    starts = [count - len(taken) for taken in actions]
    for place, taken in enumerate(actions):
        rows[starts[place] :, place] = taken
    return rows, starts


def decode_actions(episode: OpenEpisode, space: SpaceSpec) -> Array:
    """The actions of ``episode`` ``[length, ...]``, none where they were not kept.

    Raises:
        CheckpointError: Their number or size is not what ``space`` and the length say.
    """
    if episode.actions is None:
        return np.empty((0, *space.shape), space.dtype)
    try:
        return np.frombuffer(episode.actions, space.dtype).reshape(episode.length, *space.shape)
    except ValueError as error:
        raise CheckpointError(
            f"{len(episode.actions)} bytes of saved actions are not {episode.length} actions "
            f"of shape {space.shape} and dtype {space.dtype}"
        ) from error
