"""Checkpoints: what a killed run goes on from, and that going on changes nothing."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from fast_core.launcher.checkpoints.store import SCHEDULER_FILE, newest_valid
from fast_core.monitor.checkpoint_files import LEARNER_FILE, complete_names
from fast_core.system.state_file import load
from tests.forms import slow_but
from tests.process.harness import Launched, Workplace, digests, eventually, read_lines
from tests.process.test_equality import TASKS, task

pytestmark = pytest.mark.process

ROWS = 64  # of a ticket
TICKETS = 40
UPDATES_PER_TICKET = 4
# What of the scheduler's state is about time, and differs between any two runs.
TIMES = {"elapsed_s": 0.0} | {
    f"time_{side}{waits}_s": 0.0 for side in ("collecting", "training") for waits in ("", "_waits")
}


UNREWARDED = task("FrozenLake-v1")  # a checkpoint in the middle of most counts
UNREWARDED["environment"] |= {"no_reward_timeout_steps": 5, "no_reward_penalty": -0.5}
PRICED = task("examples.road:Road-v0")  # with a column that the environment writes
PRICED["algorithm"] = {
    "name": "examples.ppo_lagrangian:PPOLagrangianConfig",
    "cost_limit": 0.1,
    **{key: PRICED["algorithm"][key] for key in ("hidden_sizes", "minibatch_size", "epochs")},
}
OWN = task("CartPole-v1")
OWN["algorithm"] |= {"name": "examples.a2c:A2CConfig", "recurrent": "gru"}
SERVED = TASKS["discrete, normalised"] | {"policy": {"placement": "node"}}
CASES = {
    **TASKS,
    "cut without reward": UNREWARDED,
    "priced": PRICED,
    "own loss": OWN,
    "policy node": SERVED,
}
# The choices of the second one are discrete, and its policy remembers.
RESUMED = ("continuous, normalised", "own loss", "cut without reward", "priced", "policy node")


def config(name: str, **changes: Any) -> dict[str, Any]:
    return {
        **CASES[name],
        "checkpoint": {"every_updates": 5 * UPDATES_PER_TICKET, "keep": 100},
        "stop": {"env_steps": TICKETS * ROWS},
        **changes,
    }


def kill_after(launched: Launched, tickets: int) -> None:
    """Kill the launcher once so many tickets have been trained on and it can be gone on with.

    Training does not wait for a replay to be written.
    """

    def trained() -> bool:
        return has_run(launched) and len(digests(launched.run)) >= tickets

    eventually(trained, "training", within_s=60)
    eventually(lambda: complete_names(launched.run / "checkpoints"), "a checkpoint")
    launched.signal(signal.SIGKILL)
    assert launched.wait() == 128 + signal.SIGKILL, "it ended by itself: nothing was cut"
    launched.assert_gone()


def has_run(launched: Launched) -> bool:
    return any((launched.home / "runs").glob("*/*/events.jsonl"))


def scheduler_state(checkpoint: Path) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.msgpack.decode((checkpoint / SCHEDULER_FILE).read_bytes())
    return found


def files(checkpoint: Path) -> dict[str, bytes]:
    """What a checkpoint holds, by name."""
    return {path.name: path.read_bytes() for path in checkpoint.iterdir()}


def assert_same(resumed: Path, whole: Path, *others: str) -> None:
    """Two checkpoints differ in times and lives alone, and in these of the scheduler's state."""
    ours, theirs = files(resumed), files(whole)
    assert ours.keys() == theirs.keys()
    differ = {name for name in ours if ours[name] != theirs[name]}
    assert differ <= {SCHEDULER_FILE, "manifest.json"}
    mine, other = scheduler_state(resumed), scheduler_state(whole)
    same = {**TIMES, "incarnations": [], **dict.fromkeys(others)}
    assert mine | same == other | same


def killed_again_and_again(
    workplace: Workplace, config: dict[str, Any], victims: Sequence[str], kills: int, step_s: float
) -> Launched:
    """Promise 9: one after the other is killed at moments spread over a checkpoint."""
    run = workplace.launch(config=config)
    for kill in range(kills):
        last = complete_names(run.run / "checkpoints")[-1:] if has_run(run) else []

        def another(last: list[str] = last, run: Launched = run) -> bool:
            return has_run(run) and complete_names(run.run / "checkpoints")[-1:] > last

        eventually(another, f"another checkpoint\n{run.screen}")
        time.sleep(step_s * kill)
        victim = victims[kill % len(victims)]
        os.kill(run.pid if victim == "launcher" else run.node(victim), signal.SIGKILL)
        run.ends(137 if victim == "launcher" else 1)
        path, manifest, notes = newest_valid(run.run / "checkpoints")
        assert notes == [], "no checkpoint was ever half there"
        assert load(path / LEARNER_FILE)["version"] == manifest.version
        run = workplace.resume(run)
    return run


@pytest.fixture(scope="module")
def whole() -> Iterator[Path]:
    """The runs folder of a run that is over, which several tests begin with; not to be changed."""
    place = Workplace()
    launched = place.launch(config=config("discrete"))
    launched.ends()
    yield launched.home / "runs"
    place.close()


@pytest.fixture
def finished(whole: Path, workplace: Workplace) -> Path:
    """The directory of that run, in a folder of the test's own."""
    runs = workplace.folder() / "runs"
    shutil.copytree(whole, runs)
    (run,) = runs.glob("*/*/")
    return run


def go_on(workplace: Workplace, run: Path, *overrides: str) -> Launched:
    return workplace.fastloop(["resume", str(run), *overrides], run.parents[2])


@pytest.mark.parametrize("name", slow_but(RESUMED[:1], RESUMED))
def test_killed_and_resumed_run_equals_the_run_never_stopped(
    workplace: Workplace, name: str
) -> None:
    """CKPT-01, CKPT-04, CKPT-09: also with another number of env nodes."""
    whole = workplace.launch("nodes.env.count=2", config=config(name), fresh=True).done()

    # Slowed, so that it can't end before it is killed; delays change nothing else.
    cut = workplace.launch("nodes.env.count=2", "diagnostics.delay_ms=8", config=config(name))
    kill_after(cut, TICKETS // 2)
    resumed = workplace.resume(cut, "nodes.env.count=1").ends()

    assert digests(resumed.run) == digests(whole.run)
    names = complete_names(whole.run / "checkpoints")
    assert names == [f"{ROWS * tickets:012d}" for tickets in range(5, TICKETS + 1, 5)]
    assert complete_names(resumed.run / "checkpoints") == names

    checkpoints = [run.run / "checkpoints" / names[-1] for run in (resumed, whole)]
    assert_same(*checkpoints)
    mine, other = map(scheduler_state, checkpoints)
    assert [n + 1 for n in other["incarnations"]] == mine["incarnations"]


@pytest.mark.slow
def test_resumed_run_counts_on(workplace: Workplace) -> None:
    """CKPT-04: totals, names and the time axis go on; metrics neither repeat nor go back."""
    values = config("discrete", metrics={"interval_s": 0.01, "tensorboard": False})
    cut = workplace.launch("diagnostics.delay_ms=8", config=values)
    kill_after(cut, TICKETS // 2)
    before = scheduler_state(newest_valid(cut.run / "checkpoints")[0])
    workplace.resume(cut).done()
    after = scheduler_state(newest_valid(cut.run / "checkpoints")[0])
    assert after["env_steps"] == TICKETS * ROWS
    assert after["updates"] == TICKETS * UPDATES_PER_TICKET
    assert after["elapsed_s"] > before["elapsed_s"] > 0
    assert after["checkpoint"] == TICKETS // 5
    assert after["episodes"] > before["episodes"]
    steps = [row["env_steps"] for row in read_lines(cut.run / "metrics.jsonl")]
    assert steps == sorted(set(steps))
    assert steps[-1] == TICKETS * ROWS


def test_resume_of_a_finished_run_with_more_to_do(workplace: Workplace, finished: Path) -> None:
    go_on(workplace, finished, f"stop.env_steps={(TICKETS + 5) * ROWS}").done()
    assert sorted(digests(finished)) == list(range(TICKETS + 5))


@pytest.mark.slow
def test_schedule_does_not_follow_a_limit_that_is_raised(workplace: Workplace) -> None:
    """A run that stops early and goes on equals the one that went all the way at once."""
    limit = TICKETS * ROWS
    schedule = "algorithm.learning_rate_schedule=linear"
    whole = workplace.launch(schedule, config=config("discrete"))
    early = ("stop.env_steps=640", f"horizon_env_steps={limit}")
    short = workplace.launch(schedule, *early, config=config("discrete"))
    assert (whole.wait(), short.wait()) == (0, 0), whole.screen + short.screen
    workplace.resume(short, f"stop.env_steps={limit}").done()
    assert digests(short.run) == digests(whole.run)
    over = workplace.resume(short, f"stop.env_steps={limit + ROWS}")
    assert over.wait() != 0
    assert f"horizon_env_steps={limit + ROWS}" in over.screen


def test_new_run_may_begin_at_anothers_checkpoint(workplace: Workplace, finished: Path) -> None:
    home, before = finished.parents[2], set(finished.rglob("*"))
    more = ["--resume", str(finished), f"stop.env_steps={(TICKETS + 5) * ROWS}"]
    second = workplace.launch(*more, config=config("discrete"), home=home).done()
    assert second.run != finished and set(finished.rglob("*")) == before
    assert sorted(digests(second.run)) == list(range(TICKETS, TICKETS + 5))


def test_damaged_checkpoint_is_set_aside_and_said_so(workplace: Workplace, finished: Path) -> None:
    """CKPT-03: the newest is cut by one byte."""
    expected = digests(finished)
    folder = finished / "checkpoints"
    *_, previous, newest = complete_names(folder)
    learner = folder / newest / LEARNER_FILE
    learner.write_bytes(learner.read_bytes()[:-1])

    resumed = go_on(workplace, finished).done()
    assert f"checkpoint {newest} is damaged: {LEARNER_FILE}" in resumed.screen
    assert (folder / f"{newest}.damaged" / LEARNER_FILE).exists()
    assert digests(finished) == expected
    rows = [event for event in resumed.events() if event["what"] == "digest"]
    assert len(rows) == TICKETS + 5, "the last five tickets were trained on again"
    assert complete_names(folder)[-2:] == [previous, newest]


@pytest.mark.slow
def test_optimizer_state_keeps_its_types(workplace: Workplace) -> None:
    """CKPT-05: numbers come back as numbers, arrays as arrays of the same dtype."""
    run = workplace.launch(config=config("continuous, normalised")).done()
    newest, _, _ = newest_valid(run.run / "checkpoints")
    state = load(newest / LEARNER_FILE)
    assert type(state["version"]) is int
    kinds: set[type] = set()

    def visit(value: object) -> None:
        kinds.add(type(value))
        for item in value.values() if isinstance(value, dict) else ():
            visit(item)

    visit(state)
    assert kinds <= {dict, int, float, str, bool, type(None), np.ndarray, list}
    assert {int, np.ndarray} <= kinds


@pytest.mark.parametrize("kills", slow_but([3], [3, 5]))
def test_newest_complete_checkpoint_always_loads(workplace: Workplace, kills: int) -> None:
    values = config(
        "discrete",
        checkpoint={"every_updates": UPDATES_PER_TICKET, "keep": 2},
        stop={"time_s": 60},
        diagnostics={},
    )
    killed_again_and_again(workplace, values, ("launcher", "optimizer-0"), kills, 0.0013)


def test_run_of_another_kind_is_refused(workplace: Workplace, finished: Path) -> None:
    other = go_on(workplace, finished, "rollout.shards=2")
    assert other.wait() == 2
    last = other.screen.strip().splitlines()[-1]
    assert "rollout must be as in the checkpoint" in last
    other.assert_gone()


def test_run_without_checkpoint_can_not_be_resumed(workplace: Workplace, finished: Path) -> None:
    shutil.rmtree(finished / "checkpoints")
    other = go_on(workplace, finished)
    assert other.wait() == 1
    assert "no complete checkpoint" in other.screen
    assert "Traceback" not in other.screen
