"""GOPS's evaluator in a process of its own, with one evaluation at a time, as GOPS has it."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fast_core.clients.gops.hosts import prepare_process
from fast_core.clients.gops.ray_stand_in import Recipe
from fast_core.clients.gops.weights import Flat, Gops, Tensors
from fast_core.errors import NodeFailed
from fast_core.integrations.hosts import Weights
from fast_core.integrations.remote import Household, Remote


class RemoteEvaluator:
    """What is in the process."""

    def __init__(self, evaluator: Gops) -> None:
        self._evaluator = evaluator
        self._weights = Tensors(evaluator.networks, "")

    def load_weights(self, state: Flat, version: int) -> None:
        """Act with these."""
        self._weights.load(state)

    def eval_kwargs(self, train_iter: int, envstep: int) -> Mapping[str, int]:
        """What GOPS names its files after."""
        return {"iteration": train_iter}

    def eval(self, iteration: int) -> float:
        """Mean return of the evaluator's episodes."""
        return float(self._evaluator.run_evaluation(iteration))


def make_evaluator(recipe: Recipe, rank: int, seed: int) -> RemoteEvaluator:
    """Make the evaluator in its process; GOPS derives its seed, not ``seed``."""
    prepare_process()
    return RemoteEvaluator(recipe.make())


@dataclass
class Evaluated:
    """An evaluation that has begun.

    Attributes:
        iteration: Of the weights.
        env_steps: Steps sampled by then.
        state: A copy of those weights, as GOPS saves them.
        score: What it came to; None while it runs.
        failure: Why it came to nothing.
    """

    iteration: int
    env_steps: int
    state: dict[str, Any]
    score: float | None = None
    failure: BaseException | None = None


class Evaluations:
    """Begins evaluations and tells their results; used by the learner's thread alone."""

    def __init__(self, recipe: Recipe, timeout_s: float | None) -> None:
        """Start the process, which is ready some seconds later."""
        self._timeout_s = timeout_s
        self._household = Household()
        self._ready = False
        self._running: Evaluated | None = None
        self._thread, self._began_s = threading.Thread(), 0.0
        factory = functools.partial(make_evaluator, recipe)
        try:
            self._remote: Remote = self._household.start("evaluator", "evaluator", factory, 0, 0)
        except BaseException:  # what can't be sent, or Ctrl-C: nobody else knows of it yet
            self.close()
            raise

    @property
    def running(self) -> bool:
        """Whether one has begun whose result was not told yet."""
        return self._running is not None

    def begin(self, iteration: int, env_steps: int, networks: Gops) -> None:
        """Begin one of the weights of now; none may be running."""
        assert self._running is None
        weights = Weights(iteration, self._household.weights.put(Tensors(networks, "").flat()))
        state = {name: each.detach().cpu().clone() for name, each in networks.state_dict().items()}
        one = self._running = Evaluated(iteration, env_steps, state)
        self._began_s = time.monotonic()
        self._thread = threading.Thread(target=self._evaluate, args=(one, weights), daemon=True)
        self._thread.start()

    def _evaluate(self, one: Evaluated, weights: Weights) -> None:
        try:
            if not self._ready:
                self._remote.wait_until_ready(self._timeout_s)
                self._ready, self._began_s = (
                    True,
                    time.monotonic(),
                )  # a start has a limit of its own
            one.score = self._remote(weights, one.iteration, one.env_steps).score
        except BaseException as error:  # for the thread that asks
            one.failure = error

    def result(self, *, wait: bool) -> Evaluated | None:
        """The one that is done, once; None if none is.

        Raises:
            NodeFailed: It raised, died, or did not come back in time.
        """
        if self._running is None:
            return None
        while self._thread.is_alive():
            limit_s = self._timeout_s
            left_s = None if limit_s is None else self._began_s + limit_s - time.monotonic()
            if left_s is not None and left_s <= 0:
                raise NodeFailed(
                    f"{self._remote.name} did not come back from eval() within {limit_s:g} s "
                    "(work_timeout_s)"
                )
            if not wait:
                return None
            self._thread.join(left_s)
        one, self._running = self._running, None
        if one.failure is not None:
            raise one.failure
        return one

    def close(self, grace_s: float = 0.0) -> None:
        """End the process and what it started; may be called twice."""
        self._household.close(grace_s)
