"""Several optimizers in processes of their own: equal, caught when not, gone when one dies."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.forms import slow_but
from tests.process.failing import DRIFTS_AT
from tests.process.harness import Launched, Workplace, assert_first_cause_is_last, eventually
from tests.process.replay_runs import (
    DISCRETE,
    ENDLESS,
    ROWS,
    TICKETS,
    TOGETHER,
    assert_death_ends_the_run,
    finished,
    granted,
    learning,
    reached,
)

pytestmark = pytest.mark.process

GLOO = "nodes.optimizer.collective=gloo"
THREE: dict[str, Any] = TOGETHER | {
    "algorithm": {"name": "dsact", "hidden_sizes": [8], "batch_size": 15, "n_step": 2},
    "nodes": {"env": {"count": 1}, "optimizer": {"count": 3, "threads": 1}},
}
LISTENING = "0A"


def listeners(launched: Launched) -> set[str]:
    """Addresses, as /proc/net/tcp has them, on which its processes wait for connections."""
    own = set()
    for process in launched.members():
        for path in Path(f"/proc/{process.pid}/fd").glob("*"):
            try:
                own.add(os.readlink(path))
            except OSError:
                continue
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == LISTENING and f"socket:[{words[9]}]" in own:
                found.add(words[1].partition(":")[0])
    return found


@pytest.mark.slow
def test_three_replicas_equal_inline_and_one_another_at_every_version(workplace: Workplace) -> None:
    """`diagnostics.digests` has them compared before each step."""
    reference = finished(workplace.launch("mode=inline", config=THREE))
    assert finished(workplace.launch("diagnostics.delay_ms=2", config=THREE)) == reference


@pytest.mark.slow
def test_gloo_takes_the_same_steps_as_shared_memory(workplace: Workplace) -> None:
    """Two numbers have one sum, so two replicas agree to the last bit."""
    launched = workplace.launch(GLOO, config=TOGETHER)
    assert finished(launched) == finished(workplace.launch(config=TOGETHER))
    launched.assert_gone()
    assert not list(launched.home.rglob("optimizers-*")), "where they met"


@pytest.mark.slow
def test_gloo_listens_on_the_loopback_alone_and_a_dead_replica_ends_the_run(
    workplace: Workplace,
) -> None:
    """The one that the others met at; `test_replay_endings` kills others."""
    launched = learning(workplace, GLOO)
    assert listeners(launched) == {"0100007F"}, "the loopback alone"
    assert_death_ends_the_run(launched, "optimizer-0")


@pytest.mark.slow
def test_replica_that_dies_before_they_meet_leaves_no_meeting_point(workplace: Workplace) -> None:
    launched = workplace.launch(GLOO, config=ENDLESS)
    victim = launched.node("optimizer-1")
    os.kill(victim, signal.SIGSTOP)  # so that the other one waits for it

    def meeting_points() -> list[Path]:
        return list(launched.home.rglob("optimizers-*"))

    eventually(meeting_points, f"a meeting point\n{launched.screen}")
    os.kill(victim, signal.SIGKILL)
    launched.ends_soon(1)
    assert not meeting_points()
    assert "First cause: node 'optimizer-1'" in launched.screen


@pytest.mark.slow
@pytest.mark.parametrize("collective", slow_but(["shared"], ["shared", "gloo"]))
def test_run_ends_in_time_while_a_replica_hangs(workplace: Workplace, collective: str) -> None:
    """The other one waits for its vector; nobody waits for that."""
    launched = learning(
        workplace, f"nodes.optimizer.collective={collective}", "supervision.save_s=0.5"
    )
    os.kill(launched.node("optimizer-1"), signal.SIGSTOP)
    time.sleep(0.3)
    launched.signal(signal.SIGINT)
    launched.wait()
    launched.assert_gone()


def test_replica_that_differs_by_one_bit_ends_the_run(workplace: Workplace) -> None:
    algorithm = DISCRETE["algorithm"] | {"name": "failing:FailingConfig", "fault": "drift"}
    launched = workplace.launch(
        "diagnostics.digests=true", config=ENDLESS | {"algorithm": algorithm}
    ).ends(1)
    assert_first_cause_is_last(launched, "must stay equal")
    told = launched.screen.strip().splitlines()[-1]
    assert f"before step {DRIFTS_AT + 1} of this part of the run" in told
    assert "optimizer-0 has the hash " in told and "optimizer-1 " in told


@pytest.mark.parametrize("update", slow_but([], ["allreduce", "async"]))
def test_resumed_optimizers_go_on_together(workplace: Workplace, update: str) -> None:
    """With allreduce bit for bit as a run that never stopped, each with its own noise."""
    # The exponent of importance weights would follow the limit, which the two parts have apart.
    given = (f"nodes.optimizer.update={update}", "replay.prioritized=false")
    half = TICKETS // 2
    first = workplace.launch(*given, f"stop={{env_steps: {half * ROWS}}}", config=THREE).done()
    resumed = workplace.resume(first, f"stop={{env_steps: {TICKETS * ROWS}}}").done()
    assert reached(resumed) == (TICKETS * ROWS, granted(TICKETS * ROWS))
    if update == "allreduce":
        whole = finished(workplace.launch(*given, "mode=inline", config=THREE))
        found = finished(resumed)
        assert found == whole
