from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from fast_core.messages import RolloutReady
from fast_core.scheduler.statistics import MOST_INFO, Episodes


def rollout(*infos: dict[str, float]) -> Any:
    result = RolloutReady("env-0", 0, 1, 0, 1, 0, 0, (), (), 0, infos)
    return SimpleNamespace(result=result)


def test_info_is_the_mean_of_the_last_hundred_episodes_that_gave_it() -> None:
    episodes = Episodes()
    episodes.add([rollout(*({"cost": float(cost)} for cost in range(150)), {"other": 7.0})])
    assert episodes.info_means == {"cost": sum(range(50, 150)) / 100, "other": 7.0}


def test_ever_new_names_of_the_info_are_bounded() -> None:
    episodes = Episodes()
    episodes.add([rollout(*({f"n{index}": 1.0} for index in range(1000)), {"n0": 3.0})])
    assert len(episodes.info_means) == MOST_INFO
    assert episodes.info_means["n0"] == 2.0
