"""What a run sees of an environment's spaces: masks and stacked frames included."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from fast_core.algorithm.spec import Branch, EnvironmentSpec, SpaceSpec
from fast_core.config import EnvironmentConfig
from fast_core.envs.masks import choices
from fast_core.envs.records import EVERYTHING
from fast_core.envs.spaces import ObservationForm, Space, action_spec, observation_form
from fast_core.errors import ConfigError

INFO = "info."
MOST_FRAMES = 256  # a frame's age is kept in one byte


def describe(
    config: EnvironmentConfig, observation: Space, action: Space, max_episode_steps: int | None
) -> EnvironmentSpec:
    """Describe an environment with these spaces, which is taken to be repeatable.

    Args:
        config: Which environment.
        observation: Space of what it returns.
        action: Space of what it takes.
        max_episode_steps: Its time limit in its own steps, of which ``frame_skip`` make one
            step of the run.

    Raises:
        ConfigError: A space is not supported, or does not fit the configuration.
    """
    choice = action_spec(action, f"the action space of {config.id!r}")
    form = observation_form(observation, f"the observation space of {config.id!r}")
    mask = config.action_mask
    if mask is not None:
        form, mask = _masked(config, mask, form, choice)
    if max_episode_steps is not None:
        max_episode_steps = -(-max_episode_steps // config.frame_skip)
    return EnvironmentSpec(
        id=config.id,
        observation=_stacked(form.space, config),
        action=choice,
        max_episode_steps=max_episode_steps,
        frames=config.frame_stack,
        action_mask=mask,
        tree=form.tree,
    )


def info_key(config: EnvironmentConfig) -> str | None:
    """The entry of info that holds the action mask, None if it is not there."""
    mask = config.action_mask
    return mask[len(INFO) :] if mask is not None and mask.startswith(INFO) else None


def with_info_mask(
    obs: object, info: dict[str, Any], key: str, *, ended: bool = False
) -> dict[str, object]:
    """The observation with the mask as a part of it.

    When the episode has ``ended`` the mask may be missing: nothing is chosen any more.

    Raises:
        KeyError: It is missing.
    """
    if key not in info and not ended:
        raise KeyError(f"info lacks {key!r}, which environment.action_mask asks for")
    return {"obs": obs, "action_mask": info.get(key, EVERYTHING)}


def _masked(
    config: EnvironmentConfig, given: str, form: ObservationForm, action: SpaceSpec
) -> tuple[ObservationForm, str]:
    """Make the mask a part of bools; returns its name too."""
    size = sum(choices(action))
    if config.frame_skip > 1:
        raise ConfigError(
            "environment.frame_skip repeats an action that may be forbidden after its first "
            f"step; got {config.frame_skip} beside action_mask {given!r}. Set frame_skip to 1, "
            "or repeat actions in a wrapper that knows what to do then."
        )
    space = SpaceSpec(kind="box", shape=(size,), dtype="bool", low=(0.0,), high=(1.0,))
    if info_key(config) is not None:
        return _from_info(form, space, config), "action_mask"
    parts = dict(form.space.parts)
    leaf = parts.get(given)
    if leaf is None:
        raise ConfigError(
            f"environment.action_mask must name a part of the observation of {config.id!r} "
            f"({', '.join(map(repr, parts)) or 'which has no parts'}), or an entry of info as "
            f"'info.KEY'; got {given!r}."
        )
    if leaf.size != size or leaf.row_dtype.kind not in "biu":
        raise ConfigError(
            f"environment.action_mask names {given!r}, which has shape {leaf.shape} of "
            f"{leaf.dtype}; the actions of {config.id!r} need a mask of {size} integers or bools."
        )
    parts[given] = space
    return ObservationForm(SpaceSpec.composite(list(parts.items())), form.tree), given


def _from_info(
    form: ObservationForm, mask: SpaceSpec, config: EnvironmentConfig
) -> ObservationForm:
    parts = list(form.space.parts) or [("obs", form.space)]
    if "action_mask" in dict(parts):
        raise ConfigError(
            f"environment.action_mask {config.action_mask!r} becomes a part 'action_mask' of the "
            f"observation, but that of {config.id!r} has one already. Name that one, or rename "
            "it with a wrapper."
        )
    tree = Branch("", ("obs", "action_mask"), (form.tree or "obs", "action_mask"), named=True)
    return ObservationForm(SpaceSpec.composite([*parts, ("action_mask", mask)]), tree)


def _stacked(space: SpaceSpec, config: EnvironmentConfig) -> SpaceSpec:
    """What a policy sees of ``frame_stack`` observations: the newest last."""
    frames = config.frame_stack
    if frames == 1:
        return space
    if space.kind != "box":
        raise ConfigError(
            f"environment.frame_stack stacks plain Box observations; got {frames} for a "
            f"{space.kind} observation of {config.id!r}. Set it to 1 and stack in a wrapper "
            "(gymnasium.wrappers.FrameStackObservation), or reduce the observation to one Box."
        )
    if frames > MOST_FRAMES:
        raise ConfigError(f"environment.frame_stack must be at most {MOST_FRAMES}; got {frames}.")
    low, high = (bound if len(bound) == 1 else bound * frames for bound in (space.low, space.high))
    return replace(space, shape=(frames, *space.shape), low=low, high=high)
