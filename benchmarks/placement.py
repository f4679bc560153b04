"""Env nodes served by a policy node against environments stepped with no policy at all.

    python -m benchmarks.placement [--quick]

64 environments whose steps take 1 ms or 10 ms (`benchmarks.slow_env`), shared by two env nodes;
the policy is in a policy node of its own (``policy.placement: node``), strictly synchronous
(degree 0), with an algorithm that learns nothing. The ideal is two bare loops over the same
environments, which wait for nobody. ``busy`` steps compute for that long, so that env nodes and
the policy node share the cores; the others sleep, as when a simulator computes elsewhere.

Both count env steps between two moments at which all processes are running. The ratio is the
lowest of the four; ``env_placement`` figures are of the same runs with the policy in the env nodes.
"""

from __future__ import annotations

import tempfile
from multiprocessing.sharedctypes import Synchronized
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import cast

import gymnasium
import numpy as np

from benchmarks.against_sb3 import number, quick_asked, report
from benchmarks.bare_loops import START_LIMIT_S, bare_rate
from benchmarks.launched import launched
from benchmarks.measure import medians, print_result
from benchmarks.slow_env import ENVIRONMENT, SlowEnv

TARGET = 0.95
NODES = 2
ENVS = 32
STEPS = {1.0: 32, 10.0: 8}  # of a rollout, by milliseconds of a step: rounds of 1 s and 2.6 s
CONFIG = f"""
name: placement
environment: {{id: {ENVIRONMENT}, modules: [benchmarks.slow_env]}}
rollout: {{shards: {NODES}, envs_per_shard: {ENVS}}}
algorithm: {{name: "benchmarks.null_algorithm:NullConfig", minibatch_size: 256}}
nodes: {{env: {{count: {NODES}}}}}
evaluation: {{every_env_steps: null, at_end: false}}
checkpoint: {{every_updates: null, at_end: false}}
metrics: {{interval_s: 0.05, tensorboard: false}}
"""


def fastloop_rate(step_ms: float, *, busy: bool, placement: str, rounds: int) -> float:
    """Env steps per second of all env nodes, over ``rounds`` whole rounds."""
    steps = STEPS[step_ms]
    rows = NODES * ENVS * steps
    overrides = (
        f"environment.kwargs={{step_s: {step_ms / 1000}, busy: {str(busy).lower()}}}",
        f"rollout.steps={steps}",
        f"policy.placement={placement}",
        f"stop.env_steps={(rounds + 1) * rows}",
    )
    with tempfile.TemporaryDirectory(prefix="fastloop-bench-") as directory:
        config = Path(directory) / "placement.yaml"
        config.write_text(CONFIG + "stop: {time_s: 600}\n")
        with launched(config, overrides) as run:
            run.wait(START_LIMIT_S + 10 * rounds)
            found = [row for row in run.lines("metrics.jsonl") if number(row, "env_steps") >= rows]
    first, last = found[0], found[-1]
    counted = number(last, "env_steps") - number(first, "env_steps")
    return counted / (number(last, "time_s") - number(first, "time_s"))


def ideal_rate(step_ms: float, *, busy: bool) -> float:
    """Env steps per second of bare loops in as many processes."""
    return bare_rate(bare_loop, [(step_ms / 1000, busy)] * NODES, 2.0 + 0.1 * step_ms)


def bare_loop(step_s: float, busy: bool, counter: Synchronized[int], barrier: Barrier) -> None:
    """Step environments for ever; runs in a process of its own."""
    envs = [make(step_s, busy) for _ in range(ENVS)]
    for env in envs:
        env.reset(seed=0)
    action = np.int64(0)
    barrier.wait()
    while True:
        for env in envs:
            _, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                env.reset()
            counter.value += 1


def make(step_s: float, busy: bool) -> SlowEnv:
    """The environment as FastLoop makes it, without the checks of Gymnasium's wrappers."""
    made = gymnasium.make(ENVIRONMENT, disable_env_checker=True, step_s=step_s, busy=busy)
    return cast("SlowEnv", made)


def main() -> None:
    """Measure everything in turn and print the last line."""
    quick = quick_asked("A policy node against environments stepped with no policy.")
    turns, rounds = (1, 3) if quick else (3, 6)
    found: list[dict[str, float]] = []
    for turn in range(turns):
        figures: dict[str, float] = {}
        for step_ms in STEPS:
            for busy in (False, True):
                case = f"{step_ms:g}ms_{'busy' if busy else 'asleep'}"
                bare = ideal_rate(step_ms, busy=busy)
                node = fastloop_rate(step_ms, busy=busy, placement="node", rounds=rounds)
                beside = fastloop_rate(step_ms, busy=busy, placement="env", rounds=rounds)
                again = ideal_rate(step_ms, busy=busy)
                ideal = (bare + again) / 2
                figures |= {
                    f"ideal_{case}_env_steps_per_s": ideal,
                    f"node_{case}_ratio": node / ideal,
                    f"env_placement_{case}_ratio": beside / ideal,
                }
        report(f"turn {turn + 1} of {turns}", figures)
        found.append(figures)
    result = medians(found)
    ratio = min(value for key, value in result.items() if key.startswith("node_"))
    print_result("placement", ratio, TARGET, **result)


if __name__ == "__main__":
    main()
