"""What steps many environments with one call, whichever library it is from."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from fast_core.algorithm import Array
from fast_core.config import EnvironmentConfig, Values
from fast_core.envs.drawing.drawable import Drawable
from fast_core.errors import ConfigError
from fast_core.spec import EnvironmentSpec


class VectorStep(NamedTuple):
    """One step of all environments.

    Attributes:
        obs: Observations in batched form, see `BatchWriter`. Where an episode ended, the true
            successor; or, if ``final`` is given, the first of the next episode.
        reward: ``[B]``.
        terminated: ``[B]``.
        truncated: ``[B]``.
        goes_on: ``[B]``, where an episode ended by a lost life alone: the next one goes on in the
            same game. None where no game does.
        final: Observations in batched form that are valid where an episode ended: the true
            successors. None where the caller must begin the next episodes.
        info: Info in batched form, see `info_at`.
        final_info: Likewise of the last step where an episode ended, if ``info`` is of what came
            after it there.
        began: ``[B]``, where the library began an episode in place of a step (`resets_late`): only
            ``obs``, the first of that episode, counts. None where it never does.
    """

    obs: object
    reward: Array
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    goes_on: NDArray[np.bool_] | None = None
    final: object = None
    info: Mapping[str, object] = {}
    final_info: Mapping[str, object] | None = None
    began: NDArray[np.bool_] | None = None


class VectorSource(Protocol):
    """``B`` environments that one call steps; it owns what it returns until the next call.

    Attributes:
        spec: Their spaces and time limit.
        seeded: Whether every episode is seeded, so that it can be repeated alone.
        partial: Whether one environment can be reset at any time. Where it can't, the library
            resets each at its episode's end, and there alone.
        resets_late: Whether it does so in the step after that, whose action it ignores.
    """

    spec: EnvironmentSpec
    seeded: bool
    partial: bool
    resets_late: bool

    def start(self, seeds: Sequence[int]) -> object:
        """Begin anew in every environment; returns their observations in batched form.

        ``seeds`` are those of the episodes that begin; a source that can't seed each uses them
        for whatever it can.
        """
        ...

    def step(self, action: Array) -> VectorStep:
        """Step every environment with ``action`` ``[B, ...]``, as their space has it."""
        ...

    def begin(self, places: NDArray[np.int64], seeds: Sequence[int], *, forced: bool) -> object:
        """Begin the next episode of some environments, only if ``partial``.

        Args:
            places: Which, in rising order.
            seeds: Of these episodes; what a source without seeds ignores.
            forced: Whether the environment itself does not know that its episode ended.

        Returns:
            The first observations of these alone, in batched form.
        """
        ...

    def set_attributes(self, values: Sequence[Values]) -> None:
        """Set attributes of each environment, those of its open episode; before a reset."""
        ...

    def drawable(self, place: int) -> Drawable:
        """What draws the environment at ``place``, if they were made to draw.

        What closes it is the caller's.
        """
        ...

    def close(self) -> None:
        """Close all environments."""
        ...


def refuse_wrapping(config: EnvironmentConfig) -> None:
    """Refuse keys that change single environments, which a vectorised form does not let us.

    Raises:
        ConfigError: One is set.
    """
    given: dict[str, object] = {}
    if config.wrappers:
        given["wrappers"] = [wrapper.name for wrapper in config.wrappers]
    if config.frame_skip > 1:
        given["frame_skip"] = config.frame_skip
    if config.action_mask is not None and config.action_mask.startswith("info."):
        given["action_mask"] = config.action_mask
    for key, value in given.items():
        raise ConfigError(
            f"environment.{key} {value!r} needs environment.backend gymnasium; got "
            f"{config.backend!r}, whose environments are stepped by the library. Leave it out, or "
            "use an argument of the environment's own in environment.kwargs."
        )


def refuse_deciding_twice(config: EnvironmentConfig, decided: Collection[str]) -> None:
    """Refuse arguments that follow from ``environment.atari`` and ``environment.frame_stack``.

    Raises:
        ConfigError: ``environment.kwargs`` has one of ``decided`` too.
    """
    for name in decided:
        if name in config.kwargs:
            raise ConfigError(
                f"environment.kwargs.{name} follows from environment.atari and "
                f"environment.frame_stack; got {config.kwargs[name]!r} beside them. Remove it."
            )


def single_frames(config: EnvironmentConfig) -> bool:
    """Whether an environment that could stack frames must give single ones."""
    return config.atari is not None or config.frame_stack > 1


def without_stack(obs: object, *, colour_first: bool = False) -> object:
    """Frames ``[n, H, W]`` or ``[n, H, W, 3]`` out of stacks of one.

    With ``colour_first`` the stack of one is ``[n, 3, H, W]``, otherwise ``[n, 1, ...]``.
    """
    assert isinstance(obs, np.ndarray)
    return np.moveaxis(obs, 1, -1) if colour_first else obs[:, 0]
