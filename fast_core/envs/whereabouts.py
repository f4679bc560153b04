"""Where in a run an environment failed, in words and by name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from fast_core.errors import ConfigError, EnvironmentFailed
from fast_core.system import forks
from fast_core.system.text import error_text

_ACTION_TEXT = 200
_OLD = (
    "Gym before 0.26 had another interface, and FastLoop takes Gymnasium's: change the "
    "environment, or put a class round it that does (environment.id: module:Class)"
)
OLD_RESET = f"reset(*, seed=None, options=None) must return (observation, info dict). {_OLD}"
_OLD_STEP = f"step(action) must return (observation, reward, terminated, truncated, info). {_OLD}"
_FOUR = "not enough values to unpack (expected 5, got 4)"
_OLD_CALL = re.compile(r"reset\(\) got an unexpected keyword argument '(seed|options)'")
_OTHER_BASE = "must inherit from the gymnasium.Env class"
_BASE = (
    "derive it from gymnasium.Env, or put a class round it that does. "
    f"{_OLD}. What steps many at once (gymnasium.vector.VectorEnv) is registered as "
    "vector_entry_point of an environment, and taken with environment.backend: gymnasium_vector"
)


class Whereabouts:
    """The place of an environment in the run, for errors."""

    def __init__(self, *, environment: str, shard: int, id: str, incarnation: int) -> None:
        """``environment`` is its number within the shard, or ``"0 to 7"`` where any may be it."""
        self._place = {"environment": environment, "shard": str(shard), "id": id}
        self._place["incarnation"] = str(incarnation)

    def failure(
        self,
        when: int | str,
        cause: str | BaseException,
        episode: int | None = None,
        seed: int | None = None,
        action: object = None,
    ) -> EnvironmentFailed:
        """An error that says where in the run it happened, in words and by name.

        Args:
            when: Step of the episode, counted from 1, or 0 for its reset; else in words.
            cause: What went wrong, or what was raised.
            episode: Number of the episode, if there is one.
            seed: Seed the episode was reset with.
            action: Action of the step.
        """
        if isinstance(cause, BaseException):
            forks.leave_if_copy(cause)
            cause = raised_text(cause)
        context, words = dict(self._place), str(when)
        if isinstance(when, int):
            context["step"] = str(when)
            words = f"in step {when}" if when else "in reset"
        if episode is not None:
            context |= {"episode": str(episode), "seed": str(seed)}
            words += f" of episode {episode} (seed {seed})"
        if action is not None:
            context["last action"] = action_text(action)
            words += f" with action {context['last action']}"
        noun = "environments" if " " in context["environment"] else "environment"
        return EnvironmentFailed(
            f"{noun} {context['environment']} of shard {context['shard']} "
            f"({context['id']!r}, incarnation {context['incarnation']}) failed {words}: {cause}",
            context | {"cause": cause},
        )


class BatchWhereabouts:
    """The places of environments that are stepped together.

    Attributes:
        places: That of each.
    """

    def __init__(self, indices: range, *, shard: int, id: str, incarnation: int) -> None:
        """``indices`` are their numbers within the shard."""
        names = [str(index) for index in indices]
        first, last = names[0], names[-1]
        names.append(first if first == last else f"{first} to {last}")
        *self.places, self._all = (
            Whereabouts(environment=name, shard=shard, id=id, incarnation=incarnation)
            for name in names
        )

    @contextmanager
    def blamed(self, when: str) -> Iterator[None]:
        """Turn what their library raises into an error that says where; any of them may be it.

        Raises:
            EnvironmentFailed: It raised.
        """
        try:
            yield
        except (ConfigError, EnvironmentFailed):
            raise
        except BaseException as error:  # an environment may raise anything
            raise self._all.failure(when, error) from error


def raised_text(error: BaseException) -> str:
    """What an environment raised, as a traceback ends; names the interface of old Gym."""
    text = error_text(error)
    if isinstance(error, TypeError) and _OTHER_BASE in text:
        return f"{text}; {_BASE}"
    if isinstance(error, TypeError) and _OLD_CALL.search(text):
        return f"{text}; {OLD_RESET}"
    return f"{text}; {_OLD_STEP}" if isinstance(error, ValueError) and _FOUR in text else text


def action_text(action: object) -> str:
    """An action for a message: short, whatever its size."""
    text = repr(action.tolist() if isinstance(action, np.ndarray | np.generic) else action)
    return text if len(text) <= _ACTION_TEXT else f"{text[: _ACTION_TEXT - 3]}..."
