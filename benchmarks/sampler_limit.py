"""Sampling by FastLoop's env nodes against bare loops with the same policy call.

    python -m benchmarks.sampler_limit [--quick]

FastLoop: a run of CartPole-v1 with an algorithm that learns nothing
(`benchmarks.null_algorithm`) and room for several rounds ahead, so that its env nodes never
wait; in them the policy acts once for the environments of a shard, and every row is written to
shared memory and announced. Bare: as many processes, each a Python loop over as many Gymnasium
environments, the same policy object with the same parameters called once per step of all,
``env.step`` of what `gymnasium.make` returns without its checker, a plain ``env.reset()`` where
an episode ends; what comes back is gathered for the next call and nothing is kept.

Both count env steps between two moments at which all processes are running.

Twice: with an untrained policy, whose episodes last 22 steps, and with one that balances the pole
for the 500 steps that an episode may last. The first is the worst case for FastLoop, which seeds
each episode to be able to repeat it; that costs 8 us in each reset. It is the ``ratio``.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from multiprocessing.sharedctypes import Synchronized
from multiprocessing.synchronize import Barrier
from pathlib import Path

import gymnasium
import numpy as np

from benchmarks.bare_loops import SETTLED_S, START_LIMIT_S, bare_rate
from benchmarks.launched import launched
from benchmarks.measure import alternate, print_result
from benchmarks.null_algorithm import NullConfig
from fast_core.algorithm import PolicySetup
from fast_core.config import EnvironmentConfig
from fast_core.envs.trying.probe import probe

TARGET = 0.82  # 0.84 to 0.88 on two kinds of machine; 1.0 where episodes are long
ENVIRONMENT = "CartPole-v1"
NODES = 2
ENVS = 64
STEPS = 256
DEGREE = 2
ROUNDS, SECONDS = 7, 5.0
QUICK_ROUNDS, QUICK_SECONDS = 2, 2.0
CONFIG = f"""
name: sampler_limit
environment: {{id: {ENVIRONMENT}}}
rollout: {{shards: {NODES}, envs_per_shard: {ENVS}, steps: {STEPS}}}
algorithm: {{name: "benchmarks.null_algorithm:NullConfig", balance: false}}
nodes: {{env: {{count: {NODES}}}}}
scheduler: {{off_policy_degree: {DEGREE}}}
evaluation: {{every_env_steps: null, at_end: false}}
checkpoint: {{every_updates: null, at_end: false}}
metrics: {{interval_s: 0.1, tensorboard: false}}
stop: {{time_s: 60}}
"""


def fastloop_rate(seconds: float, *, balance: bool) -> float:
    """Env steps per second of all env nodes."""
    with tempfile.TemporaryDirectory(prefix="fastloop-bench-") as directory:
        config = Path(directory) / "sampler_limit.yaml"
        config.write_text(CONFIG)
        limit = f"stop.time_s={seconds + 2 * SETTLED_S}"
        with launched(config, (limit, f"algorithm.balance={balance}".lower())) as run:
            run.wait(seconds + START_LIMIT_S)
            rows = [
                (float(str(row["time_s"])), float(str(row["env_steps"])))
                for row in run.lines("metrics.jsonl")
            ]
    begin_s = rows[0][0] + SETTLED_S
    rows = [row for row in rows if begin_s <= row[0] <= begin_s + seconds]
    if len(rows) < 2:
        raise SystemExit(f"{len(rows)} rows of metrics in {seconds:g} s: this machine is too busy")
    (first_s, first), (last_s, last) = rows[0], rows[-1]
    return (last - first) / (last_s - first_s)


def bare(seconds: float, *, balance: bool) -> float:
    """Env steps per second of all bare loops."""
    return bare_rate(bare_loop, [(rank, balance) for rank in range(NODES)], seconds)


def bare_loop(seed: int, balance: bool, counter: Synchronized[int], barrier: Barrier) -> None:
    """Step environments for ever; runs in a process of its own."""
    blueprint = NullConfig(name="null", balance=balance)
    spec = probe(EnvironmentConfig(id=ENVIRONMENT), seed)
    policy = blueprint.make_policy(spec, PolicySetup("numpy"))
    policy.load(blueprint.parameters(spec, seed=0))
    generator = np.random.default_rng(seed)
    envs = [gymnasium.make(ENVIRONMENT, disable_env_checker=True) for _ in range(ENVS)]
    obs = np.stack([env.reset(seed=ENVS * seed + i)[0] for i, env in enumerate(envs)])
    barrier.wait()
    while True:
        noise = generator.random(ENVS, dtype=np.float32)
        action = policy.act(obs, noise=noise, explore=True).action
        for i, env in enumerate(envs):
            row, _, terminated, truncated, _ = env.step(action[i])
            if terminated or truncated:
                row, _ = env.reset()
            obs[i] = row
        counter.value += ENVS


def main() -> None:
    """Measure both in turn and print the last line."""
    parser = argparse.ArgumentParser(description="Env nodes against bare environment loops.")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    quick = parser.parse_args().quick
    rounds, seconds = (QUICK_ROUNDS, QUICK_SECONDS) if quick else (ROUNDS, SECONDS)

    def measured(name: str, rate: Callable[..., float], balance: bool) -> Callable[[], float]:
        def measure() -> float:
            found = rate(seconds, balance=balance)
            print(f"{name}: {found:,.0f} env steps/s", flush=True)
            return found

        return measure

    found = alternate(
        rounds,
        fastloop=measured("env nodes, short episodes", fastloop_rate, False),
        bare=measured("bare loops, short episodes", bare, False),
        fastloop_long=measured("env nodes, long episodes", fastloop_rate, True),
        bare_long=measured("bare loops, long episodes", bare, True),
    )
    figures = {f"{name}_env_steps_per_s": value for name, value in found.items()}
    figures["long_ratio"] = found["fastloop_long"] / found["bare_long"]
    print_result("sampler_limit", found["fastloop"] / found["bare"], TARGET, **figures)


if __name__ == "__main__":
    main()
