"""What the calls of a host give, as far as FastLoop has to know: rows, scores and figures."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncGenerator, Awaitable, Generator, Mapping, Sized
from dataclasses import dataclass
from numbers import Real
from typing import Any, cast

import numpy as np

from fast_core.errors import ConfigError


@dataclass(frozen=True)
class Verdict:
    """What one `eval` came to.

    Attributes:
        result: What it returned.
        score: The number in it: itself, or the second of a pair; None where there is none.
        stop: The truth value in it: the first of a pair.
    """

    result: object
    score: float | None
    stop: bool


def verdict(result: object) -> Verdict:
    """Read what `eval` gave.

    Raises:
        ConfigError: It is a pair that does not begin with a truth value.
    """
    if not (isinstance(result, tuple) and len(result) == 2):
        return Verdict(result, _number(result), stop=False)
    first, score = result
    if not isinstance(_item(first), (bool, np.bool_)):
        raise ConfigError(
            f"eval() gave a pair, the first of which is {first!r}; a pair is (stop, score), and "
            "stop is True or False. Give the score alone, or (False, score)."
        )
    return Verdict(result, _number(score), stop=bool(first))


def figures(told: object) -> dict[str, float]:
    """The numbers in what `train` gave, if that is a mapping."""
    given = told.items() if isinstance(told, Mapping) else ()
    numbers = {str(name): _number(each) for name, each in given}
    return {name: each for name, each in numbers.items() if each is not None}


def rows(data: object) -> int:
    """How many environment steps something is, if its collector does not say so.

    Raises:
        ConfigError: It has columns, and they are not equally long.
    """
    if not isinstance(data, Mapping):
        return len(data) if isinstance(data, Sized) else 1
    lengths = {str(name): _length(each) for name, each in data.items()}
    found = set(lengths.values())
    if len(found) > 1 or None in found:
        told = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise ConfigError(
            "a collector whose collect() gives a mapping needs a method count_env_steps(data), "
            f"unless all that is in it has the same length; got {told}"
        )
    return cast("int", found.pop()) if found else 0


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


def awaited(result: object) -> object:
    """The result itself, or what it comes to if it is a coroutine."""
    if not inspect.isawaitable(result):
        return result
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(_awaited(result))
    # As in a notebook: a thread may have one loop, and another thread takes this one.
    came: list[object] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            came.append(asyncio.run(_awaited(result)))
        except BaseException as error:  # of user code, for the thread that waits
            failed.append(error)

    thread = threading.Thread(target=run, name="coroutine", daemon=True)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return came[0]


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
