"""What the hand-over between rounds costs a learner from replay, with rounds as long as auto says.

    python -m benchmarks.rounds [--quick]

At degree 0 collection and updates alternate: after its last update of a round the learner waits
for `Trained`, the scheduler, `Collect`, the environments' steps, `RolloutReady`, the scheduler,
`Train` and the first batch. The environments' steps are work that has to be done, however long
rounds are. What is left of a round,

    its time - updates x time of an update - time of a rollout

is the hand-over, and what the node does around each update. Rounds four times as long tell the two
apart: the second grows with the updates of a round, the first does not. Times of updates are from
``metrics.jsonl``, of rollouts from ``trace.json``.

The share of the time is taken with ``rollout.steps: auto`` and with one step per round, on two
tasks: SAC on HalfCheetah-v5 with networks of 2x256 (`configs/sac_halfcheetah_bench.yaml`) and DSAC
with 2x64 (`configs/dsac_pendulum_bench.yaml`). The ratio is the greater of the two with auto.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import yaml

from benchmarks.against_sb3 import (
    METRICS_INTERVAL_S,
    TIMEOUT_S,
    Figures,
    number,
    quick_asked,
    report,
)
from benchmarks.launched import Launched, launched
from benchmarks.measure import medians, print_result
from benchmarks.round_trace import mean_span_s

TARGET = 0.02
PEERS = ("mujoco",)
LONGER = 4  # times as long as auto, to tell the hand-over from what each update costs


@dataclass(frozen=True)
class Task:
    """A configuration with one environment.

    Attributes:
        config: Its file.
        first: Env steps that don't count.
        last: Env steps at which the run ends.
        quick_last: The same with ``--quick``.
    """

    config: Path
    first: int
    last: int
    quick_last: int


TASKS = {
    "halfcheetah": Task(Path("configs/sac_halfcheetah_bench.yaml"), 1_200, 3_600, 2_000),
    "pendulum": Task(Path("configs/dsac_pendulum_bench.yaml"), 5_000, 60_000, 30_000),
}


@dataclass(frozen=True)
class Account:
    """Where the time of a round goes, on average.

    Attributes:
        steps: Env steps of a round.
        updates: Updates of a round.
        round_s: Its length.
        learning_s: Updates.
        collecting_s: Steps of the environment.
    """

    steps: int
    updates: float
    round_s: float
    learning_s: float
    collecting_s: float

    @property
    def rest_s(self) -> float:
        """The hand-over, and what lies between updates."""
        return self.round_s - self.learning_s - self.collecting_s


def account_of(task: Task, steps: str, *, quick: bool) -> Account:
    """Run with rounds of ``steps``."""
    last = task.quick_last if quick else task.last
    limits = (f"metrics.interval_s={METRICS_INTERVAL_S}", f"stop.env_steps={last}")
    with launched(task.config, (*limits, f"rollout.steps={steps}")) as run:
        run.wait(TIMEOUT_S)
        return account(run, task.first)


def account(run: Launched, first: int) -> Account:
    """Of a run with one environment, from the env step ``first`` on."""
    (config,), (trace,) = (run.directory.glob(f"*/*/{n}") for n in ("config.yaml", "trace.json"))
    steps = int(yaml.safe_load(config.read_text())["rollout"]["steps"])
    rows = [row for row in run.lines("metrics.jsonl") if number(row, "env_steps") >= first]
    # A row between two updates, as a busy machine makes them, has nothing to say of updates.
    learning_s = sum(
        made * value(row, "train/update_ms") / 1e3
        for before, row in pairwise(rows)
        if (made := number(row, "updates") - number(before, "updates"))
    )
    time_s, env_steps, updates = (
        number(rows[-1], key) - number(rows[0], key) for key in ("time_s", "env_steps", "updates")
    )
    rounds = env_steps / steps
    return Account(
        steps=steps,
        updates=updates / rounds,
        round_s=time_s / rounds,
        learning_s=learning_s / rounds,
        collecting_s=mean_span_s(trace, "stepping"),
    )


def measure(task: Task, *, quick: bool) -> Figures:
    """Shares of the hand-over, and what it and each update cost."""
    auto = account_of(task, "auto", quick=quick)
    longer = account_of(task, str(LONGER * auto.steps), quick=quick)
    one_step = account_of(task, "1", quick=quick)
    overhead_s = update_overhead_s(auto, longer)
    return {
        "auto_steps": float(auto.steps),
        "auto_share": hand_over_s(auto, overhead_s) / auto.round_s,
        "auto_hand_over_ms": hand_over_s(auto, overhead_s) * 1e3,
        "auto_collecting_share": auto.collecting_s / auto.round_s,
        "one_step_share": hand_over_s(one_step, overhead_s) / one_step.round_s,
        "update_overhead_us": overhead_s * 1e6,
    }


def update_overhead_s(auto: Account, longer: Account) -> float:
    """What the node does around an update: the slope of the rest over updates."""
    return max(0.0, (longer.rest_s - auto.rest_s) / (longer.updates - auto.updates))


def hand_over_s(found: Account, overhead_s: float) -> float:
    """The part of the rest that a round has once."""
    return found.rest_s - overhead_s * found.updates


def value(row: dict[str, object], name: str) -> float:
    """One of a row's metrics."""
    values = row["values"]
    assert isinstance(values, dict)
    return float(values[name])


def main() -> None:
    """Measure everything in turn and print the last line."""
    quick = quick_asked("The hand-over between rounds.")
    turns = 1 if quick else 3
    found: list[Figures] = []
    for turn in range(turns):
        figures = {
            f"{name}_{key}": figure
            for name, task in TASKS.items()
            for key, figure in measure(task, quick=quick).items()
        }
        report(f"turn {turn + 1} of {turns}", figures)
        found.append(figures)
    result = medians(found)
    worst = max(result[f"{name}_auto_share"] for name in TASKS)
    print_result("rounds", worst, TARGET, better="lower", **result)


if __name__ == "__main__":
    main()
