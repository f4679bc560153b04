"""A policy that plays whole episodes, for evaluation: without exploration unless asked."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fast_core.algorithm import Array, Blueprint, NoiseSpec, Policy
from fast_core.algorithm.spec import EnvironmentSpec
from fast_core.system.seeding import Role, stream


class Actor:
    """From observations to what environments take; remembers for policies with memory."""

    def __init__(
        self,
        blueprint: Blueprint,
        environment: EnvironmentSpec,
        policy: Policy,
        envs: int,
        *,
        explore_seed: int | None = None,
    ) -> None:
        """``policy`` acts on ``envs`` rows at once; with ``explore_seed`` it explores."""
        self._policy = policy
        noise = blueprint.noise(environment)
        self._noise = np.zeros((envs, *noise.shape), np.float32)
        self._exploration = None
        if explore_seed is not None:
            self._exploration = EpisodeNoise(noise, explore_seed, envs)
        size = blueprint.state_size(environment)
        self._state = np.zeros((envs, size), np.float32) if size else None

    def remembered(self, began: NDArray[np.bool_]) -> NDArray[np.float32] | None:
        """A copy ``[B, S]`` of what it remembers before it acts; None without memory."""
        if self._state is None:
            return None
        state = self._state.copy()
        state[began] = 0.0
        return state

    def __call__(self, obs: Array, began: NDArray[np.bool_]) -> Array:
        """Act on ``obs`` ``[B, ...]``; ``began`` ``[B]`` marks the first rows of episodes."""
        if self._state is not None:
            self._state[began] = 0.0
        explore = self._exploration is not None
        if self._exploration is not None:
            self._exploration.draw_into(self._noise, began)
        output = self._policy.act(obs, noise=self._noise, explore=explore, state=self._state)
        if self._state is not None:
            self._state[...] = output.state
        return self._policy.environment_action(output.action)


class EpisodeNoise:
    """The random numbers of a policy that explores while it is evaluated.

    The ``n``-th episode of row ``p`` of ``B`` is episode ``p + n * B``, as `EpisodeRunner` deals
    them out, and each has a stream of its own. So an episode goes the same way whichever others
    are played beside it.
    """

    def __init__(self, spec: NoiseSpec, seed: int, envs: int) -> None:
        self._spec, self._seed = spec, seed
        self._next = list(range(envs))
        self._streams: list[np.random.Generator | None] = [None] * envs

    def draw_into(self, noise: Array, began: NDArray[np.bool_]) -> None:
        """Fill ``noise`` ``[B, ...]`` for one step; ``began`` marks the first ones of episodes."""
        for row in np.flatnonzero(began).tolist():
            self._streams[row] = stream(self._seed, Role.ACTION_NOISE, 0, self._next[row])
            self._next[row] += len(noise)
        for row, generator in enumerate(self._streams):
            if generator is not None and self._spec.kind == "uniform":
                noise[row] = generator.random(self._spec.shape, dtype=np.float32)
            elif generator is not None:
                noise[row] = generator.standard_normal(self._spec.shape, dtype=np.float32)
