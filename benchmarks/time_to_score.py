"""From launch to CartPole-v1 at 475: FastLoop's command against Stable-Baselines3.

    python -m benchmarks.time_to_score [--quick]

The strictest clock for both: from the start of the process to its end, interpreter start, imports
and shutdown included, until 20 evaluation episodes without exploration average 475 or more.
FastLoop runs `configs/ppo_cartpole.yaml` unchanged but for the seed, as a user does, and leaves a
whole run directory behind (checkpoint, metrics, TensorBoard, trace, report). SB3 runs the settings
of its own zoo, evaluates every 10,000 steps, stops at the score and writes nothing. A run that
ends without the score counts with the time it took, and is counted in ``unsolved``.

The ratio is that of the medians over seeds: FastLoop / SB3.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

from benchmarks import peer_sb3
from benchmarks.launched import launched
from benchmarks.measure import installed, medians, print_result

CONFIG = Path("configs/ppo_cartpole.yaml")
TARGET = 0.5
PEERS = ("stable-baselines3",)
SCORE = 475.0
TIMEOUT_S = 120.0
SEEDS, QUICK_SEEDS = 5, 2


def fastloop(seed: int) -> dict[str, float]:
    """Seconds from the start of ``fastloop launch`` to its end, and what it took."""
    with launched(CONFIG, (f"seed={seed}",)) as run:
        seconds = run.wait(TIMEOUT_S)
        rows = run.lines("metrics.jsonl")
        best = max((_value(row, "eval/return_mean") for row in rows), default=-math.inf)
        return _figures("fastloop", seconds, float(str(rows[-1]["env_steps"])), best)


def _value(row: dict[str, object], name: str) -> float:
    values = row["values"]
    assert isinstance(values, dict)
    return float(values.get(name, -math.inf))


def sb3(seed: int) -> dict[str, float]:
    """The same of Stable-Baselines3, on one torch thread.

    On idle cores two are as fast (12.9 and 11.9 s, seed 3); beside other work two take minutes.
    """
    found, seconds = peer_sb3.run("score", "--seed", str(seed), "--threads", "1")
    return _figures("sb3", seconds, found["env_steps"], found["best_mean_return"])


def _figures(who: str, seconds: float, env_steps: float, best: float) -> dict[str, float]:
    unsolved = 0.0 if best >= SCORE else 1.0
    return {f"{who}_s": seconds, f"{who}_env_steps": env_steps, f"{who}_unsolved": unsolved}


def main() -> None:
    """Measure both in turn, seed by seed, and print the last line."""
    parser = argparse.ArgumentParser(description="Time to CartPole 475 against SB3.")
    parser.add_argument("--quick", action="store_true", help="two seeds instead of five")
    parser.add_argument("--first-seed", type=int, default=0)
    given = parser.parse_args()
    peer = installed(peer_sb3.DISTRIBUTION) is not None
    skipped = () if peer else (f"{peer_sb3.DISTRIBUTION} is not installed",)
    found = []
    for number in range(QUICK_SEEDS if given.quick else SEEDS):
        seed = given.first_seed + number
        measured = [fastloop, sb3][: 2 if peer else 1]
        figures: dict[str, float] = {}
        for measure in measured if number % 2 == 0 else reversed(measured):
            figures |= measure(seed)
        text = ", ".join(f"{name} {value:,.4g}" for name, value in figures.items())
        print(f"seed {seed}: {text}", flush=True)
        found.append(figures)
    result = medians(found)
    for who in ("fastloop", "sb3"):
        result[f"{who}_unsolved"] = sum(figures.get(f"{who}_unsolved", 0.0) for figures in found)
    ratio = result["fastloop_s"] / result["sb3_s"] if peer else None
    print_result("time_to_score", ratio, TARGET, better="lower", skipped=skipped, **result)


if __name__ == "__main__":
    main()
