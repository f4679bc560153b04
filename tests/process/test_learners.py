"""Two learners in one run, which share its env nodes: each is as it would be alone."""

from __future__ import annotations

import signal
from collections import defaultdict
from collections.abc import Iterator
from os import kill
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import yaml

from fast_core.launcher.checkpoints.store import SCHEDULER_FILE
from fast_core.monitor.checkpoint_files import complete_names
from tests.process.harness import (
    Launched,
    Workplace,
    assert_first_cause_is_last,
    digests,
    eventually,
    read_lines,
)
from tests.process.test_equality import TASKS
from tests.process.two_learners import OTHER_SEED

pytestmark = pytest.mark.process

FIRST, SECOND = "optimizer-0", "optimizer-b-0"
TICKETS, ROWS, UPDATES = 60, 32, 2  # rows and updates of a ticket of one of them
CONFIG: dict[str, Any] = {
    **TASKS["discrete, normalised"],
    "name": "two",
    "nodes": {"env": {"count": 2}},
    "checkpoint": {"every_updates": 20 * UPDATES},
    "stop": {"env_steps": TICKETS * ROWS},
}
KILLED = ("supervision.restarts.env=2", "diagnostics.delay_ms=6")  # and not over at once


def launch(workplace: Workplace, *overrides: str) -> Launched:
    """Begin a run of two learners."""
    home = workplace.folder()
    (home / "config.yaml").write_text(yaml.safe_dump(CONFIG))
    return workplace.start(["-m", "two_learners", "launch", "config.yaml", *overrides], home=home)


def of_each(run: Path) -> dict[str, list[str]]:
    """Digests of each optimizer after each of its tickets; of those met twice the last."""
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for event in read_lines(run / "events.jsonl"):
        if event["what"] == "digest":
            facts = event["facts"]
            found[facts.get("node", FIRST)][event["why"]] = facts["digest"]
    return {node: [*each.values()] for node, each in found.items()}


def trains(launched: Launched) -> bool:
    """Whether both have trained on some tickets."""
    if not (launched.home / "runs").exists() or not [*(launched.home / "runs").glob("*/*/")]:
        return False
    found = of_each(launched.run)
    return len(found) == 2 and min(map(len, found.values())) > 5


@pytest.fixture(scope="module")
def alone() -> Iterator[dict[str, list[str]]]:
    """Digests of each in a run of its own, with the shards that it has in the run of two."""
    place = Workplace()
    found = {}
    for node, seed in ((FIRST, 0), (SECOND, OTHER_SEED)):
        given = ("mode=inline", f"seed={seed}", "rollout.shards=2")
        launched = place.launch(*given, config=CONFIG)
        assert launched.wait() == 0, launched.screen
        found[node] = [*digests(launched.run).values()]
        assert len(found[node]) == TICKETS
    yield found
    place.close()


def test_each_learner_equals_bit_for_bit_the_run_that_it_would_be_alone(
    workplace: Workplace, alone: dict[str, list[str]]
) -> None:
    assert alone[FIRST] != alone[SECOND]
    launched = launch(workplace, "diagnostics.delay_ms=2").ends()
    assert of_each(launched.run) == alone
    end = launched.events()[-1]["why"]
    assert f"{TICKETS * ROWS} env steps" in end and f"b: {TICKETS * ROWS} env steps" in end


def test_death_of_an_env_node_leaves_the_learner_alone_that_it_did_not_collect_for(
    workplace: Workplace, alone: dict[str, list[str]]
) -> None:
    launched = launch(workplace, *KILLED)
    eventually(lambda: trains(launched), "training")
    kill(launched.node("env-1"), signal.SIGKILL)
    launched.ends()
    assert "node back" in {event["what"] for event in launched.events()}
    found = of_each(launched.run)
    assert found[FIRST] == alone[FIRST]
    assert len(found[SECOND]) == TICKETS and found[SECOND] != alone[SECOND]


@pytest.mark.slow
def test_death_of_one_optimizer_ends_the_run_of_both(workplace: Workplace) -> None:
    launched = launch(workplace, *KILLED)
    eventually(lambda: trains(launched), "training")
    kill(launched.node(SECOND), signal.SIGKILL)
    launched.ends(1)
    assert_first_cause_is_last(launched, f"{SECOND} was killed by SIGKILL")


@pytest.mark.slow
def test_killed_and_resumed_each_learner_equals_the_one_that_never_stopped(
    workplace: Workplace, alone: dict[str, list[str]]
) -> None:
    launched = launch(workplace, *KILLED)
    eventually(lambda: trains(launched), "training")
    eventually(lambda: complete_names(launched.run / "checkpoints"), "a checkpoint")
    launched.signal(signal.SIGKILL)
    launched.wait()
    launched.assert_gone()
    assert min(map(len, of_each(launched.run).values())) < TICKETS
    arguments = ["-m", "two_learners", "resume", str(launched.run)]
    resumed = workplace.start(arguments, home=launched.home).ends()
    assert of_each(resumed.run) == alone


@pytest.mark.slow
def test_run_comes_back_after_the_death_of_one_optimizer(
    workplace: Workplace, alone: dict[str, list[str]]
) -> None:
    launched = launch(workplace, "supervision.restarts.optimizer=1", *KILLED)
    eventually(lambda: trains(launched), "training")
    kill(launched.node(SECOND), signal.SIGKILL)
    launched.ends()
    assert "came back      once after the death of an optimizer" in launched.screen
    assert of_each(launched.run) == alone


@pytest.mark.slow
def test_both_learn(workplace: Workplace) -> None:
    """A random policy's episodes last some 22 steps."""
    launched = launch(
        workplace,
        "algorithm={name: ppo, hidden_sizes: [64, 64]}",
        "rollout={shards: 4, envs_per_shard: 4, steps: 64}",
        "checkpoint={every_updates: null, at_end: true}",
        "diagnostics.digests=false",
        "stop.env_steps=60_000",
    ).done()
    (checkpoint,) = complete_names(launched.run / "checkpoints")
    state = (launched.run / "checkpoints" / checkpoint / SCHEDULER_FILE).read_bytes()
    first = msgspec.msgpack.decode(state)
    for kept in (first, msgspec.msgpack.decode(first["flows"]["b"])):
        assert kept["env_steps"] >= 60_000
        assert np.mean(kept["recent_returns"]) > 150
