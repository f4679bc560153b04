"""At degree 0 a run that learns from replay is a function of its configuration alone."""

from __future__ import annotations

import pytest

from fast_core.launcher.checkpoints import SCHEDULER_FILE, complete_names
from tests.process.harness import Launched, Workplace
from tests.process.replay_runs import (
    CONTINUOUS,
    RATIO,
    ROWS,
    TASKS,
    TICKETS,
    TOGETHER,
    files,
    finished,
    granted,
    last_metrics,
    reached,
)

pytestmark = pytest.mark.process


def kept(launched: Launched) -> dict[str, bytes]:
    """The last checkpoint: learners, replay with its priorities, environments.

    Not the scheduler's part, in which the time stands, nor its manifest.
    """
    folder = launched.run / "checkpoints"
    found = files(folder / complete_names(folder)[-1])
    assert any(name.startswith("replay") for name in found)
    without = (SCHEDULER_FILE, "manifest.json")
    return {name: data for name, data in found.items() if name not in without}


@pytest.mark.parametrize("name", TASKS)
def test_processes_equal_inline_bit_for_bit(workplace: Workplace, name: str) -> None:
    config = TASKS[name]
    inline = workplace.launch("mode=inline", config=config)
    reference = finished(inline)
    for count in (1, 2, 4):
        launched = workplace.launch(
            f"nodes.env.count={count}", "diagnostics.delay_ms=2", config=config
        )
        assert finished(launched) == reference, f"{count} env nodes"
        assert kept(launched) == kept(inline), f"{count} env nodes"


def test_other_seeds_learn_something_else(workplace: Workplace) -> None:
    first = finished(workplace.launch("mode=inline", config=CONTINUOUS))
    other = finished(workplace.launch("mode=inline", "seed=1", config=CONTINUOUS))
    assert set(other.values()).isdisjoint(first.values())


def test_policy_nodes_equal_policies_beside_the_environments(workplace: Workplace) -> None:
    beside = finished(workplace.launch(config=CONTINUOUS))
    given = ("policy.placement=node", "policy.groups=1")
    assert finished(workplace.launch(*given, config=CONTINUOUS)) == beside


def test_number_of_batch_slots_is_part_of_the_configuration(workplace: Workplace) -> None:
    """Which priorities a draw knows depends on it, and on nothing else."""
    found = []
    for slots in (1, 4):
        given = f"replay.slots={slots}"
        found.append(finished(workplace.launch("mode=inline", given, config=CONTINUOUS)))
        delayed = workplace.launch("diagnostics.delay_ms=2", given, config=CONTINUOUS)
        assert finished(delayed) == found[-1], given
    assert found[0] != found[1]


def test_run_takes_exactly_the_steps_that_its_ratio_grants(workplace: Workplace) -> None:
    launched = workplace.launch(config=CONTINUOUS)
    finished(launched)
    assert reached(launched) == (TICKETS * ROWS, granted(TICKETS * ROWS))
    values = last_metrics(launched)
    assert values["replay/updates_per_env_step"] == pytest.approx(RATIO, abs=1 / 1000)
    assert 700 < values["replay/rows"] <= 800
    assert 0 < values["replay/age_env_steps"] < 800
    assert values["replay/refused_values"] == values["replay/empty_batches"] == 0


@pytest.mark.parametrize("update", ["allreduce", "async"])
def test_asynchronous_run_learns_to_its_end(workplace: Workplace, update: str) -> None:
    launched = workplace.launch(
        "scheduler.off_policy_degree=2",
        f"nodes.optimizer.update={update}",
        "diagnostics.delay_ms=2",
        config=TOGETHER,
    )
    assert launched.wait(60) == 0, launched.screen
    launched.assert_gone()
    assert reached(launched) == (TICKETS * ROWS, granted(TICKETS * ROWS))
    values = last_metrics(launched)
    if update == "async":
        assert 0 <= values["train/staleness_mean"] <= values["train/staleness_max"] <= 1
    else:
        assert "train/staleness_max" not in values
