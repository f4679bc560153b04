from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import fast_core.clients.games.drift_task  # noqa: F401, registers the task
from fast_core.errors import ConfigError


def make(**kwargs: int) -> gymnasium.Env:
    return gymnasium.make("fastloop/Drift-v0", disable_env_checker=True, **kwargs).unwrapped


def column(picture: np.ndarray) -> int:
    """The ball's column on the grid of 12."""
    return int(picture.max(axis=0).argmax()) // (len(picture) // 12)


def test_drift_task_keeps_the_contract_of_gymnasium() -> None:
    check_env(make(), skip_render_check=True)


def test_two_pictures_tell_the_move_and_naming_it_is_worth_one_in_all() -> None:
    env = make(steps=40)
    before, _ = env.reset(seed=3)
    answer, total, moves, ended = 1, 0.0, set(), False
    while not ended:
        picture, reward, ended, truncated, _ = env.step(np.int64(answer))
        assert not truncated
        total += reward
        answer = (column(picture) - column(before) + 1) % 12
        moves.add(answer)
        before = picture
    assert total == pytest.approx(1.0)
    assert moves == {0, 1, 2}


def test_wrong_answers_are_worth_nothing() -> None:
    env = make(steps=1)
    env.reset(seed=0)
    assert env.step(np.int64(0))[1] == 0.0


@pytest.mark.parametrize("kwargs", [{"side": 40}, {"side": 0}, {"steps": 0}])
def test_impossible_pictures_are_refused(kwargs: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match=f"{next(iter(kwargs))}="):
        make(**kwargs)
