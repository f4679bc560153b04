"""Runs side by side: each as if it were alone, and nothing left however the sweep ends."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.forms import slow_but
from tests.process.harness import TOY, Launched, Workplace, digests, eventually, read_lines

pytestmark = pytest.mark.process

CONFIG = {
    **TOY,
    "environment": {**TOY["environment"], "kwargs": {"step_s": 0.002}},
    "nodes": {},
    "diagnostics": {"digests": True},
    "stop": {"env_steps": 640},
}


def start(
    workplace: Workplace, home: Path | None = None, mode: str = "inline", **keys: Any
) -> Launched:
    """Carry out a sweep with these keys, of two runs at once."""
    home = home or workplace.folder()
    tree: Mapping[str, Any] = {"config": {**CONFIG, "mode": mode}, "jobs": 2, **keys}
    (home / "many.yaml").write_text(yaml.safe_dump(tree))
    return workplace.start(["-m", "fast_core.tools.cli", "sweep", "many.yaml"], home=home)


def runs(launched: Launched) -> dict[str, Path]:
    """The newest directory of each run that has begun, by variant and seed."""
    found = sorted((launched.home / "runs" / "many").glob("*/*_seed*/config.yaml"))
    return {f"{p.parts[-3]} {p.parts[-2].split('_')[2]}": p.parent for p in found}


def training(launched: Launched, count: int) -> bool:
    """Whether so many runs have trained on something."""
    begun = [run for run in runs(launched).values() if digests(run)]
    return len(begun) >= count


def resumed(run: Path) -> bool:
    return any(event["what"] == "resume" for event in read_lines(run / "events.jsonl"))


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGUSR1])
def test_interrupted_sweep_goes_on_where_it_was(
    workplace: Workplace, number: signal.Signals
) -> None:
    """By a terminal, which tells the sweep alone, and by a batch system, which tells its runs too.

    What the sweep tells them then is nothing new to them, however late it comes.
    """
    sweep = start(workplace, seeds=3)
    eventually(lambda: training(sweep, 2), f"two runs train\n{sweep.screen}")
    sweep.signal(number, group=True)
    for process in sweep.members() if number == signal.SIGUSR1 else ():
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, number)
    sweep.ends(128 + number)
    first = runs(sweep)
    assert set(first) == {"toy seed0", "toy seed1"}
    assert all(list(run.glob("checkpoints/*/manifest.json")) for run in first.values())

    again = start(workplace, sweep.home, seeds=3).ends()
    assert set(runs(again)) == {"toy seed0", "toy seed1", "toy seed2"}
    assert first.items() <= runs(again).items()  # gone on with, not begun anew
    assert all(resumed(run) for run in first.values())
    assert "3 of 3 runs finished" in again.screen


@pytest.mark.slow
def test_run_of_a_sweep_equals_its_configuration_launched_alone(workplace: Workplace) -> None:
    sweep = start(workplace, mode="process", seeds=2).done()
    run = runs(sweep)["toy seed1"]
    alone = workplace.launch(
        "directory=runs", config=yaml.safe_load((run / "config.yaml").read_text())
    ).done()
    assert digests(run) == digests(alone.run) != {}


@pytest.mark.slow
def test_run_that_fails_ends_no_other_and_is_named_at_the_end(workplace: Workplace) -> None:
    home = workplace.folder()
    faults = {"environment.kwargs.fault": ["raise", ""], "environment.kwargs.folder": [str(home)]}
    sweep = start(workplace, home, grid=faults).ends(1)
    assert "1 of 2 runs finished" in sweep.screen
    cause, place = sweep.screen.strip().splitlines()[-2:]
    assert "bad joint 7" in cause
    assert (Path(place.strip()) / "crash.txt").is_file()


# A run in one process begins in half the time; that its nodes end with it is tested elsewhere.
@pytest.mark.parametrize("mode", slow_but(["inline"], ["inline", "process"]))
def test_killed_sweep_leaves_no_run(workplace: Workplace, mode: str) -> None:
    sweep = start(workplace, mode=mode, seeds=2)
    eventually(lambda: training(sweep, 2), f"two runs train\n{sweep.screen}")
    sweep.signal(signal.SIGKILL)
    sweep.wait()
    if mode == "inline":  # nobody stands beside its runs: what starts next clears up after them
        eventually(lambda: not sweep.members(), "the runs end")
        workplace.start(["-m", "fast_core.tools.cli", "doctor"], home=sweep.home).wait()
    sweep.assert_gone()


@pytest.mark.slow
def test_wrong_sweep_starts_nothing(workplace: Workplace) -> None:
    sweep = start(workplace, grid={"algorithm.gama": [0.9]})
    assert sweep.wait() == 2
    assert "Did you mean algorithm.gamma?" in sweep.screen
    assert not (sweep.home / "runs").exists()
