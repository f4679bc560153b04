"""GOPS's DSAC with one of GOPS's trainers or with FastLoop's, in a process of its own.

    python -m benchmarks.gops_trainer --task cartpole --how serial --threads 1 2

``serial`` and ``ray`` are GOPS's off_serial_trainer and off_async_trainer; ``fastloop`` is
FastLoop's trainer round the same objects of GOPS, at ``--degree``. `gops` must be importable: GOPS
itself, or the package that stands in for it.

The last line is a JSON object: for each number of torch threads (of ``fastloop`` above degree 0 it
chooses that itself) updates per second, and environment steps per update, in the updates that
count.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import json
import tempfile
import time
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Literal

import torch

from fast_core.clients.gops import install

How = Literal["serial", "ray", "fastloop"]
Figures = dict[str, float]
NEVER = 10**9
WARM_UP_UPDATES = 100
SAMPLERS = 1  # beside the learner there is one core
ACTORS = 8  # that Ray may have on whatever machine: an algorithm, samplers, a buffer, an evaluator


@dataclass(frozen=True)
class Task:
    """What is trained.

    Attributes:
        hidden: Width of the two hidden layers of every network.
        batch: Rows of an update.
        steps: Environment steps before each update.
    """

    hidden: int
    batch: int
    steps: int


# The first is GOPS's example for a continuous cart-pole.
TASKS = {"cartpole": Task(64, 64, 4), "halfcheetah": Task(256, 256, 1)}


def settings(task: str, how: How, threads: int | None, folder: str) -> dict[str, Any]:
    """As in GOPS's example for DSAC, without evaluations and files."""
    tasks = importlib.import_module("benchmarks.gops_tasks")
    size = TASKS[task]
    return {
        "env_id": tasks.GOPS_IDS[task],
        "algorithm": "DSAC",
        "enable_cuda": False,
        "reward_scale": 0.1,
        "is_render": False,
        "is_adversary": False,
        **_network("value", "ActionValueDistri", size.hidden, -0.1, 4.0),
        **_network("policy", "StochaPolicy", size.hidden, -20.0, 0.5),
        "policy_act_distribution": "TanhGaussDistribution",
        **{f"{part}_learning_rate": 1e-3 for part in ("value", "policy", "alpha")},
        "gamma": 0.99,
        "tau": 0.2,
        "auto_alpha": True,
        "delay_update": 2,
        "bound": True,
        "trainer": "off_async_trainer" if how == "ray" else "off_serial_trainer",
        "num_threads_main": threads,
        "num_algs": 1,
        "num_samplers": SAMPLERS,
        "num_buffers": 1,
        "max_iteration": NEVER,
        "ini_network_dir": None,
        "buffer_name": "replay_buffer",
        "buffer_warm_size": 1_000,
        "buffer_max_size": 100_000,
        "replay_batch_size": size.batch,
        "sample_interval": 1,
        "sampler_name": "off_sampler" if tasks.IS_GOPS and task == "cartpole" else tasks.SAMPLER,
        "sample_batch_size": size.steps,
        "noise_params": None,
        "evaluator_name": "evaluator",
        "num_eval_episode": 1,
        "eval_interval": NEVER,
        "eval_save": False,
        "save_folder": folder,
        "apprfunc_save_interval": NEVER,
        "log_save_interval": 100,
        "seed": 0,
    }


def _network(part: str, name: str, hidden: int, least: float, most: float) -> dict[str, Any]:
    return {
        f"{part}_func_name": name,
        f"{part}_func_type": "MLP",
        f"{part}_hidden_sizes": [hidden, hidden],
        f"{part}_hidden_activation": "relu",
        f"{part}_output_activation": "linear",
        f"{part}_min_log_std": least,
        f"{part}_max_log_std": most,
    }


def make_trainer(args: dict[str, Any]) -> Any:
    """What a script of GOPS's does before `train()`."""
    package = "gops.create_pkg.create_"
    make = {
        name: getattr(importlib.import_module(f"{package}{name}"), f"create_{name}")
        for name in ("env", "alg", "sampler", "buffer", "evaluator", "trainer")
    }
    init_args = importlib.import_module("gops.utils.init_args").init_args
    args = init_args(make["env"](**args), **args)
    parts = [make[name](**args) for name in ("alg", "sampler", "buffer", "evaluator")]
    return make["trainer"](*parts, **args)


class Meter:
    """Counts updates and environment steps, and takes the time, between two looks."""

    def __init__(self) -> None:
        self._began = (0.0, 0, 0)

    def begin(self, updates: int, env_steps: int) -> None:
        """Count from here."""
        self._began = (time.perf_counter(), updates, env_steps)

    def end(self, updates: int, env_steps: int) -> Figures:
        """What there was since."""
        began_s, first, steps = self._began
        done = updates - first
        return {
            "updates_per_s": done / (time.perf_counter() - began_s),
            "env_steps_per_update": (env_steps - steps) / done,
        }


def own_figures(args: dict[str, Any], threads: list[int], updates: int) -> dict[str, Figures]:
    """Of a trainer of GOPS's, which is stepped as its `train` does."""
    serial = args["trainer"] == "off_serial_trainer"
    # GOPS itself starts Ray for a serial trainer's evaluator too; its stand-in doesn't.
    ray = None if serial and find_spec("ray") is None else importlib.import_module("ray")
    if ray is not None:
        ray.init = functools.partial(ray.init, num_cpus=ACTORS, log_to_driver=False)
    trainer, meter = make_trainer(args), Meter()

    def env_steps() -> int:
        if ray is None or serial:
            return int(trainer.sampler.get_total_sample_number())
        return sum(ray.get([one.get_total_sample_number.remote() for one in trainer.samplers]))

    def go_on(last: int) -> None:
        while trainer.iteration < last:
            trainer.step()
            trainer.iteration += serial  # the parallel one counts in step()

    figures = {}
    for number in threads:
        torch.set_num_threads(number)
        go_on(trainer.iteration + WARM_UP_UPDATES)
        meter.begin(trainer.iteration, env_steps())
        go_on(trainer.iteration + updates)
        figures[str(number)] = meter.end(trainer.iteration, env_steps())
    return figures


def fastloop_figures(args: dict[str, Any], degree: int, updates: int) -> Figures:
    """Of FastLoop's trainer round GOPS's objects."""
    install(serial=True, off_policy_degree=degree)
    last = WARM_UP_UPDATES + updates
    trainer, meter = make_trainer({**args, "max_iteration": last + 1}), Meter()
    after_update, figures = trainer.after_update, Figures()

    def counted(told: Any) -> None:
        after_update(told)
        if trainer.iteration == WARM_UP_UPDATES:
            meter.begin(trainer.iteration, trainer._store.env_steps)
        elif trainer.iteration == last:
            figures.update(meter.end(trainer.iteration, trainer._store.env_steps))

    trainer.after_update = counted
    trainer.train()
    return figures


def main() -> None:
    """Measure and print the figures by the number of threads."""
    parser = argparse.ArgumentParser(description="GOPS's DSAC with one of several trainers.")
    parser.add_argument("--task", choices=TASKS, default="cartpole")
    parser.add_argument("--how", choices=("serial", "ray", "fastloop"), default="serial")
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    parser.add_argument("--degree", type=int, default=0, help="of fastloop")
    parser.add_argument("--updates", type=int, default=1_000, help="that count, of each")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fastloop-bench-") as folder:
        threads = given.threads[0] if given.degree == 0 else None
        args = settings(given.task, given.how, threads, folder)
        if given.how == "fastloop":
            figures = {str(threads): fastloop_figures(args, given.degree, given.updates)}
        else:
            figures = own_figures(args, given.threads, given.updates)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
