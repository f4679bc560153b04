"""The contract between an env node and whatever steps its environments."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from fast_core.algorithm import Array
from fast_core.config import Values
from fast_core.envs.drawing.drawable import Drawable, Present
from fast_core.envs.stepping.repetition import Repetition
from fast_core.spec import EnvironmentSpec

ALL_ENVS = -1

# Told before an environment that is tried out is made, or else called, to limit how long it takes.
Before = Callable[[Literal["make", "call"]], None]


class ProgressWord(enum.IntEnum):
    """Layout of the 64-bit words in which a batch keeps where it is.

    The words may lie in shared memory, so that they can still be read after a simulator took
    its process down. ``BEGUN`` begins ``envs`` words with how many episodes each environment has
    begun, the open one being the last of them, and as many follow with the value of ``STEP`` when
    that began. What was begun stays until the batch begins another: one that is only made leaves
    it to who comes after.

    ``ENV`` is the environment that is being stepped, or `ALL_ENVS` where one call steps them all.

    Concurrency: written by the batch alone, word by word; nothing publishes them together. Read
    them for diagnosis, best after the writer is gone.
    """

    ENV = 0
    STEP = 1
    BEGUN = 2


def progress_words(envs: int) -> int:
    """Number of 64-bit words for the progress of ``envs`` environments."""
    return ProgressWord.BEGUN + 2 * envs


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


class EnvBatch(Protocol):
    """``B`` environments of one shard, stepped together, each reset where its episode ends.

    Episode ``k`` of an environment is reset with the seed that belongs to (run, role, shard,
    environment, ``k``) and with the configured reset options. Actions are what the
    environments' action space contains, in its dtype; observations arrive in the dtype that the
    observation space declares. Rows are those of `EnvironmentSpec.row`: single frames where frames
    are stacked, records with a field for each leaf where the space is composite. Where the
    specification names an action mask, every row that an action follows allows at least one in
    each dimension.

    An observation or reward that is not finite (as float32, for a reward) either ends the run,
    or is quarantined: the step counts as a truncation at the last good observation with reward
    0, and the environment is reset. What the step really led to is not known, so nothing may be
    learnt from it: `quarantined` tells these truncations from true ones. The same stands for a
    step that was none, since a library began an episode in its place: nothing is counted then.

    The batch owns what it was given: arrays passed to it are copied or written, and not
    kept, and environments may reuse theirs. After an exception only `close` is defined.
    """

    spec: EnvironmentSpec

    @property
    def quarantined(self) -> Sequence[int]:
        """Places of the environments whose last step is to be left out; hardly ever any."""
        ...

    @property
    def extra(self) -> Mapping[str, Array]:
        """What the declared columns have of the last step, ``[B, ...]`` by name.

        Each environment's info must have them; one that is not finite counts as an observation
        that is not. Zeros where the step is quarantined.
        """
        ...

    @property
    def position(self) -> int:
        """Environment that is being reset or stepped, or was last; counted within the shard."""
        ...

    def reset(self, obs: Array) -> None:
        """Begin the next episode of every environment; ``obs`` ``[B, ...]`` is written.

        Raises:
            EnvironmentFailed: An environment raised or gave what its spaces do not declare.
        """
        ...

    def step(
        self,
        action: Array,
        *,
        next_obs: Array,
        reward: NDArray[np.float32],
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
        final_obs: Array,
    ) -> None:
        """Step every environment once with ``action`` ``[B, ...]``; the rest is written.

        Where an episode ends, at least one of ``terminated`` and ``truncated`` is set, both if
        both are so; ``final_obs[b]`` is the true successor and ``next_obs[b]`` the observation
        of the reset that follows within this call. Elsewhere ``final_obs[b]`` is left alone and
        ``next_obs[b]`` is the successor. ``reward``, ``terminated`` and ``truncated`` are ``[B]``.

        Raises:
            EnvironmentFailed: An environment raised or gave what its spaces do not declare.
        """
        ...

    def change(self, attributes: Values, obs: Array) -> list[int]:
        """Begin episodes with other ``environment.attributes`` from now on.

        Those that have no step yet are begun again, with their own seeds, and their rows of
        ``obs`` are written. The others keep what they began with until they end.

        Returns:
            Places of those that were begun again.

        Raises:
            EnvironmentFailed: An environment raised.
        """
        ...

    def present(self, place: int) -> Present:
        """Where the environment at ``place`` is, between two steps."""
        ...

    def drawable(self, place: int) -> Drawable:
        """What draws the environment at ``place``, if it is one of those made to draw."""
        ...

    def take_episodes(self) -> FinishedEpisodes:
        """Return the episodes that ended since the last call, and forget them."""
        ...

    def state(self) -> bytes:
        """Everything that `begin_restore` needs to continue exactly, open episodes included."""
        ...

    def begin_restore(self, state: bytes) -> list[Repetition]:
        """Begin to continue from `state`: returns how open episodes are stepped again.

        Each is to be taken, in any thread, before `end_restore`.

        Raises:
            CheckpointError: ``state`` is damaged or belongs to another batch.
        """
        ...

    def end_restore(self, obs: Array) -> dict[int, str]:
        """Continue; the current observations are written to ``obs``.

        An environment whose episode was not kept, or that did not come back to the same
        observation bit for bit, begins the next episode.

        Returns:
            Why, for each of these, counted within the shard.
        """
        ...

    def close(self) -> None:
        """Close every environment once, also those after one whose close raises."""
        ...
