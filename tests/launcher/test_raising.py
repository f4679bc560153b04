"""Whatever a user's algorithm or node raises, also what is no ``Exception``, is an error of it.

Environments, callbacks and sinks have the same in `tests.envs.test_leaving`,
`tests.launcher.calling.test_host` and `tests.monitor.test_sinks`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fast_core import RunFailed, train
from fast_core.errors import FastLoopError
from tests.forms import slow_but

CONFIG: dict[str, Any] = {
    "name": "raising",
    "mode": "inline",
    "environment": {"id": "CartPole-v1"},
    "rollout": {"shards": 2, "envs_per_shard": 2, "steps": 8},
    "algorithm": {
        "name": "tests.process.hanging:HangingConfig",
        "hidden_sizes": [4],
        "minibatch_size": 16,
        "epochs": 1,
    },
    "nodes": {"env": {"count": 2}},
    "evaluation": {"every_env_steps": None},
    "checkpoint": {"every_updates": 1},
    "metrics": {"tensorboard": False},
    "stop": {"updates": 20},
}
TEXTS = {
    "oddity": "Oddity: odd",
    "interrupt": "KeyboardInterrupt",
    "cancelled": "CancelledError: given up",
    "exit": "SystemExit: 3",
}
LEARNER = [
    ("update", "interrupt", "optimizer-0"),
    ("policy_parameters", "exit", "optimizer-0"),
    ("state_dict", "cancelled", "optimizer-0"),
    ("load", "interrupt", "env-0"),
    ("act", "exit", "env-0"),
]
STAGE = [
    ("transform", "cancelled"),
    ("handle", "interrupt"),
    ("work", "exit"),
    ("stage_state", "oddity"),
    ("prepare", "interrupt"),
]


def failure(changes: dict[str, object]) -> RunFailed:
    with pytest.raises(RunFailed) as info:
        train(CONFIG, changes)
    return info.value


@pytest.mark.parametrize(("place", "kind", "node"), slow_but(LEARNER[:1], LEARNER))
def test_what_the_algorithm_raises_ends_the_run_with_its_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, kind: str, node: str
) -> None:
    monkeypatch.chdir(tmp_path)
    failed = failure({"algorithm.where": place, "algorithm.kind": kind})
    assert TEXTS[kind] in str(failed)
    (crash,) = tmp_path.glob("runs/*/*/crash.txt")
    assert TEXTS[kind] in crash.read_text().strip().splitlines()[-1]
    assert f"node '{node}'" in crash.read_text()
    assert "in _raise" in crash.read_text()


@pytest.mark.parametrize(("place", "kind"), slow_but(STAGE[:1], STAGE))
def test_what_a_node_of_ones_own_raises_ends_the_run_with_its_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, kind: str
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = {"where": place, "kind": kind, "at": 1 if place == "prepare" else 3}
    node = {"node": "tests.process.hanging:HangingStage", "settings": settings}
    failure({"nodes.extra": [node]})
    (crash,) = tmp_path.glob("runs/*/*/crash.txt")
    assert TEXTS[kind] in crash.read_text().strip().splitlines()[-1]
    assert "node 'hangingstage'" in crash.read_text()


@pytest.mark.parametrize("kind", ["exit", "interrupt", "cancelled"])
def test_what_raises_while_shared_memory_is_declared_refuses_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """The process ended without a word."""
    monkeypatch.chdir(tmp_path)
    settings = {"where": "structures", "kind": kind}
    node = {"node": "tests.process.hanging:HangingStage", "settings": settings}
    with pytest.raises(FastLoopError, match=rf"structures\(\) raised {TEXTS[kind]}"):
        train(CONFIG, {"nodes.extra": [node]})
    assert not list(tmp_path.glob("runs/*/*"))
