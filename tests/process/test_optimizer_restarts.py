"""Optimizers that die within the budget: the run comes back from its newest checkpoint."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import Any

import pytest

from fast_core.monitor.checkpoint_files import complete_names
from tests.process.harness import Launched, Workplace, digests, eventually, read_lines, read_process
from tests.process.replay_runs import CONTINUOUS, DISCRETE, TOGETHER, granted, reached
from tests.process.replay_runs import ROWS as REPLAYED_ROWS
from tests.process.replay_runs import TICKETS as REPLAYED_TICKETS
from tests.process.test_callbacks import config as listened
from tests.process.test_replay_resume import saving
from tests.process.test_restarts import GROUPS, launch_starts
from tests.process.test_resume import ROWS, TICKETS, config, has_run

pytestmark = pytest.mark.process

ONCE = "supervision.restarts.optimizer=1"
SLOWED = "diagnostics.delay_ms=8"  # so that it can't end before it is killed


def kill(launched: Launched, node: str, tickets: int, checkpoints: int = 1) -> None:
    """Kill a node once so many tickets are trained on and there are so many checkpoints."""
    eventually(lambda: has_run(launched) and len(digests(launched.run)) >= tickets, "training")
    names = launched.run / "checkpoints"
    eventually(lambda: len(complete_names(names)) >= checkpoints, "a checkpoint")
    os.kill(launched.node(node), signal.SIGKILL)


def comebacks(launched: Launched) -> list[dict[str, Any]]:
    return [event for event in launched.events() if event["what"] == "come back"]


def test_killed_optimizer_comes_back_and_nothing_else_has_changed(workplace: Workplace) -> None:
    whole = workplace.launch(config=config("discrete"))
    cut = workplace.launch(ONCE, SLOWED, config=config("discrete"))
    kill(cut, "optimizer-0", TICKETS // 2)
    assert whole.wait() == 0, whole.screen
    cut.ends()

    assert digests(cut.run) == digests(whole.run)
    names = complete_names(whole.run / "checkpoints")
    assert complete_names(cut.run / "checkpoints") == names

    (event,) = comebacks(cut)
    before, after = event["facts"]["from_env_steps"], event["facts"]["to_env_steps"]
    assert after % (5 * ROWS) == 0 and after >= 5 * ROWS
    assert before - after < 6 * ROWS
    assert "optimizer-0 was killed by SIGKILL" in event["why"]
    assert event["why"] in cut.screen
    assert "came back" in cut.screen and "once after the death of an optimizer" in cut.screen
    assert "optimizer-0 was killed" in (cut.run / "crash.txt").read_text()
    steps = [row["env_steps"] for row in read_lines(cut.run / "metrics.jsonl")]
    assert steps == sorted(steps) and steps[-1] == TICKETS * ROWS


def test_optimizer_that_dies_between_a_steps_beginning_and_its_end_loses_no_bit(
    workplace: Workplace,
) -> None:
    """Its steps are those of an optimizer that takes each whole, too."""
    plain = saving(CONTINUOUS)
    once = workplace.folder() / "died"
    name = {"name": "tests.process.late:LateConfig", "once": str(once)}
    late = plain | {"algorithm": plain["algorithm"] | name}
    whole = workplace.launch(config=plain)
    cut = workplace.launch(ONCE, config=late, fresh=True)
    assert whole.wait() == 0, whole.screen
    assert cut.wait() == 0, cut.screen
    assert once.exists() and len(comebacks(cut)) == 1
    assert digests(cut.run) == digests(whole.run)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("update", "victim"), [("allreduce", "optimizer-1"), ("async", "optimizer-0")]
)
def test_one_of_several_optimizers_takes_the_others_back_with_it(
    workplace: Workplace, update: str, victim: str
) -> None:
    """Bit for bit with allreduce; async has the same steps, in an order of its own."""
    values = saving(TOGETHER)
    given = f"nodes.optimizer.update={update}"
    cut = workplace.launch(ONCE, SLOWED, given, config=values)
    kill(cut, victim, REPLAYED_TICKETS // 2)
    cut.ends()
    assert len(comebacks(cut)) == 1 and f"{victim} was killed" in cut.screen
    env_steps = REPLAYED_TICKETS * REPLAYED_ROWS
    assert reached(cut) == (env_steps, granted(env_steps))
    if update == "allreduce":
        whole = workplace.launch(config=values).done()
        assert digests(cut.run) == digests(whole.run)


def failing(workplace: Workplace, fault: str, *overrides: str, once: bool) -> Launched:
    home = workplace.folder()
    algorithm = DISCRETE["algorithm"] | {"name": "failing:FailingConfig", "fault": fault}
    values = DISCRETE | {"algorithm": algorithm | {"once": str(home / "failed") if once else ""}}
    values |= {"checkpoint": {"every_updates": 1000}, "stop": {"env_steps": 20 * REPLAYED_ROWS}}
    return workplace.launch(*overrides, config=values, home=home)


@pytest.mark.slow
def test_run_without_a_checkpoint_begins_once_more(workplace: Workplace) -> None:
    """What a learner that hangs leaves is no better than what a dead one does."""
    limits = ("supervision.work_timeout_s=1", "supervision.grace_s=0.1")
    cut = failing(workplace, "hang", ONCE, *limits, once=True).ends()
    (event,) = comebacks(cut)
    assert event["facts"]["to_env_steps"] == 0
    assert "no checkpoint was written yet, so the run begins once more" in event["why"]
    assert "1 s" in event["why"] and "supervision.work_timeout_s" in event["why"]
    begun = [event["what"] for event in cut.events() if event["what"] in ("start", "resume")]
    assert begun == ["start", "start"]


@pytest.mark.slow
def test_error_ends_the_run_with_its_cause_when_the_budget_is_spent(workplace: Workplace) -> None:
    again = ("supervision.restarts={optimizer: 2, on_error: restart, backoff_s: 0.1}",)
    cut = failing(workplace, "raise", *again, once=False).ends(1)
    assert len(comebacks(cut)) == 2
    assert cut.screen.strip().endswith("ValueError: the loss is a fish")
    crash = (cut.run / "crash.txt").read_text()
    assert "(incarnation 3) failed" in crash
    assert crash.strip().endswith("ValueError: the loss is a fish")
    assert crash.count("First cause") == 3


@pytest.mark.slow
def test_error_is_no_death_unless_it_is_said_to_be(workplace: Workplace) -> None:
    cut = failing(workplace, "raise", ONCE, once=True)
    assert cut.wait(60) == 1, cut.screen
    assert not comebacks(cut) and "came back" not in cut.screen


@pytest.mark.slow
@pytest.mark.parametrize("every", [5, 1000])
def test_callbacks_see_one_run_that_goes_back(workplace: Workplace, every: int) -> None:
    """They remember what they did at the checkpoint; without one, what they did at first."""
    checkpoint = {"every_updates": every * 4, "keep": 100}
    values = listened("Curriculum", "Diary", checkpoint=checkpoint)
    whole = workplace.launch(config=values)
    cut = workplace.launch(ONCE, SLOWED, config=values)
    kill(cut, "optimizer-0", TICKETS // 2, checkpoints=int(every == 5))
    assert (whole.wait(60), cut.wait(60)) == (0, 0), whole.screen + cut.screen
    assert digests(cut.run) == digests(whole.run)
    diary = (cut.run / "diary.txt").read_text().split()
    assert diary.count("made") == 1 and diary.count("start") == 2
    assert diary.count("end") == 1 and diary[-1] == "end"


@pytest.mark.slow  # tests/scheduler/test_ends.py has what is decided
def test_death_while_the_run_comes_back_is_one_of_its_budget(workplace: Workplace) -> None:
    """An env node of the second part dies as it makes its last environment."""
    kwargs = {"dies_at": 1 + GROUPS["envs_per_shard"]}  # it has tried one out
    budgets = "supervision.restarts={optimizer: 1, env: 1}"
    cut = launch_starts(
        workplace, budgets, "checkpoint.every_updates=5", "nodes.env.count=2", **kwargs
    )
    kill(cut, "optimizer-0", tickets=0)
    (cut.home / "die").touch()
    eventually(lambda: len(comebacks(cut)) == 2, "a second try")
    first, second = comebacks(cut)
    assert "(1 of 1, supervision.restarts.optimizer)" in first["why"]
    assert "(1 of 1, supervision.restarts.env)" in second["why"]
    assert second["facts"]["from_env_steps"] == second["facts"]["to_env_steps"]
    eventually(lambda: "resume" in [e["what"] for e in cut.events()], "the second part")
    victim = second["why"][: len("env-0")]
    kill(cut, victim, tickets=0)
    assert cut.wait() == 1, cut.screen
    assert "once after the death of an optimizer" in cut.screen
    assert f"1 death of nodes ({victim} 1), 1 back" in cut.screen
    assert f"node {victim!r} (incarnation 3) failed" in cut.screen
    cut.assert_gone()


@pytest.mark.slow
def test_run_that_waits_to_come_back_can_be_interrupted(workplace: Workplace) -> None:
    again = (
        "supervision.restarts={optimizer: 9, on_error: restart, backoff_s: 600, max_backoff_s: 600}"
    )
    cut = failing(workplace, "raise", again, once=False)
    eventually(lambda: "(2 of 9, " in cut.screen, "the second death")
    cut.interrupted()
    assert "Ctrl-C before training went on" in cut.screen


@pytest.mark.slow
def test_optimizer_is_killed_again_and_again(workplace: Workplace) -> None:
    """At moments spread over its start, too."""
    values = saving(DISCRETE)
    whole = workplace.launch(config=values).done()
    cut = workplace.launch(
        "supervision.restarts={optimizer: 99, backoff_s: 0.01, max_backoff_s: 0.01}",
        SLOWED,
        config=values,
    )
    for number in range(4):
        if read_process(cut.pid) is None:
            break
        with contextlib.suppress(ProcessLookupError):  # it ended just now
            os.kill(cut.node("optimizer-0"), signal.SIGKILL)
        time.sleep(0.5 * number)
    cut.ends(0, within_s=120)
    assert digests(cut.run) == digests(whole.run)


@pytest.mark.slow
def test_optimizer_that_dies_before_the_run_has_begun(workplace: Workplace) -> None:
    """It waits for its plan while the environment is being looked at."""
    cut = workplace.toy("constructor sleep", ONCE, "stop={env_steps: 64}")
    eventually((cut.home / "made").exists, "the constructor")
    server = cut.node("fork server")

    def waiting() -> list[int]:
        forked = [process for process in cut.members() if process.parent == server]
        return sorted(process.pid for process in forked if "fastloop:" not in process.command)

    eventually(lambda: len(waiting()) == 4, "nodes without a plan")
    os.kill(waiting()[0], signal.SIGKILL)  # it has most to import, so it is forked first
    cut.ends()
    (event,) = comebacks(cut)
    assert "optimizer-0 was killed by SIGKILL before the run began" in event["why"]
    assert (cut.run / "config.yaml").exists()
