"""Training with eight tiles watched at 5 frames a second, against training without the page.

    python -m benchmarks.dashboard [--quick]

CartPole, HalfCheetah (MuJoCo draws in software where there is no GPU) and Pong, as the benchmarks
`ppo_throughput`, `ppo_halfcheetah` and `ppo_pong` train them, with one env node and one thread of
the learner, which take turns: a core is free where there are two. Three variants alternate: without
the page, with it and nobody watching, and watched by `benchmarks.watcher` in a process of its own.
The ratio is watched / without, the smallest of the tasks; ``unwatched_share`` is the same with
nobody watching.

``busy_`` figures are of two env nodes, where no core is free: there the frames have their share of
each node's time (`dashboard.cpu_share`), and the page and who watches theirs of the machine's.
``age`` is that of frames when they are decoded, from the moment at which they were taken.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

from benchmarks import ppo_halfcheetah, ppo_pong, ppo_throughput
from benchmarks.against_sb3 import TIMEOUT_S, Figures, Race, quick_asked, report
from benchmarks.launched import ROOT, launched
from benchmarks.measure import medians, print_result

TARGET = 0.95
AGE_TARGET_MS = 300.0
PEERS = ("mujoco", "ale-py")
FPS = 5.0
ALONE = ("nodes.env.count=1", "nodes.optimizer.threads=1")
RACES = {
    "cartpole": (replace(ppo_throughput.RACE, last_round=300, quick_last_round=100), ()),
    "halfcheetah": (replace(ppo_halfcheetah.RACE, last_round=200, quick_last_round=80), ()),
    "pong": (replace(ppo_pong.RACE, last_round=7), ppo_pong.QUIET),
}
QUICK = ("cartpole", "halfcheetah")
PAGE = ("dashboard.enabled=true", "dashboard.port=0")
VARIANTS = {"without": (), "unwatched": PAGE, "watched": PAGE}
ROUNDS = 5


def rate(race: Race, last_round: int, variant: str, *overrides: str) -> dict[str, float]:
    """Env steps per second of a variant, and what its viewer saw if it is watched."""
    given = (*race.limits(last_round), *VARIANTS[variant], *overrides)
    with launched(race.config, given) as run:
        found: dict[str, float] = {}
        if variant == "watched":
            command = [sys.executable, "-m", "benchmarks.watcher", str(run.directory), str(FPS)]
            with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as viewer:
                try:
                    run.wait(TIMEOUT_S)
                    told, _ = viewer.communicate(timeout=TIMEOUT_S)
                finally:
                    viewer.kill()
            found = json.loads(told)
        else:
            run.wait(TIMEOUT_S)
        return {"env_steps_per_s": race.rate(run), **found}


def turn(race: Race, last_round: int, *overrides: str, backwards: bool) -> Figures:
    """Every variant once."""
    figures: dict[str, float] = {}
    for variant in sorted(VARIANTS, reverse=backwards):
        for key, value in rate(race, last_round, variant, *overrides).items():
            figures[f"{variant}_{key}"] = value
    return figures


def measure(name: str, *overrides: str, quick: bool) -> dict[str, float]:
    """Medians of a task, and the shares of the rate that are left."""
    race, own = RACES[name]
    last_round = race.quick_last_round if quick else race.last_round
    found = []
    for number in range(1 if quick else ROUNDS):
        found.append(turn(race, last_round, *own, *overrides, backwards=number % 2 == 1))
        report(f"{name}, round {number + 1}", found[-1])
    figures = medians(found)
    for variant in ("unwatched", "watched"):
        share = figures[f"{variant}_env_steps_per_s"] / figures["without_env_steps_per_s"]
        figures[f"{variant}_share"] = share
    return figures


def main() -> None:
    """Measure everything in turn and print the last line."""
    quick = quick_asked("Training that is watched against training that is not.")
    result: dict[str, float] = {}
    shares = []
    for name in QUICK if quick else RACES:
        figures = measure(name, *ALONE, quick=quick)
        shares.append(figures["watched_share"])
        result |= {f"{name}_{key}": value for key, value in figures.items()}
    if not quick:
        for key, value in measure("cartpole", quick=False).items():
            result[f"busy_cartpole_{key}"] = value
    print_result("dashboard", min(shares), TARGET, **result, age_target_ms=AGE_TARGET_MS)


if __name__ == "__main__":
    main()
