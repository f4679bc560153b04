"""Policies with memory, in NumPy."""

from __future__ import annotations

from fast_core.algorithm import ActionOutput, Array
from fast_core.algos.nets.networks import F32, NetworkShape
from fast_core.algos.nets.recurrent_cells import Memory
from fast_core.algos.rollouts.policies import NumpyPolicy
from fast_core.spec import EnvironmentSpec


class RecurrentPolicy(NumpyPolicy):
    """A `NumpyPolicy` with a recurrent layer between its hidden layers and its head."""

    def __init__(
        self, shape: NetworkShape, environment: EnvironmentSpec, observation_clip: float | None
    ) -> None:
        assert shape.memory is not None, "the network has a memory"
        super().__init__(shape, environment, observation_clip)
        self._memory = Memory(shape.memory, self._views)

    def act(
        self, obs: Array, *, noise: Array, explore: bool, state: Array | None = None
    ) -> ActionOutput:
        """Choose actions for ``obs [B, ...]``, remembering ``state [B, S]``."""
        features, after = self._memory.step(self._features(obs), checked(state))
        output = self._choose(self._head_output(features), obs, noise, explore)
        return output._replace(state=after)


def checked(state: Array | None) -> F32:
    """A state as it must be given.

    Raises:
        TypeError: There is none.
    """
    if state is None:
        raise TypeError("a policy with memory needs the state that its last call returned")
    return state  # type: ignore[return-value]
