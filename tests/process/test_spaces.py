"""Composite observations, masks, several choices, stacked frames and repeated actions in runs."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from tests.process import harness
from tests.process.harness import BARE, Workplace, read_lines
from tests.process.test_resume import kill_after

pytestmark = pytest.mark.process

TICKETS = 12
SHARDS, ENVS, STEPS = 2, 4, 8


def task(name: str, kwargs: dict[str, Any], **environment: Any) -> dict[str, Any]:
    return {
        "name": "spaces",
        "environment": {
            "id": f"FastLoopTest/{name}-v0",
            "modules": ["tests.envs.space_toys"],
            "kwargs": kwargs,
            **environment,
        },
        "rollout": {"shards": SHARDS, "envs_per_shard": ENVS, "steps": STEPS},
        "algorithm": {"name": "ppo", "hidden_sizes": [8], "minibatch_size": 32, "epochs": 2},
        **BARE,
        "stop": {"env_steps": TICKETS * SHARDS * ENVS * STEPS},
    }


TASKS = {
    "dict with mask, several choices": task(
        "Doors", {"many": True, "length": 9}, action_mask="open"
    ),
    "mask in the info": task("Doors", {"where": "info"}, action_mask="info.doors"),
    "nested dict and tuple": task("Robot", {"length": 11}),
    "grid of choices": task("Robot", {"actions": "grid"}),
    "binary choices": task("Robot", {"actions": "binary"}),
    "stacked frames": task("Ticks", {"length": 13}, frame_stack=3),
    "repeated actions": task("Ticks", {"length": 13, "end": "truncated"}, frame_skip=3),
}


def own(name: str) -> dict[str, Any]:
    """A task whose network is one of `tests.algos.own_networks`."""
    config = task("Robot", {"length": 11})
    network = {"network": f"tests.algos.own_networks:{name}", "shared_torso": False}
    algorithm = {"name": "ppo", "minibatch_size": 32, "epochs": 2, **network}
    return config | {"algorithm": algorithm}


TASKS["a network of one's own"] = own("Parts")


def words(id: str, **environment: Any) -> dict[str, Any]:
    """A game in words, whose commands are scored by their words."""
    config = task("Robot", {})
    network = {"network": "fast_core.algos.nets_torch.commands:ScoreCommands"}
    algorithm = {"name": "ppo", "minibatch_size": 32, "epochs": 2, **network}
    environment = {"id": id, "action_mask": "possible", **environment}
    return config | {"algorithm": algorithm, "environment": environment}


TASKS["a game in words"] = words(
    "tests.clients.games.tiny_story:CellarGame", kwargs={"songs": 2, "max_episode_steps": 9}
)
TASKS["TextWorld"] = words(
    "fastloop/TextGame-v0",
    modules=["fast_core.clients.games.textworld_story"],
    kwargs={"max_episode_steps": 25},
)


@pytest.fixture(autouse=True)
def there(request: pytest.FixtureRequest) -> None:
    """Leave out what needs a package that is not installed."""
    if "[TextWorld]" in request.node.name:
        pytest.importorskip("textworld", reason="needs pip install -e '.[textgame]'")
        pytest.importorskip("jericho", reason="needs pip install -e '.[textgame]'")


finished = partial(harness.finished, tickets=TICKETS, within_s=180)


# `test_policy_node` has these with policies beside the environments, too.
ELSEWHERE = ("dict with mask, several choices", "nested dict and tuple", "stacked frames")


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in TASKS if name not in ELSEWHERE])
def test_processes_equal_inline_bit_for_bit(workplace: Workplace, name: str) -> None:
    """The toys raise if they get an action that they forbade or that is not in their space."""
    config = TASKS[name]
    reference = finished(workplace.launch("mode=inline", config=config))
    launched = workplace.launch("nodes.env.count=2", "diagnostics.delay_ms=3", config=config)
    assert finished(launched) == reference


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["mask in the info", "stacked frames", "a game in words", "TextWorld"]
)
def test_killed_and_resumed_run_equals_the_run_never_stopped(
    workplace: Workplace, name: str
) -> None:
    config = {**TASKS[name], "checkpoint": {"every_updates": 8, "keep": 100}}
    whole = finished(workplace.launch(config=config))
    cut = workplace.launch("diagnostics.delay_ms=20", config=config)
    kill_after(cut, TICKETS // 2)
    assert finished(workplace.resume(cut)) == whole


@pytest.mark.slow
def test_evaluation_is_played_with_masks_and_does_not_change_training(workplace: Workplace) -> None:
    """The toy ends an episode after nine steps, each with a reward of at least one."""
    config = TASKS["dict with mask, several choices"]
    reference = finished(workplace.launch(config=config))
    evaluation = ["evaluation.every_env_steps=128", "evaluation.episodes=5", "evaluation.envs=3"]
    launched = workplace.launch(*evaluation, config=config)
    assert finished(launched) == reference
    rows = read_lines(launched.run / "metrics.jsonl")
    means = [
        row["values"]["eval/return_mean"] for row in rows if "eval/return_mean" in row["values"]
    ]
    assert means
    assert min(means) >= 9
