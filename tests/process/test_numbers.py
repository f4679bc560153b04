"""Third-party environments as they are, each with a number of its own in every process."""

from __future__ import annotations

import pytest

from tests.process.harness import TOY, Workplace

pytestmark = pytest.mark.process


@pytest.mark.parametrize("mode", ["process", "inline"])
def test_no_two_environments_that_live_have_one_number(workplace: Workplace, mode: str) -> None:
    claims = workplace.folder()
    environment = {
        "id": "tests.process.claiming:Claims",
        "kwargs": {"folder": str(claims), "port": "{6100 + number}"},
        "wrappers": ["gymnasium.wrappers:RecordEpisodeStatistics"],
    }
    changes = {"environment": environment, "mode": mode, "stop": {"env_steps": 512}}
    changes["evaluation"] = {"every_env_steps": 128, "episodes": 3, "envs": 3}
    launched = workplace.launch("nodes.env.count=2", config={**TOY, **changes}).done()
    assert not list(claims.iterdir()), "every one was closed"
    assert launched.screen.count("float64 for float32") == 1, launched.screen
