"""Wrappers for `environment.wrappers`, where Gymnasium's need arguments that YAML has not."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from numpy.typing import ArrayLike


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
