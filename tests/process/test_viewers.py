"""Whoever watches a run changes nothing of it, whatever drawing its environments does."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from gymnasium.utils.seeding import np_random

from tests.process import harness
from tests.process.harness import BARE, Workplace, read_lines
from tests.process.viewing import FAULTS

pytestmark = pytest.mark.process

TICKETS = 20
VIEWER = {"node": "tests.process.viewing:Viewer", "settings": {"fps": 20}}
CONFIG: dict[str, Any] = {
    "name": "seen",
    "environment": {
        "id": "fastloop/Drawn-v0",
        "modules": ["tests.process.viewing"],
        "kwargs": {"number": "{number}"},
    },
    "rollout": {"shards": 2, "envs_per_shard": 4, "steps": 16},
    "algorithm": {"name": "ppo", "hidden_sizes": [8], "minibatch_size": 64, "epochs": 1},
    "nodes": {"extra": [VIEWER]},
    **BARE,
    "dashboard": {"enabled": True, "fps": 30, "cpu_share": 1},
    "stop": {"env_steps": TICKETS * 2 * 4 * 16},
}
UNWATCHED = CONFIG | {"nodes": {"extra": [VIEWER | {"settings": {"fps": 0}}]}}


finished = partial(harness.finished, tickets=TICKETS)


@pytest.mark.parametrize(
    "how",
    [
        "environment.kwargs.hangs=false",  # which takes 3 s
        pytest.param("mode=inline", marks=pytest.mark.slow),
        # Groups take turns as their actions come, so nothing may hang on generators they share.
        pytest.param(
            "policy.placement=node environment.kwargs.shared=false", marks=pytest.mark.slow
        ),
    ],
)
def test_watched_run_equals_one_that_nobody_watches(workplace: Workplace, how: str) -> None:
    alone = workplace.launch(*how.split(), config=UNWATCHED)
    reference = finished(alone)
    assert read_lines(alone.run / "seen.jsonl") == []
    watched = workplace.launch(*how.split(), config=CONFIG)
    assert finished(watched) == reference
    assert "did not stop" not in watched.screen, "closed although it hangs"
    seen = read_lines(watched.run / "seen.jsonl")
    for number, fault in enumerate(FAULTS):
        well = fault == "hangs" and "hangs=false" in how
        assert note(seen, number) == NOTES["" if well else fault]
    for row in seen:
        assert row["obs"][0] == drawn(row["seed"], row["step"])
        assert row["picture"] in (None, [40, 60, 3, row["step"]])
    assert any(row["picture"] for row in frames(seen, FAULTS.index("hangs")))


@pytest.mark.slow
def test_resume_may_let_a_run_be_watched(workplace: Workplace) -> None:
    saving = {"checkpoint": {"at_end": True}, "environment": {"id": "CartPole-v1"}}
    plain = CONFIG | saving | {"dashboard": {"enabled": False}}
    reference = finished(workplace.launch(config=plain))
    half = workplace.launch(f"stop.env_steps={TICKETS // 2 * 2 * 4 * 16}", config=plain).done()
    assert read_lines(half.run / "seen.jsonl") == []
    end = CONFIG["stop"]["env_steps"]
    resumed = workplace.resume(half, "dashboard.enabled=true", f"stop.env_steps={end}")
    assert finished(resumed) == reference
    assert any(row["picture"] for row in read_lines(resumed.run / "seen.jsonl"))


NOTES = {
    "": "",
    "draws random numbers": "render() draws from random number generators of the run; they are put "
    "back each time",
    "raises": "no picture: render() raised RuntimeError: no window.",
    "sleeps": "",
    "hangs": "no picture: render() did not return within 3 s",
    "changes its observation": "",
    "returns None": "no picture: render() returned None",
    "returns floats": "no picture: render() returned float64 of the shape (40, 60, 3); a picture "
    "is uint8 [height, width, 3]",
}


def frames(seen: list[dict[str, Any]], number: int) -> list[dict[str, Any]]:
    """Frames of the environment that has this number in the run."""
    shard, env = divmod(number, 4)
    return [row for row in seen if (row["shard"], row["env"]) == (shard, env)]


def note(seen: list[dict[str, Any]], number: int) -> str:
    """What its last frame has to say."""
    found = frames(seen, number)
    assert found, f"no frame of {number}"
    text = found[-1]["note"]
    assert isinstance(text, str)
    return text


def drawn(seed: int, step: int) -> float:
    """What the environment observes after so many steps."""
    generator, _ = np_random(seed)
    return float(np.float32(generator.random(step + 1)[-1]))
