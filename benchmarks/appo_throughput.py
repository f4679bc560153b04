"""FastLoop's APPO against Sample Factory's, and Stable-Baselines3's PPO, in env steps per second.

    FASTLOOP_SAMPLE_FACTORY=PYTHON python -m benchmarks.appo_throughput [--quick]

Three tasks, CartPole-v1, MuJoCo's HalfCheetah and Atari's Pong, the same work for all: the networks
of `benchmarks.ppo_throughput`, `ppo_halfcheetah` and `ppo_pong`, rounds of 1024 rows and 16 updates
of 256 rows for each. FastLoop runs `appo` with their configurations at degree 4, and Pong in bf16
too; ``--quick`` leaves Pong out. Sample Factory collects asynchronously as well, with its own
settings for when; SB3 alternates and has its better number of threads. See
`benchmarks.against_sb3` for the way it is measured.

``PYTHON`` is the interpreter of an environment with ``sample-factory``, whose pinned dependencies
are older than FastLoop's. Each rate of FastLoop's by another's has a target of its own; the ratio
is the smallest of these ratios, each divided by its target.
"""

from __future__ import annotations

import json
import os
import subprocess

from benchmarks import ppo_halfcheetah, ppo_pong, ppo_throughput
from benchmarks.against_sb3 import Figures, Race, best_peer, quick_asked, report
from benchmarks.launched import ROOT
from benchmarks.measure import print_result

TARGET = 1.0
PEERS = ("stable-baselines3", "mujoco", "ale-py")
VARIABLE = "FASTLOOP_SAMPLE_FACTORY"
ASYNCHRONOUS = ("algorithm.name=appo", "scheduler.off_policy_degree=4")
RACES = {
    "cartpole": ppo_throughput.RACE,
    "halfcheetah": ppo_halfcheetah.RACE,
    "pong": ppo_pong.RACE,
}
QUICK = ("cartpole", "halfcheetah")  # Pong alone takes longer than quick is meant to
VARIANTS: dict[str, dict[str, tuple[str, ...]]] = {
    "cartpole": {"fastloop": ASYNCHRONOUS},
    "halfcheetah": {"fastloop": ASYNCHRONOUS},
    "pong": {
        "fastloop": (*ppo_pong.QUIET, *ASYNCHRONOUS),
        "fastloop_bf16": (*ppo_pong.QUIET, *ppo_pong.BF16, *ASYNCHRONOUS),
    },
}
# Task, FastLoop's variant and its peer by the name of the ratio.
COMPARED = {
    "cartpole_by_sample_factory": ("cartpole", "fastloop", "sample_factory"),
    "halfcheetah_by_sample_factory": ("halfcheetah", "fastloop", "sample_factory"),
    "pong_by_sample_factory": ("pong", "fastloop", "sample_factory"),
    "pong_bf16_by_sample_factory": ("pong", "fastloop_bf16", "sample_factory"),
    "cartpole_by_sb3": ("cartpole", "fastloop", "sb3"),
    "halfcheetah_by_sb3": ("halfcheetah", "fastloop", "sb3"),
    "pong_by_sb3": ("pong", "fastloop", "sb3"),
}
TARGETS = {
    "cartpole_by_sample_factory": 17.0,
    "halfcheetah_by_sample_factory": 6.0,
    "pong_by_sample_factory": 2.3,
    "pong_bf16_by_sample_factory": 4.0,
    "cartpole_by_sb3": 7.5,
    "halfcheetah_by_sb3": 3.4,
    "pong_by_sb3": 1.9,
}


def sample_factory_rate(python: str, race: Race, *, quick: bool) -> float:
    """Env steps per second of Sample Factory between two counts."""
    last_round = race.quick_last_round if quick else race.last_round
    arguments = {
        "--task": race.task,
        "--first": str(race.first_round * race.rows),
        "--last": str(last_round * race.rows),
        "--limit-s": str(race.peer_limit_s / (4 if quick else 1)),
    }
    script = str(ROOT / "benchmarks/peer_sample_factory.py")
    done = subprocess.run(
        [python, script, *(word for pair in arguments.items() for word in pair)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"Sample Factory failed:\n{done.stdout}{done.stderr}")
    return float(json.loads(done.stdout.splitlines()[-1])["env_steps_per_s"])


def sample_factory_there() -> tuple[str | None, str]:
    """Its interpreter, or None and why not."""
    python = os.environ.get(VARIABLE)
    if not python:
        return None, f"sample-factory: {VARIABLE} does not name the Python that has it"
    try:
        done = subprocess.run(
            [python, "-c", "import sample_factory"], capture_output=True, text=True, check=False
        )
    except OSError as error:
        return None, f"sample-factory: {VARIABLE} is {python!r}: {error}"
    if done.returncode:
        return None, f"sample-factory: {VARIABLE} is {python!r}, which does not import it"
    return python, ""


def measure(name: str, python: str | None, *, quick: bool, sb3: bool) -> Figures:
    """Medians of all rates of one task; Sample Factory runs after FastLoop and SB3."""
    race = RACES[name]
    found = race.measure(VARIANTS[name], quick=quick, peer=sb3)
    if python is not None:
        rate = sample_factory_rate(python, race, quick=quick)
        report(f"{name}, Sample Factory", {"env_steps_per_s": rate})
        found["sample_factory_env_steps_per_s"] = rate
    return {f"{name}_{key}": figure for key, figure in found.items()}


def ratios(found: Figures) -> Figures:
    """FastLoop's rate by each that was measured, under the names of `TARGETS`."""
    named: Figures = {}
    for name, (task, variant, peer) in COMPARED.items():
        rates = {key.removeprefix(f"{task}_"): rate for key, rate in found.items()}
        ours = rates.get(f"{variant}_env_steps_per_s")
        theirs = rates.get(f"{peer}_env_steps_per_s") if peer != "sb3" else best_peer(rates)
        if ours is not None and theirs is not None:
            named[name] = ours / theirs
    return named


def smallest_share(named: Figures) -> float:
    """How far the ratio is from its target that is farthest; 1 meets it."""
    return min(ratio / TARGETS[name] for name, ratio in named.items())


def main() -> None:
    """Measure everything and print the last line."""
    quick = quick_asked("APPO against Sample Factory's, and Stable-Baselines3's PPO.")
    python, why_not = sample_factory_there()
    missing = RACES["cartpole"].skipped()
    skipped = (*missing, *([why_not] if why_not else []))
    found: Figures = {}
    for name in QUICK if quick else RACES:
        found |= measure(name, python, quick=quick, sb3=not missing)
    named = ratios(found)
    ratio = None if skipped else smallest_share(named)
    print_result("appo_throughput", ratio, TARGET, skipped=skipped, **found, **named)


if __name__ == "__main__":
    main()
