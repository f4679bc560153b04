"""Stable-Baselines3's PPO on CartPole-v1, run as a process of its own by the benchmarks.

    python -m benchmarks.peer_sb3 throughput --threads 1 2 --first 10240 --last 51200
    python -m benchmarks.peer_sb3 score --seed 3

The last line is a JSON object. Not part of FastLoop: it is what FastLoop is compared with.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DISTRIBUTION = "stable-baselines3"


def run(*arguments: str, timeout_s: float = 300.0) -> tuple[dict[str, float], float]:
    """Run this module in a new process; returns its figures and its seconds, start included."""
    started_s = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.peer_sb3", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    seconds = time.monotonic() - started_s
    if done.returncode:
        raise RuntimeError(f"Stable-Baselines3 failed:\n{done.stdout}{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1]), seconds


def throughput(first: int, last: int, threads: list[int], limit_s: float) -> dict[str, float]:
    """Env steps per second for each number of torch threads, by that number."""
    return {str(count): throughput_of(first, last, count, limit_s) for count in threads}


def throughput_of(first: int, last: int, threads: int, limit_s: float) -> float:
    """Env steps per second between two counts, with the settings of `ppo_throughput`.

    After ``limit_s`` the rate is that of the rounds so far: where others work too, two threads
    that spin for each other can take a hundred times as long.
    """
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.env_util import make_vec_env

    class Clock(BaseCallback):
        """Notes when each rollout begins, and ends the run in time."""

        def __init__(self) -> None:
            super().__init__()
            self.times: dict[int, float] = {}
            self.deadline_s = time.perf_counter() + limit_s

        def _on_rollout_start(self) -> None:
            self.times[self.num_timesteps] = time.perf_counter()

        def _on_step(self) -> bool:
            return len(self.times) < 2 or time.perf_counter() < self.deadline_s

    torch.set_num_threads(threads)
    # Networks of 2x64 tanh, one for the policy and one for the value, are SB3's default.
    model = PPO(
        "MlpPolicy",
        make_vec_env("CartPole-v1", n_envs=8, seed=0),
        learning_rate=3e-4,
        n_steps=128,
        batch_size=256,
        n_epochs=4,
        gamma=0.99,
        gae_lambda=0.95,
        clip_range=0.2,
        ent_coef=0.0,
        vf_coef=0.5,
        max_grad_norm=0.5,
        device="cpu",
        seed=0,
    )
    clock = Clock()
    # One round more, so that the last wanted count begins a rollout.
    model.learn(last + 1024, callback=clock)
    begin, end = (first, last) if last in clock.times else (min(clock.times), max(clock.times))
    return (end - begin) / (clock.times[end] - clock.times[begin])


def score(seed: int, threads: int) -> dict[str, float]:
    """Train until 20 evaluation episodes average 475, with the settings of SB3's own zoo.

    The evaluation steps 20 environments together, which takes a tenth of the time of
    the one environment that SB3 evaluates in unless told otherwise.
    """
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import EvalCallback, StopTrainingOnRewardThreshold
    from stable_baselines3.common.env_util import make_vec_env

    if threads:
        torch.set_num_threads(threads)
    evaluation = EvalCallback(
        make_vec_env("CartPole-v1", n_envs=20, seed=seed + 1000),
        callback_on_new_best=StopTrainingOnRewardThreshold(475),
        n_eval_episodes=20,
        eval_freq=10_000 // 8,
        verbose=0,
    )
    model = PPO(
        "MlpPolicy",
        make_vec_env("CartPole-v1", n_envs=8, seed=seed),
        learning_rate=lambda left: 1e-3 * left,
        n_steps=32,
        batch_size=256,
        n_epochs=20,
        gamma=0.98,
        gae_lambda=0.8,
        clip_range=lambda left: 0.2 * left,
        ent_coef=0.0,
        device="cpu",
        seed=seed,
    )
    model.learn(100_000, callback=evaluation)
    return {"best_mean_return": evaluation.best_mean_reward, "env_steps": model.num_timesteps}


def main() -> None:
    """Run one measurement and print its figures."""
    parser = argparse.ArgumentParser(description="Stable-Baselines3's PPO on CartPole-v1.")
    parser.add_argument("what", choices=("throughput", "score"))
    parser.add_argument("--threads", type=int, nargs="+", default=[0], help="0: torch's default")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=10_240)
    parser.add_argument("--last", type=int, default=51_200)
    parser.add_argument("--limit-s", type=float, default=60.0, help="for each throughput")
    given = parser.parse_args()
    if given.what == "throughput":
        figures = throughput(given.first, given.last, given.threads, given.limit_s)
    else:
        figures = score(given.seed, given.threads[0])
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
