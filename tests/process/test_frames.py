"""The learner stacks the frames that the policy saw, wherever it acted."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from tests.forms import slow_but
from tests.process.harness import Workplace, eventually

pytestmark = pytest.mark.process

SHARDS, ENVS = 3, 3
TICKETS = 60


def numbered(frames: int, steps: int, tickets: int = TICKETS, **more: Any) -> dict[str, Any]:
    return {
        "name": "numbered",
        "environment": {"id": "fastloop/Numbered-v0", "modules": ["seeing"], "frame_stack": frames},
        "rollout": {"shards": SHARDS, "envs_per_shard": ENVS, "steps": steps},
        "algorithm": {"name": "seeing:SeeingConfig"},
        "nodes": {"env": {"count": 2}},
        "evaluation": {"every_env_steps": None},
        "checkpoint": {"every_updates": None, "at_end": True},
        "metrics": {"tensorboard": False},
        "stop": {"env_steps": tickets * SHARDS * ENVS * steps},
        **more,
    }


@pytest.mark.parametrize(
    ("frames", "steps", "placement", "degree"),
    slow_but(
        [(4, 1, "env", 0)],  # a stack reaches back over several rollouts
        [(4, 1, "env", 0), (4, 2, "node", 2), (3, 8, "env", 2)],
    ),
)
def test_learner_sees_what_the_policy_saw(
    workplace: Workplace, frames: int, steps: int, placement: str, degree: int
) -> None:
    launched = workplace.launch(
        f"policy.placement={placement}",
        "policy.groups=2",
        f"scheduler.off_policy_degree={degree}",
        config=numbered(frames, steps),
    ).done()
    stop = f"stop={{env_steps: {2 * TICKETS * SHARDS * ENVS * steps}}}"
    workplace.resume(launched, stop).done()


def test_shard_that_is_taken_over_begins_with_fresh_frames(workplace: Workplace) -> None:
    launched = workplace.launch(
        "supervision.restarts.env=1",
        "scheduler.off_policy_degree=2",
        "diagnostics.delay_ms=3",
        config=numbered(4, 2, 150),
    )
    launched.await_training()
    os.kill(launched.node("env-1"), signal.SIGKILL)
    eventually(
        lambda: any(event["what"] == "node lost" for event in launched.events()),
        "news of the death",
    )
    assert launched.wait(60) == 0, launched.screen
