"""What can be said of the thoughts of any policy: from its own answers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fast_core.algorithm import Array, Blueprint, PolicySetup, Thoughts
from fast_core.algorithm.spec import EnvironmentSpec
from fast_core.policy.checked import make_policy

DRAWS = 64


class PolicyThinker:
    """Asks a policy with different noise; implements `fast_core.algorithm.Thinker`.

    Probabilities of one choice a step are exact for choices that were drawn, by their
    log-probabilities; those that were not share what is left. Of several choices each dimension's
    shares of the draws are told, and of boxes the action without exploration with the deviation
    of the draws. Values it can't know.
    """

    def __init__(self, blueprint: Blueprint, environment: EnvironmentSpec) -> None:
        self._policy = make_policy(
            blueprint, environment, PolicySetup(blueprint.policy_backend(environment))
        )
        self._space = environment.action
        noise = blueprint.noise(environment)
        self._noise = _noise(noise.kind, noise.shape)

    def load(self, parameters: Sequence[Array]) -> None:
        """Use these parameters from now on."""
        self._policy.load(parameters)

    def think(self, obs: Array, action: Array, state: Array | None) -> Thoughts:
        """See `fast_core.algorithm.Thinker`."""
        many = None if state is None else np.repeat(state, DRAWS, axis=0)
        drawn = self._policy.act(
            np.repeat(obs, DRAWS, axis=0), noise=self._noise, explore=True, state=many
        )
        space = self._space
        if space.kind == "discrete":
            return Thoughts(probabilities=[_chances(drawn.action, drawn[1], space.n)])
        if space.kind == "multi_discrete":
            columns = drawn.action.reshape(DRAWS, -1).T
            return Thoughts(probabilities=list(map(_shares, columns, space.counts)))
        taken = self._policy.environment_action(drawn.action).reshape(DRAWS, -1)
        std = taken.std(axis=0, dtype=np.float64)
        quiet = self._policy.act(obs, noise=self._noise[:1], explore=False, state=state)
        return Thoughts(mean=self._policy.environment_action(quiet.action).reshape(-1), std=std)


def _noise(kind: str, shape: tuple[int, ...]) -> Array:
    """The same noise every time, ``[DRAWS, ...]``: evenly spread where one number chooses."""
    if kind == "uniform" and shape == ():
        return ((np.arange(DRAWS) + 0.5) / DRAWS).astype(np.float32)
    generator = np.random.default_rng(0)
    draw = generator.random if kind == "uniform" else generator.standard_normal
    noise: Array = draw((DRAWS, *shape), np.float32)
    return noise


def _chances(action: Array, log_prob: Array, choices: int) -> Array:
    """Probabilities ``[choices]`` of drawn actions ``[B]``."""
    found = np.full(choices, np.nan)
    found[action] = np.exp(np.asarray(log_prob, np.float64))
    unknown = np.isnan(found)
    found[unknown] = max(0.0, 1.0 - np.nansum(found)) / max(1, unknown.sum())
    return found


def _shares(choices: Array, count: int) -> Array:
    return np.bincount(choices, minlength=count) / len(choices)
