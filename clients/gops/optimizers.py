"""Copies of GOPS's algorithm that compute gradients, a process each, for the one that trains."""

from __future__ import annotations

import functools
import selectors
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
import torch

from fast_core.clients.gops.hosts import prepare_process
from fast_core.clients.gops.options import AVERAGES, GRADIENTS, Options
from fast_core.clients.gops.ray_stand_in import Actor, Recipe
from fast_core.clients.gops.weights import Flat, Gops, Tensors
from fast_core.errors import ConfigError
from fast_core.integrations.hosts import Weights
from fast_core.integrations.options import check_least
from fast_core.integrations.remote import Household

_CALL = "get_remote_update_info()"
_BASE = "gops.algorithm.base"


@dataclass(frozen=True)
class Gradient:
    """What `get_remote_update_info` gave.

    Attributes:
        told: Its first result: figures, or with prioritized replay (figures, rows, priorities).
        update_info: Its second, what `remote_update` takes.
    """

    told: Any
    update_info: dict[str, Any]


@dataclass(frozen=True)
class GradientAges:
    """How many steps were committed between the weights of gradients and their own steps.

    Attributes:
        applied: Gradients.
        sum: Of their ages.
        max: The highest age.
    """

    applied: int = 0
    sum: int = 0
    max: int = 0

    @property
    def mean(self) -> float:
        """Of all that were applied; 0 of none."""
        return self.sum / max(self.applied, 1)

    def after(self, age: int) -> GradientAges:
        """These and one more."""
        return GradientAges(self.applied + 1, self.sum + age, max(self.max, age))


def asked_copies(alg: Gops, trainer: str, asked: int | None, options: Options) -> list[Recipe]:
    """How to make the copies that a script asks for; none where one algorithm does all.

    Args:
        alg: What `create_alg` gave.
        trainer: GOPS's name of the trainer.
        asked: The script's ``num_algs``; None: 1.
        options: Those of FastLoop.

    Raises:
        ConfigError: Copies, or a bound on their gradients, are asked for where there can be none.
    """
    check_least(("num_algs", 1 if asked is None else asked, 1))
    several, bound = asked not in (None, 1), options.max_gradient_staleness
    if bound is not None and (not several or trainer in AVERAGES):
        raise ConfigError(
            "max_gradient_staleness is for off_async_trainer with num_algs above 1: elsewhere "
            f"gradients are of the newest weights; got {bound!r} with {trainer} and num_algs "
            f"{asked or 1!r}. Leave it out."
        )
    if not several:
        return []
    instead = "num_algs 1 with more samplers (num_samplers) or more threads (num_threads_main)"
    if trainer not in GRADIENTS:
        raise ConfigError(
            f"num_algs must be 1 with {trainer}, which has one algorithm in GOPS too; got "
            f"{asked!r}. Take {' or '.join(GRADIENTS)}, or {instead}."
        )
    if not isinstance(alg, list) or not all(isinstance(each, Actor) for each in alg):
        raise ConfigError(
            f"num_algs {asked!r} makes each algorithm in a process of its own, from what "
            f"create_alg gives; got {type(alg).__qualname__!r}. Call install() before anything is "
            "imported from gops.create_pkg."
        )
    kind = alg[0].recipe.creator
    if not has_remote_form(kind):
        raise ConfigError(
            f"num_algs must be 1 with {kind.__name__}: it has no get_remote_update_info(), with "
            f"which copies compute gradients; got {asked!r}. Take {instead}."
        )
    return [each.recipe for each in alg]


def has_remote_form(kind: object) -> bool:
    """Whether a class of GOPS's, or of a user's, computes gradients for another to apply."""
    method = getattr(kind, "get_remote_update_info", None)
    return method is not None and getattr(method, "__module__", _BASE) != _BASE


# --- in the process ------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Order:
    networks: Flat
    batch: Any
    iteration: int


class RemoteAlgorithm:
    """A copy of the algorithm, which takes no step itself."""

    def __init__(self, alg: Gops, *, cuda: bool) -> None:
        self._alg, self._cuda = alg, cuda
        if cuda:
            alg.networks.cuda()
        alg.networks.train()
        self._weights = Tensors(alg.networks, "")
        self._order: _Order | None = None

    def load_weights(self, state: _Order, version: int) -> None:
        """Take an order; each comes with weights."""
        self._weights.load(state.networks)
        self._order = state

    def collect(self) -> Gradient:
        """Do it. What is given is copied into shared memory before the next backward pass."""
        assert self._order is not None
        order, self._order = self._order, None
        batch = order.batch
        if self._cuda:
            batch = {name: value.cuda() for name, value in batch.items()}
        told, update_info = self._alg.get_remote_update_info(batch, order.iteration)
        return Gradient(_on_cpu(told), _on_cpu(update_info))

    def count_env_steps(self, gradient: Gradient) -> int:
        """None are made."""
        return 0


def make_optimizer(recipes: Sequence[Recipe], cuda: bool, rank: int, seed: int) -> RemoteAlgorithm:
    """Make the copy of a rank, in its process; GOPS derives its seed, not ``seed``."""
    prepare_process()
    return RemoteAlgorithm(recipes[rank].make(), cuda=cuda)


def _on_cpu(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.cpu()
    if isinstance(value, dict):
        return {name: _on_cpu(each) for name, each in value.items()}
    return type(value)(map(_on_cpu, value)) if type(value) in (list, tuple) else value


# --- in the learner's process --------------------------------------------------------------------


class Optimizers:
    """The processes; used by the learner's thread, but for `close`.

    Attributes:
        ages: How old gradients were.
    """

    def __init__(
        self, recipes: Sequence[Recipe], *, bound: int | None, cuda: bool, timeout_s: float | None
    ) -> None:
        """Start them; they are ready some seconds later.

        Args:
            recipes: Of each copy.
            bound: Steps that may be committed between the weights of a gradient and its own step;
                None: one less than there are copies, what they need to begin at the same time.
            cuda: Whether they compute on a GPU.
            timeout_s: Longest that a start, or one gradient, may take; None for no limit.
        """
        self.count, self.ages = len(recipes), GradientAges()
        self._bound = self.count - 1 if bound is None else bound
        self._timeout_s, self._ready = timeout_s, False
        self._steps, self._orders = 0, count()
        self._running: dict[int, tuple[int, Weights]] = {}  # steps, and what it has; oldest first
        self._household = Household()
        factory = functools.partial(make_optimizer, recipes, cuda)
        start = functools.partial(self._household.start, "collector", call=_CALL)
        try:
            self._remotes = [
                start(f"optimizer-{rank}", factory, rank, 0) for rank in range(self.count)
            ]
        except BaseException:  # what can't be sent, or Ctrl-C: nobody else knows of those there
            self.close()
            raise

    def step(self, alg: Gops, iteration: int, batches: Callable[[], Any]) -> list[Any]:
        """Have gradients computed side by side, and take one step with the next of them.

        Args:
            alg: What takes it.
            iteration: Its number, which gradients that begin now are computed for.
            batches: Gives a batch for each of those.

        Returns:
            What the one copy told.

        Raises:
            NodeFailed: A copy raised, died, or did not come back in time.
        """
        while len(self._running) < min(self.count, self._bound + 1):
            idle = next(rank for rank in range(self.count) if rank not in self._running)
            self._begin(idle, self._flat(alg.networks), iteration, batches())
        gradient = self._result(self._next())
        alg.remote_update(gradient.update_info)
        self._steps += 1
        return [gradient.told]

    def averaged_step(self, alg: Gops, iteration: int, batches: Callable[[], Any]) -> list[Any]:
        """Take one step with the mean of a gradient of each copy, all of the weights of now.

        Returns:
            What each copy told.

        Raises:
            NodeFailed: See `step`.
        """
        flat = self._flat(alg.networks)
        for rank in range(self.count):
            self._begin(rank, flat, iteration, batches())
        gradients = [self._result(rank) for rank in range(self.count)]
        alg.remote_update(mean([each.update_info for each in gradients]))
        self._steps += 1
        return [each.told for each in gradients]

    def _flat(self, networks: Gops) -> Flat:
        if not self._ready:
            for remote in self._remotes:
                remote.wait_until_ready(self._timeout_s)
            self._ready = True
        return Tensors(networks, "").flat()

    def _begin(self, rank: int, flat: Flat, iteration: int, batch: Any) -> None:
        # The number makes each order a new one for the process.
        state = self._household.weights.put(_Order(flat, batch, iteration))
        weights = Weights(next(self._orders), state)
        self._remotes[rank].begin(weights, iteration, 0)
        self._running[rank] = self._steps, weights

    def _next(self) -> int:
        """Whose gradient is next: the first that is there of those that may be, the oldest first.

        With the smallest bound that is the oldest, so that runs with it can be repeated.
        """
        bases = {rank: steps for rank, (steps, _) in self._running.items()}
        free = [rank for rank in bases if may_be_next(rank, bases, self._steps, self._bound)]
        if self._bound < self.count or len(free) == 1:
            return next(iter(bases))
        with selectors.DefaultSelector() as answers:
            for rank in free:
                answers.register(self._remotes[rank].link.socket, selectors.EVENT_READ, rank)
            there = {key.data for key, _ in answers.select(self._timeout_s)}
        return next(rank for rank in free if rank in there or not there)

    def _result(self, rank: int) -> Gradient:
        gradient: Gradient = self._remotes[rank].result(self._timeout_s).data
        base, _ = self._running.pop(rank)
        self.ages = self.ages.after(self._steps - base)
        return gradient

    def close(self, grace_s: float = 0.0) -> None:
        """End them, from any thread; may be called twice. What they are computing is left."""
        self._household.close(grace_s)


def may_be_next(rank: int, bases: Mapping[int, int], steps: int, bound: int) -> bool:
    """Whether no other gradient becomes too old by it, if they follow one by one, oldest first.

    Args:
        rank: Whose gradient would be the next step.
        bases: Steps that the weights of each have, in the order in which they were begun.
        steps: Those committed.
        bound: The highest age of a gradient.
    """
    others = [base for other, base in bases.items() if other != rank]
    return all(steps + 1 + place - base <= bound for place, base in enumerate(others))


def mean(infos: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Average what several copies computed with the same weights, name by name.

    Lists of gradients are averaged one by one; None, which a parameter has that nothing led to,
    counts as 0 where others have more. What is no gradient, such as a whole number, is the same for
    all.
    """
    return {name: _mean([info[name] for info in infos]) for name in infos[0]}


def _mean(values: Sequence[Any]) -> Any:
    first = values[0]
    if isinstance(first, list | tuple):
        return [_mean(each) for each in zip(*values, strict=True)]
    if isinstance(first, dict):
        return mean(values)
    gradients = [each for each in values if isinstance(each, torch.Tensor)]
    if gradients:
        return torch.stack(gradients).sum(0) / len(values)
    numbers = [each for each in values if isinstance(each, float | np.floating | np.ndarray)]
    return sum(numbers) / len(values) if numbers else first
