"""Learners whose steps can't be shared are refused, by a sentence for each fault."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fast_core.algos.replay.dqn_config import DQNConfig
from fast_core.errors import ConfigError, ContractBroken
from fast_core.testing import check_algorithm


class SharedConfig(DQNConfig, frozen=True, kw_only=True):
    """DQN; `fault` says what it does wrong."""

    fault: str = ""

    def exchanged(self, environment: Any) -> int:
        return super().exchanged(environment) + (self.fault == "says another size")

    def make_algorithm(self, environment: Any, setup: Any) -> Any:
        made = super().make_algorithm(environment, setup)
        return made if self.fault == "" else Faulty(made, self.fault)


class Faulty:
    """A learner with one fault."""

    def __init__(self, learner: Any, fault: str) -> None:
        self._learner, self._fault, self._rank = learner, fault, 0
        self._said: Any = None
        self._finite = True
        if fault == "has no hand_over":
            self.hand_over: Any = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._learner, name)

    def update(self, batch: Any) -> Any:
        if self._fault == "updates otherwise":
            batch = replace(batch, reward=2 * batch.reward)
        return self._learner.update(batch)

    def reseed(self, rank: int) -> None:
        self._rank = rank
        self._learner.reseed(rank)

    def gradient(self, batch: Any, *, turn: int | None = None) -> Any:
        found = self._learner.gradient(batch, turn=turn)
        self._finite = bool(np.isfinite(batch.reward).all())
        return np.nan_to_num(found) if self._fault == "hides infinity" else found

    def apply(self, gradient: Any, *, scale: float = 1.0) -> Any:
        if self._fault == "steps by its rank":
            scale *= 1 + self._rank
        if self._fault == "looks at its own batch" and not self._finite:
            gradient = np.full_like(gradient, np.nan)
        report = self._learner.apply(gradient, scale=scale)
        if self._fault == "speaks of others":
            return replace(report, priority=np.zeros(8, np.float32))
        return report

    def hand_over(self) -> Any:  # type: ignore[no-redef]
        said = self._learner.hand_over()
        if self._fault == "speaks twice":
            self._said = said if said.metrics else self._said
            return self._said
        return said

    def adopt(self, parameters: Any, targets: Any, updates: int) -> None:
        if self._fault != "adopts nothing":
            self._learner.adopt(parameters, targets, updates)


BROKEN = {
    "says another size": r"vectors of the \d+ numbers that exchanged\(\) says",
    "updates otherwise": "update must report what gradient and then apply do",
    "steps by its rank": "replicas that step along the same vectors must stay equal, bit for bit",
    "speaks twice": "hand_over must say once what the batch said",
    "speaks of others": "update must report what|apply must report what was differentiated by its",
    "adopts nothing": "adopt must differentiate at the parameters|hand_over must say once",
    "hides infinity": "the gradient of a batch that is not finite must not be finite",
    "looks at its own batch": "apply must skip 0 steps along a vector that is finite, whatever",
}


def config(fault: str = "") -> SharedConfig:
    return SharedConfig(hidden_sizes=(8,), batch_size=8, fault=fault)


def test_sound_one_passes() -> None:
    check_algorithm(config())


@pytest.mark.parametrize("fault", BROKEN)
def test_broken_one_is_refused_by_a_sentence(fault: str) -> None:
    with pytest.raises(ContractBroken, match=BROKEN[fault]):
        check_algorithm(config(fault))


def test_one_that_lacks_a_method_is_refused_as_by_a_run() -> None:
    with pytest.raises(ConfigError, match=r"make_algorithm .* which lacks hand_over"):
        check_algorithm(config("has no hand_over"))
