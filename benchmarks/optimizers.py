"""Several optimizers against one with as many threads, in optimizer steps per second.

    python -m benchmarks.optimizers [--quick]

SAC on batches of 256 that stay where they are, observations of 17 numbers and 6 actions, with
hidden layers of 2x256 and 2x64; no environment and no replay. Each optimizer is a process with
one thread. Averaged steps are of 256 rows in all, half of them in each of two optimizers; steps of
async gradients are of 256 rows each.

The ratio is that of two optimizers that average through shared memory to one with two threads, at
2x256. Other lines: gloo in place of shared memory, async, and 2x64.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.bare_updates import random_batch
from benchmarks.measure import alternate, print_result
from fast_core.algorithm import Array, ReplayBatch
from fast_core.algorithm.spec import EnvironmentSpec, SpaceSpec
from fast_core.algos.replay.sac_config import SACConfig
from fast_core.config import (
    EnvironmentConfig,
    NodesConfig,
    OptimizerNodeConfig,
    RolloutConfig,
    RunConfig,
    StopConfig,
)
from fast_core.nodes.learn.contract import make_learner
from fast_core.nodes.learn.stepping import make_stepper
from fast_core.run.memory import RunMemory
from fast_core.run.parts import parts_of
from fast_core.run.plan import RunPlan
from fast_core.system.threads import ENVIRONMENT, set_threads

TARGET = 1.0
PEERS = ("mujoco",)
BATCH = 256
WIDTHS = {"2x256": (256, 256), "2x64": (64, 64)}
SECONDS = 3.0
WARM_UP_STEPS = 20
GUESS = {"2x256": 80, "2x64": 700}  # steps of a second, about: how long a measurement takes
LIMIT_S = 90.0
VARIANTS: dict[str, dict[str, Any]] = {
    "one_1_thread": {},
    "one_2_threads": {"threads": 2},
    "two_shared": {"count": 2, "collective": "shared"},
    "two_gloo": {"count": 2, "collective": "gloo"},
    "two_async": {"count": 2, "update": "async"},
}

_context = multiprocessing.get_context("fork")


class Resident:
    """One batch, again and again; implements `fast_core.nodes.learn.batches.Batches`."""

    def __init__(self, batch: ReplayBatch, steps: int) -> None:
        self._batch, self.left = batch, steps

    def next(self, ahead: int = 0) -> ReplayBatch | None:
        """The batch, as long as steps are left that are not begun."""
        return self._batch if self.left > ahead else None

    def finish(self, priority: Array | None, extra: Mapping[str, Array] | None = None) -> None:
        """One step less."""
        self.left -= 1


def plan_of(width: str, folder: Path, **optimizer: Any) -> RunPlan:
    """A run of HalfCheetah's size with these optimizers."""
    box = SpaceSpec("box", (17,), "float32", low=(-10.0,) * 17, high=(10.0,) * 17)
    action = SpaceSpec("box", (6,), "float32", low=(-1.0,) * 6, high=(1.0,) * 6)
    config = RunConfig(
        name="optimizers",
        environment=EnvironmentConfig(id="Bench-v0"),
        rollout=RolloutConfig(shards=1, envs_per_shard=1, steps=32),
        algorithm=SACConfig(hidden_sizes=WIDTHS[width], batch_size=BATCH),
        nodes=NodesConfig(optimizer=OptimizerNodeConfig(**({"threads": 1} | optimizer))),
        stop=StopConfig(env_steps=1_000),
    )
    spec = EnvironmentSpec("Bench-v0", box, action)
    return RunPlan(config, spec, str(folder), parts_of(config, 1), "numpy")


def optimizer(plan: RunPlan, memory: RunMemory, rank: int, steps: int, meet: Any) -> float:
    """Take ``steps`` steps with all others; returns how many there were in a second, at rank 0."""
    learner = make_learner(plan, rank)
    set_threads(plan.roles[plan.names.optimizers[rank]].threads)
    learner.reseed(rank)  # type: ignore[attr-defined]
    share = steps if plan.averages else steps // plan.optimizers
    warm_up = WARM_UP_STEPS if plan.averages else WARM_UP_STEPS // plan.optimizers
    batches = Resident(random_batch(plan), warm_up)
    stepper = make_stepper(plan, memory, rank, learner, batches)
    bell = memory.doorbell(plan.names.optimizers[rank])

    def take(count: int) -> None:
        done, begin_s = 0, time.monotonic()
        while (done < count) if rank == 0 else (batches.left or stepper.pending):
            seen, before = bell.value(), (batches.left, stepper.pending)
            if stepper.advance() is not None:
                done += 1
            elif before == (batches.left, stepper.pending):
                bell.wait(seen, 1.0)
            if time.monotonic() - begin_s > LIMIT_S:
                raise TimeoutError(f"optimizer-{rank} waits for others")

    take(WARM_UP_STEPS)
    meet.wait(LIMIT_S)
    batches.left, begin_s = share, time.perf_counter()
    take(steps)
    seconds = time.perf_counter() - begin_s
    meet.wait(LIMIT_S)
    stepper.close()
    return steps / seconds


def measured(width: str, steps: int, **options: Any) -> float:
    """Steps of a second, with each optimizer in a new process."""
    with tempfile.TemporaryDirectory() as folder:
        plan = plan_of(width, Path(folder), **options)
        memory = RunMemory.create(plan)
        meet, result = _context.Barrier(plan.optimizers), _context.Value("d", 0.0)

        def run(rank: int) -> None:
            rate = optimizer(plan, memory, rank, steps, meet)
            if rank == 0:
                result.value = rate

        processes = [_context.Process(target=run, args=(r,)) for r in range(plan.optimizers)]
        for process in processes:
            process.start()
        for process in processes:
            process.join(2 * LIMIT_S)
            if process.is_alive():
                process.kill()
        memory.close()
        if any(process.exitcode for process in processes):
            raise RuntimeError(f"an optimizer failed: {options}")
        return float(result.value)


def main() -> None:
    """Measure, and print the last line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    quick = parser.parse_args().quick
    if missing := ENVIRONMENT.items() - os.environ.items():
        # Before any library is loaded: as nodes have it.
        command = [sys.executable, "-m", "benchmarks.optimizers", *sys.argv[1:]]
        os.execve(command[0], command, {**os.environ, **dict(missing)})
    rounds, seconds, widths = (1, 0.2, ["2x256"]) if quick else (5, SECONDS, list(WIDTHS))
    medians: dict[str, float] = {}
    for width in widths:
        steps = 2 * round(GUESS[width] * seconds / 2)
        calls = {
            name: partial(measured, width, steps, **options) for name, options in VARIANTS.items()
        }
        found = alternate(rounds, **calls)
        for name, rate in found.items():
            share = rate / found["one_2_threads"]
            print(f"{width} {name:14} {rate:8.1f} updates/s  {share:5.2f} of one with 2 threads")
            medians[f"{width}_{name}_updates_per_s"] = rate
    ratio = medians["2x256_two_shared_updates_per_s"] / medians["2x256_one_2_threads_updates_per_s"]
    skipped = [] if len(os.sched_getaffinity(0)) > 1 else ["two cores"]
    print_result("optimizers", None if skipped else ratio, TARGET, skipped=skipped, **medians)


if __name__ == "__main__":
    main()
