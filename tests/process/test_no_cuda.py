"""Nodes are forked from a server that has torch; CUDA must not exist for it."""

from __future__ import annotations

import pytest

from tests.process.harness import Workplace

pytestmark = pytest.mark.process


@pytest.mark.slow
def test_neither_fork_server_nor_nodes_touch_cuda_on_the_cpu(workplace: Workplace) -> None:
    config = {
        "name": "no_cuda",
        "environment": {"id": "CartPole-v1", "modules": ["tests.process.no_cuda"]},
        "rollout": {"shards": 2, "envs_per_shard": 2, "steps": 8},
        "policy": {"backend": "torch"},
        "algorithm": {"name": "ppo", "gradient": "autograd", "minibatch_size": 32},
        "evaluation": {"every_env_steps": None},
        "metrics": {"tensorboard": False},
        "stop": {"env_steps": 128},
    }
    workplace.launch(config=config).done(within_s=120)
