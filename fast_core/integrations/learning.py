"""What the learner's side of a host does with a round, and what it publishes."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import Any

import cloudpickle

from fast_core.integrations.hosts import Host, Weights, hook


class Learning:
    """The learner and its buffer, which nobody else touches.

    Attributes:
        updates: Calls of `train` so far, the version of its weights.
    """

    def __init__(self, learner: Host, buffer: Host | None, pack: Callable[[Any], object]) -> None:
        """Keep them; ``pack`` makes of weights what nobody changes any more."""
        self._learner, self._buffer, self._pack = learner, buffer, pack
        self.updates = 0

    def train(self, rounds: Sequence[object], granted: int) -> tuple[int, dict[str, float]]:
        """Take what a round collected, and train as often as it grants.

        Returns:
            How often it did, none while the buffer is not trainable, and the numbers of the last
            call's result if that is a mapping.
        """
        buffer, told = self._buffer, None
        if buffer is not None:
            for data in rounds:
                buffer.push(data)
            if not hook(buffer, "is_trainable", True):
                return 0, {}
        for number in range(granted):
            # Without a buffer collections take turns; they have equal shares of the updates.
            batch = rounds[number % len(rounds)] if buffer is None else buffer.sample()
            told = self._learner.train(hook(self._learner, "prepare_batch", batch, batch))
            self.updates += 1
        hook(self._learner, "after_epoch", None)
        return granted, _numbers(told)

    def weights(self) -> tuple[Weights | None, float]:
        """A snapshot, None where the learner gives none, and the seconds that it took."""
        get = getattr(self._learner, "get_weights", None)
        if get is None:
            return None, 0.0
        began_s = time.monotonic()
        state = self._pack(get())
        return Weights(self.updates, state), time.monotonic() - began_s


def as_is(state: object) -> object:
    """For one thread: weights are loaded before they change."""
    return state


def copied(state: object) -> object:
    """For several: most `get_weights` give what the next update writes into."""
    return copy.deepcopy(state)


def pickled(state: object) -> object:
    """For several processes, once for all of them."""
    return cloudpickle.dumps(state)


def _numbers(told: object) -> dict[str, float]:
    given = told.items() if isinstance(told, Mapping) else ()
    return {str(name): float(each) for name, each in given if isinstance(each, Real)}
