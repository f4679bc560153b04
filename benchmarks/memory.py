"""Memory of a run with 8 env nodes against Stable-Baselines3 with 8 environment processes.

    python -m benchmarks.memory [--quick]

Proportional set size (private memory, and shared memory divided among its users) of all processes,
while training CartPole-v1 with PPO: FastLoop's launcher, fork server, watchdog, 8 env nodes,
optimizer, evaluator and metrics node, and SB3's process with the 8 of a SubprocVecEnv. The work is
that of `benchmarks.ppo_throughput`. ``torch`` figures are of a FastLoop run whose learner and
policies use torch too; by default nothing imports it.
"""

from __future__ import annotations

import time
from pathlib import Path

from benchmarks import peer_sb3
from benchmarks.against_sb3 import quick_asked, report
from benchmarks.launched import descendants, launched, pss_bytes
from benchmarks.measure import installed, medians, print_result

CONFIG = Path("configs/ppo_cartpole_bench.yaml")
TARGET = 1 / 3
PEERS = ("stable-baselines3",)
NODES = 8
OVERRIDES = (
    f"rollout.shards={NODES}",
    "rollout.envs_per_shard=1",
    "rollout.steps=128",
    f"nodes.env.count={NODES}",
    "evaluation.every_env_steps=20_000",
    "stop.env_steps=1_000_000_000",
)
TORCH = ("policy.backend=torch", "algorithm.gradient=autograd")
SETTLED_ROUNDS = 20
START_LIMIT_S = 60.0
POLL_S = 0.1
MIB = 1 << 20


def fastloop_mib(*overrides: str) -> float:
    """All processes of a run that has trained for some rounds."""
    with launched(CONFIG, (*OVERRIDES, *overrides)) as run:
        deadline_s = time.monotonic() + START_LIMIT_S
        while True:
            rows = run.lines("metrics.jsonl")
            if rows and float(str(rows[-1]["env_steps"])) >= SETTLED_ROUNDS * 1024:
                break
            if run.process.poll() is not None or time.monotonic() > deadline_s:
                raise RuntimeError("the run did not get going")
            time.sleep(POLL_S)
        return total_mib(run.process.pid)


def total_mib(pid: int) -> float:
    """A process and everything below it."""
    return sum(pss_bytes(each) for each in (pid, *descendants(pid))) / MIB


def main() -> None:
    """Measure everything in turn and print the last line."""
    quick = quick_asked("Memory of 8 environment processes.")
    peer = installed(peer_sb3.DISTRIBUTION) is not None
    turns = 1 if quick else 3
    found: list[dict[str, float]] = []
    for turn in range(turns):
        figures = {"fastloop_mib": fastloop_mib(), "fastloop_torch_mib": fastloop_mib(*TORCH)}
        if peer:
            sb3, _ = peer_sb3.run("memory")
            figures |= {"sb3_mib": sb3["pss_bytes"] / MIB}
        report(f"turn {turn + 1} of {turns}", figures)
        found.append(figures)
    result = medians(found)
    ratio = result["fastloop_mib"] / result["sb3_mib"] if peer else None
    skipped = () if peer else (f"{peer_sb3.DISTRIBUTION} is not installed",)
    print_result("memory", ratio, TARGET, better="lower", skipped=skipped, **result)


if __name__ == "__main__":
    main()
