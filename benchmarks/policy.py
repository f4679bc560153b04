"""A trained policy in one's hands: latency of one observation, and loading, against SB3.

    python -m benchmarks.policy [--quick]

The same two networks (2x64 on CartPole, 2x256 on Pendulum, whose actions are scaled) once as
FastLoop's policy file and once as SB3's zip, with first parameters: what they compute takes as
long as after training. All sides are called in turns in one process on one thread, with one
observation, without exploration, actions as the environment takes them. Where
`fast_core.policy.export` and onnxruntime are there, the exported network is called beside them.

The ratio is that of the latencies on CartPole; ``load_ratio`` that of load times, each from a file
that the system has in memory to a policy that acts, all imports done. ``first_load_ms`` is that of
the first load in a new process, with the imports of the algorithm; ``import_ms`` those of
`fast_core.policy` itself, without NumPy's.
"""

from __future__ import annotations

import argparse
import importlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import alternate, installed, print_result
from fast_core.config import file as config_file
from fast_core.config.algorithms import algorithm_config_type
from fast_core.envs.trying.probe import probe
from fast_core.policy import Policy, load_policy
from fast_core.policy.file import Origin, describe, write_policy
from fast_core.system import threads

TARGET = 0.2
LOAD_TARGET = 0.1
PEERS = ("stable-baselines3", "onnxruntime")
TASKS = {"cartpole": ("CartPole-v1", (64, 64)), "pendulum": ("Pendulum-v1", (256, 256))}
CALLS, QUICK_CALLS = 2000, 200
FRESH_ROUNDS, QUICK_FRESH_ROUNDS = 9, 3
FRESH = """
import sys, time
import numpy
begun = time.perf_counter()
from fast_core.policy import load_policy
imported = time.perf_counter()
load_policy(sys.argv[1])
print(1000 * (imported - begun), 1000 * (time.perf_counter() - imported))
"""


def main() -> None:
    """Measure everything in turn and print the last line."""
    parser = argparse.ArgumentParser(description="A policy in one's hands, against SB3's.")
    parser.add_argument("--quick", action="store_true", help="fewer calls")
    quick = parser.parse_args().quick
    threads.set_threads(1)
    figures: dict[str, float] = {}
    skipped: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        for task in TASKS:
            found = _measure(task, Path(folder), skipped, QUICK_CALLS if quick else CALLS)
            print(task, {name: round(value, 2) for name, value in found.items()}, flush=True)
            figures |= {f"{task}_{name}": value for name, value in found.items()}
        figures |= _fresh(Path(folder) / "cartpole", QUICK_FRESH_ROUNDS if quick else FRESH_ROUNDS)
    ratio = None
    if "cartpole_sb3_us" in figures:
        ratio = figures["cartpole_fastloop_us"] / figures["cartpole_sb3_us"]
        loads = figures["cartpole_fastloop_load_ms"] / figures["cartpole_sb3_load_ms"]
        figures |= {"load_ratio": loads, "load_target": LOAD_TARGET}
    print_result(
        "policy",
        ratio,
        TARGET,
        better="lower",
        skipped=skipped,
        **figures,
    )


def _measure(task: str, folder: Path, skipped: list[str], calls: int) -> dict[str, float]:
    path = folder / task
    write_policy(path, _first_policy(task).file)
    policy = load_policy(path)
    acting: dict[str, Callable[[], object]] = {}
    loading: dict[str, Callable[[], object]] = {"fastloop": lambda: load_policy(path)}
    obs = np.full(policy.environment.observation.shape, 0.1, np.float32)
    acting["fastloop"] = lambda: policy(obs)
    if installed("stable-baselines3") is None:
        skipped.append("stable-baselines3")
    else:
        model, load = _sb3(task, path)
        acting["sb3"], loading["sb3"] = lambda: model.predict(obs, deterministic=True), load
    if (session := _onnx(policy, path, skipped)) is not None:
        name = session.get_inputs()[0].name
        acting["onnx"] = lambda: session.run(None, {name: obs[None]})
    latency = {f"{name}_us": _repeat(call, calls, 1e6) for name, call in acting.items()}
    loads = 1 + calls // 200
    times = {f"{name}_load_ms": _repeat(call, loads, 1e3) for name, call in loading.items()}
    return alternate(11, **latency) | alternate(5, **times)


def _repeat(call: Callable[[], object], calls: int, unit: float) -> Callable[[], float]:
    def measure() -> float:
        begun = time.perf_counter()
        for _ in range(calls):
            call()
        return unit * (time.perf_counter() - begun) / calls

    return measure


def _first_policy(task: str) -> Policy:
    """A policy with the parameters that its learner begins with."""
    id, sizes = TASKS[task]
    text = (
        f"name: policy\nenvironment: {{id: {id}}}\nstop: {{env_steps: 1}}\n"
        f"algorithm: {{name: ppo, hidden_sizes: {list(sizes)}}}\nrollout: {{steps: 32}}"
    )
    config = config_file.loads(text, [], algorithm_config_type, source="benchmark")
    environment = probe(config.environment, 0)
    learner = config.algorithm.make_algorithm(environment, config.learner_setup)
    origin = Origin(run="policy", version=0, env_steps=0)
    return Policy(describe(config, environment, learner.policy_parameters(), origin))


def _sb3(task: str, path: Path) -> tuple[Any, Callable[[], object]]:
    library: Any = importlib.import_module("stable_baselines3")
    importlib.import_module("torch").set_num_threads(1)
    id, sizes = TASKS[task]
    model = library.PPO("MlpPolicy", id, policy_kwargs={"net_arch": list(sizes)}, device="cpu")
    zipped = path.with_suffix(".zip")
    model.save(zipped)
    return model, lambda: library.PPO.load(zipped, device="cpu")


def _onnx(policy: Policy, path: Path, skipped: list[str]) -> Any:
    """A session of the exported policy, None where that can't be had."""
    exported = path.with_suffix(".onnx")
    try:
        runtime: Any = importlib.import_module("onnxruntime")
        policy.export(exported)
    except ImportError as error:
        if f"onnx: {error}" not in skipped:
            skipped.append(f"onnx: {error}")
        return None
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    return runtime.InferenceSession(exported, options, providers=["CPUExecutionProvider"])


def _fresh(path: Path, rounds: int) -> dict[str, float]:
    """Import and first load in new processes."""
    found = []
    for _ in range(rounds):
        command = [sys.executable, "-c", FRESH, str(path)]
        out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        found.append([float(word) for word in out.split()])
    imports, loads = np.median(found, axis=0).tolist()
    return {"import_ms": imports, "first_load_ms": loads}


if __name__ == "__main__":
    main()
