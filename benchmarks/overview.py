"""A folder of 1,000 runs on the page of `fastloop watch`: what a look at it costs the server.

    python -m benchmarks.overview [--quick]

Runs of 200 configurations and five seeds, each with an hour's metrics; five of them go on. The
page asks every 2 s, and only then does the server look. ``look_ms`` is processor time of a look at
which the running ones have grown, ``first_look_ms`` of the first one. ``curves_ms`` is that of the
curves of six configurations, two metrics each, when they are drawn first, ``more_ms`` when one of
them has grown.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import datetime, timedelta
from pathlib import Path

from benchmarks.measure import print_result
from fast_core.config import file as config_file
from fast_core.config.algorithms import algorithm_config_type
from fast_core.dashboard.curves import METRICS
from fast_core.dashboard.overview import Overview
from fast_core.monitor.run_directory import RunDirectory

TARGET = 0.05  # of a core, a look every 2 s
INTERVAL_S = 2.0
SEEDS, RUNNING, DRAWN = 5, 5, 6
CONFIG = """\
environment: {id: CartPole-v1}
algorithm: {name: ppo}
stop: {env_steps: 1000000}
"""


def row(number: int) -> str:
    """A row of metrics like those of a run of PPO; every twentieth has an evaluation."""
    values = {f"train/figure_{index}": random.random() for index in range(35)}
    values["rollout/return_mean"] = number + random.random()
    if number % 20 == 0:
        values |= {"eval/return_mean": number + random.random(), "eval/quarantined_share": 0.0}
    steps = {"env_steps": 1000 * number, "updates": number, "time_s": 10.0 * number}
    return json.dumps({**steps, "values": values}) + "\n"


def make(folder: Path, runs: int) -> Iterator[RunDirectory]:
    """Directories of runs that have finished."""
    metrics = "".join(map(row, range(1, 361)))
    facts = {"outcome": "finished", "env_steps": 360_000, "best_evaluation": 361.0}
    journal = {"time_s": 1.0, "wall": "", "what": "summary", "why": "so it is", "facts": facts}
    for number in range(runs):
        name, seed = f"rate_{number // SEEDS}", number % SEEDS
        changes = [f"name={name}", f"algorithm.learning_rate={1e-4 + 1e-6 * (number // SEEDS)}"]
        config = config_file.loads(CONFIG, changes, algorithm_config_type, source="made")
        began = datetime(2026, 1, 1) + timedelta(minutes=number)
        run = RunDirectory.create(folder, name, began, seed)
        text = config_file.dumps(config)
        run.write_config(text.replace("seed: 0\n", f"seed: {seed}\n"))
        run.metrics.write_text(metrics)
        run.events.write_text(json.dumps(journal) + "\n")
        yield run


def cpu_ms(call: Callable[[], object]) -> float:
    """Milliseconds of processor time of a call."""
    began_s = time.process_time()
    call()
    return 1e3 * (time.process_time() - began_s)


def measured(folder: Path, runs: int, looks: int) -> dict[str, float]:
    """The figures of a folder of so many runs."""
    made = list(make(folder, runs))
    with ExitStack() as stack:
        for run in made[:RUNNING]:
            stack.callback(run.lock().close)
        overview = Overview(folder)
        found = {"first_look_ms": cpu_ms(overview.look)}
        drawn = [group.id for group in (overview.news().groups or ())[:DRAWN]]

        def curves() -> None:
            for group in drawn:
                for metric in METRICS:
                    overview.curve(group, metric)

        found["curves_ms"] = cpu_ms(curves)
        each = []
        for number in range(looks):
            for run in made[:RUNNING]:
                with run.metrics.open("a") as file:
                    file.write(row(361 + number))
            each.append(cpu_ms(overview.look))
        found["look_ms"] = statistics.median(each)
        found["more_ms"] = cpu_ms(curves)
    found["memory_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return found


def main() -> None:
    """Makes the folder, measures, and prints the last line."""
    parser = argparse.ArgumentParser(description="What a look at a folder of runs costs.")
    parser.add_argument("--quick", action="store_true", help="100 runs")
    runs, looks = (100, 5) if parser.parse_args().quick else (1000, 30)
    with tempfile.TemporaryDirectory() as folder:
        print(f"making {runs} runs", flush=True)
        found = measured(Path(folder), runs, looks)
    print(", ".join(f"{name} {value:.1f}" for name, value in found.items()))
    share = found["look_ms"] / (1e3 * INTERVAL_S)
    print_result("overview", share, TARGET, better="lower", runs=float(runs), **found)


if __name__ == "__main__":
    main()
