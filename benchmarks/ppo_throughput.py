"""FastLoop's PPO against Stable-Baselines3's, in env steps per second while training.

    python -m benchmarks.ppo_throughput [--quick]

The same work for both: CartPole-v1, policy and value networks of 2x64 tanh, rounds of 1024 rows,
4 epochs of minibatches of 256, strictly on-policy. FastLoop runs `configs/ppo_cartpole_bench.yaml`
as `fastloop launch` does, in processes; SB3 runs 8 environments in a DummyVecEnv with 128 steps,
on 1 and on 2 torch threads, and its better median counts. See `benchmarks.against_sb3` for the
way it is measured.

Longer runs of FastLoop, with and without evaluation, tell where a round goes; see
`benchmarks.round_trace`. What the launcher costs is the processor time of its process.
"""

from __future__ import annotations

import time
from pathlib import Path

from benchmarks.against_sb3 import (
    TIMEOUT_S,
    Figures,
    Race,
    best_peer,
    number,
    quick_asked,
    report,
)
from benchmarks.launched import Launched, cpu_s, launched
from benchmarks.measure import print_result
from benchmarks.round_trace import round_parts

TARGET = 2.7
PEERS = ("stable-baselines3",)
RACE = Race(
    name="ppo_throughput",
    config=Path("configs/ppo_cartpole_bench.yaml"),
    task="cartpole",
    target=TARGET,
)
PROFILED_ROUNDS = 200
EVALUATION = "evaluation.every_env_steps=10000"
POLL_S = 0.05


def fastloop_profile(*overrides: str) -> Figures:
    """Rate of a longer run, the parts of its rounds, and what the launcher costs."""
    with launched(RACE.config, (*RACE.limits(PROFILED_ROUNDS), *overrides)) as run:
        launcher = _launcher(run)
        run.wait(TIMEOUT_S)
        (trace,) = run.directory.glob("*/*/trace.json")
        return {"env_steps_per_s": RACE.rate(run), **round_parts(trace), **launcher}


def _launcher(run: Launched) -> Figures:
    """Processor time of the launcher by time, and by rounds, while rounds go on."""
    looks: list[tuple[float, float, float]] = []
    while run.process.poll() is None:
        rows = RACE.settled(run)
        if rows and number(rows[-1], "env_steps") < PROFILED_ROUNDS * RACE.rows:
            rounds = number(rows[-1], "env_steps") / RACE.rows
            looks.append((time.monotonic(), cpu_s(run.process.pid), rounds))
        time.sleep(POLL_S)
    (first_s, first, begun), (last_s, last, done) = looks[0], looks[-1]
    return {
        "launcher_share": (last - first) / (last_s - first_s),
        "launcher_us_a_round": 1e6 * (last - first) / (done - begun),
    }


def main() -> None:
    """Measure everything and print the last line."""
    quick = quick_asked("PPO on CartPole against Stable-Baselines3.")
    skipped = RACE.skipped()
    found = RACE.measure({"fastloop": ()}, quick=quick, peer=not skipped)
    for title, override in (
        ("profile", "evaluation.every_env_steps=null"),
        ("evaluating", EVALUATION),
    ):
        figures = fastloop_profile(override)
        report(title, figures)
        found |= {f"{title}_{key}": value for key, value in figures.items()}
    best = best_peer(found)
    ratio = None if best is None else found["fastloop_env_steps_per_s"] / best
    print_result("ppo_throughput", ratio, TARGET, skipped=skipped, **found)


if __name__ == "__main__":
    main()
