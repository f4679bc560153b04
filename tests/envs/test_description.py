from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete

from fast_core.algorithm.spec import EnvironmentSpec
from fast_core.config import EnvironmentConfig
from fast_core.envs.description import describe
from fast_core.errors import ConfigError

VECTOR = Box(-1.0, 1.0, (2,), np.float32)
MASK = Box(0, 1, (5,), np.int8)
MANY = MultiDiscrete([3, 2])
PARTS = Dict({"step": VECTOR, "open": MASK, "short": Box(0, 1, (4,), np.int8)})


def described(
    observation: Any, action: Any, limit: int | None = None, **settings: Any
) -> EnvironmentSpec:
    config = EnvironmentConfig(id="It-v0", **settings)
    return describe(config, observation, action, limit)


def test_a_named_mask_is_stored_as_bools_where_it_stood() -> None:
    spec = described(PARTS, MANY, action_mask="open")
    assert spec.action_mask == "open"
    assert [name for name, _ in spec.observation.parts] == ["open", "short", "step"]
    mask = dict(spec.observation.parts)["open"]
    assert (mask.shape, mask.dtype) == ((5,), "bool")
    assert spec.observation.row_dtype["step"].shape == (2,)


@pytest.mark.parametrize(
    ("observation", "names"),
    [(VECTOR, ["obs"]), (Discrete(3), ["obs"]), (PARTS, ["open", "short", "step"])],
)
def test_a_mask_of_the_info_becomes_a_part_of_the_observation(
    observation: Any, names: list[str]
) -> None:
    spec = described(observation, MANY, action_mask="info.legal")
    assert [name for name, _ in spec.observation.parts] == [*names, "action_mask"]
    assert (spec.action_mask, spec.observation.parts[-1][1].shape) == ("action_mask", (5,))


@pytest.mark.parametrize(
    ("observation", "action", "settings", "said"),
    [
        (PARTS, MANY, {"action_mask": "opne"}, r"name a part .*'open', 'short', 'step'.*'opne'"),
        (VECTOR, MANY, {"action_mask": "open"}, r"has no parts.*'info\.KEY'; got 'open'"),
        (PARTS, MANY, {"action_mask": "short"}, r"shape \(4,\) of int8.*mask of 5 integers"),
        (PARTS, Discrete(4), {"action_mask": "open"}, "need a mask of 4"),
        (Dict({"open": Box(0, 1, (5,))}), MANY, {"action_mask": "open"}, "float32.*mask of 5"),
        (PARTS, VECTOR, {"action_mask": "open"}, "actions that are choices.*got box"),
        (VECTOR, MANY, {"action_mask": "info.m", "frame_skip": 2}, "frame_skip repeats.*got 2"),
        (Dict({"action_mask": MASK}), MANY, {"action_mask": "info.m"}, "has one already"),
        (PARTS, MANY, {"frame_stack": 4}, "frame_stack stacks plain Box.*4 for a composite"),
        (Discrete(4), MANY, {"frame_stack": 4}, "4 for a discrete"),
        (VECTOR, MANY, {"frame_stack": 4, "action_mask": "info.m"}, "4 for a composite"),
        (VECTOR, MANY, {"frame_stack": 257}, "at most 256; got 257"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_key(
    observation: Any, action: Any, settings: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError, match=f"environment.*{said}"):
        described(observation, action, **settings)


def test_a_policy_sees_stacked_frames_and_a_rollout_stores_one() -> None:
    low, high = np.array([0, 0], np.float32), np.array([1, 3], np.float32)
    for box in (VECTOR, Box(low, high), Box(0, 255, (8, 8), np.uint8), Box(0, 1, (), np.float32)):
        plain = described(box, MANY)
        spec = described(box, MANY, frame_stack=3)
        assert (spec.frames, plain.frames) == (3, 1)
        assert spec.row == plain.row == plain.observation
        assert spec.observation.shape == (3, *box.shape)
        for stacked, one in zip(spec.observation.bounds, (box.low, box.high), strict=True):
            assert np.array_equal(stacked, np.stack([one] * 3))


@pytest.mark.parametrize(
    ("limit", "skip", "expected"), [(None, 3, None), (9, 1, 9), (9, 3, 3), (10, 3, 4)]
)
def test_the_time_limit_counts_steps_of_the_run(
    limit: int | None, skip: int, expected: int | None
) -> None:
    assert described(VECTOR, MANY, limit, frame_skip=skip).max_episode_steps == expected
