"""Observations that an exported policy is tried on, and how far its answers may be off."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fast_core.algorithm import ORIGIN, Array, PolicySetup
from fast_core.algorithm.spec import EnvironmentSpec, SpaceSpec
from fast_core.config import AlgorithmConfig
from fast_core.policy.export.interface import Interface

Answer = Callable[[Sequence[Array]], Sequence[Array]]

TOLERANCE = 1e-5
ROUNDING = 1e-6  # what parameters are changed by to see what rounding can do
VARIANTS = 16


@dataclass(frozen=True)
class Sample:
    """Rows that a policy is asked about.

    Attributes:
        obs: ``[B, ...]`` as policies take them.
        state: ``[B, S]``, None without memory.
        inputs: The same as an exported policy takes them.
    """

    obs: Array
    state: Array | None
    inputs: tuple[Array, ...]

    def rows(self, start: int, stop: int) -> Sample:
        """Some of the rows."""
        return Sample(
            self.obs[start:stop],
            None if self.state is None else self.state[start:stop],
            tuple(each[start:stop] for each in self.inputs),
        )


def draw(interface: Interface, rows: int, seed: int = 0) -> Sample:
    """Draw observations from everywhere in their space: its bounds, small and large numbers."""
    rng = np.random.default_rng(seed)
    environment = interface.environment
    space, mask = environment.observation, environment.action_mask
    obs: NDArray[Any] = np.zeros((rows, *space.shape), space.row_dtype)
    leaves: list[Array] = []
    for place, (name, leaf) in enumerate(space.parts or ((None, space),)):
        target: NDArray[Any] = obs if name is None else obs[name]
        if mask is not None and name == mask:
            target[...] = _masks(environment.action, rows, rng).reshape(target.shape)
        elif leaf.kind == "box":
            target[...] = _numbers(leaf, rows, rng)
            if (origin := interface.origins.get(place)) is not None:
                target[...] = np.where(origin == 0, target, _around(origin, leaf, rows, rng))
        else:
            discrete = leaf.kind == "discrete"
            counts = np.reshape(leaf.n if discrete else leaf.counts, leaf.shape)
            starts = np.reshape(leaf.start if discrete else leaf.starts or 0, leaf.shape or ())
            target[...] = starts + (rng.random(target.shape) * counts).astype(np.int64)
        leaves.append(np.ascontiguousarray(target))
    state = None
    if interface.state_size:
        state = np.tanh(rng.normal(size=(rows, interface.state_size))).astype(np.float32)
        state[0] = 0.0
        leaves.append(state)
    return Sample(obs, state, tuple(leaves))


def _numbers(space: SpaceSpec, rows: int, rng: np.random.Generator) -> Array:
    """Some rows at the lower and upper bounds, the others between them."""
    low, high = space.bounds
    finite = np.isfinite(low) & np.isfinite(high) & (np.maximum(-low, high) < 1e30)
    shape = (rows, *space.shape)
    rank = (1,) * len(space.shape)
    magnitude = 10.0 ** rng.integers(-1, 2, (rows, *rank))
    free = np.clip(rng.normal(size=shape) * magnitude, low, high)
    # Rows differ in brightness and contrast: noise alone looks all the same to convolutions.
    level, contrast = rng.random((rows, *rank)), 2 * rng.random((rows, *rank))
    place = np.clip(level + contrast * (rng.random(shape) - 0.5), 0.0, 1.0)
    place[1:2], place[2:3] = 0.0, 1.0
    inside = np.where(finite, low, 0.0) * (1.0 - place) + np.where(finite, high, 1.0) * place
    values = np.where(finite, inside, free)
    if np.dtype(space.dtype).kind in "iub":
        values = np.rint(values)
    array: Array = values.astype(space.dtype)
    return array


def _around(origin: NDArray[Any], space: SpaceSpec, rows: int, rng: np.random.Generator) -> Array:
    """Numbers near to where they are counted from."""
    apart = rng.normal(size=(rows, *space.shape)) * 10.0 ** rng.integers(-1, 2, rows).reshape(
        rows, *(1,) * len(space.shape)
    )
    near = origin + (apart if origin.dtype.kind == "f" else np.rint(apart).astype(origin.dtype))
    array: Array = near.astype(space.dtype)
    return array


def _masks(action: SpaceSpec, rows: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Masks that leave something in every dimension, in the first row everything."""
    counts = (action.n,) if action.kind == "discrete" else action.counts
    columns = []
    for count in counts:
        allowed = rng.random((rows, count)) < 0.5
        allowed[np.arange(rows), rng.integers(0, count, rows)] = True
        allowed[:1] = True
        columns.append(allowed)
    return np.concatenate(columns, axis=1)


class Reference:
    """The answers of the policy itself, with what it acts with in training.

    Args:
        config: Its algorithm.
        environment: What it acts in.
        parameters: As ``policy_fields`` says.
    """

    def __init__(
        self, config: AlgorithmConfig, environment: EnvironmentSpec, parameters: Sequence[Array]
    ) -> None:
        self._config, self._environment = config, environment
        self._parameters = parameters
        action = environment.action
        self._dtype = action.row_dtype
        self._unit: NDArray[np.float64] | None = None
        if action.kind == "box":
            low, high = action.bounds
            bounded = np.isfinite(low) & np.isfinite(high) & (np.maximum(-low, high) < 1e30)
            self._unit = (np.where(bounded, high, 0.0) - np.where(bounded, low, 0.0)) / 2

    def answers(self, sample: Sample) -> list[Array]:
        """Actions, and with memory the states after them."""
        return self._answers(sample, self._parameters)

    def difference(self, sample: Sample, given: Sequence[Array]) -> float:
        """How far answers are off at most, as `_distances` measures.

        The policy itself answers otherwise when its parameters change by one millionth. What that
        explains counts as no more than the tolerance: of two choices that are as good as equal
        either is right, and numbers may differ by as much as that change makes them differ.
        """
        wanted = self.answers(sample)
        off = self._distances(given, wanted)
        greatest = _greatest(off)
        if greatest <= TOLERANCE or greatest == np.inf:  # other shapes, NaN
            return greatest
        rng = np.random.default_rng(0)
        explained = [np.zeros(each.shape, np.bool_) for each in off]
        for _ in range(VARIANTS):
            other = self._answers(sample, self._changed(rng))
            spread = self._distances(other, wanted)
            for place, distance in enumerate(self._distances(given, other)):
                if given[place].dtype.kind == "f":
                    explained[place] |= off[place] <= spread[place]
                else:
                    explained[place] |= distance == 0.0
        return _greatest(
            [
                np.where(known, np.minimum(each, TOLERANCE), each)
                for each, known in zip(off, explained, strict=True)
            ]
        )

    def _changed(self, rng: np.random.Generator) -> list[Array]:
        """Parameters nearby; what numbers are counted from is exact."""
        fields = self._config.policy_fields(self._environment)
        return [
            each if field.name == ORIGIN else _nearby(each, rng)
            for field, each in zip(fields, self._parameters, strict=True)
        ]

    def _answers(self, sample: Sample, parameters: Sequence[Array]) -> list[Array]:
        config, environment = self._config, self._environment
        setup = PolicySetup(backend=config.policy_backend(environment))
        policy = config.make_policy(environment, setup)
        policy.load(parameters)
        noise = config.noise(environment)
        nothing = np.zeros((len(sample.obs), *noise.shape), np.float32)
        said = policy.act(sample.obs, noise=nothing, explore=False, state=sample.state)
        taken = np.asarray(policy.environment_action(said.action)).astype(self._dtype, copy=True)
        return [taken] if said.state is None else [taken, np.array(said.state)]

    def _distances(
        self, given: Sequence[Array], wanted: Sequence[Array]
    ) -> list[NDArray[np.float64]]:
        """Of each number: in halves of the action's range; without one, relative above 1.

        Choices are right or wrong, wherever they begin.
        """
        found = []
        for place, (got, want) in enumerate(zip(given, wanted, strict=True)):
            if got.shape != want.shape or got.dtype != want.dtype:
                found.append(np.full(1, np.inf))
                continue
            if want.dtype.kind != "f":
                found.append(np.not_equal(got, want).astype(np.float64))
                continue
            exact = want.astype(np.float64)
            unit: NDArray[np.float64] = np.maximum(1.0, np.abs(exact))
            if place == 0 and self._unit is not None:
                unit = np.where(self._unit > 0, self._unit, unit)
            distance = np.abs(got.astype(np.float64) - exact) / unit
            found.append(np.where(np.isnan(distance), np.inf, distance))
        return found


def _nearby(parameter: Array, rng: np.random.Generator) -> Array:
    values = parameter.astype(np.float64)
    values *= 1.0 + ROUNDING * rng.standard_normal(values.shape)
    return values.astype(np.float32)


def _greatest(distances: Sequence[NDArray[np.float64]]) -> float:
    return max((float(each.max(initial=0.0)) for each in distances), default=0.0)
