"""What acts: a search, for each observation, of what could follow."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fast_core.algorithm import ActionOutput, Array, Thoughts
from fast_core.algorithm.spec import EnvironmentSpec
from fast_core.algos.muzero.config import POLICY, VALUE, MuZeroConfig
from fast_core.algos.muzero.model import Model
from fast_core.algos.muzero.search import Found, Search
from fast_core.algos.nets.action_map import ActionMap
from fast_core.algos.nets.networks import F32
from fast_core.algos.nets.observations import Bool

LEAST = np.float32(1e-8)


class MuZeroPolicy:
    """Takes what the search found best; uniformly at random while exploration is 1.

    Args:
        settings: Hyper-parameters.
        environment: What it acts in.
        model: The networks.
    """

    def __init__(self, settings: MuZeroConfig, environment: EnvironmentSpec, model: Model) -> None:
        self._model, self._map = model, ActionMap(environment.action)
        self._choices = environment.action.n
        self._exploration = 0.0
        self._discount = -settings.gamma if settings.two_players else settings.gamma
        self._search = Search(
            self._choices,
            settings.simulations,
            discount=settings.gamma,
            root=settings.root,
            two_players=settings.two_players,
            considered=settings.considered,
            c_scale=settings.c_scale,
            least_span=settings.least_span,
        )

    def load(self, parameters: Sequence[Array]) -> None:
        """Use these parameters from now on; they are copied."""
        *networks, exploration = parameters
        self._model.load(networks)
        self._exploration = float(exploration[0])

    def act(
        self, obs: Array, *, noise: Array, explore: bool, state: Array | None = None
    ) -> ActionOutput:
        """Choose actions for ``obs [B, ...]``; the ``noise [B, A]`` is uniform."""
        if explore and self._exploration >= 1.0:
            return self._any(len(obs), noise, self._model.encoder.mask(obs))
        found = self.search(obs, noise if explore else None)
        return _output(found.action, found.policy, found.value)

    def search(self, obs: Array, noise: Array | None = None) -> Found:
        """What the search finds; it explores where there is noise."""
        model = self._model
        return self._search.run(
            *model.root(obs),
            model.step,
            mask=model.encoder.mask(obs),
            noise=noise,
            explore=noise is not None,
        )

    def worth(self, obs: Array) -> F32:
        """What the model says that each choice is worth, ``[A]``; NaN where it is forbidden."""
        latent, mask = self._model.root(obs).latent, self._model.encoder.mask(obs)
        step = self._model.step(latent.repeat(self._choices, axis=0), np.arange(self._choices))
        worth: F32 = step.reward + np.float32(self._discount) * step.value
        if mask is not None:
            worth[~mask[0]] = np.nan
        return worth

    def _any(self, rows: int, noise: Array, mask: Bool | None) -> ActionOutput:
        """Any allowed action: that of the greatest number; nobody has said a value."""
        allowed = np.ones((rows, self._choices), np.bool_) if mask is None else mask.copy()
        allowed[~allowed.any(axis=1), 0] = True
        numbers = np.asarray(noise, np.float32).reshape(allowed.shape)
        action = np.where(allowed, numbers, -1).argmax(axis=1)
        policy: F32 = (allowed / allowed.sum(axis=1, keepdims=True)).astype(np.float32)
        return _output(action, policy, np.full(rows, np.nan, np.float32))

    def environment_action(self, action: Array) -> Array:
        """Count from the space's first choice."""
        return self._map(action)


def _output(action: Array, policy: F32, value: F32) -> ActionOutput:
    chosen = action.astype(np.int64, copy=False)
    probability = np.take_along_axis(policy, chosen[:, None], 1)[:, 0]
    log_prob = np.log(np.maximum(probability, LEAST))
    return ActionOutput(chosen, log_prob, extra={POLICY: policy, VALUE: value})


class MuZeroThinker:
    """What a search finds without exploring; implements `fast_core.algorithm.Thinker`."""

    def __init__(self, policy: MuZeroPolicy) -> None:
        self._policy = policy

    def load(self, parameters: Sequence[Array]) -> None:
        """Use these parameters from now on; they are copied."""
        self._policy.load(parameters)

    def think(self, obs: Array, action: Array, state: Array | None) -> Thoughts:
        """Of ``obs [1, ...]`` the root's value, the policy that the search made, and one step on.

        That is the reward and the value after each choice that is allowed.
        """
        found = self._policy.search(obs)
        return Thoughts(float(found.value[0]), [found.policy[0].copy()], self._policy.worth(obs))
