"""A slow collector and a slow learner under `AsyncTrainer`, against the pipelined ideal.

    python -m benchmarks.embedding [--quick]

A call of either takes 50 ms, asleep as one that waits for a simulator or a GPU; 256 KiB of data
come back and 256 KiB of weights go out in each round. The ideal is that the slower side never
waits but for the first call of the other: what its calls take, as they measure it themselves, and
that one. ``degree_0`` is one after the other, which can reach half of it. The ratio is that of the
worse backend at degree 1.

Then what weights, a rollout and a small value cost on their way to another process and back
(`benchmarks.carried`).
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

from benchmarks import carried
from benchmarks.measure import print_result
from fast_core.integrations import AsyncTrainer

TARGET = 0.9
CALL_S = 0.05
FLOATS = 1 << 16
CASES: dict[str, dict[str, Any]] = {
    "degree_0": {"backend": "thread", "off_policy_degree": 0},
    "thread": {"backend": "thread", "off_policy_degree": 1},
    "process": {"backend": "process", "off_policy_degree": 1},
}


class Collector:
    """Collects how long that took."""

    def __init__(self, rank: int, seed: int):
        self.weights = np.zeros(FLOATS, np.float32)

    def collect(self) -> np.ndarray:
        """Take the time."""
        began_s = time.monotonic()
        time.sleep(CALL_S)
        return np.full(FLOATS, time.monotonic() - began_s, np.float32)

    def load_weights(self, state: np.ndarray, version: int) -> None:
        """Do as one that has a model."""
        self.weights[:] = state


class Learner(Collector):
    """Learns how long collecting took, and notes both."""

    def __init__(self) -> None:
        super().__init__(0, 0)
        self.collecting_s, self.training_s = list[float](), list[float]()

    def train(self, batch: np.ndarray) -> None:
        """Take the time."""
        self.collecting_s.append(float(batch[0]))
        self.training_s.append(float(self.collect()[0]))

    def get_weights(self) -> np.ndarray:
        """Those of now."""
        return self.weights

    def ideal_s(self) -> float:
        """What all calls would take side by side, if nobody waited longer than he must."""
        collecting_s, training_s = sum(self.collecting_s), sum(self.training_s)
        return max(collecting_s + self.training_s[-1], self.collecting_s[0] + training_s)


def overlap(rounds: int, **how: Any) -> float:
    """The ideal's time as a share of what the rounds take."""
    learner = Learner()
    stats = (
        AsyncTrainer(collector=Collector, learner=learner, **how).run(max_train_iter=rounds).stats
    )
    return learner.ideal_s() / (stats.training_s + stats.training_waits_s)


def main() -> None:
    """Measure every case in turn, and print the last line."""
    parser = argparse.ArgumentParser(description="How much AsyncTrainer overlaps.")
    parser.add_argument("--quick", action="store_true", help="fewer rounds, once")
    quick = parser.parse_args().quick
    found: dict[str, list[float]] = {name: [] for name in CASES}
    for number in range(1 if quick else 3):
        for name, how in CASES.items():
            found[name].append(overlap(20 if quick else 100, **how))
            print(f"{number} {name}: {found[name][-1]:.3f} of the ideal", flush=True)
    medians = {name: sorted(values)[len(values) // 2] for name, values in found.items()}
    costs = carried.measure(3 if quick else 9)
    for case in carried.CASES:
        pickled, shared = costs[f"{case}_pickled_ms"], costs[f"{case}_shared_ms"]
        times = f"{pickled / shared:.2f} times as cheap"
        print(f"{case}: {shared:.3f} ms of CPU, pickled {pickled:.3f} ms: {times}", flush=True)
    ratio = min(value for name, value in medians.items() if name != "degree_0")
    print_result("embedding", ratio, TARGET, **medians, **costs)


if __name__ == "__main__":
    main()
