"""What every algorithm keeps whose steps several optimizers share (`SharedAlgorithm`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

import msgspec
import numpy as np

from fast_core.algorithm import ReplayBatch
from fast_core.algorithm.spec import EnvironmentSpec
from fast_core.config import AlgorithmConfig
from fast_core.errors import ContractBroken
from fast_core.nodes.learn.contract import SHARED
from fast_core.policy.checked import check_methods
from fast_core.system.decoding import from_msgpack
from fast_core.system.state_file import pack


def differing(*states: dict[str, object]) -> list[str]:
    """Names of what is not bit for bit the same in two states, whatever the order of keys."""
    trees = [cast("dict[str, Any]", from_msgpack(pack(state))) for state in states]
    one, other = (
        {name: msgspec.msgpack.encode(tree[name], order="sorted") for name in tree}
        for tree in trees
    )
    return [name for name in sorted({*one, *other}) if one.get(name) != other.get(name)]


def check_shared(
    config: AlgorithmConfig,
    environment: EnvironmentSpec,
    make: Callable[[], Any],
    batches: Sequence[ReplayBatch],
) -> None:
    """Check that optimizers which share steps stay equal.

    Raises:
        ContractBroken: They would not.
    """
    check = _Check(f"{config.name} with {environment.id}", make, batches)
    check.halves(config.exchanged(environment))
    check.averaging()
    check.working_apart()
    check.skipping()


class _Check:
    def __init__(self, where: str, make: Callable[[], Any], batches: Sequence[ReplayBatch]) -> None:
        self._where, self._make, self._batches = where, make, batches

    def _sizes(self, learner: Any, exchanged: int) -> None:
        """As the blueprint says them."""
        check_methods(learner, "make_algorithm", SHARED)
        sizes = [len(vector) for vector in learner.networks()]
        longest = max(len(learner.gradient(self._batches[0], turn=turn)) for turn in range(1, 9))
        if [*sizes, longest] != [exchanged] * 3:
            raise self._broken(
                f"networks() must be two vectors of the {exchanged} numbers that exchanged() says, "
                f"and no gradient longer; got {sizes}, and a gradient of {longest}"
            )

    def halves(self, exchanged: int) -> None:
        """A gradient and then a step along it is an update."""
        whole, halves = self._make(), self._make()
        for batch in self._batches:
            first = whole.update(batch)
            second = halves.apply(halves.gradient(batch))
            if not _alike(first.metrics, second.metrics) or not np.array_equal(
                first.priority, second.priority
            ):
                raise self._broken(
                    f"update must report what gradient and then apply do; got {first} and {second}"
                )
        self._equal(whole, halves, "update must be gradient and then apply", whole=True)
        self._sizes(halves, exchanged)

    def averaging(self) -> None:
        """Replicas that step along one mean are equal, whatever each of them saw."""
        replicas = self._replica(0), self._replica(1)
        for batch in self._batches:
            gradients = [
                replica.gradient(_half(batch, rank)).copy() for rank, replica in enumerate(replicas)
            ]
            mean = (gradients[0] + gradients[1]) / 2
            for replica in replicas:
                replica.apply(mean.copy())
        self._equal(*replicas, "replicas that step along the same vectors must stay equal")

    def working_apart(self) -> None:
        """A step along what another one differentiated is the step that it would have taken."""
        owner, worker, alone = self._replica(0), self._replica(1), self._replica(1)
        for number, batch in enumerate(self._batches):
            worker.adopt(*owner.networks(), number)
            gradient = worker.gradient(batch).copy()
            owner.gradient(batch)  # which tells it how far the run is, and is handed over
            owner.hand_over()
            said, again = worker.hand_over(), worker.hand_over()
            report, expected = owner.apply(gradient), alone.update(batch)
            if (
                not np.array_equal(said.priority, expected.priority)
                or said.updates
                or again.metrics
            ):
                raise self._broken(
                    "hand_over must say once what the batch said, and take no step; got "
                    f"{said}, then {again}, where update says {expected}"
                )
            spoken = said.metrics.keys() & report.metrics.keys()
            if report.priority is not None or spoken or report.updates != 1:
                raise self._broken(
                    "apply must report what was differentiated by itself alone; of a gradient of "
                    f"another optimizer it said {report}"
                )
        for mine, theirs in zip(owner.networks(), alone.networks(), strict=True):
            if not np.array_equal(mine, theirs):
                raise self._broken(
                    "adopt must differentiate at the parameters and targets that it is given; "
                    "steps along those gradients lead elsewhere"
                )

    def skipping(self) -> None:
        """Whether a step is taken depends on the vector alone."""
        sick, well = self._replica(0), self._replica(0)
        batch = self._batches[0]
        reward = batch.reward.copy()
        reward[0] = np.inf
        vector = well.gradient(batch).copy()
        poisoned = sick.gradient(replace(batch, reward=reward)).copy()
        if np.isfinite(poisoned).all():
            raise self._broken(
                "the gradient of a batch that is not finite must not be finite, so that all "
                "optimizers skip the step; it was, of a reward of infinity"
            )
        for each, skipped in ((vector, 0), (poisoned, 1)):
            for learner in (sick, well):
                if (report := learner.apply(each.copy())).skipped != skipped:
                    raise self._broken(
                        f"apply must skip {skipped} steps along a vector that is "
                        f"{'not ' * skipped}finite, whatever its own batch said; got {report}"
                    )
            self._equal(sick, well, "what is decided must depend on the vector alone")

        other = self._replica(0)
        other.gradient(replace(batch, reward=reward))
        if (priority := other.hand_over().priority) is not None:
            raise self._broken(
                f"hand_over must give no priorities where one is not finite; got {priority}"
            )

    def _replica(self, rank: int) -> Any:
        made = self._make()
        made.reseed(rank)
        return made

    def _equal(self, first: Any, second: Any, what: str, *, whole: bool = False) -> None:
        pair = first, second
        states = [each.state_dict() if whole else each.shared_state() for each in pair]
        if names := differing(*states):
            raise self._broken(f"{what}, bit for bit; they differ in {names}")

    def _broken(self, promise: str) -> ContractBroken:
        return ContractBroken(
            f"{self._where}: {promise}. fast_core.algorithm.SharedAlgorithm says what each must "
            "do; let exchanged return 0 where a run can't have several optimizers."
        )


def _alike(first: dict[str, float], second: dict[str, float]) -> bool:
    """Metrics but for their rounding: nothing is learned from them."""
    return first.keys() == second.keys() and all(
        math.isclose(value, second[name], rel_tol=1e-6) for name, value in first.items()
    )


def _half(batch: ReplayBatch, rank: int) -> ReplayBatch:
    """What one of two optimizers is given of a batch."""
    middle = len(batch.reward) // 2
    part = slice(middle) if rank == 0 else slice(middle, 2 * middle)
    columns: dict[str, Any] = {
        name: value[part] for name, value in vars(batch).items() if isinstance(value, np.ndarray)
    }
    extra = {name: value[part] for name, value in batch.extra.items()}
    return replace(batch, **columns, extra=extra)
