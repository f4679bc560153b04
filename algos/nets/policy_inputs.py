"""What the networks of policies take: observations, normalised by what came with parameters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fast_core.algorithm import Array
from fast_core.algorithm.spec import EnvironmentSpec
from fast_core.algos.nets.images import ImageShape
from fast_core.algos.nets.networks import F32
from fast_core.algos.nets.normalizer import Normalization, Scaling
from fast_core.algos.nets.observations import ObservationEncoder


def given(state: Array | None) -> F32:
    """What a policy with memory remembers, which is given to it.

    Raises:
        TypeError: It is not.
    """
    if state is None:
        raise TypeError("a policy with memory needs the state that its last call returned")
    return state  # type: ignore[return-value]


class PolicyInputs:
    """Takes observations apart, and normalises their numbers.

    Args:
        environment: What is observed.
        images: The parts of an observation that are no numbers to the networks.
        how: How observations are normalised; None where they are not.

    Attributes:
        encoder: Takes them apart.
        scaling: By what they are normalised since the last `take`; None: they are not.
        statistics: How many arrays that is.
    """

    def __init__(
        self,
        environment: EnvironmentSpec,
        images: tuple[ImageShape, ...],
        how: Normalization | None,
    ) -> None:
        self.encoder = ObservationEncoder(environment, images)
        self.scaling: Scaling | None = None
        self.statistics = 0 if how is None else 2 + how.centred
        self._how = how

    def take(self, parameters: Sequence[Array]) -> list[Array]:
        """Copy the statistics, which come last, and give the parameters before them.

        They are mean and inverse deviation, and behind them the origin if there is one.
        """
        rest = list(parameters)
        if self._how is not None:
            origin = np.array(rest.pop(), np.float32) if self._how.centred else None
            if origin is not None:
                self.encoder.centre(origin)
            inverse_std, mean = (np.array(rest.pop(), np.float32) for _ in range(2))
            self.scaling = Scaling(mean, inverse_std, self._how.limit, origin)
        return rest

    def numbers(self, obs: Array) -> F32:
        """The numbers of observations as networks take them, ``[B, in]``."""
        rows = self.encoder.vector(obs)
        return rows if self.scaling is None else self.scaling(rows)
