"""The off-policy degree that a run of real processes chooses by itself."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.process.harness import TOY, Launched, Workplace, digests, read_lines
from tests.process.test_rerun import rerun, rerun_of

pytestmark = pytest.mark.process

# Collecting a round takes 0.16 s, of which nothing is computed; training takes some of that too.
CONFIG = {
    **TOY,
    "algorithm": {**TOY["algorithm"], "minibatch_size": 1, "epochs": 5},
    "checkpoint": {"every_updates": None, "at_end": True},
    "diagnostics": {"digests": True, "schedule": True},
}


def changes(launched: Launched) -> list[tuple[int, int]]:
    """From where to where the degree went, in order."""
    told = [e["why"].partition(":")[0].split(" -> ") for e in launched.events() if is_change(e)]
    return [(int(before), int(after)) for before, after in told]


def is_change(event: dict[str, str]) -> bool:
    return event["what"] == "degree"


@pytest.mark.slow
def test_run_chooses_its_degree_tells_why_keeps_it_and_can_be_run_again(
    workplace: Workplace,
) -> None:
    auto = "scheduler.off_policy_degree=-1"
    kwargs = f"environment.kwargs={{step_s: 0.01, folder: {workplace.folder()}}}"
    launched = workplace.launch(auto, kwargs, "stop.env_steps=640", config=CONFIG).done()
    first, *later = changes(launched)
    assert first[0] == 0 < first[1], launched.screen
    assert "launcher info: off-policy degree 0 -> " in launched.screen
    assert all(before[1] == after[0] for before, after in pairwise([first, *later]))
    last = later[-1][1] if later else first[1]
    (*_, row) = read_lines(launched.run / "metrics.jsonl")
    assert row["values"]["scheduler/degree"] == last
    run, recorded = launched.run, digests(launched.run)
    rerun(workplace, launched, run=run).done()
    assert digests(rerun_of(run)) == recorded, "inline, where it would choose nothing by itself"
    resumed = workplace.resume(launched, "stop.env_steps=704").done()
    (goes_on,) = resumed.told("resume")
    assert f"degree {last}, chosen by itself from 0 to 16" in goes_on
    assert len(changes(resumed)) == 1 + len(later), "it is not measured again"
