"""Vectorised forms of environments, as an author of one would register them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import TimeLimit

PREFIX = "FastLoopTest/Vector-"


def vectorised(make: Callable[..., Any]) -> Callable[..., SyncVectorEnv]:
    """A ``vector_entry_point`` that steps environments made by ``make`` in turn."""

    def entry_point(
        num_envs: int,
        autoreset_mode: AutoresetMode = AutoresetMode.NEXT_STEP,
        max_episode_steps: int | None = None,
        **kwargs: Any,
    ) -> SyncVectorEnv:
        def one() -> Any:
            env = make(**kwargs)
            return env if max_episode_steps is None else TimeLimit(env, max_episode_steps)

        return SyncVectorEnv([one] * num_envs, autoreset_mode=autoreset_mode)

    return entry_point


def with_vector_form(id: str) -> str:
    """Register ``id`` once more, with a vectorised form; returns the new name."""
    spec = gymnasium.spec(id)
    name = PREFIX + id.rpartition("/")[2]
    if name not in gymnasium.registry:
        inner = spec.entry_point if callable(spec.entry_point) else None

        def make(**kwargs: Any) -> Any:
            if inner is not None:
                return inner(**{**spec.kwargs, **kwargs})
            return gymnasium.make(id, disable_env_checker=True, max_episode_steps=-1, **kwargs)

        gymnasium.register(
            name,
            entry_point=make,
            vector_entry_point=vectorised(make),
            max_episode_steps=spec.max_episode_steps,
        )
    return name
