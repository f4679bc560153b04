"""What the policy thinks of a frame: what it costs the optimizer, and the page that tells.

    python -m benchmarks.insight [--quick]

In one process, with a learner and a board as a run has them. ``publish_ms`` is what the optimizer
does at most once a second while somebody looks, ``unwatched_us`` what it does in each turn while
nobody does; ``frame_ms`` is the page's for one frame, in a process of less priority.
"""

from __future__ import annotations

import argparse
import logging
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import print_result
from fast_core.algorithm import Algorithm
from fast_core.algorithm.spec import EnvironmentSpec, SpaceSpec
from fast_core.algos.ppo.config import PPOConfig
from fast_core.algos.replay.sac_config import SACConfig
from fast_core.config import (
    AlgorithmConfig,
    DashboardConfig,
    EnvironmentConfig,
    RolloutConfig,
    RunConfig,
    StopConfig,
)
from fast_core.dashboard.insight import Insights
from fast_core.launcher.prepare import make_plan, resolve
from fast_core.memory import Structure, Trace
from fast_core.messages.inproc import InprocHub
from fast_core.nodes.learn.insights import InsightBoards
from fast_core.nodes.node import NodeContext
from fast_core.run.frame import Frame
from fast_core.run.memory import RunMemory
from fast_core.run.structures import insights, watching
from fast_core.run.watching import WATCHING, Watching

TARGET = 0.01  # of the optimizer's time, once a second
BOX = SpaceSpec("box", (17,), "float32", low=(-np.inf,), high=(np.inf,))
PIXELS = SpaceSpec("box", (4, 84, 84), "uint8", low=(0.0,), high=(255.0,))
TORQUES = SpaceSpec("box", (6,), "float32", low=(-1.0,), high=(1.0,))
CHOICES = SpaceSpec("discrete", (), "int64", n=6)
CASES: dict[str, tuple[AlgorithmConfig, EnvironmentSpec]] = {
    "ppo_mlp": (PPOConfig(), EnvironmentSpec("Box", BOX, TORQUES)),
    "ppo_cnn": (PPOConfig(), EnvironmentSpec("Pixels", PIXELS, CHOICES, frames=4)),
    "sac_mlp": (SACConfig(), EnvironmentSpec("Box", BOX, TORQUES)),
}


def median_s(call: Callable[[], object], times: int) -> float:
    """Median seconds of a call."""
    found = []
    for _ in range(times):
        started_s = time.perf_counter()
        call()
        found.append(time.perf_counter() - started_s)
    return statistics.median(found)


def measured(name: str, folder: Path, times: int) -> dict[str, float]:
    """The figures of one case."""
    algorithm, environment = CASES[name]
    config = RunConfig(
        name=name,
        environment=EnvironmentConfig(id=environment.id),
        rollout=RolloutConfig(shards=1, envs_per_shard=8, steps=32),
        algorithm=algorithm,
        stop=StopConfig(env_steps=1_000),
        dashboard=DashboardConfig(enabled=True),
        mode="inline",
    )
    plan = make_plan(resolve(config, environment, 2), environment, str(folder), None, None)
    plan = replace(plan, own=(watching(plan), _board(plan)))
    memory = RunMemory.create(plan)
    learner: Algorithm = algorithm.make_algorithm(environment, plan.learner_setup)
    boards = InsightBoards.of(_context(plan, memory), learner)
    assert boards is not None, "there is a viewer"
    found = {"unwatched_us": 1e6 * median_s(lambda: boards.offer(1), 20 * times)}
    words = Watching(memory.at(Trace, WATCHING).words)
    words.want({0: 1}, time.monotonic_ns(), insight=True)
    found["publish_ms"] = 1e3 * median_s(boards._publish, times)
    teller, frame = Insights(plan, memory), _frame(environment)
    assert teller.of(frame) is not None, "it was published"
    found["frame_ms"] = 1e3 * median_s(lambda: teller.of(frame), times)
    memory.close()
    return found


def _board(plan: Any) -> Structure:
    board = insights(plan)
    assert board is not None, "weights are not enough"
    return board


def _context(plan: Any, memory: RunMemory) -> NodeContext:
    name = "optimizer-0"
    return NodeContext(
        name=name,
        rank=0,
        plan=plan,
        memory=memory,
        channel=InprocHub().connect(name),
        doorbell=memory.doorbell(name),
        stats=memory.stats(name),
        spans=memory.spans(name),
    )


def _frame(environment: EnvironmentSpec) -> Frame:
    seen, action = environment.observation, environment.action
    obs = np.zeros(seen.shape, seen.row_dtype)
    taken = np.zeros(action.shape, action.row_dtype)
    none = np.empty(0, np.float32)
    return Frame(1, 0, 0, 0, 0, 0, 0, 1, 0.0, 5.0, "", None, obs, taken, none)


def main() -> None:
    """Measures every case and prints the last line."""
    parser = argparse.ArgumentParser(description="What an insight costs.")
    parser.add_argument("--quick", action="store_true", help="fewer times")
    times = 20 if parser.parse_args().quick else 200
    logging.disable(logging.INFO)
    figures: dict[str, float] = {}
    for name in CASES:
        with tempfile.TemporaryDirectory() as folder:
            found = measured(name, Path(folder), times)
        figures |= {f"{name}_{what}": value for what, value in found.items()}
        print(
            f"{name}: publish {found['publish_ms']:.2f} ms, a frame {found['frame_ms']:.2f} ms, "
            f"unwatched {found['unwatched_us']:.2f} us"
        )
    slowest = max(value for what, value in figures.items() if what.endswith("publish_ms"))
    print_result("insight", slowest / 1e3, TARGET, better="lower", **figures)


if __name__ == "__main__":
    main()
