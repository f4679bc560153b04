"""Gymnasium's vectorised CartPole, each environment of which can be reset by itself."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv
from gymnasium.envs.classic_control.utils import maybe_parse_reset_bounds
from gymnasium.utils.seeding import np_random
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

F32 = NDArray[np.float32]
Flags = NDArray[np.bool_]


class CartPoles(CartPoleVectorEnv):
    """`CartPoleVectorEnv` with the autoreset mode *Disabled*.

    Gymnasium's own begins an episode in the step after the one before it ended, whose action it
    ignores. Here ``reset`` begins episodes, where ``options["reset_mask"]`` says so if it is
    given, and draws each one's first state from its own seed, as the scalar CartPole does: equal
    seeds and actions give equal episodes.
    """

    metadata = {**CartPoleVectorEnv.metadata, "autoreset_mode": AutoresetMode.DISABLED}
    state: Any  # [4, num_envs] float64, None at first

    def reset(
        self, *, seed: Any = None, options: dict[str, Any] | None = None
    ) -> tuple[F32, dict[str, Any]]:
        """Begin episodes; ``seed`` is a list with a place for each environment, or None."""
        options = dict(options or {})
        mask: Flags = options.pop("reset_mask", np.ones(self.num_envs, np.bool_))
        low, high = maybe_parse_reset_bounds(options, -0.05, 0.05)
        if self.state is None:
            self.state = np.zeros((4, self.num_envs))
        seeds = [None] * self.num_envs if seed is None else seed
        for place in np.flatnonzero(mask).tolist():
            generator, _ = np_random(seeds[place])
            self.state[:, place] = generator.uniform(low, high, 4)
        self.steps[mask] = 0
        return self.state.T.astype(np.float32), {}

    def step(self, action: NDArray[np.integer[Any]]) -> tuple[F32, F32, Flags, Flags, Any]:
        """Step every environment; none is reset."""
        result = super().step(action)
        self.prev_done[:] = False  # what Gymnasium's would reset in its next step
        return result
