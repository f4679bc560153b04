"""A training script as GOPS's examples are: arguments, five parts, `train()`."""

from __future__ import annotations

import argparse

from gops.create_pkg.create_alg import create_alg
from gops.create_pkg.create_buffer import create_buffer
from gops.create_pkg.create_env import create_env
from gops.create_pkg.create_evaluator import create_evaluator
from gops.create_pkg.create_sampler import create_sampler
from gops.create_pkg.create_trainer import create_trainer
from gops.utils.init_args import init_args
from gops.utils.tensorboard_setup import start_tensorboard

DEFAULTS: dict[str, str | int | float] = {
    "env_id": "drift",
    "algorithm": "DSACT",
    "trainer": "off_serial_trainer",
    "buffer_name": "replay_buffer",
    "sampler_name": "off_sampler",
    "evaluator_name": "evaluator",
    "save_folder": "results",
    "seed": 7,
    "num_threads_main": 1,
    "num_algs": 1,
    "num_samplers": 1,
    "num_buffers": 1,
    "max_iteration": 200,
    "sample_interval": 1,
    "sample_batch_size": 4,
    "replay_batch_size": 16,
    "buffer_warm_size": 64,
    "buffer_max_size": 1_000,
    "delay_update": 2,
    "num_eval_episode": 2,
    "eval_interval": 50,
    "log_save_interval": 50,
    "apprfunc_save_interval": 100,
    "gamma": 0.99,
    "tau": 0.005,
    "value_learning_rate": 1e-3,
    "policy_learning_rate": 1e-3,
    "alpha_learning_rate": 1e-3,
    "policy_min_log_std": -20.0,
    "policy_max_log_std": 0.5,
}
FIXED = {
    "ini_network_dir": None,
    "noise_params": None,
    "value_hidden_sizes": [8, 8],
    "policy_hidden_sizes": [8, 8],
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name, value in DEFAULTS.items():
        parser.add_argument(f"--{name}", type=type(value), default=value)
    args = vars(parser.parse_args()) | FIXED
    args = init_args(create_env(**args), **args)
    start_tensorboard(args["save_folder"])
    alg = create_alg(**args)
    sampler = create_sampler(**args)
    buffer = create_buffer(**args)
    evaluator = create_evaluator(**args)
    trainer = create_trainer(alg, sampler, buffer, evaluator, **args)
    trainer.train()
    print("Training is finished!")
