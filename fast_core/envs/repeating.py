"""Bringing an environment back to where it was: reset it, and take the same actions again."""

from __future__ import annotations

from collections.abc import Iterable

from fast_core.envs.batch_state import OpenEpisode
from fast_core.envs.instance import Instance
from fast_core.envs.records import Row
from fast_core.envs.whereabouts import Whereabouts
from fast_core.errors import CheckpointError


def repeat_episode(
    instance: Instance, row: Row, saved: OpenEpisode, actions: Iterable[object]
) -> None:
    """Bring ``instance`` to where ``saved`` was; ``row`` receives the current observation.

    The caller compares the observation.

    Raises:
        CheckpointError: The episode ended early or its rewards differ.
        EnvironmentFailed: The environment raised or gave what its spaces do not declare.
    """
    instance.reset(row, episode=saved.episode, seed=saved.seed, start=saved.start)
    total = 0.0
    for number, action in enumerate(actions, start=1):
        reward, terminated, truncated = instance.checked_step(
            row, action, number=number, episode=saved.episode, seed=saved.seed
        )
        total += reward
        if terminated or truncated:
            raise not_repeated(instance, saved, f"the episode ended at step {number}")
    if total != saved.total:
        raise not_repeated(instance, saved, f"the rewards add up to {total!r}, not {saved.total!r}")


def not_repeated(place: Instance | Whereabouts, saved: OpenEpisode, what: str) -> CheckpointError:
    """The error for an environment that did not come back to where it was."""
    failure = place.failure("to come back", what, saved.episode, saved.seed)
    return CheckpointError(
        f"{failure} when the {saved.length} actions of its open episode were taken again. An "
        "exact resume needs an environment whose randomness all comes from the seed given to "
        "reset, and the same versions of its packages."
    )
