"""Nodes on several hosts, each with memory and processes of its own; all of them on this machine.

No key of the configuration offers it yet (`tests.process.placed`).
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.forms import slow_but
from tests.process import replay_runs
from tests.process.harness import (
    TOY,
    Launched,
    Workplace,
    assert_first_cause_is_last,
    digests,
    eventually,
)
from tests.process.test_equality import TASKS

pytestmark = pytest.mark.process

TICKET = 2 * 2 * 8
EVALUATED = {**TASKS["discrete"], "evaluation": {"every_env_steps": 256, "mode": "sync"}}
# The replay's rows, overwritten on the way, and shares of a checkpoint that two hosts write.
REPLAYED = {**replay_runs.CONTINUOUS, "stop": {"env_steps": 30 * replay_runs.ROWS}}
PATIENT: dict[str, Any] = {
    **TOY,
    "environment": {**TOY["environment"], "kwargs": {"step_s": 0.002, "length": 50}},
    "supervision": {"restarts": {"env": 1, "on_error": "restart"}},
    "stop": {"env_steps": 40 * TICKET},
}


def launch(
    workplace: Workplace, places: Mapping[str, str], config: Mapping[str, Any], *overrides: str
) -> Launched:
    home = workplace.folder()
    (home / "config.yaml").write_text(yaml.safe_dump(dict(config)))
    where = ",".join(f"{node}={place}" for node, place in places.items())
    arguments = ["-m", "tests.process.placed", where, "config.yaml", *overrides]
    return workplace.start(arguments, home=home)


def steward(launched: Launched, place: str) -> int:
    return launched.node(f"steward@{place}")


def segments(pid: int) -> set[str]:
    """The shared memory that a process has mapped, by its number in the kernel."""
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return {line.split()[4] for line in lines if "memfd:" in line or "/dev/shm/" in line}


CASES = (
    ("two hosts", EVALUATED, {"env-0": "b", "env-1": "c", "evaluator-0": "c"}),
    ("replay", REPLAYED, {"env-0": "b", "env-1": "c"}),
    ("some here", TASKS["discrete, normalised"], {"env-1": "b"}),
    ("stacks", {**replay_runs.DISCRETE, "stop": REPLAYED["stop"]}, {"env-0": "b"}),
)


@pytest.mark.parametrize(("name", "config", "places"), slow_but(CASES[:1], CASES))
def test_what_is_computed_has_nothing_to_do_with_where(
    workplace: Workplace, name: str, config: dict[str, Any], places: dict[str, str]
) -> None:
    config = {**config, "nodes": {"env": {"count": 2}}}
    reference = workplace.launch("mode=inline", config=config)
    launched = launch(workplace, places, config)
    assert reference.wait() == 0, reference.screen
    launched.ends()
    assert len(digests(reference.run)) > 20
    assert digests(launched.run) == digests(reference.run)


@pytest.mark.slow
def test_each_host_has_memory_and_processes_of_its_own(workplace: Workplace) -> None:
    launched = launch(workplace, {"env-1": "b"}, PATIENT, "stop={time_s: 60}")
    launched.await_training()
    nodes = {name: launched.node(name) for name in ("env-0", "env-1", "optimizer-0")}
    here, there = segments(nodes["env-0"]), segments(nodes["env-1"])
    assert here and there and not here & there
    assert segments(nodes["optimizer-0"]) == here
    servers = {
        line.split()[1]
        for pid in nodes.values()
        for line in Path(f"/proc/{pid}/status").read_text().splitlines()
        if line.startswith("PPid:")
    }
    assert len(servers) == 2
    launched.interrupted()


@pytest.mark.slow
def test_node_that_is_killed_elsewhere_comes_back_there(workplace: Workplace) -> None:
    launched = launch(workplace, {"env-1": "b"}, PATIENT)
    launched.await_training()
    first = launched.node("env-1")
    os.kill(first, signal.SIGKILL)
    launched.ends()
    said = launched.told("node lost")
    assert len(said) == 1 and said[0].startswith("env-1 is gone: was killed by SIGKILL")
    assert launched.told("node back") == ["env-1 is ready again"]


@pytest.mark.slow
def test_node_that_raises_elsewhere_comes_back_there(workplace: Workplace) -> None:
    kwargs = {"fault": "raise", "folder": str(workplace.folder())}
    config = {**PATIENT, "environment": {**TOY["environment"], "kwargs": kwargs}}
    launched = launch(workplace, {"env-0": "b", "env-1": "b"}, config).ends()
    assert "bad joint 7" in (launched.run / "crash.txt").read_text()
    assert [e["what"] for e in launched.events()].count("node back") == 1


@pytest.mark.slow
def test_what_a_node_raises_elsewhere_is_the_first_cause(workplace: Workplace) -> None:
    home = workplace.folder()
    kwargs = {"fault": "raise", "folder": str(home)}
    config = {**TOY, "environment": {**TOY["environment"], "kwargs": kwargs}}
    launched = launch(workplace, {"env-0": "b", "env-1": "b"}, config).ends(1)
    assert_first_cause_is_last(launched, "bad joint 7")


@pytest.mark.slow
def test_node_that_hangs_elsewhere_is_found_by_its_own_steward(workplace: Workplace) -> None:
    home = workplace.folder()
    kwargs = {"fault": "sleep", "folder": str(home)}
    environment = {**TOY["environment"], "kwargs": kwargs, "step_timeout_s": 1.0}
    launched = launch(
        workplace, {"env-0": "b", "env-1": "b"}, {**TOY, "environment": environment}
    ).ends(1)
    assert_first_cause_is_last(launched, "environment.step_timeout_s")
    assert "toy_envs.py" in (launched.run / "crash.txt").read_text(), "where it hangs"


@pytest.mark.slow
@pytest.mark.parametrize("who", ["launcher", "steward"])
def test_death_of_who_leads_leaves_nothing_on_any_host(workplace: Workplace, who: str) -> None:
    launched = launch(workplace, {"env-1": "b"}, PATIENT, "stop={time_s: 60}")
    launched.await_training()
    os.kill(launched.pid if who == "launcher" else steward(launched, "b"), signal.SIGKILL)
    launched.ends(137 if who == "launcher" else 1)
    if who == "steward":
        assert_first_cause_is_last(launched, "steward@b is lost: was killed by SIGKILL")


@pytest.mark.slow
def test_what_would_have_to_be_asked_across_hosts_is_refused(workplace: Workplace) -> None:
    config = {**TASKS["discrete"], "policy": {"placement": "node"}}
    launched = launch(workplace, {"env-0": "b"}, config)
    assert launched.wait() != 0
    assert "Put these nodes on one host" in launched.screen
    eventually(lambda: not launched.members(), "the end of all processes")
