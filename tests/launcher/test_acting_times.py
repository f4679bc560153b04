"""What acting takes policy nodes, by counters that are written by hand."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from fast_core.config import PolicyConfig
from fast_core.launcher.acting_times import INTERVAL_S, ActingTimes
from fast_core.memory import StatsColumn
from fast_core.messages.launching import Acted
from fast_core.nodes.node import NodeState
from tests.nodes.stage import Stage, make_config

NODE, OTHER = "policy-0", "policy-1"


def test_only_what_was_done_since_the_last_look_counts_the_state_under_way_included(
    tmp_path: Path,
) -> None:
    stage = Stage(tmp_path, make_config(policy=PolicyConfig(placement="node")))
    rows = {name: stage.memory.stats(name) for name in (NODE, OTHER)}
    times, words = ActingTimes(rows), rows[NODE].words
    words[StatsColumn.REQUESTS], words[StatsColumn.BUSY_NS] = 7, 5_000_000_000
    assert times.look(0.0) == [], "nothing to compare with"
    words[StatsColumn.REQUESTS], words[StatsColumn.BUSY_NS] = 17, 6_000_000_000
    assert times.look(INTERVAL_S / 2) == [], "it is not time"
    assert times.look(INTERVAL_S) == [Acted(NODE, 10, 1.0)], "the other one did nothing"
    words[StatsColumn.REQUESTS] = 18
    words[StatsColumn.STATE] = NodeState.ACTING
    words[StatsColumn.STATE_SINCE_NS] = time.monotonic_ns() - 2_000_000_000
    (acted,) = times.look(2 * INTERVAL_S)
    assert acted.busy_s == pytest.approx(2.0, abs=0.5)
