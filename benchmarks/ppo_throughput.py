"""FastLoop's PPO against Stable-Baselines3's, in env steps per second while training.

    python -m benchmarks.ppo_throughput [--quick]

The same work for both: CartPole-v1, policy and value networks of 2x64 tanh, rounds of 1024 rows,
4 epochs of minibatches of 256, strictly on-policy. FastLoop runs `configs/ppo_cartpole_bench.yaml`
as `fastloop launch` does, in processes; SB3 runs 8 environments in a DummyVecEnv with 128 steps,
on 1 and on 2 torch threads, and its better median counts.

Start-up is excluded for both: the rate is that of the rounds between two counts of env steps,
the same for both, because episodes grow while a policy learns and long ones are cheaper.
FastLoop's times are those of the first and last row of ``metrics.jsonl`` in between.

Longer runs of FastLoop, with and without evaluation, tell where a round goes; see
`benchmarks.round_trace`. The launcher's share is the processor time of its process.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from benchmarks import peer_sb3
from benchmarks.launched import Launched, cpu_s, launched
from benchmarks.measure import installed, medians, print_result
from benchmarks.round_trace import round_parts

CONFIG = Path("configs/ppo_cartpole_bench.yaml")
TARGET = 2.7
ROWS = 1024
FIRST_ROUND = 10
PROFILED_ROUNDS = 200
METRICS_INTERVAL_S = 0.05
EVALUATION = "evaluation.every_env_steps=10000"
POLL_S = 0.05
_COUNTERS = ("env_steps", "time_s")
TIMEOUT_S = 120.0
Figures = dict[str, float]


def fastloop_rate(last_round: int, *overrides: str) -> float:
    """Env steps per second between `FIRST_ROUND` and the last."""
    with launched(CONFIG, (*_limits(last_round), *overrides)) as run:
        run.wait(TIMEOUT_S)
        return _rate(run)


def fastloop_profile(*overrides: str) -> Figures:
    """Rate of a longer run, the parts of its rounds, and the launcher's share of a core."""
    with launched(CONFIG, (*_limits(PROFILED_ROUNDS), *overrides)) as run:
        share = _launcher_share(run)
        run.wait(TIMEOUT_S)
        (trace,) = run.directory.glob("*/*/trace.json")
        return {"env_steps_per_s": _rate(run), **round_parts(trace), "launcher_share": share}


def _limits(last_round: int) -> tuple[str, str]:
    return f"metrics.interval_s={METRICS_INTERVAL_S}", f"stop.env_steps={last_round * ROWS}"


def _rate(run: Launched) -> float:
    rows = _settled(run)
    steps, seconds = (_number(rows[-1], key) - _number(rows[0], key) for key in _COUNTERS)
    return steps / seconds


def _settled(run: Launched) -> list[dict[str, object]]:
    """Rows of metrics from the first round that counts on."""
    rows = run.lines("metrics.jsonl")
    return [row for row in rows if _number(row, "env_steps") >= FIRST_ROUND * ROWS]


def _number(row: dict[str, object], key: str) -> float:
    return float(str(row[key]))


def _launcher_share(run: Launched) -> float:
    """Processor time of the launcher by time, while rounds go on."""
    looks: list[tuple[float, float]] = []
    while run.process.poll() is None:
        rows = _settled(run)
        if rows and _number(rows[-1], "env_steps") < PROFILED_ROUNDS * ROWS:
            looks.append((time.monotonic(), cpu_s(run.process.pid)))
        time.sleep(POLL_S)
    (first_s, first), (last_s, last) = looks[0], looks[-1]
    return (last - first) / (last_s - first_s)


def sb3_rates(last_round: int, limit_s: float) -> Figures:
    """Env steps per second of Stable-Baselines3 by number of torch threads."""
    counts = ("--first", str(FIRST_ROUND * ROWS), "--last", str(last_round * ROWS))
    limit = ("--limit-s", str(limit_s))
    figures, _ = peer_sb3.run("throughput", *counts, *limit, "--threads", "1", "2")
    return {f"sb3_{threads}_threads_env_steps_per_s": rate for threads, rate in figures.items()}


def measure(rounds: int, last_round: int, limit_s: float, *, peer: bool) -> Figures:
    """Medians of the rates, A and B measured in turn."""
    found: list[Figures] = []
    for number in range(rounds):
        figures = sb3_rates(last_round, limit_s) if peer and number % 2 else {}
        figures["fastloop_env_steps_per_s"] = fastloop_rate(last_round)
        if peer and number % 2 == 0:
            figures |= sb3_rates(last_round, limit_s)
        report(f"round {number + 1} of {rounds}", figures)
        found.append(figures)
    return medians(found)


def report(title: str, figures: Figures) -> None:
    """Print a line of progress."""
    print(f"{title}: " + ", ".join(f"{k} {v:,.4g}" for k, v in figures.items()), flush=True)


def main() -> None:
    """Measure everything and print the last line."""
    parser = argparse.ArgumentParser(description="PPO on CartPole against Stable-Baselines3.")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    quick = parser.parse_args().quick
    peer = installed(peer_sb3.DISTRIBUTION) is not None
    skipped = () if peer else (f"{peer_sb3.DISTRIBUTION} is not installed",)
    found = measure(*((2, 30, 5.0) if quick else (5, 100, 30.0)), peer=peer)
    for title, override in (
        ("profile", "evaluation.every_env_steps=null"),
        ("evaluating", EVALUATION),
    ):
        figures = fastloop_profile(override)
        report(title, figures)
        found |= {f"{title}_{key}": value for key, value in figures.items()}
    best = max((rate for name, rate in found.items() if name.startswith("sb3")), default=None)
    ratio = None if best is None else found["fastloop_env_steps_per_s"] / best
    print_result("ppo_throughput", ratio, TARGET, skipped=skipped, **found)


if __name__ == "__main__":
    main()
