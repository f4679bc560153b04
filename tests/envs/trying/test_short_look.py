"""What float32 can't tell apart is found in the steps of the try-out, and nothing else is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict

from fast_core.algorithm.spec import REWARD, EnvironmentSpec, SpaceSpec
from fast_core.config import EnvironmentConfig
from fast_core.envs.trying.probe import probe
from fast_core.envs.trying.short_look import ShortLook
from tests.envs.toy import Typed


class Far(Typed):
    """Counts from an offset: in a number alone, in part ``place`` of a Dict, or in its reward."""

    def __init__(
        self,
        offset: float = 0.0,
        dtype: str = "float64",
        declared: str = "",
        part: bool = False,
        paid: float = 0.0,
    ) -> None:
        super().__init__([2], dtype)
        space = Box(0, np.inf, (2,), np.dtype(declared or dtype).type)
        self.observation_space = Dict(a=Box(0, 1, (1,)), place=space) if part else space
        self.offset, self.dtype, self.part, self.paid = offset, np.dtype(dtype), part, paid

    def observe(self) -> Any:
        apart = np.array([self.steps, self.steps % 2])
        if self.dtype.kind == "f":
            apart = apart / 64
        obs = apart.astype(self.dtype) + self.dtype.type(self.offset)
        return {"a": np.zeros(1, np.float32), "place": obs} if self.part else obs

    def step(self, action: Any) -> Any:
        obs, _, *ends = super().step(action)
        return obs, self.paid + self.steps % 2, *ends


def blurred(**kwargs: Any) -> list[tuple[str, str]]:
    spec = probe(EnvironmentConfig(id=f"{__name__}:Far", kwargs=kwargs), 0)
    return [(blur.what, blur.dtype) for blur in spec.blurred]


@pytest.mark.parametrize(
    ("kwargs", "what"),
    [
        ({"offset": 5.4e6}, "number 1 of the observation"),
        ({"offset": 5.4e6, "part": True}, "number 1 of part 'place' of the observation"),
        ({"offset": 2**40, "dtype": "int64"}, "number 1 of the observation"),
        ({"offset": 2**31 - 9, "dtype": "int32"}, "number 1 of the observation"),
    ],
)
def test_the_number_that_is_told_apart_worst_is_found(kwargs: Any, what: str) -> None:
    assert blurred(**kwargs) == [(what, kwargs.get("dtype", "float64"))]


def test_digits_that_are_lost_to_what_is_declared_are_found() -> None:
    (blur,) = probe(
        EnvironmentConfig(id=f"{__name__}:Far", kwargs={"offset": 5.4e6, "declared": "float32"}),
        0,
    ).blurred
    assert (blur.dtype, blur.step) == ("float32", 0.5)
    assert blur.mean == pytest.approx(5.4e6, abs=0.1)
    assert blur.deviation == pytest.approx(0.5 / 64, rel=0.1)


@pytest.mark.parametrize("paid", [200.0, -1e6])
def test_rewards_of_which_nearly_all_is_the_same_are_found(paid: float) -> None:
    assert blurred(paid=paid) == [(REWARD, "float64")]


@pytest.mark.parametrize(
    "kwargs",
    [{}, {"offset": 1e4}, {"offset": 2**16, "dtype": "int64"}, {"offset": 1e12, "dtype": "float32"},
     {"offset": 1e20}, {"paid": 50.0}, {"offset": float("inf")}],
)  # fmt: skip
def test_what_float32_tells_apart_and_what_stays_the_same_is_left_alone(kwargs: Any) -> None:
    assert blurred(**kwargs) == []


@pytest.mark.parametrize(("bits", "found"), [(30, 1), (50, 0)])
def test_last_bits_of_what_is_computed_and_always_the_same_are_left_alone(
    bits: int, found: int
) -> None:
    row = SpaceSpec("box", (1,), "float64", low=(0.0,))
    look = ShortLook(EnvironmentSpec("Test-v0", row, SpaceSpec("discrete", (), "int64", n=2)))
    look.keep_rows(1e7 * (1 + np.array([[0.0], [2.0**-bits]])), np.zeros(2, np.float32))
    assert len(look.blurred()) == found


def test_environments_that_are_stepped_together_are_looked_at_too() -> None:
    config = EnvironmentConfig(id="CartPole-v1", backend="gymnasium_vector")
    assert probe(config, 0).blurred == ()
