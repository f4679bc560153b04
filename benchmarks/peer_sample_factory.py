"""Sample Factory's APPO, run by its own interpreter for the benchmarks.

    PYTHON benchmarks/peer_sample_factory.py --task cartpole --first 10240 --last 51200

``PYTHON`` is that of an environment with ``sample-factory``, whose pinned dependencies are older
than FastLoop's, so this file imports nothing of FastLoop's. The last line is a JSON object. Not
part of FastLoop: it is what FastLoop is compared with.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from typing import Any

import gymnasium

# Two workers of four environments, as many rows and updates for a round as the other sides have:
# 1024 rows, four passes over four minibatches of 256.
COMMON = {
    "device": "cpu",
    "num_workers": 2,
    "num_envs_per_worker": 4,
    "worker_num_splits": 2,
    "rollout": 128,
    "recurrence": 1,
    "batch_size": 256,
    "num_batches_per_epoch": 4,
    "num_epochs": 4,
    "use_rnn": False,
    "with_vtrace": False,
    "async_rl": True,
    "learning_rate": 3e-4,
    "gamma": 0.99,
    "gae_lambda": 0.95,
    "ppo_clip_ratio": 0.2,
    "value_loss_coeff": 0.5,
    "exploration_loss_coeff": 0.0,
    "max_grad_norm": 0.5,
    "normalize_input": False,
    "normalize_returns": False,
    "nonlinearity": "tanh",
    "encoder_mlp_layers": (64, 64),
    "actor_critic_share_weights": False,
    "adaptive_stddev": False,
    "save_every_sec": 100_000,
    "save_best_every_sec": 100_000,
    "experiment_summaries_interval": 100_000,
    "train_for_env_steps": 1_000_000_000,
}
PIXELS = {
    "encoder_conv_architecture": "convnet_atari",
    "nonlinearity": "relu",
    "obs_scale": 255.0,
    "exploration_loss_coeff": 0.01,
    "ppo_clip_ratio": 0.1,
    "learning_rate": 2.5e-4,
    "actor_critic_share_weights": True,
}
# Values as large as CartPole's are complained of in every step unless rewards are scaled.
# HalfCheetah-v4 is -v5 but for what its observations say beside the state.
TASKS: dict[str, tuple[str, dict[str, Any]]] = {
    "cartpole": ("CartPole-v1", {"reward_scale": 0.1}),
    "halfcheetah": ("HalfCheetah-v4", {}),
    "pong": ("PongNoFrameskip-v4", PIXELS),
}


def make(name: str, *_: object, render_mode: str | None = None, **__: object) -> gymnasium.Env:
    """One environment; games get the standard preprocessing, with four frames stacked."""
    if "NoFrameskip" not in name:
        return gymnasium.make(name, render_mode=render_mode)
    import ale_py  # noqa: F401, registers games
    from sample_factory.envs.env_wrappers import NumpyObsWrapper

    game = gymnasium.make(name, render_mode=render_mode)
    game = gymnasium.wrappers.AtariPreprocessing(game)
    return NumpyObsWrapper(gymnasium.wrappers.FrameStack(game, 4))


def throughput(task: str, first: int, last: int, limit_s: float) -> float:
    """Env steps per second of a run between two counts, or what ``limit_s`` leaves of it."""
    from sample_factory.algo.runners.runner import AlgoObserver
    from sample_factory.algo.utils.misc import ExperimentStatus
    from sample_factory.cfg.arguments import parse_full_cfg, parse_sf_args
    from sample_factory.envs.env_utils import register_env
    from sample_factory.train import make_runner

    name, settings = TASKS[task]
    register_env(name, make)
    looks: list[tuple[int, float]] = []

    class Clock(AlgoObserver):
        """Notes when each round of the learner is over, and ends the run."""

        def on_training_step(self, runner: Any, _: int) -> None:
            steps = sum(runner.env_steps.values())
            if steps >= first:
                looks.append((steps, time.perf_counter()))
            late = len(looks) > 1 and looks[-1][1] - looks[0][1] > limit_s
            if steps >= last or late:
                runner.cfg.train_for_env_steps = 0

    with tempfile.TemporaryDirectory() as folder:
        arguments = ["--env", name, "--train_dir", folder, "--experiment", "peer", "--seed", "0"]
        parser, _ = parse_sf_args(argv=arguments)
        parser.set_defaults(**(COMMON | settings))
        config = parse_full_cfg(parser, argv=arguments)
        config, runner = make_runner(config)
        runner.register_observer(Clock())
        status = runner.init()
        if status == ExperimentStatus.SUCCESS:
            status = runner.run()
    if status != ExperimentStatus.SUCCESS or len(looks) < 2:
        raise RuntimeError(f"Sample Factory ended with status {status} after {len(looks)} rounds")
    (begin, begin_s), (end, end_s) = looks[0], looks[-1]
    return (end - begin) / (end_s - begin_s)


def main() -> None:
    """Run one measurement and print its figure."""
    parser = argparse.ArgumentParser(description="Sample Factory's APPO.")
    parser.add_argument("--task", choices=tuple(TASKS), default="cartpole")
    parser.add_argument("--first", type=int, default=10_240)
    parser.add_argument("--last", type=int, default=51_200)
    parser.add_argument("--limit-s", type=float, default=60.0)
    given = parser.parse_args()
    rate = throughput(given.task, given.first, given.last, given.limit_s)
    print(json.dumps({"env_steps_per_s": rate}))


if __name__ == "__main__":
    main()
