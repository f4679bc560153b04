"""A part of the user's brings a second reader of the replay, which answers every ticket."""

from __future__ import annotations

import os
import signal
import time

import pytest

from tests.process.harness import Workplace, digests, eventually
from tests.process.replay_runs import TASKS, WARM_UP, finished, metrics
from tests.process.test_replay_restarts import back
from tests.process.test_resume import has_run

pytestmark = pytest.mark.process

CENSUS = {"part": "examples.replay_census:Census", "settings": {"rows": 16, "cell": 0.5}}
CONFIG = TASKS["continuous"] | {
    "supervision": {"restarts": {"backoff_s": 0.001, "max_backoff_s": 0.001}},
    "nodes": {**TASKS["continuous"].get("nodes", {}), "parts": [CENSUS]},
}


def test_killed_reader_comes_back_as_its_role_says_and_changes_no_bit(workplace: Workplace) -> None:
    whole = finished(workplace.launch(config=TASKS["continuous"]))
    run = workplace.launch("diagnostics.delay_ms=8", config=CONFIG)
    eventually(lambda: has_run(run) and len(digests(run.run)) > WARM_UP, f"learning\n{run.screen}")
    for kills in range(2):
        os.kill(run.node("census"), signal.SIGKILL)
        eventually(lambda n=kills: back(run) > n, f"its successor\n{run.screen}")  # type: ignore[misc]
        time.sleep(0.02)
    assert finished(run) == whole
    lost = run.told("node lost")
    left = [f"{n} more such deaths would be survived (`deaths` of its Role)" for n in (1, 0)]
    assert [why.endswith(text) for why, text in zip(lost, left, strict=True)] == [True, True]
    assert any("census/cells" in row for row in metrics(run))
    run.assert_gone()


def test_death_beyond_what_its_role_allows_ends_the_run(workplace: Workplace) -> None:
    config = CONFIG | {"stop": {"env_steps": 10_000_000}}
    run = workplace.launch(config=config)
    run.await_training()
    for kills in range(2):
        os.kill(run.node("census"), signal.SIGKILL)
        eventually(lambda n=kills: back(run) > n, f"its successor\n{run.screen}")  # type: ignore[misc]
    os.kill(run.node("census"), signal.SIGKILL)
    assert run.wait(60) != 0
    assert "census was killed by SIGKILL" in run.screen
    run.assert_gone()
