"""Rounds side by side against the ideal of two sides that never wait, whichever is the slower.

    python -m benchmarks.async_profiles [--quick]

Three profiles: collecting a round takes twice as long as training on it, as long, and half as
long. Environments (`benchmarks.slow_env`) and the learner (`benchmarks.null_algorithm`) sleep for
the time that their work is to take, so that cores and noise hardly matter: what is measured is how
well rounds overlap. Evaluations run all the time, two episodes every tenth round. The degrees are
0, 1, 4 (not with ``--quick``) and -1, where the run chooses.

One after the other a round takes the sum of both, side by side at best the longer of the two. The
ratio is the worst share of that ideal from degree 1 on, -1 included; rounds in which -1 still
measures don't count. ``dispersed`` figures are of environments whose steps take times from an
exponential distribution, which no scheduler can hide at degree 1: there is no target for them.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import cast

from benchmarks.against_sb3 import METRICS_INTERVAL_S, Figures, number, quick_asked, report
from benchmarks.launched import launched
from benchmarks.measure import medians, print_result
from benchmarks.slow_env import ENVIRONMENT

TARGET = 0.9
NODES, STEPS = 2, 4
DEGREES = {"0": "degree_0", "1": "degree_1", "4": "degree_4", "-1": "auto"}
PROFILES = {"collect_slow": (2, 1), "equal": (1, 1), "train_slow": (1, 2)}
UNIT_S = 0.08  # of a round's time
SETTLED_S = 2.5  # until -1 has measured, which takes a second, and chosen
TIMEOUT_S = 120.0
CONFIG = f"""
name: async_profiles
environment: {{id: {ENVIRONMENT}, modules: [benchmarks.slow_env]}}
rollout: {{shards: {NODES}, envs_per_shard: 1, steps: {STEPS}}}
algorithm: {{name: "benchmarks.null_algorithm:NullConfig", minibatch_size: {NODES * STEPS}}}
nodes: {{env: {{count: {NODES}}}}}
evaluation: {{every_env_steps: {10 * NODES * STEPS}, episodes: 2, envs: 2, at_end: false}}
checkpoint: {{every_updates: null, at_end: false}}
metrics: {{interval_s: {METRICS_INTERVAL_S}, tensorboard: false}}
stop: {{time_s: {TIMEOUT_S}}}
"""


def rounds_per_s(profile: str, degree: str, *, rounds: int, dispersed: bool = False) -> float:
    """Rounds in a second, of the ``rounds`` after the first ones."""
    collect, train = PROFILES[profile]
    step_s = collect * UNIT_S / STEPS
    first = round(SETTLED_S / UNIT_S / (collect + train))
    rows = NODES * STEPS
    environment = f"step_s: {step_s}, episode_steps: {5 * STEPS}, dispersed: {dispersed}".lower()
    overrides = (
        f"environment.kwargs={{{environment}}}",
        f"algorithm.update_s={train * UNIT_S}",
        f"scheduler.off_policy_degree={degree}",
        f"stop.env_steps={(first + rounds) * rows}",
    )
    with tempfile.TemporaryDirectory(prefix="fastloop-bench-") as directory:
        config = Path(directory) / "async_profiles.yaml"
        config.write_text(CONFIG)
        with launched(config, overrides) as run:
            run.wait(TIMEOUT_S)
            lines = [row for row in run.lines("metrics.jsonl") if of_rounds(row)]
    found = [row for row in lines if number(row, "env_steps") >= first * rows]
    steps, seconds = (number(found[-1], k) - number(found[0], k) for k in ("env_steps", "time_s"))
    return steps / rows / seconds


def of_rounds(row: dict[str, object]) -> bool:
    """Whether it is no evaluation's, which stands at the env steps of its version."""
    return "scheduler/degree" in cast("dict[str, float]", row["values"])


def measure(degrees: dict[str, str], *, rounds: int, dispersed: bool = False) -> Figures:
    """Shares of the ideal, by profile and degree."""
    prefix = "dispersed_" if dispersed else ""
    found = {}
    for profile, sides in PROFILES.items():
        ideal_per_s = 1 / (max(sides) * UNIT_S)
        for degree, name in degrees.items():
            rate = rounds_per_s(profile, degree, rounds=rounds, dispersed=dispersed)
            found[f"{prefix}{profile}_{name}"] = rate / ideal_per_s
    return found


def main() -> None:
    """Measure everything in turn and print the last line."""
    quick = quick_asked("Rounds side by side against two sides that never wait.")
    turns, rounds = (1, 10) if quick else (3, 50)
    degrees = {degree: name for degree, name in DEGREES.items() if not quick or degree != "4"}
    found = []
    for turn in range(turns):
        figures = measure(degrees, rounds=rounds)
        if not quick:
            figures |= measure(degrees, rounds=rounds, dispersed=True)
        report(f"turn {turn + 1} of {turns}", figures)
        found.append(figures)
    result = medians(found)
    ahead = [f"{profile}_{name}" for profile in PROFILES for name in list(degrees.values())[1:]]
    print_result("async_profiles", min(result[name] for name in ahead), TARGET, **result)


if __name__ == "__main__":
    main()
