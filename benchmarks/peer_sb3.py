"""Stable-Baselines3's PPO and SAC, run as a process of its own by the benchmarks.

    python -m benchmarks.peer_sb3 throughput --task cartpole --threads 1 2 --last 51200
    python -m benchmarks.peer_sb3 score --seed 3

The last line is a JSON object. Not part of FastLoop: it is what FastLoop is compared with.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from benchmarks.launched import descendants, pss_bytes

if TYPE_CHECKING:
    from stable_baselines3.common.vec_env import VecEnv

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


@dataclass(frozen=True)
class Task:
    """What is trained; networks are SB3's defaults: 2x64 tanh, the Nature CNN, 2x256 relu for SAC.

    Attributes:
        environment: Its id.
        policy: SB3's name of the network.
        atari: Whether the standard preprocessing of games applies, with four frames stacked.
        settings: What differs between the tasks.
        learner: SB3's class.
        envs: Environments stepped one after the other.
    """

    environment: str
    policy: str = "MlpPolicy"
    atari: bool = False
    settings: dict[str, float] = field(default_factory=dict)
    learner: Literal["PPO", "SAC"] = "PPO"
    envs: int = 8


PPO_SETTINGS = {
    "n_steps": 128,
    "batch_size": 256,
    "n_epochs": 4,
    "gamma": 0.99,
    "gae_lambda": 0.95,
    "vf_coef": 0.5,
    "max_grad_norm": 0.5,
    "learning_rate": 3e-4,
    "clip_range": 0.2,
    "ent_coef": 0.0,
}
# One update per environment step, which are SB3's defaults but for when it begins.
SAC_SETTINGS = {"batch_size": 256, "learning_rate": 3e-4, "train_freq": 1, "gradient_steps": 1}
SAC_SETTINGS |= {"learning_starts": 1_000, "buffer_size": 1_000_000}
PONG = {"learning_rate": 2.5e-4, "clip_range": 0.1, "ent_coef": 0.01}
TASKS = {
    "cartpole": Task("CartPole-v1"),
    "halfcheetah": Task("HalfCheetah-v5"),
    "pong": Task("PongNoFrameskip-v4", "CnnPolicy", atari=True, settings=PONG),
    "sac_halfcheetah": Task("HalfCheetah-v5", learner="SAC", envs=1),
}
COMMON = {"PPO": PPO_SETTINGS, "SAC": SAC_SETTINGS}


def throughput(
    task: str, first: int, last: int, threads: list[int], limit_s: float
) -> dict[str, float]:
    """Env steps per second for each number of torch threads, by that number."""
    counts = {count: throughput_of(TASKS[task], first, last, count, limit_s) for count in threads}
    return {str(count): rate for count, rate in counts.items()}


def throughput_of(task: Task, first: int, last: int, threads: int, limit_s: float) -> float:
    """Env steps per second between two counts, with the settings of the benchmarks.

    After ``limit_s`` the rate is that of the rounds so far: where others work too, two threads
    that spin for each other can take a hundred times as long.
    """
    import stable_baselines3
    import torch
    from stable_baselines3.common.callbacks import BaseCallback

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
    model = getattr(stable_baselines3, task.learner)(
        task.policy,
        environments(task),
        device="cpu",
        seed=0,
        **(COMMON[task.learner] | task.settings),
    )
    clock = Clock()
    # One round more, so that the last wanted count begins a rollout.
    model.learn(last + 1024, callback=clock)
    counted = [count for count in clock.times if first <= count <= last]
    if len(counted) < 2:
        counted = list(clock.times)
    begin, end = counted[0], counted[-1]
    return (end - begin) / (clock.times[end] - clock.times[begin])


def environments(task: Task) -> VecEnv:
    """Stepped one after the other, which is the fastest of SB3's ways here."""
    from stable_baselines3.common.env_util import make_atari_env, make_vec_env
    from stable_baselines3.common.vec_env import VecFrameStack

    if not task.atari:
        return make_vec_env(task.environment, n_envs=task.envs, seed=0)
    import ale_py
    import gymnasium

    gymnasium.register_envs(ale_py)
    options = {"terminal_on_life_loss": False}
    return VecFrameStack(
        make_atari_env(task.environment, n_envs=task.envs, seed=0, wrapper_kwargs=options),
        n_stack=4,
    )


def memory() -> dict[str, float]:
    """Proportional set size of this process and of 8 environment processes, while training."""
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import SubprocVecEnv

    environments = make_vec_env("CartPole-v1", n_envs=8, seed=0, vec_env_cls=SubprocVecEnv)
    model = PPO("MlpPolicy", environments, n_steps=128, batch_size=256, n_epochs=4, device="cpu")
    model.learn(20 * 1024)
    pids = (os.getpid(), *descendants(os.getpid()))
    total = sum(pss_bytes(pid) for pid in pids)
    environments.close()
    return {"pss_bytes": total, "processes": len(pids)}


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
    parser = argparse.ArgumentParser(description="Stable-Baselines3's PPO and SAC.")
    parser.add_argument("what", choices=("throughput", "score", "memory"))
    parser.add_argument("--task", choices=tuple(TASKS), default="cartpole")
    parser.add_argument("--threads", type=int, nargs="+", default=[0], help="0: torch's default")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=10_240)
    parser.add_argument("--last", type=int, default=51_200)
    parser.add_argument("--limit-s", type=float, default=60.0, help="for each throughput")
    given = parser.parse_args()
    if given.what == "throughput":
        figures = throughput(given.task, given.first, given.last, given.threads, given.limit_s)
    elif given.what == "memory":
        figures = memory()
    else:
        figures = score(given.seed, given.threads[0])
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
