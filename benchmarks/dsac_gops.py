"""FastLoop's DSAC against a serial trainer as GOPS runs its own, in updates per second.

    python -m benchmarks.dsac_gops [--quick]

Two tasks, the same settings for both sides. ``pendulum``: GOPS's example for a continuous
cart-pole, networks of 2x64 relu, batches of 64, four environment steps before each update, on
MuJoCo's InvertedPendulum-v5, which is that task in Gymnasium (`configs/dsac_pendulum_bench.yaml`).
``halfcheetah``: HalfCheetah-v5, 2x256, batches of 256, one environment step per update. Both keep
one critic and update policy and targets every other time.

GOPS is not on the package index. The peer is `benchmarks.peer_gops`, a plain serial trainer in
torch, which stands in for it, on 1 and on 2 threads, of which the better median counts. Where GOPS
itself is importable, its own trainer is timed too, as ``gops_itself``, with its own cart-pole.

FastLoop runs as `fastloop launch` does, at degree 0; its rate is that between two counts of
updates. The ratio is that of ``pendulum``; ``halfcheetah_ratio`` has a target of its own.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.against_sb3 import METRICS_INTERVAL_S, TIMEOUT_S, Figures, number, quick_asked
from benchmarks.against_sb3 import report as say
from benchmarks.launched import ROOT, launched
from benchmarks.measure import medians, print_result

TARGET = 2.0
PEERS = ("mujoco",)
HALFCHEETAH_TARGET = 1.3
THREADS = ("1", "2")
PEER_S, QUICK_PEER_S = 10.0, 3.0


@dataclass(frozen=True)
class Case:
    """One task for both sides.

    Attributes:
        config: FastLoop's configuration.
        overrides: What of it differs.
        first: Updates that don't count.
        last: Updates at which the run ends.
        quick_last: The same with ``--quick``.
    """

    config: Path
    overrides: tuple[str, ...]
    first: int
    last: int
    quick_last: int


CASES = {
    "pendulum": Case(Path("configs/dsac_pendulum_bench.yaml"), (), 500, 10_000, 3_000),
    "halfcheetah": Case(
        Path("configs/sac_halfcheetah_bench.yaml"),
        ("name=dsac_halfcheetah_bench", "algorithm.name=dsac"),
        100,
        3_000,
        600,
    ),
}


def fastloop_rate(case: Case, *, quick: bool) -> float:
    """Updates per second between the first one that counts and the last."""
    last = case.quick_last if quick else case.last
    limits = (f"metrics.interval_s={METRICS_INTERVAL_S}", f"stop.updates={last}")
    overrides = (*case.overrides, *limits, "stop.env_steps=null")
    with launched(case.config, overrides) as run:
        run.wait(TIMEOUT_S)
        rows = [row for row in run.lines("metrics.jsonl") if number(row, "updates") >= case.first]
    updates, seconds = (
        number(rows[-1], key) - number(rows[0], key) for key in ("updates", "time_s")
    )
    return updates / seconds


def peer_rates(task: str, *, quick: bool) -> Figures:
    """Updates per second of the serial trainer, by number of torch threads."""
    seconds = QUICK_PEER_S if quick else PEER_S
    command = [sys.executable, "-m", "benchmarks.peer_gops", "--task", task]
    done = subprocess.run(
        [*command, "--seconds", str(seconds), "--threads", *THREADS],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"the serial trainer failed:\n{done.stdout}{done.stderr}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return {threads: found[threads] for threads in THREADS}


def turn(*, quick: bool, gops: bool, flipped: bool) -> Figures:
    """All rates once; ``flipped``: the peer first."""
    figures: Figures = {}
    for task, case in CASES.items():
        ours = {} if flipped else {f"{task}_fastloop": fastloop_rate(case, quick=quick)}
        theirs = {
            f"{task}_serial_{threads}_threads": rate
            for threads, rate in peer_rates(task, quick=quick).items()
        }
        if flipped:
            ours = {f"{task}_fastloop": fastloop_rate(case, quick=quick)}
        figures |= ours | theirs
    if gops:
        found = peer_rates("gops", quick=quick)
        figures |= {f"gops_itself_{threads}_threads": rate for threads, rate in found.items()}
    return {f"{name}_updates_per_s": rate for name, rate in figures.items()}


def best(found: Figures, prefix: str) -> float:
    """The peer's better rate."""
    return max(rate for name, rate in found.items() if name.startswith(prefix))


def main() -> None:
    """Measure everything in turn and print the last line."""
    quick = quick_asked("DSAC against a serial trainer like GOPS's.")
    gops = importlib.util.find_spec("gops") is not None
    rounds = 1 if quick else 5
    found = []
    for index in range(rounds):
        found.append(turn(quick=quick, gops=gops, flipped=index % 2 == 1))
        say(f"round {index + 1} of {rounds}", found[-1])
    result = medians(found)
    ratios = {
        task: result[f"{task}_fastloop_updates_per_s"] / best(result, f"{task}_serial")
        for task in CASES
    }
    if gops:
        ours = result["pendulum_fastloop_updates_per_s"]
        result["gops_itself_ratio"] = ours / best(result, "gops_itself")
    result |= {"halfcheetah_ratio": ratios["halfcheetah"], "halfcheetah_target": HALFCHEETAH_TARGET}
    print_result("dsac_gops", ratios["pendulum"], TARGET, **result)


if __name__ == "__main__":
    main()
