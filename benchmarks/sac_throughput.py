"""FastLoop's SAC against Stable-Baselines3's, and against its own updates in a bare loop.

    python -m benchmarks.sac_throughput [--quick]

The same work for both: HalfCheetah-v5, networks of 2x256 relu, two critics, one update on 256 rows
per environment step, one environment. FastLoop runs `configs/sac_halfcheetah_bench.yaml` at degree
0 as `fastloop launch` does, once in fp32 and once with bf16 passes; SB3 runs on 1 and on 2 torch
threads and its better median counts. The rate is that of the steps between two counts, both after
learning has begun; see `benchmarks.against_sb3`. The ratio is FastLoop in fp32 / SB3; that of bf16
is ``bf16_ratio``, with a target of its own.

``bare`` figures are FastLoop's learner alone, on 1 and on 2 threads, with every core to itself and
a batch that stays where it is (`benchmarks.bare_updates`): ``bare_share`` is the run's rate, with
environments, replay and everything else beside it, by the better of the two. It can be above 1: the
run's two optimizers, with half of each batch each, wait for one another once in an update.
"""

from __future__ import annotations

import os
from pathlib import Path

from benchmarks import bare_updates
from benchmarks.against_sb3 import Figures, Race, best_peer, quick_asked, report
from benchmarks.measure import medians, print_result

TARGET = 1.6
PEERS = ("stable-baselines3", "mujoco")
BF16_TARGET = 2.0
BARE_TARGET = 0.9
ALONE = "nodes.optimizer.count=1"
BF16 = "nodes.optimizer.precision=bf16"
VARIANTS = {"fastloop": (), "fastloop_bf16": (BF16,)}
# 100 env steps count as a round; the first 1,000 fill the replay.
RACE = Race(
    name="sac_throughput",
    config=Path("configs/sac_halfcheetah_bench.yaml"),
    task="sac_halfcheetah",
    target=TARGET,
    rows=100,
    first_round=12,
    last_round=40,
)
PEER_LIMIT_S, QUICK_PEER_LIMIT_S, QUICK_LAST_ROUND = 30.0, 8.0, 20
BARE_S, QUICK_BARE_S = 8.0, 3.0


def turn(last_round: int, *, peer: bool, quick: bool) -> Figures:
    """All rates once."""
    cores = min(2, len(os.sched_getaffinity(0)))
    seconds = QUICK_BARE_S if quick else BARE_S
    figures = {}
    for name, overrides in VARIANTS.items():
        figures[f"{name}_env_steps_per_s"] = RACE.fastloop_rate(last_round, *overrides)
        for threads in sorted({1, cores}):
            bare = bare_updates.run(RACE.config, threads, ALONE, *overrides, seconds=seconds)
            figures[f"{name}_bare_{threads}_threads_updates_per_s"] = bare
    if peer:
        figures |= RACE.sb3_rates(last_round, QUICK_PEER_LIMIT_S if quick else PEER_LIMIT_S)
    return figures


def main() -> None:
    """Measure everything in turn and print the last line."""
    quick = quick_asked("SAC on HalfCheetah against Stable-Baselines3 and a bare loop.")
    skipped = RACE.skipped()
    rounds, last_round = (1, QUICK_LAST_ROUND) if quick else (RACE.rounds, RACE.last_round)
    found = []
    for number in range(rounds):
        found.append(turn(last_round, peer=not skipped, quick=quick))
        report(f"round {number + 1} of {rounds}", found[-1])
    result = medians(found)
    for name in VARIANTS:
        bare = max(value for key, value in result.items() if key.startswith(f"{name}_bare_"))
        result[f"{name}_bare_share"] = result[f"{name}_env_steps_per_s"] / bare
    best = best_peer(result)
    ratio = None if best is None else result["fastloop_env_steps_per_s"] / best
    if best is not None:
        result["bf16_ratio"] = result["fastloop_bf16_env_steps_per_s"] / best
    targets = {"bf16_target": BF16_TARGET, "bare_target": BARE_TARGET}
    print_result(RACE.name, ratio, TARGET, skipped=skipped, **result, **targets)


if __name__ == "__main__":
    main()
