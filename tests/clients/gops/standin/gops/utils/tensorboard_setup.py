"""Names of figures."""

from __future__ import annotations

from typing import Any

tb_tags = {
    "TAR of RL iteration": "Evaluation/1. TAR-RL iter",
    "TAR of total time": "Evaluation/2. TAR-Total time [s]",
    "TAR of collected samples": "Evaluation/3. TAR-Collected samples",
    "TAR of replay samples": "Evaluation/4. TAR-Replay samples",
    "Buffer RAM of RL iteration": "RAM/RAM [MB]-RL iter",
    "loss_actor": "Loss/Actor loss-RL iter",
    "loss_critic": "Loss/Critic loss-RL iter",
    "alg_time": "Time/Algorithm time [ms]-RL iter",
    "sampler_time": "Time/Sampler time [ms]-RL iter",
}


def add_scalars(tb_info: dict[str, Any], writer: Any, step: int) -> None:
    for name, value in tb_info.items():
        writer.add_scalar(name, value, step)


def start_tensorboard(logdir: str, *arguments: Any, **keywords: Any) -> None:
    print(f"TensorBoard would show {logdir}.")
