"""What a library that steps many environments with one call must do, and may say of itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import ClassVar, NamedTuple

import numpy as np
from msgspec import to_builtins
from numpy.typing import NDArray

from fast_core.algorithm import Array
from fast_core.algorithm.spec import EnvironmentSpec
from fast_core.config import EnvironmentConfig, Values
from fast_core.envs.drawing.drawable import Drawable
from fast_core.errors import ConfigError

KEYS = ("attributes", "atari", "reset_options")


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
        began: ``[B]``, where the library began an episode in place of a step, as some do
            in the one after an end: only ``obs``, the first of that episode, counts. None where
            it never does.
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


class Backend(ABC):
    """``B`` environments that one call steps; derive what ``environment.backend`` names from it.

    What it returns it owns until the next call, and the caller's arrays it does not keep. What it
    can is said by attributes of the class; `__init__` may set ``seeded`` and ``partial`` where they
    depend on the environment.

    Attributes:
        spec: Spaces and time limit of each, as `fast_core.envs.description.describe` makes it; to
            be set by `__init__`.
        seeded: Whether every episode follows from its seed and the actions taken, so that it can be
            repeated alone. Without, a run can't be resumed exactly.
        partial: Whether one environment can be reset at any time, by `begin`. Where it can't, the
            library resets each itself, in the step of its episode's end or in the next one: no
            time limit, bad value or missing reward can cut an episode.
        in_place: Whether `step_into` steps them, which writes where it is told to and is spared
            the copies and checks of `step`. Only with ``partial``.
        takes: Which keys below ``environment`` it heeds besides ``id`` and ``kwargs``, of `KEYS`;
            others are refused where they are set.
    """

    spec: EnvironmentSpec
    seeded: bool = False
    partial: bool = True
    in_place: ClassVar[bool] = False
    takes: ClassVar[frozenset[str]] = frozenset()

    @abstractmethod
    def __init__(self, config: EnvironmentConfig, envs: int, *, draws: bool = False) -> None:
        """Make ``envs`` environments, or get ready for `start` to.

        Args:
            config: Which: ``config.id`` with ``config.kwargs``.
            envs: Their number, ``B``.
            draws: Whether they are to be able to draw themselves, see `drawable`.

        Raises:
            ConfigError: They can't be made so.
            Exception: Whatever a constructor raises.
        """

    @classmethod
    def alone(cls, config: EnvironmentConfig) -> EnvironmentConfig | None:
        """The same environment as `gymnasium.make` makes it, by itself, if there is one.

        Policies are evaluated and drawn in it then, and otherwise in a batch of ``config``.
        """
        del config
        return None

    @abstractmethod
    def start(self, seeds: Sequence[int]) -> object:
        """Begin anew in every environment; returns their observations in batched form.

        ``seeds`` are those of the episodes that begin; a backend that can't seed each uses them
        for whatever it can.
        """

    def step(self, action: Array) -> VectorStep:
        """Step every environment with ``action`` ``[B, ...]``, as their space has it."""
        raise NotImplementedError

    def step_into(
        self,
        action: Array,
        *,
        obs: Array,
        reward: NDArray[np.float64],
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
    ) -> Mapping[str, object]:
        """The same, if ``in_place``: write the true successors and all the rest ``[B]``.

        ``obs`` is ``[B, ...]`` as ``spec.row`` has it, with a field for each part where the space
        is composite.

        Returns:
            The info in batched form, see `info_at`.
        """
        raise NotImplementedError

    def begin(self, places: NDArray[np.int64], seeds: Sequence[int], *, forced: bool) -> object:
        """Begin the next episode of some environments, only if ``partial``.

        Args:
            places: Which, in rising order.
            seeds: Of these episodes; what a backend without seeds ignores.
            forced: Whether the environment itself does not know that its episode ended.

        Returns:
            The first observations of these alone, in batched form.
        """
        raise NotImplementedError

    def set_attributes(self, values: Sequence[Values]) -> None:
        """Set ``environment.attributes`` of each before a reset: its own, of its open episode."""
        assert not any(values), "who does not take attributes has none"

    def drawable(self, place: int) -> Drawable:
        """What draws the environment at ``place``, if they were made to draw.

        What closes it is the caller's.
        """
        del place
        return Drawable(lambda: None, why_not=f"{type(self).__name__} does not draw")

    def close(self) -> None:  # noqa: B027, many have nothing to close
        """Close all environments."""


def refuse_untaken(config: EnvironmentConfig, kind: type[Backend]) -> None:
    """Refuse keys that a backend does not heed; those of single environments none can.

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
    for key in KEYS:
        if (value := getattr(config, key)) and key not in kind.takes:
            given[key] = to_builtins(value)
    for key, value in given.items():
        raise ConfigError(
            f"environment.{key} {value!r} needs environment.backend gymnasium; got "
            f"{config.backend!r}, which steps many environments with one call and takes none. "
            "Leave it out, or use an argument of the environment's own in environment.kwargs."
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
