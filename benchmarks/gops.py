"""DSAC under GOPS's own serial trainer and Ray's, under FastLoop's in their place, and FastLoop's.

    FASTLOOP_GOPS=PYTHON python -m benchmarks.gops [--quick]

Two tasks, with the same settings, task and updates per environment step on all sides.
``cartpole``: GOPS's example for a continuous cart-pole, networks of 2x64 relu, batches of 64, four
environment steps before each update. ``halfcheetah``: MuJoCo's, 2x256, batches of 256, one
environment step per update. Both keep one critic, and update policy and targets every other time.

``serial``: GOPS's off_serial_trainer, on 1 and on 2 threads, of which the better median counts.
``ray``: its off_async_trainer, where Ray is installed; it keeps no ratio of updates to steps.
``wrapped_0``, ``wrapped_1``: FastLoop's trainer round GOPS's own algorithm, sampler and buffer, at
that `off_policy_degree`. ``fastloop``: FastLoop's own DSAC, as `fastloop launch` runs it.

GOPS is not on the package index: FASTLOOP_GOPS names a Python that can import it, which then runs
all of this but ``fastloop`` where its Gymnasium is too old to train with, as GOPS's own is: that
side is run by the Python that this was started with. There, and where there is no GOPS, MuJoCo's
InvertedPendulum takes the cart-pole's place; `tests/clients/gops/standin` takes GOPS's.

The ratio is that of ``fastloop`` on ``cartpole``; ``halfcheetah_ratio`` has a target of its own.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import gymnasium

from benchmarks.against_sb3 import METRICS_INTERVAL_S, Figures, number, quick_asked
from benchmarks.against_sb3 import report as say
from benchmarks.launched import ROOT, launched
from benchmarks.measure import medians, print_result
from fast_core.envs import making

TARGET = 2.0
PEERS = ("mujoco",)
HALFCHEETAH_TARGET = 1.3
THREADS = ("1", "2")
TIMEOUT_S = 900.0  # Ray needs minutes on a busy machine
STARTED_BY = "FASTLOOP_BENCH_PYTHON"  # the Python that this was started with
STANDIN = ROOT / "tests" / "clients" / "gops" / "standin"


@dataclass(frozen=True)
class Case:
    """One task for all sides.

    Attributes:
        config: FastLoop's configuration.
        overrides: What of it differs.
        first: Updates of FastLoop's that don't count.
        last: Updates at which its run ends.
        quick_last: The same with ``--quick``.
        updates: Of GOPS's objects, that count.
        quick_updates: The same with ``--quick``.
    """

    config: Path
    overrides: tuple[str, ...]
    first: int
    last: int
    quick_last: int
    updates: int
    quick_updates: int


CASES = {
    "cartpole": Case(Path("configs/dsac_pendulum_bench.yaml"), (), 500, 10_000, 3_000, 2_000, 300),
    "halfcheetah": Case(
        Path("configs/sac_halfcheetah_bench.yaml"),
        ("name=dsac_halfcheetah_bench", "algorithm.name=dsac"),
        *(100, 3_000, 600),
        *(1_000, 100),
    ),
}


def newest(name: str) -> str:
    """The id of a task of MuJoCo's in the Gymnasium that is installed."""
    ids = (f"{name}-v{version}" for version in (5, 4))
    return next(each for each in ids if each in gymnasium.registry)


def fastloop_rate(task: str, case: Case, *, quick: bool, gops: bool) -> float:
    """Updates per second between the first one that counts and the last."""
    old = int(gymnasium.__version__.partition(".")[0]) < making.OLDEST
    if old:
        cartpole, halfcheetah = "InvertedPendulum-v5", "HalfCheetah-v5"
    else:
        cartpole, halfcheetah = newest("InvertedPendulum"), newest("HalfCheetah")
        cartpole = "benchmarks.gops_tasks:Cartpole" if gops else cartpole
    environment = cartpole if task == "cartpole" else halfcheetah
    python = os.environ.get(STARTED_BY, sys.executable) if old else sys.executable
    last = case.quick_last if quick else case.last
    limits = (f"metrics.interval_s={METRICS_INTERVAL_S}", f"stop.updates={last}")
    overrides = (*case.overrides, *limits, "stop.env_steps=null")
    overrides = (*overrides, f"environment.id={environment}")
    with launched(case.config, overrides, python=python) as run:
        run.wait(TIMEOUT_S)
        rows = [row for row in run.lines("metrics.jsonl") if number(row, "updates") >= case.first]
    updates, seconds = (
        number(rows[-1], key) - number(rows[0], key) for key in ("updates", "time_s")
    )
    return updates / seconds


def trainer_rates(task: str, updates: int, *how: str, gops: bool) -> list[float]:
    """Updates per second of GOPS's objects, for each number of threads.

    Raises:
        RuntimeError: The trainer failed.
    """
    command = [sys.executable, "-m", "benchmarks.gops_trainer", "--task", task]
    path = filter(None, (None if gops else str(STANDIN), os.environ.get("PYTHONPATH")))
    done = subprocess.run(
        [*command, "--updates", str(updates), "--how", *how],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"the trainer {' '.join(how)} failed:\n{done.stdout}{done.stderr}")
    found: dict[str, Figures] = json.loads(done.stdout.splitlines()[-1])
    return [figures["updates_per_s"] for figures in found.values()]


def turn(*, quick: bool, gops: bool, ray: bool, flipped: bool) -> Figures:
    """All rates once; ``flipped``: in the other order."""
    figures: Figures = {}
    for task, case in CASES.items():
        updates = case.quick_updates if quick else case.updates
        serial = tuple(f"{task}_serial_{number}_threads" for number in THREADS)
        sides: list[tuple[tuple[str, ...], tuple[str, ...]]] = [
            (serial, ("serial", "--threads", *THREADS)),
            ((f"{task}_wrapped_0",), ("fastloop",)),
            ((f"{task}_wrapped_1",), ("fastloop", "--degree", "1")),
            ((f"{task}_fastloop",), ()),
        ]
        if ray:
            sides.append(((f"{task}_ray",), ("ray",)))
        for names, how in reversed(sides) if flipped else sides:
            if how:
                rates = trainer_rates(task, updates, *how, gops=gops)
            else:
                rates = [fastloop_rate(task, case, quick=quick, gops=gops)]
            one = {f"{n}_updates_per_s": r for n, r in zip(names, rates, strict=True)}
            say(task, one)
            figures |= one
    return figures


def ratios(found: Figures) -> Figures:
    """Of each side to GOPS's serial trainer at its better number of threads."""
    result: Figures = {}
    for task in CASES:
        rates = {name.split("_", 1)[1]: rate for name, rate in found.items() if task in name}
        best = max(rate for name, rate in rates.items() if name.startswith("serial"))
        for side in ("fastloop", "wrapped_0", "wrapped_1", "ray"):
            if rate := rates.get(f"{side}_updates_per_s"):
                result[f"{task}_{side}"] = rate / best
    return result


def main() -> None:
    """Measure everything in turn and print the last line."""
    # Taken out, so that it is once, however that Python's path is spelled.
    if python := os.environ.pop("FASTLOOP_GOPS", None):
        os.environ[STARTED_BY] = sys.executable
        os.execvp(python, [python, "-m", "benchmarks.gops", *sys.argv[1:]])
    quick = quick_asked("DSAC under GOPS's trainers and FastLoop's.")
    gops, ray = (importlib.util.find_spec(name) is not None for name in ("gops", "ray"))
    if not gops:
        print("GOPS can't be imported (FASTLOOP_GOPS names a Python that can): a stand-in.")
    rounds = 1 if quick else 5
    found = []
    for index in range(rounds):
        print(f"round {index + 1} of {rounds}", flush=True)
        found.append(turn(quick=quick, gops=gops, ray=gops and ray, flipped=index % 2 == 1))
    result = medians(found)
    by = ratios(result)
    result |= {f"{name}_ratio": ratio for name, ratio in by.items()}
    result["halfcheetah_target"] = HALFCHEETAH_TARGET
    print_result("gops", by["cartpole_fastloop"], TARGET, **result)


if __name__ == "__main__":
    main()
