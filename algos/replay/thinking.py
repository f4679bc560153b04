"""What policies think that learn from replay: values of choices, or of the action taken."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, cast

import numpy as np

from fast_core.algorithm import Array, PolicySetup, Thoughts
from fast_core.algorithm.spec import EnvironmentSpec
from fast_core.algos.nets.action_map import in_units
from fast_core.algos.nets.mlp import MlpShape, NumpyMlp
from fast_core.algos.nets.networks import F32
from fast_core.algos.replay.actors import Seeing
from fast_core.algos.replay.dqn import action_values
from fast_core.algos.replay.dsac import softplus
from fast_core.algos.replay.policies import BoxPolicy, GreedyPolicy
from fast_core.algos.replay.settings import ReplaySettings
from fast_core.system.importing import own


class Critics(Protocol):
    """Networks that judge one observation."""

    def load(self, parameters: Sequence[Array]) -> None:
        """Use these from now on, as `Thinker.load` has them; they are copied."""
        ...

    def __call__(self, obs: Array, actions: F32, state: Array | None) -> F32:
        """What each says of one observation ``[1, ...]`` with stored actions ``[K, A]``.

        ``state`` is what the policy remembered before.

        Returns:
            ``[M, out, K]``.
        """
        ...


class NumpyCritics:
    """An ensemble of MLPs in NumPy, on what the policy's convolutions see; implements `Critics`.

    Args:
        shape: The ensemble.
        actor: Sees the observations; it is loaded by the policy.
    """

    def __init__(self, shape: MlpShape, actor: Seeing) -> None:
        parameters = shape.parameters("critics", 0)
        flat: F32 = np.zeros(parameters[-1].end, np.float32)
        self._views = [p.view(flat) for p in parameters]
        self._network, self._actor = NumpyMlp(shape, parameters, flat), actor

    def load(self, parameters: Sequence[Array]) -> None:
        """Use the last of these from now on."""
        last = parameters[len(parameters) - len(self._views) :]
        for view, source in zip(self._views, last, strict=True):
            view[...] = source

    def __call__(self, obs: Array, actions: F32, state: Array | None) -> F32:
        """See `Critics`; ``A`` may be 0."""
        seen = np.repeat(self._actor.seen(obs, state), len(actions), axis=0)
        return self._network.forward(np.concatenate([seen, actions], axis=1).T)


def box_thinker(
    settings: ReplaySettings, environment: EnvironmentSpec, shape: MlpShape | None, *, mean: bool
) -> BoxThinker | None:
    """Of FastLoop's critics of this shape, or of torch modules; None: the policy is another.

    ``mean`` says whether the policy follows the mean of its critics.
    """
    setup = PolicySetup(settings.policy_backend(environment))
    policy = settings.make_policy(environment, setup)
    if not isinstance(policy, BoxPolicy):
        return None
    critics: Critics | None = None
    if shape is not None:
        critics = NumpyCritics(shape, cast(Seeing, policy.actor))
    elif any(module.judges for module in settings.modules(environment)):
        made = own("fast_core.algos.replay.module_thinking:ModuleCritics")
        critics = made(settings, environment)
    acting = len(settings.policy_fields(environment))
    return BoxThinker(policy, critics, acting=acting, mean=mean)


def choice_thinker(
    settings: ReplaySettings,
    environment: EnvironmentSpec,
    *,
    dueling: bool = False,
    stream: MlpShape | None = None,
) -> ChoiceThinker | None:
    """Of a network that puts out values, or with ``dueling`` a value and advantages.

    ``stream`` is the shape of what says the value, where that is another network. None: the policy
    is another.
    """
    setup = PolicySetup(settings.policy_backend(environment))
    policy = settings.make_policy(environment, setup)
    if not isinstance(policy, GreedyPolicy):
        return None
    acting = len(settings.policy_fields(environment))
    values = None if stream is None else NumpyCritics(stream, cast(Seeing, policy.actor))
    return ChoiceThinker(policy, environment, acting=acting, dueling=dueling, stream=values)


class BoxThinker:
    """The critics' values of the action taken; implements `fast_core.algorithm.Thinker`.

    The value is that of the action without exploration. Where there are several critics, it is
    the least of theirs, as in targets, or with ``mean`` their mean. Of distributions (two outputs)
    mean and deviation are those of the critic with the least mean.

    Args:
        policy: What acts.
        critics: What judge it; None: nothing is known of values.
        acting: How many parameters are the policy's.
        mean: Whether it follows the mean of its critics (REDQ).
    """

    def __init__(
        self, policy: BoxPolicy, critics: Critics | None, *, acting: int, mean: bool = False
    ) -> None:
        self._policy, self._critics, self._acting, self._mean = policy, critics, acting, mean

    def load(self, parameters: Sequence[Array]) -> None:
        """Use these parameters from now on; they are copied."""
        self._policy.load(parameters[: self._acting])
        if self._critics is not None:
            self._critics.load(parameters)

    def think(self, obs: Array, action: Array, state: Array | None) -> Thoughts:
        """See `fast_core.algorithm.Thinker`."""
        to_environment = self._policy.to_environment
        quiet, *spread = self._policy.spread(obs, state)
        mean, std = in_units(to_environment, *spread)
        if self._critics is None:
            return Thoughts(mean=mean, std=std)
        stored = to_environment.stored(action).reshape(1, -1)
        said = self._critics(obs, np.concatenate([stored, quiet[None]]), state)
        value, deviation = self._joined(said)
        q_std = None if deviation is None else deviation[:1]
        return Thoughts(float(value[1]), q=value[:1], q_std=q_std, mean=mean, std=std)

    def _joined(self, said: F32) -> tuple[F32, F32 | None]:
        """Of ``[M, out, K]`` values ``[K]``, and their deviations where critics say them."""
        values = said[:, 0]
        if self._mean:
            return values.mean(axis=0), None
        least = values.argmin(axis=0)[None]
        value: F32 = np.take_along_axis(values, least, axis=0)[0]
        if said.shape[1] == 1:
            return value, None
        return value, np.take_along_axis(softplus(said[:, 1]), least, axis=0)[0]


class ChoiceThinker:
    """Values of all choices; implements `fast_core.algorithm.Thinker`.

    The value is that of the best choice that is allowed; those that are not have none.

    Args:
        policy: What acts.
        environment: What it acts in.
        acting: How many parameters are the policy's.
        dueling: Whether its network puts out a value and advantages.
        stream: What says the value, where policies need advantages alone.
    """

    def __init__(
        self,
        policy: GreedyPolicy,
        environment: EnvironmentSpec,
        *,
        acting: int,
        dueling: bool = False,
        stream: Critics | None = None,
    ) -> None:
        self._policy, self._acting, self._stream = policy, acting, stream
        self._dueling, self._choices = dueling, environment.action.n

    def load(self, parameters: Sequence[Array]) -> None:
        """Use these parameters from now on; they are copied."""
        self._policy.load(parameters[: self._acting])
        if self._stream is not None:
            self._stream.load(parameters)

    def think(self, obs: Array, action: Array, state: Array | None) -> Thoughts:
        """See `fast_core.algorithm.Thinker`."""
        actor = self._policy.actor
        output = actor.output(obs, state)[0][None]
        if self._stream is not None:
            value = self._stream(obs, np.empty((1, 0), np.float32), state)
            output = np.concatenate([value, output])
        q = action_values(output, dueling=self._dueling)[:, 0].copy()
        mask = actor.encoder.mask(obs)
        if mask is not None:
            q[~mask[0]] = np.nan
        best = None if np.isnan(q).all() else float(np.nanmax(q))
        return Thoughts(best, [self._policy.probabilities(obs, state)], q)
