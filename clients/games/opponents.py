"""Fixed players of board games: at random, one that looks one move ahead, a trained policy."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from fast_core.clients.games.board_rules import Rules
from fast_core.errors import ConfigError, PolicyError


class Opponent(Protocol):
    """Moves by the position alone, and where several moves are equal, by random numbers."""

    def __call__(self, own: int, other: int, random: np.random.Generator) -> int:
        """An allowed action for the player whose stones are ``own``, in a game that is not over."""
        ...


class AtRandom:
    """Any allowed action."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules

    def __call__(self, own: int, other: int, random: np.random.Generator) -> int:
        """See `Opponent`."""
        return one_of(self._rules.allowed(own | other), random)


class OnePly:
    """Wins if it can, else prevents that the other one wins next, else moves at random."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules

    def __call__(self, own: int, other: int, random: np.random.Generator) -> int:
        """See `Opponent`."""
        allowed = self._rules.allowed(own | other)
        for stones in (own, other):
            if best := [action for action in allowed if self._wins(stones, own | other, action)]:
                return one_of(best, random)
        return one_of(allowed, random)

    def _wins(self, stones: int, taken: int, action: int) -> bool:
        return self._rules.won(stones | self._rules.stone(taken, action))


class OfPolicy:
    """What a trained policy does, without exploration."""

    def __init__(self, path: Path, rules: Rules) -> None:
        """Load it.

        Raises:
            FastLoopError: There is none, or it does not fit the game or has a memory.
        """
        # here, since other opponents need no policy
        from fast_core.policy.loading import load_policy

        self._rules, self._policy = rules, load_policy(path)
        opening = {key: np.asarray(value) for key, value in rules.observed(0, 0, 0).items()}
        try:
            _, state = self._policy(opening)
        except PolicyError as error:
            raise PolicyError(
                f"the policy {str(path)!r} can't play {rules.name}: {error}"
            ) from error
        if state is not None:
            raise PolicyError(
                f"the policy {str(path)!r} can't be an opponent in {rules.name}: it has a memory, "
                "or stacked frames, and an opponent sees the position alone"
            )

    def __call__(self, own: int, other: int, random: np.random.Generator) -> int:
        """See `Opponent`."""
        player = int(own.bit_count() != other.bit_count())
        action, _ = self._policy(self._rules.observed(own, other, player))
        return int(action)


def opponent_of(
    name: str | None, named: Mapping[str, Callable[[], Opponent]], rules: Rules
) -> Opponent | None:
    """The opponent of a name, or by the policy of a run or of a file; None without one.

    Raises:
        FastLoopError: There is none of that name, or the policy does not fit the game.
    """
    if name is None:
        return None
    if str(name) in named:
        return named[name]()
    if os.sep in str(name) or Path(str(name)).exists():
        return OfPolicy(Path(name), rules)
    raise ConfigError(
        f"environment.kwargs.opponent of {rules.name} must be null, to play against oneself, one "
        f"of {', '.join(named)}, or the path of a run or of a policy's file; got {name!r}"
    )


def one_of(actions: Sequence[int], random: np.random.Generator) -> int:
    """One of equals."""
    return actions[0] if len(actions) == 1 else actions[int(random.integers(len(actions)))]
