"""What the calls of a host give, as far as FastLoop has to know: rows, scores and figures."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import math
from collections.abc import AsyncGenerator, Awaitable, Generator, Mapping, Sized
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import Any, cast

import numpy as np

from fast_core.errors import ConfigError, FastLoopError

_PACKAGE = Path(__file__).parents[1]


@dataclass(frozen=True)
class EvalResult:
    """What one `eval` came to.

    Attributes:
        result: What it returned.
        score: The number in it: itself, or the second of a pair; None where there is none.
        stop: The truth value in it: the first of a pair.
    """

    result: object
    score: float | None
    stop: bool


def verdict(result: object) -> EvalResult:
    """Read what `eval` gave.

    Raises:
        ConfigError: It is a pair that does not begin with a truth value.
    """
    if not (isinstance(result, tuple) and len(result) == 2):
        return EvalResult(result, _number(result), stop=False)
    first, score = result
    if not isinstance(_item(first), (bool, np.bool_)):
        raise ConfigError(
            f"eval() gave a pair, the first of which is {first!r}; a pair is (stop, score), and "
            "stop is True or False. Give the score alone, or (False, score)."
        )
    return EvalResult(result, _number(score), stop=bool(first))


def figures(told: object) -> dict[str, float]:
    """The numbers in what `train` gave, if that is a mapping."""
    given = told.items() if isinstance(told, Mapping) else ()
    numbers = {str(name): _number(each) for name, each in given}
    return {name: each for name, each in numbers.items() if each is not None}


def rows(data: object) -> int:
    """How many environment steps something is, if its collector does not say so.

    Raises:
        ConfigError: It is a tuple, or has columns that are not equally long.
    """
    if isinstance(data, tuple):
        raise ConfigError(
            f"a collector whose collect() gives a tuple, here of {len(data)}, needs a method "
            "count_env_steps(data): a tuple may be columns (observations, actions, rewards) or "
            "steps, which len() can't tell. Add it, or give a mapping of columns or a list of "
            "steps."
        )
    if not isinstance(data, Mapping):
        length = _length(data)
        return 1 if length is None else length
    lengths = {str(name): _length(each) for name, each in data.items()}
    found = set(lengths.values())
    if len(found) > 1 or None in found:
        told = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise ConfigError(
            "a collector whose collect() gives a mapping needs a method count_env_steps(data), "
            f"unless all that is in it has the same length; got {told}"
        )
    return cast("int", found.pop()) if found else 0


def without_ours(error: BaseException) -> BaseException:
    """``error``, its traceback without FastLoop's calls before the first of a user's.

    One of FastLoop's own has none left; a fault of FastLoop's keeps all.
    """
    own = error.__traceback__
    while own is not None and Path(own.tb_frame.f_code.co_filename).is_relative_to(_PACKAGE):
        own = own.tb_next
    if own is None and not isinstance(error, FastLoopError):
        return error
    return error.with_traceback(own)


def whole(name: str, given: object) -> int:
    """The number that a method of a host's told.

    Raises:
        ConfigError: It is no whole number, or below 0.
    """
    number = _item(given)
    is_number = isinstance(number, Real) and not isinstance(number, bool)
    if not is_number or not 0 <= (value := float(cast("Real", number))) < math.inf or value % 1:
        raise ConfigError(f"{name} must give a whole number, at least 0; got {given!r}")
    return int(value)


def refuse_generator(result: object) -> None:
    """Refuse what has collected nothing yet.

    Raises:
        ConfigError: It is a generator.
    """
    if isinstance(result, (Generator, AsyncGenerator)):
        raise ConfigError(
            "collect() gave a generator, which collects only when the learner asks for its data. "
            "Give list(...) of it."
        )


class Coroutines:
    """The event loop of one host, in which all of its calls run; one thread at a time.

    So what a call has opened, such as a connection, is there for the next one.
    """

    def __init__(self) -> None:
        self._runner: asyncio.Runner | None = None
        self._elsewhere: ThreadPoolExecutor | None = None

    def result(self, given: object) -> object:
        """``given`` itself, or what it comes to if it is a coroutine."""
        if not inspect.isawaitable(given):
            return given
        if not _has_loop():
            return self._run(given)
        # As in a notebook: this thread has a loop that runs, and may have only one.
        self._elsewhere = self._elsewhere or ThreadPoolExecutor(1, "coroutines")
        return self._elsewhere.submit(self._run, given).result()

    def _run(self, given: Awaitable[object]) -> object:
        self._runner = self._runner or asyncio.Runner()
        return self._runner.run(_awaited(given))

    def close(self) -> None:
        """End what its calls have left running; may be called twice, and while one goes on."""
        runner, self._runner = self._runner, None
        if runner is not None:
            # In a thread where no loop runs; a call that can't be ended goes on in this one.
            with contextlib.suppress(RuntimeError), ThreadPoolExecutor(1) as thread:
                thread.submit(runner.close).result()
        if self._elsewhere is not None:
            self._elsewhere.shutdown(wait=False)


def _has_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


async def _awaited(result: Awaitable[object]) -> object:
    return await result


def _number(value: object) -> float | None:
    number = _item(value)
    return float(number) if isinstance(number, Real) else None


def _item(value: Any) -> object:
    """The number in an array or a tensor of one that has no dimensions; else the value."""
    return value.item() if getattr(value, "ndim", None) == 0 else value


def _length(value: object) -> int | None:
    try:
        return len(cast("Sized", value))
    except TypeError:  # no sequence, or an array without dimensions
        return None
