"""From the SIGKILL of a node to the first row of its successor, and the others' rate meanwhile.

    python -m benchmarks.recovery [--quick]

Eight env nodes with a shard each, then two policy nodes that act for them, then the replay node of
eight, of a run with `supervision.restarts` at `off_policy_degree` 4; a node after the other is
killed. The clock is that of the policy (`benchmarks.counted_policy`): the first row that the
successor's acts on; of a replay node, the first update after its process is there. The rate is that
of all nodes of the same kind but the dead one, for a replay node of the env nodes, in the second
after the kill by that of the second before. Environments sleep 1 ms a step; or they are MuJoCo's
HalfCheetah, which a node has to import first, on two env nodes.

The ratio is the worst of all: seconds until the first row by 1 s, or 0.95 by the others' rate.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.counted_policy import UPDATES, counted
from benchmarks.launched import Launched, launched
from benchmarks.measure import print_result
from benchmarks.slow_env import ENVIRONMENT

TARGET = 1.0
ALLOWED_S, LEAST_RATE = 1.0, 0.95
WINDOW_S = 1.0
SETTLED_S = 1.0  # longer than `max_backoff_s` below
LIMIT_S = 30.0
POLL_S = 0.002
NODES = 8
CONFIG = f"""\
name: recovery
rollout: {{shards: {NODES}, envs_per_shard: 4, steps: 32}}
nodes: {{env: {{count: {NODES}}}, policy: {{count: 2}}}}
scheduler: {{off_policy_degree: 4}}
evaluation: {{every_env_steps: null}}
checkpoint: {{every_updates: null, at_end: false}}
metrics: {{tensorboard: false}}
supervision:
  restarts: {{env: 1000, policy: 1000, replay: 1000, backoff_s: 0.5, max_backoff_s: 0.5}}
stop: {{time_s: 600}}
"""
SLOW = (
    f"environment={{id: {ENVIRONMENT}, modules: [benchmarks.slow_env], kwargs: {{step_s: 0.001}}}}"
)
CHEETAH = "environment={id: HalfCheetah-v5}"
ROLLOUTS = 'algorithm={name: "benchmarks.counted_policy:CountedConfig", minibatch_size: 128}'
REPLAY = 'algorithm={name: "benchmarks.counted_policy:CountedDQNConfig", hidden_sizes: [32]}'
RATIO = "scheduler.replay_ratio=0.05"


@dataclass(frozen=True)
class Case:
    """What is killed, and where.

    Attributes:
        kind: Of node.
        environment: Override that names the environment.
        nodes: How many there are.
        algorithm: Overrides that name it.
    """

    kind: str
    environment: str
    nodes: int
    algorithm: tuple[str, ...] = (ROLLOUTS,)


CASES = {
    "env": Case("env", SLOW, NODES),
    "policy": Case("policy", SLOW, 2),
    "replay": Case("replay", SLOW, 1, (REPLAY, RATIO)),
    "env_halfcheetah": Case("env", CHEETAH, 2),
}


@dataclass(frozen=True)
class Found:
    """After one kill.

    Attributes:
        first_row_s: Until the first row of the successor.
        others_rate: Of the others, by that before.
    """

    first_row_s: float
    others_rate: float


def measure(case: Case, kills: int) -> list[Found]:
    """Kill one node after the other of a run."""
    with tempfile.TemporaryDirectory(prefix="fastloop-bench-") as text:
        folder = Path(text)
        config = folder / "config.yaml"
        config.write_text(CONFIG)
        placement = "node" if case.kind == "policy" else "env"
        given = [case.environment, *case.algorithm]
        given += [f"policy.placement={placement}", f"algorithm.folder={text}"]
        if case.kind == "replay":
            with launched(config, given) as run:
                names = [f"env-{k}" for k in range(NODES)]
                _await(run, folder, names)
                return [_kill(run, folder, names, "replay-0") for _ in range(kills)]
        with launched(config, (*given, f"nodes.{case.kind}.count={case.nodes}")) as run:
            names = [f"{case.kind}-{k}" for k in range(case.nodes)]
            _await(run, folder, names)
            return [_kill(run, folder, names, names[k % len(names)]) for k in range(kills)]


def _await(run: Launched, folder: Path, names: list[str]) -> None:
    deadline_s = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline_s:
        pids = run.nodes()
        if all(counted(folder, pids.get(name, 0))[1] for name in names):
            return
        if run.process.poll() is not None:
            run.wait(0)
        time.sleep(POLL_S)
    raise RuntimeError(f"the run did not begin within {LIMIT_S:g} s")


def _kill(run: Launched, folder: Path, names: list[str], victim: str) -> Found:
    time.sleep(SETTLED_S)
    pids = run.nodes()
    others = [pids[name] for name in names if name != victim]
    before = _rate(folder, others, time.monotonic())
    rows, killed_s = _rows(folder, others), time.monotonic()
    os.kill(pids[victim], signal.SIGKILL)
    first_s = _first_s(run, folder, victim, pids[victim])
    time.sleep(max(0.0, killed_s + WINDOW_S - time.monotonic()))
    meanwhile = (_rows(folder, others) - rows) / (time.monotonic() - killed_s)
    return Found(first_s - killed_s, meanwhile / before)


def _first_s(run: Launched, folder: Path, victim: str, old: int) -> float:
    """When the successor acted first; of a replay node, when something was learnt from it."""
    deadline_s, updates = time.monotonic() + LIMIT_S, -1
    while time.monotonic() < deadline_s:
        pid = run.nodes().get(victim, old)
        draws = victim.startswith("replay")
        at_ns, count = counted(folder, UPDATES if draws else pid)
        if pid != old and draws and updates < 0:
            updates = count  # of what its predecessor drew
        elif pid != old and count > max(updates, 0):
            return 1e-9 * at_ns
        time.sleep(POLL_S)
    raise RuntimeError(f"{victim} did not come back within {LIMIT_S:g} s")


def _rows(folder: Path, pids: list[int]) -> int:
    return sum(counted(folder, pid)[1] for pid in pids)


def _rate(folder: Path, pids: list[int], begun_s: float) -> float:
    """Rows per second in the window from now on."""
    before = _rows(folder, pids)
    time.sleep(max(0.0, begun_s + WINDOW_S - time.monotonic()))
    return (_rows(folder, pids) - before) / (time.monotonic() - begun_s)


def main() -> None:
    """Measure every case and print the last line."""
    parser = argparse.ArgumentParser(description="How fast a dead node is back.")
    parser.add_argument("--quick", action="store_true", help="fewer kills")
    kills = 2 if parser.parse_args().quick else 8
    figures: dict[str, float] = {}
    ratio = 0.0
    for name, case in CASES.items():
        found = measure(case, kills)
        first_row_s = statistics.median(each.first_row_s for each in found)
        rate = statistics.median(each.others_rate for each in found)
        figures |= {
            f"{name}_first_row_s": first_row_s,
            f"{name}_worst_first_row_s": max(each.first_row_s for each in found),
            f"{name}_others_rate": rate,
        }
        print(f"{name}: first row after {first_row_s:.3f} s, others {rate:.3f}", flush=True)
        ratio = max(ratio, first_row_s / ALLOWED_S, LEAST_RATE / rate)
    print_result("recovery", ratio, TARGET, better="lower", **figures)


if __name__ == "__main__":
    main()
