"""Memory of a run per stored transition, against the least that can hold it.

    python -m benchmarks.replay_memory [--quick]

SAC on HalfCheetah-v5 as `fastloop launch` runs it, once with a small replay and once with a large
one, both reserved in full before anything starts. What all of the run's processes take together
(proportional set size: private memory, and shared memory divided among its users) grows with the
capacity; divided by how much larger that is, it gives the bytes of one transition, whatever they
are spent on. The least is one observation, action and reward in the types that the environment
declares: of episodes of a thousand steps, the observation after a step is that of the next one.
``by_priority`` figures are of draws by priority, with four bytes more in the least.
"""

from __future__ import annotations

import time
from pathlib import Path

from benchmarks.against_sb3 import number, quick_asked, report
from benchmarks.launched import launched
from benchmarks.measure import medians, print_result
from benchmarks.memory import MIB, total_mib
from fast_core.config.algorithms import algorithm_config_type
from fast_core.config.file import load
from fast_core.envs.trying.probe import probe
from fast_core.memory import replay_fields

CONFIG = Path("configs/sac_halfcheetah_bench.yaml")
TARGET = 1.1
PEERS = ("mujoco",)
CAPACITY = 100_000
LARGE, QUICK_LARGE = 6_000_000, 2_000_000
EPISODE_STEPS = 1_000
PRIORITY_BYTES = 4
SETTLED_ENV_STEPS = 1_100  # learning has begun, so every buffer there is has been made
START_LIMIT_S = 60.0
POLL_S = 0.1
VARIANTS = {"uniform": (), "by_priority": ("replay.prioritized=true",)}
ONE_THREAD = "nodes.optimizer.threads=1"  # two wait long for each other where others work too


def run_mib(capacity: int, *overrides: str) -> float:
    """All processes of a run that has begun to learn."""
    limits = (f"replay.capacity={capacity}", "stop.env_steps=1_000_000", "metrics.interval_s=0.1")
    with launched(CONFIG, (*limits, ONE_THREAD, *overrides)) as run:
        deadline_s = time.monotonic() + START_LIMIT_S
        while True:
            rows = run.lines("metrics.jsonl")
            if rows and number(rows[-1], "env_steps") >= SETTLED_ENV_STEPS:
                return total_mib(run.process.pid)
            if run.process.poll() is not None or time.monotonic() > deadline_s:
                raise RuntimeError("the run did not get going")
            time.sleep(POLL_S)


def least_bytes() -> int:
    """Bytes of an observation, an action and a reward."""
    config = load(CONFIG, [], algorithm_config_type)
    environment = probe(config.environment, config.seed)
    fields = replay_fields(environment.row, config.algorithm.action_field(environment))
    return sum(field.row_nbytes for field in fields)


def transition_bytes(large: int, *overrides: str) -> float:
    """What one more transition takes."""
    small_mib, large_mib = run_mib(CAPACITY, *overrides), run_mib(large, *overrides)
    # The final observation of each episode takes a row, too.
    transitions = (large - CAPACITY) * EPISODE_STEPS / (EPISODE_STEPS + 1)
    return (large_mib - small_mib) * MIB / transitions


def main() -> None:
    """Measure everything in turn and print the last line."""
    quick = quick_asked("Memory of a run per stored transition.")
    turns, large = (1, QUICK_LARGE) if quick else (3, LARGE)
    found: list[dict[str, float]] = []
    for turn in range(turns):
        figures = {
            f"{name}_bytes_per_transition": transition_bytes(large, *overrides)
            for name, overrides in VARIANTS.items()
        }
        report(f"turn {turn + 1} of {turns}", figures)
        found.append(figures)
    result, least = medians(found), least_bytes()
    leasts = {"uniform": least, "by_priority": least + PRIORITY_BYTES}
    for name, value in leasts.items():
        result[f"{name}_least_bytes"] = value
        result[f"{name}_ratio"] = result[f"{name}_bytes_per_transition"] / value
    ratio = result.pop("uniform_ratio")
    print_result("replay_memory", ratio, TARGET, better="lower", **result)


if __name__ == "__main__":
    main()
