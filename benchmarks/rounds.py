"""What the hand-over between rounds costs a learner from replay, with rounds as long as auto says.

    python -m benchmarks.rounds [--quick]

At degree 0 collection and updates alternate: after its last update of a round the learner waits
for `Trained`, the scheduler, `Collect`, the environments' steps, `RolloutReady`, the scheduler,
`Train` and the first batch. The environments' steps are work that has to be done, however long
rounds are; the rest is the hand-over. Its share of the time is

    1 - (updates x time of an update + rounds x time of a rollout) / time

over the part of a run in which it learns; times of updates are from ``metrics.jsonl``, of rollouts
from ``trace.json``. Waiting for a batch between two updates counts as hand-over too. It is measured
with ``rollout.steps: auto`` and with one step per round, on two tasks: SAC on HalfCheetah-v5 with
networks of 2x256 (`configs/sac_halfcheetah_bench.yaml`) and DSAC with 2x64
(`configs/dsac_pendulum_bench.yaml`). The ratio is the greater of the two shares with auto.
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
ROUNDS = ("auto", "1")


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
    "halfcheetah": Task(Path("configs/sac_halfcheetah_bench.yaml"), 1_200, 3_000, 1_800),
    "pendulum": Task(Path("configs/dsac_pendulum_bench.yaml"), 5_000, 40_000, 20_000),
}


def figures_of(task: Task, steps: str, *, quick: bool) -> Figures:
    """Where the time of a run went."""
    last = task.quick_last if quick else task.last
    limits = (f"metrics.interval_s={METRICS_INTERVAL_S}", f"stop.env_steps={last}")
    with launched(task.config, (*limits, f"rollout.steps={steps}")) as run:
        run.wait(TIMEOUT_S)
        return account(run, task.first)


def account(run: Launched, first: int) -> Figures:
    """Shares of the time from the env step ``first`` on, and the length of a round."""
    (config,), (trace,) = (run.directory.glob(f"*/*/{n}") for n in ("config.yaml", "trace.json"))
    steps = int(yaml.safe_load(config.read_text())["rollout"]["steps"])
    rows = [row for row in run.lines("metrics.jsonl") if number(row, "env_steps") >= first]
    time_s, env_steps = (
        number(rows[-1], key) - number(rows[0], key) for key in ("time_s", "env_steps")
    )
    learning_s = waiting_s = 0.0
    for before, row in pairwise(rows):
        updates = number(row, "updates") - number(before, "updates")
        learning_s += updates * value(row, "train/update_ms") / 1e3
        waiting_s += updates * value(row, "train/batch_wait_ms") / 1e3
    collecting_s = env_steps / steps * mean_span_s(trace, "stepping")
    return {
        "steps": float(steps),
        "share": 1.0 - (learning_s + collecting_s) / time_s,
        "collecting_share": collecting_s / time_s,
        "batch_wait_share": waiting_s / time_s,
    }


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
        figures: Figures = {}
        for name, task in TASKS.items():
            for steps in ROUNDS:
                kind = "auto" if steps == "auto" else "one_step"
                shares = figures_of(task, steps, quick=quick)
                figures |= {f"{name}_{kind}_{key}": share for key, share in shares.items()}
        report(f"turn {turn + 1} of {turns}", figures)
        found.append(figures)
    result = medians(found)
    worst = max(result[f"{name}_auto_share"] for name in TASKS)
    print_result("rounds", worst, TARGET, better="lower", **result)


if __name__ == "__main__":
    main()
