"""Runs at once get what the machine has, evenly."""

from __future__ import annotations

import pytest

from fast_core.config.algorithms import algorithm_config_type
from fast_core.config.file import loads
from fast_core.tools.sweep.share import Need, needed_cores, share

CONFIG = """\
name: x
environment: {id: Pendulum-v1}
rollout: {shards: 4}
algorithm: {name: sac}
stop: {env_steps: 10_000}
"""
SMALL = Need(cores=1, nbytes=100)


@pytest.mark.parametrize(
    ("changes", "cores"),
    [
        ([], 1),
        (["nodes.env.count=4"], 4),
        (["nodes.env.count=4", "nodes.optimizer.threads=6"], 6),
        (["nodes.env.count=4", "nodes.optimizer.threads=6", "scheduler.off_policy_degree=1"], 10),
        (["nodes.optimizer.count=2", "nodes.optimizer.threads=3"], 6),
        (["nodes.optimizer.threads=8", "nodes.optimizer.device=cuda"], 1),
        (["nodes.env.count=4", "nodes.optimizer.threads=2", "mode=inline"], 2),
        (["policy.placement=node", "nodes.policy.count=2"], 3),
    ],
)
def test_counts_that_are_stated_are_needed(changes: list[str], cores: int) -> None:
    config = loads(CONFIG, changes, algorithm_config_type, source="x")
    assert needed_cores(config) == cores


def test_cores_are_divided_evenly_and_no_core_twice() -> None:
    divided = share(3, SMALL, range(100, 116), 16, None, "auto")
    assert [len(slot) for slot in divided.slots] == [5, 5, 5]
    assert len({core for slot in divided.slots for core in slot}) == 15
    assert "3 in all" in divided.why


@pytest.mark.parametrize(
    ("need", "granted", "free", "jobs", "why"),
    [
        (SMALL, 4, None, 4, "1 core or more each of 4"),
        (Need(3, 100), 8, None, 2, "3 cores or more each of 8"),
        (Need(1, 400), 8, 1000, 2, "MiB free"),
        (Need(1, 4000), 8, 1000, 1, "MiB free"),  # which its own start refuses, or not
        (Need(9, 100), 8, None, 1, "9 cores"),
    ],
)
def test_cores_and_memory_limit_the_runs_at_once(
    need: Need, granted: int, free: int | None, jobs: int, why: str
) -> None:
    divided = share(99, need, range(granted), granted, free, "auto")
    assert divided.jobs == jobs
    assert why in divided.why


def test_quota_below_the_affinity_is_what_is_divided() -> None:
    assert share(9, SMALL, range(64), 2, None, "auto").slots == ((0,), (1,))


def test_number_that_is_given_is_taken() -> None:
    divided = share(9, Need(8, 10**12), range(2), 2, 1, 4)
    assert divided.slots == ((0,), (1,), (0,), (1,))
