"""FastLoop's own learner in a bare loop: the same updates, with nothing round them.

    python -m benchmarks.bare_updates configs/sac_halfcheetah_bench.yaml --threads 2 [key=value ...]

One process, one batch that stays where it is, every core for the learner: no environment, no
replay, no other process. What a run reaches of this rate is what its learner gets to compute.
The last line is a JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from fast_core.algorithm import ReplayBatch
from fast_core.config.algorithms import algorithm_config_type
from fast_core.config.file import load
from fast_core.envs.trying.probe import probe
from fast_core.launcher.prepare import resolve
from fast_core.nodes.learn.contract import make_learner
from fast_core.run.columns import batch_fields
from fast_core.run.parts import parts_of
from fast_core.run.plan import RunPlan
from fast_core.run.structures import rows_per_batch
from fast_core.system.threads import ENVIRONMENT, set_threads

ROOT = Path(__file__).resolve().parent.parent
WARM_UP_S = 0.5
SECONDS = 5.0


def run(config: Path, threads: int, *overrides: str, seconds: float = SECONDS) -> float:
    """Updates per second, measured in a new process whose libraries are set as a node's are."""
    command = [sys.executable, "-m", "benchmarks.bare_updates", str(config), *overrides]
    done = subprocess.run(
        [*command, "--threads", str(threads), "--seconds", str(seconds)],
        cwd=ROOT,
        env={**ENVIRONMENT, **os.environ},
        capture_output=True,
        text=True,
        timeout=60 + 4 * seconds,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"the bare loop failed:\n{done.stdout}{done.stderr}")
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures["updates_per_s"]


def measure(path: Path, overrides: list[str], threads: int, seconds: float) -> float:
    """Updates per second in this process."""
    config = load(path, overrides, algorithm_config_type)
    environment = probe(config.environment, config.seed)
    config = resolve(config, environment, len(os.sched_getaffinity(0)))
    plan = RunPlan(config, environment, "", parts_of(config, 1), "numpy")
    learner = make_learner(plan)
    set_threads(threads)  # after building it, which loads libraries
    batch = random_batch(plan)
    rate(lambda: learner.update(batch), WARM_UP_S)
    return rate(lambda: learner.update(batch), seconds)


def random_batch(plan: RunPlan) -> ReplayBatch:
    """Rows of plausible numbers, in the types that a run's batch slots have."""
    rng, rows = np.random.default_rng(0), rows_per_batch(plan)

    def column(name: str) -> np.ndarray:
        field = next(each for each in batch_fields(plan) if each.name == name)
        drawn = rng.uniform(-1.0, 1.0, (rows, *field.shape))
        return drawn.astype(field.dtype)

    return ReplayBatch(
        obs=column("obs"),
        action=column("action"),
        reward=column("reward"),
        discount=np.full(rows, plan.replay_spec.gamma, np.float32),
        next_obs=column("next_obs"),
        weight=np.ones(rows, np.float32),
        env_steps=10_000,
        progress=0.0,
    )


def rate(call: Callable[[], object], seconds: float) -> float:
    """Calls per second."""
    done, begin_s = 0, time.perf_counter()
    while time.perf_counter() < begin_s + seconds:
        call()
        done += 1
    return done / (time.perf_counter() - begin_s)


def main() -> None:
    """Measure and print the last line."""
    parser = argparse.ArgumentParser(description="FastLoop's learner in a bare loop.")
    parser.add_argument("config", type=Path)
    parser.add_argument("overrides", nargs="*")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    given = parser.parse_args()
    rate = measure(given.config, given.overrides, given.threads, given.seconds)
    print(json.dumps({"updates_per_s": rate}))


if __name__ == "__main__":
    main()
