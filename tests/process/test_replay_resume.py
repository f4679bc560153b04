"""What a killed run that learns from replay goes on from, and that going on changes nothing."""

from __future__ import annotations

import signal
import time
from typing import Any

import pytest

from fast_core.launcher.checkpoints.store import newest_valid
from fast_core.monitor.checkpoint_files import complete_names
from tests.forms import slow_but
from tests.process.harness import FIGURES, GONE_WITHIN_S, Workplace, digests
from tests.process.replay_runs import (
    CONTINUOUS,
    ENDLESS,
    PICTURES,
    ROWS,
    TASKS,
    TICKETS,
    WARM_UP,
    finished,
    last_metrics,
)
from tests.process.test_resume import (
    assert_same,
    kill_after,
    killed_again_and_again,
    scheduler_state,
)

pytestmark = pytest.mark.process

# "options", "own networks" and "remembering" have two optimizers.
CASES = [*(name for name in TASKS if name != "two optimizers"), "pictures"]
EVERY = 60  # optimizer steps between two checkpoints


def saving(config: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return config | {"checkpoint": {"every_updates": EVERY, "keep": 100, **changes}}


@pytest.mark.parametrize("name", slow_but(["continuous", "declared columns"], CASES))
def test_killed_and_resumed_run_equals_the_run_never_stopped(
    workplace: Workplace, name: str
) -> None:
    """CKPT-01: learners, replay, priorities, what is answered but not applied, the ratio."""
    # Those of one's own take torch, by the second.
    tickets = 24 if name == "own networks" else TICKETS
    config = saving(PICTURES if name == "pictures" else TASKS[name])
    config |= {"stop": {"env_steps": tickets * ROWS}}
    whole = workplace.launch(config=config, fresh=True)
    finished(whole, tickets)

    # So that it can't end before it is killed; two optimizers have many messages for each step.
    delay_ms = 2 if name in ("options", "own networks", "remembering") else 8
    cut = workplace.launch(f"diagnostics.delay_ms={delay_ms}", config=config)
    kill_after(cut, tickets // 2)
    resumed = workplace.resume(cut, "nodes.env.count=1").ends()

    assert digests(resumed.run) == digests(whole.run)
    # Not all have the same names: one that is due while another is being written waits for it.
    last = f"{tickets * ROWS:012d}"
    checkpoints = [run.run / "checkpoints" / last for run in (resumed, whole)]
    assert_same(*checkpoints, "checkpoint")


@pytest.mark.slow
def test_run_without_its_replay_fills_it_anew_and_learns_on(workplace: Workplace) -> None:
    config = saving(CONTINUOUS, replay=False)
    run = workplace.launch(config=config)
    finished(run)
    newest, _, _ = newest_valid(run.run / "checkpoints")
    assert not list(newest.glob("replay-*"))
    before = scheduler_state(newest)
    more = 20
    resumed = workplace.resume(run, f"stop.env_steps={(TICKETS + more) * ROWS}").done()
    newest, _, _ = newest_valid(run.run / "checkpoints")
    after = scheduler_state(newest)
    assert after["updates"] - before["updates"] == (more - WARM_UP) * ROWS * 3 // 10
    found = digests(run.run)
    refilled = {found[ticket] for ticket in range(TICKETS, TICKETS + WARM_UP)}
    assert refilled == {found[TICKETS - 1]}, "nothing is learned from a replay being filled"
    assert last_metrics(resumed)["replay/empty_batches"] == 0


@pytest.mark.slow
def test_replay_left_out_later_is_no_other_run(workplace: Workplace) -> None:
    """What a checkpoint holds is used, whether or not the next one will hold it."""
    run = workplace.launch(config=saving(CONTINUOUS))
    finished(run)
    newest, _, _ = newest_valid(run.run / "checkpoints")
    before = scheduler_state(newest)
    end = f"stop.env_steps={(TICKETS + 5) * ROWS}"
    workplace.resume(run, end, "checkpoint.replay=false").done()
    newest, _, _ = newest_valid(run.run / "checkpoints")
    assert scheduler_state(newest)["updates"] - before["updates"] == 5 * ROWS * 3 // 10
    assert not list(newest.glob("replay-*"))


@pytest.mark.slow
def test_damaged_replay_is_set_aside_with_its_checkpoint(workplace: Workplace) -> None:
    """CKPT-03: one byte of a file of rows is missing."""
    run = workplace.launch(config=saving(CONTINUOUS))
    expected = finished(run)
    folder = run.run / "checkpoints"
    newest = complete_names(folder)[-1]
    rows = max((folder / newest).glob("replay-*"), key=lambda path: path.stat().st_size)
    rows.write_bytes(rows.read_bytes()[:-1])

    resumed = workplace.resume(run).done()
    assert f"checkpoint {newest} is damaged: {rows.name}" in resumed.screen
    assert (folder / f"{newest}.damaged").is_dir()
    assert digests(run.run) == expected
    again = [event for event in run.events() if event["what"] == "digest"]
    assert len(again) > TICKETS, "the last tickets were trained on again"


@pytest.mark.slow
def test_ctrl_c_saves_the_replay_and_the_run_goes_on(workplace: Workplace) -> None:
    launched = workplace.launch(FIGURES, config=ENDLESS)
    launched.await_update()
    launched.signal(signal.SIGINT)
    begun_s = time.monotonic()
    assert launched.wait() == 128 + signal.SIGINT, launched.screen
    assert time.monotonic() - begun_s < GONE_WITHIN_S
    launched.assert_gone()
    assert "Traceback" not in launched.screen
    path, manifest, _ = newest_valid(launched.run / "checkpoints")
    assert list(path.glob("replay-*"))
    workplace.resume(launched, f"stop={{env_steps: {manifest.env_steps + 10 * ROWS}}}").ends()


@pytest.mark.slow
def test_newest_complete_checkpoint_always_loads(workplace: Workplace) -> None:
    """While rows are written beside training."""
    config = saving(PICTURES, every_updates=20, keep=2) | {"stop": {"time_s": 60}}
    victims = ("launcher", "replay-0", "optimizer-0", "env-0")
    killed_again_and_again(workplace, config, victims, 6, 0.004).await_training()
