"""At degree 0 a run that learns from replay is a function of its configuration alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fast_core.launcher.checkpoints.store import SCHEDULER_FILE
from fast_core.monitor.checkpoint_files import complete_names
from tests.forms import slow_but
from tests.process.harness import Launched, Workplace
from tests.process.replay_runs import (
    CONTINUOUS,
    RATIO,
    ROWS,
    TASKS,
    TICKETS,
    TOGETHER,
    finished,
    granted,
    last_metrics,
    reached,
)
from tests.process.test_resume import files

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


class Inline(dict[str, Launched]):
    """Tasks by name, each launched when it is first asked for."""

    def __init__(self, place: Workplace) -> None:
        super().__init__()
        self._place = place

    def __missing__(self, name: str) -> Launched:
        self[name] = self._place.launch("mode=inline", config=TASKS[name], fresh=True)
        return self[name]


@pytest.fixture(scope="module")
def inline() -> Iterator[dict[str, Launched]]:
    """Each task, done in one process."""
    place = Workplace()
    yield Inline(place)
    place.close()


CASES = (
    ("continuous", (4,)),
    ("continuous", (1, 2)),
    ("discrete", (4,)),
    ("options", (2,)),
    ("declared columns", (2,)),
    ("searched", (1, 2, 4)),
    ("remembering", (1, 2, 4)),
)


@pytest.mark.parametrize(("name", "counts"), slow_but(CASES[:1], CASES))
def test_processes_equal_inline_bit_for_bit(
    workplace: Workplace, inline: dict[str, Launched], name: str, counts: tuple[int, ...]
) -> None:
    """``options`` has two optimizers."""
    reference = finished(inline[name])
    for count in counts:
        launched = workplace.launch(
            f"nodes.env.count={count}", "diagnostics.delay_ms=2", config=TASKS[name]
        )
        assert finished(launched) == reference, f"{count} env nodes"
        assert kept(launched) == kept(inline[name]), f"{count} env nodes"


@pytest.mark.slow
def test_other_seeds_learn_something_else(
    workplace: Workplace, inline: dict[str, Launched]
) -> None:
    other = finished(workplace.launch("mode=inline", "seed=1", config=CONTINUOUS))
    assert set(other.values()).isdisjoint(finished(inline["continuous"]).values())


@pytest.mark.parametrize(
    "name", slow_but(["continuous"], ["continuous", "searched", "remembering"])
)
def test_policy_nodes_equal_policies_beside_the_environments(
    workplace: Workplace, inline: dict[str, Launched], name: str
) -> None:
    given = ("policy.placement=node", "policy.groups=1", "diagnostics.delay_ms=2")
    launched = workplace.launch(*given, config=TASKS[name])
    assert finished(launched) == finished(inline[name])


@pytest.mark.slow
def test_number_of_batch_slots_is_part_of_the_configuration(
    workplace: Workplace, inline: dict[str, Launched]
) -> None:
    """Which priorities a draw knows depends on it, and on nothing else."""
    alone = finished(workplace.launch("mode=inline", "replay.slots=4", config=CONTINUOUS))
    given = ("replay.slots=4", "diagnostics.delay_ms=2")
    assert finished(workplace.launch(*given, config=CONTINUOUS)) == alone
    assert alone != finished(inline["continuous"])


def test_run_takes_exactly_the_steps_that_its_ratio_grants(workplace: Workplace) -> None:
    launched = workplace.launch(config=CONTINUOUS)
    finished(launched)
    assert reached(launched) == (TICKETS * ROWS, granted(TICKETS * ROWS))
    values = last_metrics(launched)
    assert values["replay/updates_per_env_step"] == pytest.approx(RATIO, abs=1 / 1000)
    assert 700 < values["replay/rows"] <= 800
    assert 0 < values["replay/age_env_steps"] < 800
    assert values["replay/refused_values"] == values["replay/empty_batches"] == 0


@pytest.mark.parametrize("update", slow_but(["async"], ["allreduce", "async"]))
def test_asynchronous_run_learns_to_its_end(workplace: Workplace, update: str) -> None:
    launched = workplace.launch(
        "scheduler.off_policy_degree=2",
        f"nodes.optimizer.update={update}",
        "diagnostics.delay_ms=2",
        config=TOGETHER,
    ).ends()
    assert reached(launched) == (TICKETS * ROWS, granted(TICKETS * ROWS))
    values = last_metrics(launched)
    if update == "async":
        assert 0 < values["train/gradient_staleness"] <= 1
        assert values["train/gradient_staleness_max"] == 1
    else:
        assert "train/gradient_staleness_max" not in values
