"""What a host's objects must have, what they may have, and one unit of work of each.

A *host* is the program whose loop is taken over: it has a collector, a learner, and maybe a buffer
and an evaluator, objects of any kind. What they may have beside the needed methods, with what is
done where they don't:

========= ============================================= ========================================
collector `load_weights(state, version)`                acts with the learner's own model
          `after_load()`                                nothing (clear caches there)
          `collect_kwargs(train_iter, envstep)`         `collect()` without arguments
          `count_env_steps(data)`                       rows of columns, `len(data)`, or 1
          `count_updates(data)`                         as `AsyncTrainer` is told to
          `close()`, in a process of its own            what it started ends with its process
learner   `get_weights()`                               collectors share its model
          `prepare_batch(batch)`                        as it is
          `after_epoch()`                               nothing; an epoch is a round
          `interrupt()`                                 its call is waited for, at an early end
          `reanalyze_buffer()`, if the buffer has none  an error where `reanalyze` is given
buffer    `is_trainable()`                              True
          `reanalyze_buffer()`                          the learner's
evaluator `load_weights`, `after_load`, `close`         as of a collector
          `should_eval(train_iter)`                     True: after every round
          `eval_kwargs(train_iter, envstep)`            `eval()` without arguments
          `save_evaluated(weights)`                     nothing; called for the best so far
========= ============================================= ========================================
"""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Literal

from fast_core.errors import ConfigError
from fast_core.integrations.results import (
    Coroutines,
    EvalResult,
    figures,
    refuse_generator,
    rows,
    verdict,
    whole,
)
from fast_core.system.text import error_text

Part = Literal["collector", "learner", "buffer", "evaluator"]
Host = Any  # whatever the user has
NEEDED: dict[Part, tuple[str, ...]] = {
    "collector": ("collect",),
    "learner": ("train",),
    "buffer": ("push", "sample"),
    "evaluator": ("eval",),
}


@dataclass(frozen=True)
class Weights:
    """A snapshot that nobody changes any more.

    Attributes:
        version: Calls of `train` before it was taken.
        state: What the learner's `get_weights()` gave.
    """

    version: int
    state: object


@dataclass(frozen=True)
class Collected:
    """What one `collect` gave.

    Attributes:
        data: It.
        env_steps: How many environment steps that is.
        updates: Calls of `train` that it grants; None where the collector doesn't say.
    """

    data: object
    env_steps: int
    updates: int | None = None


def is_factory(given: Host, part: Part) -> bool:
    """Whether ``given`` is what makes the part, not the part itself."""
    return isinstance(given, type) or not (hasattr(given, NEEDED[part][0]) or not callable(given))


def check_factory(given: Host, part: Part) -> None:
    """Refuse a factory that can't be called as one.

    Raises:
        ConfigError: It takes other arguments.
    """
    try:
        inspect.signature(given).bind(0, 0)
    except TypeError as error:
        name = getattr(given, "__qualname__", type(given).__qualname__)
        raise ConfigError(
            f"the {part} {name!r} is called as fn(rank, seed), since it has no method "
            f"{NEEDED[part][0]}() or is a class, and can't be: {error}. Give an object, or "
            "lambda rank, seed: ... that makes one."
        ) from error
    except ValueError:  # built-in ones don't tell
        pass


def check(host: Host, part: Part, name: str, further: Iterable[tuple[str, str]] = ()) -> None:
    """Refuse an object without a needed method.

    Args:
        host: The object.
        part: What it is to be.
        name: Its name for people.
        further: Methods needed besides, each with the reason.

    Raises:
        ConfigError: Names the methods that are missing, and why they are needed.
    """
    needed = [(method, f"every {part} has it") for method in NEEDED[part]] + [*further]
    for method, why in needed:
        if not callable(getattr(host, method, None)):
            raise ConfigError(
                f"{name} needs a method {method}(); {type(host).__qualname__!r} has none ({why}). "
                "Add it, or wrap the object in one that has it."
            )


class _Working:
    """One unit of work of a host after the other: loads weights, and calls one method."""

    method: ClassVar[str]

    def __init__(self, host: Host) -> None:
        self.host, self._loaded = host, -1
        self._coroutines = Coroutines()

    def _work(self, weights: Weights | None, train_iter: int, envstep: int) -> object:
        """Load ``weights`` unless it has them; returns what the method gives."""
        load = getattr(self.host, "load_weights", None)
        if weights is not None and load is not None and weights.version != self._loaded:
            load(weights.state, weights.version)
            hook(self.host, "after_load", None)
            self._loaded = weights.version
        arguments = f"{self.method}_kwargs"
        given: Mapping[str, Any] = hook(self.host, arguments, {}, train_iter, envstep)
        if not isinstance(given, Mapping):
            raise ConfigError(
                f"{arguments}(train_iter, envstep) must give the keyword arguments of "
                f"{self.method}(), a mapping by name; got {given!r}"
            )
        return self._coroutines.result(getattr(self.host, self.method)(**given))

    def close(self) -> None:
        """End the loop of its coroutines."""
        self._coroutines.close()


class Collecting(_Working):
    """A collector, and the weights that it has."""

    method = "collect"

    def __call__(self, weights: Weights | None, train_iter: int, envstep: int) -> Collected:
        """Load ``weights`` unless it has them, and collect once."""
        data = self._work(weights, train_iter, envstep)
        refuse_generator(data)
        told = getattr(self.host, "count_env_steps", rows)(data)
        env_steps = whole("count_env_steps(data)", told)
        updates = hook(self.host, "count_updates", None, data)
        granted = None if updates is None else whole("count_updates(data)", updates)
        return Collected(data, env_steps, granted)


class Evaluating(_Working):
    """An evaluator, and the weights that it has."""

    method = "eval"
    _best = -math.inf

    def __call__(self, weights: Weights | None, train_iter: int, envstep: int) -> EvalResult:
        """Load ``weights`` unless it has them, evaluate, and have the best so far saved."""
        told = verdict(self._work(weights, train_iter, envstep))
        if told.score is None and hasattr(self.host, "save_evaluated"):
            raise ConfigError(
                "save_evaluated(weights) is called with the best so far, and there is no number in "
                f"what eval() gave: {told.result!r}. Give a score or (stop, score), or leave "
                "save_evaluated out."
            )
        # What is no number can't be the best: nothing would ever be above it.
        score = -math.inf if told.score is None or math.isnan(told.score) else told.score
        if score > self._best:
            self._best = score
            hook(self.host, "save_evaluated", None, weights)
        return told


class Reanalysis:
    """Spreads calls of ``reanalyze_buffer`` evenly over epochs, exactly.

    An epoch is a round that grants updates. The first call is before its first update; with 1/4 it
    is every fourth epoch's, with 2 there is another one half-way through each.
    """

    def __init__(self, share: Fraction, call: Callable[[], object]) -> None:
        """Begin with ``share`` calls an epoch."""
        self._share, self._call = share, call
        self._epochs = self._done = 0

    def before(self, number: int, granted: int) -> None:
        """Make the calls due before update ``number``, from 0, of an epoch of ``granted`` ones."""
        reached = self._epochs + Fraction(number + 1, granted)
        self._epochs += number + 1 == granted
        while self._done < math.ceil(reached * self._share):
            self._done += 1
            self._call()


def reanalyzing(learner: Host, buffer: Host | None) -> Callable[[], object]:
    """The method ``reanalyze_buffer`` of whoever has it, the buffer first.

    Raises:
        ConfigError: Nobody has.
    """
    for host in (buffer, learner):
        method: Callable[[], object] | None = getattr(host, "reanalyze_buffer", None)
        if callable(method):
            return method
    raise ConfigError(
        "reanalyze calls reanalyze_buffer(), and neither the buffer nor the learner has such a "
        "method. Add it to one of them, or leave reanalyze out."
    )


class Learning:
    """The learner and its buffer, which nobody else touches.

    Attributes:
        updates: Calls of `train` so far, the version of its weights.
    """

    def __init__(
        self,
        learner: Host,
        buffer: Host | None,
        pack: Callable[[Any], object],
        reanalyze: Fraction | None = None,
    ) -> None:
        """Keep them.

        Args:
            learner: The learner.
            buffer: Its buffer, if it has one.
            pack: Makes of weights what nobody changes any more.
            reanalyze: Calls of ``reanalyze_buffer`` an epoch, None for none.
        """
        self._learner, self._buffer, self._pack = learner, buffer, pack
        self._reanalysis: Reanalysis | None = None
        if reanalyze is not None:
            self._reanalysis = Reanalysis(reanalyze, reanalyzing(learner, buffer))
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
            if self._reanalysis is not None:
                self._reanalysis.before(number, granted)
            # Without a buffer collections take turns; they have equal shares of the updates.
            batch = rounds[number % len(rounds)] if buffer is None else buffer.sample()
            told = self._learner.train(hook(self._learner, "prepare_batch", batch, batch))
            self.updates += 1
        hook(self._learner, "after_epoch", None)
        return granted, figures(told)

    def interrupt(self) -> None:
        """Have a call that waits for others come back, since the run ends; from any thread."""
        hook(self._learner, "interrupt", None)

    def weights(self) -> tuple[Weights | None, float]:
        """A snapshot, None where the learner gives none, and the seconds that it took."""
        get = getattr(self._learner, "get_weights", None)
        if get is None:
            return None, 0.0
        began_s = time.monotonic()
        given = get()
        try:
            state = self._pack(given)
        except Exception as error:  # whatever a user's object raises
            raise ConfigError(
                f"what the learner's get_weights() gave can't be copied: {error_text(error)}. Give "
                "arrays, numbers or tensors without a graph, such as a state_dict()."
            ) from error
        return Weights(self.updates, state), time.monotonic() - began_s


def hook(host: Host, name: str, default: object, *arguments: object) -> Any:
    """What a method gives that a host may have, or the default."""
    method = getattr(host, name, None)
    return default if method is None else method(*arguments)
