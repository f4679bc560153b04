"""LightZero's CartPole MuZero under FastLoop against its own serial loop, env steps per second.

    FASTLOOP_LIGHTZERO=PYTHON python -m benchmarks.lightzero [--quick]

LightZero needs an environment of its own (docs/lightzero.md), whose Python the variable names.
Serial and asynchronous runs take turns, each in a process of its own, with one replay ratio, so
that updates per env step are equal; what counts is from the first push to the game buffer to the
last. In ``slow_*`` a step sleeps for 50 ms and an update for a second, one for 20 steps, as if the
simulator were elsewhere and the network on an accelerator: that shows the overlap on any machine.
``overlap`` is which part of the pipelined ideal is reached, in which the slower side never waits
but for the other's first or last round. The ratio is that of ``slow_*``. The others don't sleep;
``serial_one_thread`` is LightZero's own loop with one thread of torch, as each process of ours.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.measure import medians, print_result

TARGET = 1.5
WITHIN_S = 1_800.0  # of one run, many times what any takes
ROOT = Path(__file__).resolve().parents[1]
PYTHON = os.environ.get("FASTLOOP_LIGHTZERO")
SLOW = ("--step-ms", "50", "--update-ms", "1000", "--simulations", "2", "--batch-size", "16")


def measured(how: str, *arguments: str, threads: str | None = None) -> dict[str, float]:
    """What one run found.

    Raises:
        subprocess.CalledProcessError: It failed; its output was shown.
        subprocess.TimeoutExpired: It took longer than `WITHIN_S`, and was killed.
    """
    assert PYTHON is not None
    python = (
        os.path.abspath(PYTHON) if os.sep in PYTHON else PYTHON
    )  # it runs in a folder of its own
    surroundings = {**os.environ, "PYTHONPATH": str(ROOT)}
    if threads is not None:
        surroundings["OMP_NUM_THREADS"] = threads
    command = [python, "-m", "benchmarks.lightzero_cartpole", how, *arguments]
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.run(
            command,
            cwd=folder,
            env=surroundings,
            capture_output=True,
            text=True,
            timeout=WITHIN_S,
        )
    if run.returncode:
        print(run.stdout, run.stderr, sep="\n")
        run.check_returncode()
    found: dict[str, float] = json.loads(run.stdout.splitlines()[-1])
    return found


def named(name: str, found: dict[str, float], keys: Sequence[str]) -> dict[str, float]:
    """Some of the figures, with a name before each."""
    load = os.getloadavg()[0]
    shown = ", ".join(f"{key} {value:.4g}" for key, value in found.items())
    print(f"{name}: {shown} (load {load:.1f})", flush=True)
    return {f"{name}_{key}": found[key] for key in keys if key in found}


def main() -> None:
    """Measure in turn, and print the last line."""
    parser = argparse.ArgumentParser(description="LightZero, serial and asynchronous.")
    parser.add_argument("--quick", action="store_true", help="shorter, once, slow steps alone")
    quick = parser.parse_args().quick
    if PYTHON is None:
        print("FASTLOOP_LIGHTZERO names no Python that has LightZero: skipped.")
        print_result("lightzero", None, TARGET, skipped=["LightZero"])
        return
    keys = ("env_steps_per_s", "overlap")
    slow = (*SLOW, "--env-steps", "600" if quick else "1000")
    rounds: list[dict[str, float]] = []
    for _ in range(1 if quick else 3):
        figures = named("slow_serial", measured("serial", *slow, threads="1"), keys)
        figures |= named("slow_async", measured("async", *slow), keys)
        if not quick:
            figures |= named("serial", measured("serial"), keys)
            figures |= named("async", measured("async"), keys)
            figures |= named("serial_one_thread", measured("serial", threads="1"), keys)
        rounds.append(figures)
    found = medians(rounds)
    ratio = found["slow_async_env_steps_per_s"] / found["slow_serial_env_steps_per_s"]
    print_result("lightzero", ratio, TARGET, **found)


if __name__ == "__main__":
    main()
