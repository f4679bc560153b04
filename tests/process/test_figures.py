"""What user code says as numbers, and what it says on standard output."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.monitor.event_files import read_scalars
from tests.process.harness import TOY, Launched, Workplace, read_lines

pytestmark = pytest.mark.process

TALKS: dict[str, Any] = {
    **TOY,
    "name": "talks",
    "environment": {"id": "fastloop/Talks-v0", "modules": ["talking"], "info": ["is_success"]},
    "evaluation": {"every_env_steps": 64, "episodes": 2, "envs": 2},
    "metrics": {"tensorboard": True, "interval_s": 0.01},
    "stop": {"env_steps": 128},
}


@pytest.fixture
def talked(workplace: Workplace) -> Launched:
    extra = [{"node": "talking:Notes", "name": "notes"}]
    nodes = {"env": {"count": 1}, "extra": extra}
    launched = workplace.launch(config={**TALKS, "nodes": nodes})
    assert launched.wait() == 0, launched.screen
    return launched


def evaluate(workplace: Workplace, launched: Launched, *options: str) -> Launched:
    arguments = ["-m", "fast_core.cli", "eval", str(launched.run), *options]
    evaluated = workplace.start(arguments, home=launched.home)
    assert evaluated.wait() == 0, evaluated.screen
    return evaluated


def test_numbers_of_the_info_and_of_nodes_reach_every_file(
    workplace: Workplace, talked: Launched
) -> None:
    rows = read_lines(talked.run / "metrics.jsonl")
    values = {name: value for row in rows for name, value in row["values"].items()}
    tags = read_scalars(talked.run / "tensorboard")
    expected = {"info/is_success": 1.0, "eval_info/is_success": 1.0, "notes/rows": 16.0}
    for name, value in expected.items():
        assert values[name] == value
        assert tags[name][-1][1] == value
    evaluated = evaluate(workplace, talked)
    assert json.loads(evaluated.screen.splitlines()[-1])["info"] == {"is_success": 1.0}
