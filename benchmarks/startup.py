"""Launch to first env step, and memory per env node: the fork server against spawn.

    python -m benchmarks.startup [--quick]

The same launcher and the same nodes twice: forked from FastLoop's server, which has imported
what they share, and each in a new interpreter (`benchmarks.spawned`). Measured from the start of
the command to the moment at which every node has reported ready, each with a real reset and step
done, and the scheduler orders the first rollout (``start`` in ``events.jsonl``). Memory is the
proportional set size of the env nodes half a second later, shared pages divided among their users.

The ratio is that of the times with the default settings, in which no process imports torch; the
other figures are with a learner and policies that use torch.
"""

from __future__ import annotations

import argparse
import statistics
import time
from datetime import datetime
from pathlib import Path

from benchmarks.launched import Launched, launched, pss_bytes
from benchmarks.measure import medians, print_result

CONFIG = Path("configs/ppo_cartpole_bench.yaml")
TARGET = 1.0
PROGRAMS = {"forked": "fast_core.tools.cli", "spawned": "benchmarks.spawned"}
SETTINGS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("", ()),
    ("torch_", ("policy.backend=torch", "algorithm.gradient=autograd")),
)
UNTIL_STOPPED = "stop.env_steps=100_000_000"
SETTLED_S = 0.5
POLL_S = 0.005
ROUNDS, QUICK_ROUNDS = 7, 2
START_LIMIT_S = 120.0
MIB = 1 << 20


def start(program: str, *overrides: str) -> dict[str, float]:
    """Seconds to the first order, and MiB of an env node."""
    begun = datetime.now()
    with launched(CONFIG, (UNTIL_STOPPED, *overrides), program=program) as run:
        seconds = (_first_order(run) - begun).total_seconds()
        time.sleep(SETTLED_S)
        nodes = [pid for name, pid in run.nodes().items() if name.startswith("env-")]
        pss = statistics.mean(pss_bytes(pid) for pid in nodes)
    return {"start_s": seconds, "env_node_pss_mib": pss / MIB}


def _first_order(run: Launched) -> datetime:
    deadline_s = time.monotonic() + START_LIMIT_S
    while time.monotonic() < deadline_s:
        for entry in run.lines("events.jsonl"):
            if entry["what"] == "start":
                return datetime.fromisoformat(str(entry["wall"]))
        if run.process.poll() is not None:
            run.wait(0)
        time.sleep(POLL_S)
    raise RuntimeError(f"the run did not start within {START_LIMIT_S:g} s")


def main() -> None:
    """Measure everything in turn and print the last line."""
    parser = argparse.ArgumentParser(description="Fork server against spawn.")
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    quick = parser.parse_args().quick
    rounds = QUICK_ROUNDS if quick else ROUNDS
    found = []
    for number in range(rounds):
        figures: dict[str, float] = {}
        settings = SETTINGS[: 1 if quick and number else None]
        for kind in sorted(PROGRAMS, reverse=number % 2 == 1):
            for title, overrides in settings:
                for key, value in start(PROGRAMS[kind], *overrides).items():
                    figures[f"{kind}_{title}{key}"] = value
        text = ", ".join(f"{name} {value:.2f}" for name, value in figures.items())
        print(f"round {number + 1} of {rounds}: {text}", flush=True)
        found.append(figures)
    result = medians(found)
    ratio = result["forked_start_s"] / result["spawned_start_s"]
    print_result("startup", ratio, TARGET, better="lower", **result)


if __name__ == "__main__":
    main()
