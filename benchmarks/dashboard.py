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
``env_cpu_us_per_step`` and ``page_cores`` are the processor time of the env nodes by env step, and
of the page's process by time: they tell more than rates where the machine has other work.

The whole is bounded on a machine that is busy, too: a run ends after `RUN_LIMIT_S`, and its rate is
that of what it has done by then, if that is enough for one, without which there is no ratio; a task
that has had `LIMIT_S` begins no further round.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from dataclasses import replace
from typing import NamedTuple

from benchmarks import ppo_halfcheetah, ppo_pong, ppo_throughput
from benchmarks.against_sb3 import TIMEOUT_S, Figures, Race, number, quick_asked, report
from benchmarks.launched import ROOT, Launched, cpu_s, launched
from benchmarks.measure import medians, print_result

TARGET = 0.95
AGE_TARGET_MS = 300.0
PEERS = ("mujoco", "ale-py")
FPS = 5.0
ALONE = ("nodes.env.count=1", "nodes.optimizer.threads=1")
RACES = {
    "cartpole": (replace(ppo_throughput.RACE, last_round=600, quick_last_round=300), ()),
    "halfcheetah": (replace(ppo_halfcheetah.RACE, last_round=200, quick_last_round=80), ()),
    "pong": (replace(ppo_pong.RACE, last_round=7), ppo_pong.QUIET),
}
QUICK = ("cartpole", "halfcheetah")
PAGE = ("dashboard.enabled=true", "dashboard.port=0")
VARIANTS = {"without": (), "unwatched": PAGE, "watched": PAGE}
ROUNDS = 5
LIMIT_S = 240.0
RUN_LIMIT_S = 90.0
POLL_S = 0.2


class Use(NamedTuple):
    """Processor seconds that nodes had used when a run had got so far."""

    env_steps: float
    time_s: float
    nodes: dict[str, float]


def used(race: Race, run: Launched) -> Figures:
    """Wait for the end of a run, and say what its nodes used from the first round that counts."""
    first, last = None, None
    while run.process.poll() is None:
        time.sleep(POLL_S)
        if rows := race.settled(run):
            nodes = {name: cpu_s(pid) for name, pid in run.nodes().items()}
            seen = Use(number(rows[-1], "env_steps"), time.monotonic(), nodes)
            if all(nodes.get(name, 0) >= before for name, before in (last or seen).nodes.items()):
                first, last = first or seen, seen  # before the first node ends
    run.wait(TIMEOUT_S)
    if first is None or last is None or last.env_steps == first.env_steps:
        return {}
    spent = {name: value - first.nodes.get(name, 0.0) for name, value in last.nodes.items()}
    envs = sum(value for name, value in spent.items() if name.startswith("env-"))
    found = {"env_cpu_us_per_step": 1e6 * envs / (last.env_steps - first.env_steps)}
    if "dashboard" in spent:
        found["page_cores"] = spent["dashboard"] / (last.time_s - first.time_s)
    return found


def rate(race: Race, last_round: int, variant: str, *overrides: str) -> dict[str, float]:
    """Env steps per second of a variant, and what its viewer saw if it is watched."""
    given = (*race.limits(last_round), f"stop.time_s={RUN_LIMIT_S}", *VARIANTS[variant], *overrides)
    with launched(race.config, given) as run:
        told = "{}"
        if variant == "watched":
            command = [sys.executable, "-m", "benchmarks.watcher", str(run.directory), str(FPS)]
            with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as viewer:
                try:
                    found = used(race, run)
                    told, _ = viewer.communicate(timeout=TIMEOUT_S)
                finally:
                    viewer.kill()
        else:
            found = used(race, run)
        if len(race.settled(run)) > 1:  # a run that was cut may have no rate
            found["env_steps_per_s"] = race.rate(run)
        return {**found, **json.loads(told)}


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
    found: list[Figures] = []
    begun_s = time.monotonic()
    while len(found) < (1 if quick else ROUNDS):
        found.append(turn(race, last_round, *own, *overrides, backwards=len(found) % 2 == 1))
        report(f"{name}, round {len(found)}", found[-1])
        if time.monotonic() - begun_s > LIMIT_S:
            break
    figures = medians(found)
    without = figures.get("without_env_steps_per_s")
    for variant in ("unwatched", "watched"):
        steps_per_s = figures.get(f"{variant}_env_steps_per_s")
        if steps_per_s and without:
            figures[f"{variant}_share"] = steps_per_s / without
    return figures


def main() -> None:
    """Measure everything in turn and print the last line."""
    quick = quick_asked("Training that is watched against training that is not.")
    result: dict[str, float] = {}
    shares = []
    for name in QUICK if quick else RACES:
        figures = measure(name, *ALONE, quick=quick)
        shares.append(figures.get("watched_share", math.nan))
        result |= {f"{name}_{key}": value for key, value in figures.items()}
    if not quick:
        for key, value in measure("cartpole", quick=False).items():
            result[f"busy_cartpole_{key}"] = value
    ratio = None if any(map(math.isnan, shares)) else min(shares)
    print_result("dashboard", ratio, TARGET, **result, age_target_ms=AGE_TARGET_MS)


if __name__ == "__main__":
    main()
