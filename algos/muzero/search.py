"""Planning in a learned model: one search for each of many roots, side by side, in NumPy.

The trees are native (`native/trees.hpp`); the networks are the caller's, one pass in each
simulation for all roots. There are two searches:

* **gumbel**: at the root sequential halving over actions that Gumbel's numbers chose, below it
  whatever falls behind the improved policy (Danihelka et al. 2022, "Policy improvement by planning
  with Gumbel"). What isn't tried has the mixed value of its appendix D, and values are rescaled to
  [0, 1] within a node, as the authors' own library mctx does: hence its ``c_scale`` of 0.1, where
  the paper, whose games have values within known bounds, has 1.
* **puct**: Schrittwieser et al. 2020, arXiv:1911.08265, appendix B, with values that are rescaled
  to [0, 1] within the tree.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fast_core.algos.muzero._native import Trees
from fast_core.errors import ConfigError, PolicyError

Root = Literal["gumbel", "puct"]
Array = NDArray[Any]
F32 = NDArray[np.float32]
I32 = NDArray[np.int32]
# From latents ``[B, ...]`` and actions ``[B]`` to the latents after them, rewards ``[B]``, and
# values ``[B]`` and logits ``[B, A]`` there; where `Search.run` is given choices, those there last.
Step = Callable[[Array, Array], tuple[Array, ...]]

MOST_SIMULATIONS = 65_535  # nodes of a tree beside its root

_Arguments = tuple[
    tuple[int, int, int], tuple[float, float, float, float, float, float, float, float], I32
]


class Found(NamedTuple):
    """What a search makes of each root; the next one overwrites it.

    Attributes:
        action: ``[B]`` int64, what is to be done: with Gumbel's root what won the halving, with
            PUCT's the most visited.
        policy: ``[B, A]`` float32, what to learn from: the improved policy, or shares of visits.
        value: ``[B]`` float32, the mean of all that came back, for who is to move.
        visits: ``[B, A]`` int32.
    """

    action: NDArray[np.int64]
    policy: F32
    value: F32
    visits: I32


class Search:
    """Searches many roots at once; used by one thread.

    What is found for a root depends on its own numbers alone, not on how many stand beside it. Of
    equally good actions the first is taken. Memory is that of the most roots so far, and nothing
    is allocated as long as there are no more and latents keep their shape.

    Args:
        actions: ``A``.
        simulations: Of each root, that is nodes of its tree beside it.
        discount: Of a step.
        root: Which search.
        two_players: Whether two take turns: values are those of who is to move, rewards of who
            moved.
        considered: Actions that a Gumbel root tries, at most.
        c_visit: With how many visits values weigh as much as doubly ones do.
        c_scale: How much values weigh against logits.
        least_span: What differences of values are divided by at least, so that those of rounding
            are none; the authors of EfficientZero (arXiv:2111.00210) have as much in their code.
            With the span of all values, 2 in a game that is won or lost, nothing is rescaled by
            less, as in the papers' own board games.
        pb_c_base: From how many visits on PUCT explores more.
        pb_c_init: How much it explores.
        dirichlet_alpha: Of the noise of a PUCT root.
        dirichlet_fraction: How much of its policy the noise is.

    Raises:
        ConfigError: A number is out of its range.
    """

    def __init__(
        self,
        actions: int,
        simulations: int,
        *,
        discount: float,
        root: Root = "gumbel",
        two_players: bool = False,
        considered: int = 16,
        c_visit: float = 50.0,
        c_scale: float = 0.1,
        least_span: float = 0.01,
        pb_c_base: float = 19_652.0,
        pb_c_init: float = 1.25,
        dirichlet_alpha: float = 0.3,
        dirichlet_fraction: float = 0.25,
    ) -> None:
        _check_sizes(actions, simulations, considered)
        _check_constants(
            within_1={"discount": discount, "dirichlet_fraction": dirichlet_fraction},
            from_0={"c_visit": c_visit, "c_scale": c_scale, "pb_c_init": pb_c_init},
            above_0={
                "least_span": least_span,
                "pb_c_base": pb_c_base,
                "dirichlet_alpha": dirichlet_alpha,
            },
        )
        self._actions, self._simulations = actions, simulations
        considered = min(considered, actions) if root == "gumbel" else 0
        schedule = [visits_before(k, simulations) for k in range(considered + 1)]
        continuation = -discount if two_players else discount
        dirichlet = dirichlet_fraction, dirichlet_alpha
        self._arguments: _Arguments = (
            (actions, simulations, considered),
            (continuation, c_visit, c_scale, least_span, pb_c_base, pb_c_init, *dirichlet),
            np.array(schedule if considered else [], np.int32),
        )
        self._room: _Room | None = None

    def run(
        self,
        logits: Array,
        value: Array,
        latent: Array,
        step: Step,
        *,
        mask: Array | None = None,
        noise: Array | None = None,
        explore: bool = True,
        choices: Array | None = None,
    ) -> Found:
        """Search from ``B`` roots.

        Args:
            logits: ``[B, A]``, the networks' policy at the roots.
            value: ``[B]``, their value.
            latent: ``[B, ...]``, what the model makes of them.
            step: The model. It is called once in each simulation, with a latent and an action of
                each root, in arrays that the next call overwrites, and may answer in such.
            mask: ``[B, A]``, which actions are allowed; None: all. It is of the roots alone.
            noise: ``[B, A]``, uniform in [0, 1): of Gumbel's or Dirichlet's numbers. Needed where
                ``explore`` is set.
            explore: Whether the noise is used.
            choices: ``[B, A, ...]``, what each action stands for, where a policy sampled them
                (Hubert et al. 2021, arXiv:2104.06303): then ``step`` is called with these in place
                of numbers of actions, and returns those of the next nodes last. Logits are then of
                the samples: equal where they were drawn from the policy itself.

        Raises:
            PolicyError: A root has no allowed action, networks answer with NaN, infinity or in
                another shape, or there is no memory for that many roots.
        """
        rows = len(logits)
        room = self._room_for(rows, latent, choices)
        trees, place, action = room.trees, room.place[:rows], room.action[:rows]
        fault = trees.begin(
            rows,
            *self._predicted(rows, value, logits),
            None if mask is None else _numbers("the mask", mask, (rows, self._actions), np.bool_),
            self._uniform(rows, noise) if explore else None,
        )
        if fault is not None:
            raise _refusal(*fault, latent)
        room.latents.put(0, latent)
        if choices is not None and room.choices is not None:
            room.choices.put(0, choices)
        for node in range(1, self._simulations + 1):
            trees.select(place, action)
            latent, chosen = room.latents.take(place), action
            if room.choices is not None:
                place *= self._actions
                place += action
                chosen = room.choices.take(place)
            latent, reward, value, logits, *there = step(latent, chosen)
            predicted = self._predicted(rows, value, logits)
            fault = trees.expand(_numbers("rewards", reward, (rows,)), *predicted)
            if fault is not None:
                raise _refusal(*fault, latent, node)
            trees.backup()
            room.latents.put(node, latent)
            if room.choices is not None:
                room.choices.put(node, *there)
        every = room.found
        found = Found(
            every.action[:rows], every.policy[:rows], every.value[:rows], every.visits[:rows]
        )
        trees.result(*found)
        return found

    def _predicted(self, rows: int, value: Array, logits: Array) -> tuple[Array, Array]:
        shape = rows, self._actions
        return _numbers("values", value, (rows,)), _numbers("logits", logits, shape)

    def _uniform(self, rows: int, noise: Array | None) -> Array:
        if noise is None:
            raise PolicyError("a search that explores needs noise: [B, A] numbers in [0, 1)")
        return _numbers("the noise", noise, (rows, self._actions))

    def _room_for(self, rows: int, latent: Array, choices: Array | None) -> _Room:
        room = self._room
        if room is None or not room.fits(rows, latent, choices):
            try:
                room = self._room = _Room(self._arguments, rows, latent, choices)
            except MemoryError as error:
                raise PolicyError(
                    f"{rows} searches of {self._simulations} simulations and {self._actions} "
                    f"actions take more memory than there is; search fewer roots at once, or "
                    f"with fewer simulations"
                ) from error
        return room


class _Rows:
    """Numbers of all nodes, ``[nodes, B, ...]``, and those of one node of each tree.

    Args:
        nodes: Of a tree.
        rows: Trees.
        like: ``[B, ...]``, the numbers of roots.
        axes: Behind those of nodes and trees, that places count too.
    """

    def __init__(self, nodes: int, rows: int, like: Array, axes: int = 0) -> None:
        shape = like.shape[1:]
        self._like = shape, like.dtype
        self._all: Array = np.empty((nodes, rows, *shape), like.dtype)
        self._places = self._all.reshape(-1, *shape[axes:])
        self._taken: Array = np.empty((rows, *shape[axes:]), like.dtype)

    def fits(self, like: Array) -> bool:
        return self._like == (like.shape[1:], like.dtype)

    def put(self, node: int, numbers: Array) -> None:
        self._all[node, : len(numbers)] = numbers

    def take(self, places: NDArray[np.int64]) -> Array:
        taken: Array = self._taken[: len(places)]
        return np.take(self._places, places, 0, taken, "clip")


class _Room:
    """The arrays of searches from ``rows`` roots, or fewer."""

    def __init__(
        self, arguments: _Arguments, rows: int, latent: Array, choices: Array | None
    ) -> None:
        actions, simulations, _ = arguments[0]
        self.rows = rows
        self.trees = Trees(rows, *arguments)
        self.latents = _Rows(simulations + 1, rows, latent)
        self.choices = None if choices is None else _Rows(simulations + 1, rows, choices, 1)
        self.place: NDArray[np.int64] = np.empty(rows, np.int64)
        self.action = np.empty_like(self.place)
        self.found = Found(
            np.empty_like(self.place),
            np.empty((rows, actions), np.float32),
            np.empty(rows, np.float32),
            np.empty((rows, actions), np.int32),
        )

    def fits(self, rows: int, latent: Array, choices: Array | None) -> bool:
        if (self.choices is None) != (choices is None):
            return False
        same = self.choices is None or choices is None or self.choices.fits(choices)
        return rows <= self.rows and self.latents.fits(latent) and same


def _check_sizes(actions: int, simulations: int, considered: int) -> None:
    if not 1 <= simulations <= MOST_SIMULATIONS:
        raise ConfigError(
            f"simulations must be 1 to {MOST_SIMULATIONS}, the nodes that a tree can have; got "
            f"{simulations}. 16 to 50 are usual."
        )
    if actions < 1 or considered < 1:
        raise ConfigError(
            f"a search needs an action, and to consider one; got actions={actions}, "
            f"considered={considered}"
        )


def _check_constants(
    within_1: dict[str, float], from_0: dict[str, float], above_0: dict[str, float]
) -> None:
    wrong = {name: "0 to 1" for name, number in within_1.items() if not 0 <= number <= 1}
    wrong |= {name: "at least 0" for name, x in from_0.items() if not 0 <= x < math.inf}
    wrong |= {name: "above 0" for name, x in above_0.items() if not 0 < x < math.inf}
    for name, allowed in wrong.items():
        number = (within_1 | from_0 | above_0)[name]
        raise ConfigError(f"{name} of a search must be {allowed}; got {number!r}")


def visits_before(considered: int, simulations: int) -> list[int]:
    """How often the action was visited that a Gumbel root visits next, for each simulation.

    Of ``m`` actions that are considered all are visited equally often, then the better half, and
    so on: ``n / log2(m)`` visits for each such round, and the last two share what is left.

    Source: Danihelka et al. 2022, algorithm 2; mctx lets scores decide between equally visited
    ones, at every simulation, so that these numbers are all there is of the schedule.
    """
    if considered < 2:
        return list(range(simulations))
    rounds = math.ceil(math.log2(considered))
    schedule: list[int] = []
    left, visits = considered, 0
    while len(schedule) < simulations:
        for _ in range(max(1, simulations // (rounds * left))):
            schedule += [visits] * left
            visits += 1
        left = max(2, left // 2)
    return schedule[:simulations]


def _numbers(name: str, given: Array, shape: tuple[int, ...], dtype: type = np.float32) -> Array:
    """What was given, contiguous and of this type."""
    array: Array = np.ascontiguousarray(given, dtype)
    if array.shape != shape:
        raise PolicyError(f"{name} must be {list(shape)}; got {list(array.shape)}")
    return array


def _refusal(what: str, root: int, latent: Array, simulation: int = 0) -> PolicyError:
    """Why a search can't go on from a root; ``latent`` is what was made last."""
    where = f"root {root} of {len(latent)}"
    if what == "mask":
        return PolicyError(
            f"{where} has no action that is allowed: all of its mask is False. An episode that "
            f"can't go on has to end."
        )
    network = "prediction"
    if not np.isfinite(latent[root]).all():
        what, network = "latent", "dynamics" if simulation else "representation"
    elif what == "reward":
        network = "dynamics"
    return PolicyError(
        f"the {network} network's {what} is NaN or infinite for {where}, in simulation "
        f"{simulation} of the search. Its parameters or what it was given are not finite."
    )
