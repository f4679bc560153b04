"""Wrappers for `environment.wrappers`, where Gymnasium's need arguments that YAML has not."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, SupportsFloat

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from numpy.typing import ArrayLike, NDArray


class BoundAction(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Says which part of a box of actions is used, for instance of one without bounds.

    Actions are not changed: who acts keeps to the bounds.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], low: ArrayLike, high: ArrayLike) -> None:
        """Declare ``low`` and ``high``, numbers or one for each element, within the space's own."""
        super().__init__(env)
        space = env.action_space
        if not isinstance(space, Box):
            raise TypeError(f"BoundAction is for boxes of actions; got {space!r}")
        shape, dtype = space.shape, space.dtype
        least, most = (np.broadcast_to(np.asarray(v, dtype), shape) for v in (low, high))
        least, most = np.maximum(least, space.low), np.minimum(most, space.high)
        if (least > most).any():
            raise ValueError(f"BoundAction leaves nothing of {space!r}; got {low!r} to {high!r}")
        self.action_space = Box(least, most, shape, dtype.type)


class KeepElements(gymnasium.ObservationWrapper[Any, Any, Any]):
    """Shows only some elements of a vector, so that the rest has to be remembered."""

    def __init__(self, env: gymnasium.Env[Any, Any], kept: Sequence[int]) -> None:
        """Show the elements with these places, in this order."""
        super().__init__(env)
        space, self._kept = env.observation_space, np.array(kept, np.int64).reshape(-1)
        if not isinstance(space, Box) or len(space.shape) != 1:
            raise TypeError(f"KeepElements is for observations that are vectors; got {space!r}")
        count = space.shape[0]
        if not len(self._kept) or not ((self._kept >= 0) & (self._kept < count)).all():
            raise ValueError(
                f"KeepElements: kept must be places of {count} elements, from 0 to {count - 1}; "
                f"got {kept!r}"
            )
        low, high = space.low[self._kept], space.high[self._kept]
        self.observation_space = Box(low, high, dtype=space.dtype.type)

    def observation(self, observation: NDArray[Any]) -> NDArray[Any]:
        """Those of one observation."""
        return np.asarray(observation)[self._kept]


class Paced(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Steps no faster than a person can watch."""

    def __init__(self, env: gymnasium.Env[Any, Any], steps_per_s: float | None = None) -> None:
        """At most ``steps_per_s``; by default as many as the environment has pictures a second."""
        super().__init__(env)
        natural = env.metadata.get("render_fps")
        given = steps_per_s or (float(natural) if isinstance(natural, int | float) else 0.0)
        self._step_s = 1 / (given if given > 0 else 30.0)
        self._due_s = 0.0

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Wait until the step is due, then take it."""
        now_s = time.monotonic()
        if self._due_s > now_s:
            time.sleep(self._due_s - now_s)
        elif self._due_s < now_s - self._step_s:  # what was missed is not made up for
            self._due_s = now_s
        self._due_s += self._step_s
        return self.env.step(action)
