"""Columns that environments write into their info."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest

from fast_core.algorithm.spec import Column
from fast_core.config import EnvironmentConfig
from fast_core.envs import make_batch
from fast_core.envs.stepping.info_columns import InfoColumns
from fast_core.errors import EnvironmentFailed
from tests.envs.driver import Driver, random_actions, toy
from tests.envs.toy import Counter
from tests.envs.vector_toys import as_vector

COST, PAIR = Column("cost", (), "float32"), Column("pair", (2,), "int16")
BACKENDS = ["gymnasium", "Disabled", "SameStep", "NextStep"]


class Priced(Counter):
    """Its info: half the number of the step, NaN at step ``infinite_at``; that and its square."""

    def __init__(self, infinite_at: int = 0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.infinite_at = infinite_at

    def step(self, action: Any) -> Any:
        *others, _ = super().step(action)
        cost = np.inf if self.steps == self.infinite_at else self.steps / 2
        return *others, {"cost": cost, "pair": np.array([self.steps, self.steps**2])}


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    gymnasium.register("FastLoopTest/Priced-v0", entry_point=Priced)
    yield
    del gymnasium.registry["FastLoopTest/Priced-v0"]


def priced(backend: str, **kwargs: Any) -> EnvironmentConfig:
    config = toy("Priced", kwargs=kwargs)
    if backend == "gymnasium":
        return config
    return as_vector(config, autoreset_mode=backend)


def columns_of(config: EnvironmentConfig, *columns: Column, envs: int = 2, steps: int = 7) -> Any:
    """What each step left in ``extra``, and the driver."""
    batch = make_batch(config, seed=0, shard=0, envs=envs, columns=columns)
    driver, extra = Driver(batch, envs), []
    for action in random_actions(batch, envs, steps):
        driver.run([action])
        extra.append({name: values.copy() for name, values in batch.extra.items()})
    batch.close()
    return driver, {each.name: np.array([row[each.name] for row in extra]) for each in columns}


@pytest.mark.parametrize("backend", BACKENDS)
def test_each_step_has_what_its_own_info_says(backend: str) -> None:
    """Also the last one of an episode, whose info a vectorised form may give apart."""
    driver, extra = columns_of(priced(backend, length=3), COST, PAIR)
    # of the counters' observations the first says which step it was; of none that was left out
    after = np.array(driver.obs)[1:, :, 0]
    after[driver.ended] = np.array(driver.final_obs)[driver.ended][:, 0]
    after[np.array(driver.quarantined)] = 0
    assert driver.ended.any() and np.array(driver.quarantined).any() == (backend == "NextStep")
    np.testing.assert_array_equal(extra["cost"], after / 2)
    np.testing.assert_array_equal(extra["pair"], np.stack([after, after**2], axis=2))
    assert extra["pair"].dtype == np.int16


@pytest.mark.parametrize("backend", ["gymnasium", "Disabled"])
def test_what_is_not_finite_is_quarantined(backend: str) -> None:
    driver, extra = columns_of(priced(backend, infinite_at=2), COST, steps=4)
    np.testing.assert_array_equal(np.array(driver.quarantined)[:, 0], [False, True, False, True])
    np.testing.assert_array_equal(extra["cost"][:, 0], [0.5, 0.0, 0.5, 0.0])


@pytest.mark.parametrize("backend", BACKENDS)
def test_missing_value_is_named_with_the_environment_and_what_is_there(backend: str) -> None:
    with pytest.raises(EnvironmentFailed, match=r"Priced.*'price' of shape \(3,\) and float32.*'p"):
        columns_of(priced(backend), Column("price", (3,), "float32"))


@pytest.mark.parametrize(
    ("column", "value", "got"),
    [
        (Column("a", (2,), "float32"), np.zeros(3), r"'a' must be of shape \(2,\).*shape \(3,\)"),
        (Column("a", (), "float32"), "1.0", "float32.*'1.0'"),
        (Column("a", (), "float32"), None, "float32.*None"),
        (Column("a", (), "int64"), 0.5, "fit int64.*0.5"),
        (Column("a", (), "uint8"), 256, "fit uint8.*256"),
        (Column("a", (), "bool"), 1, "fit bool"),
    ],
)
def test_other_values_are_refused(column: Column, value: object, got: str) -> None:
    with pytest.raises(ValueError, match=f"(?s){got}"):
        InfoColumns([column], 2).read({"a": value}, 1)


@pytest.mark.parametrize("value", [True, 1, np.float64(1.0), np.ones((1, 1)), np.uint8(1)])
def test_numbers_become_what_the_column_holds(value: object) -> None:
    columns = InfoColumns([Column("a", (), "float32")], 2)
    columns.read({"a": value}, 1)
    np.testing.assert_array_equal(columns.arrays["a"], np.array([0, 1], np.float32))
