"""A story in words is learned to its end, also while it is collected ahead."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.learning.training import evaluations, train

pytestmark = [pytest.mark.learning, pytest.mark.process]

# The shipped configurations, on a story that needs no interpreter and has three points.
STORY = (
    "environment.id=tests.clients.games.tiny_story:CellarGame",
    "environment.modules=[]",
    "environment.kwargs={songs: 3, commands: 8, max_episode_steps: 12}",
    "seed=0",
    "stop={env_steps: 12_000, score: 3}",
)


@pytest.mark.parametrize(
    "name",
    [
        "ppo_textgame",
        pytest.param("appo_textgame", marks=pytest.mark.slow),
        pytest.param("appo_textgame_auto", marks=pytest.mark.slow),
    ],
)
def test_every_point_of_a_story_is_found(tmp_path: Path, name: str) -> None:
    """Whoever goes down without the lamp is lost, so random play gets a quarter of a point."""
    run = train(tmp_path, f"{name}.yaml", *STORY)
    assert evaluations(run)[-1][1] == 3
