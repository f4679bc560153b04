"""Small runs that learn from replay, for the tests beside this file."""

from __future__ import annotations

import os
import signal
from typing import Any

from fast_core.launcher.checkpoints.store import newest_valid
from tests.nodes.counting import COSTLY
from tests.process import harness
from tests.process.harness import (
    Launched,
    Workplace,
    assert_first_cause_is_last,
    eventually,
    read_lines,
    read_process,
)

SHARDS, ENVS, STEPS = 4, 1, 8
ROWS = SHARDS * ENVS * STEPS  # of a ticket
RATIO = 0.3  # 9.6 optimizer steps a ticket: some grant 9, the others 10
WARM_UP = 3  # tickets that grant nothing
TICKETS = 58

CONTINUOUS: dict[str, Any] = {
    "name": "replayed",
    "environment": {"id": "Pendulum-v1"},
    "rollout": {"shards": SHARDS, "envs_per_shard": ENVS, "steps": STEPS},
    # Less than a run writes, so that rows are overwritten.
    "replay": {"capacity": 800, "learning_starts": WARM_UP * ROWS, "prioritized": True},
    "algorithm": {"name": "sac", "hidden_sizes": [8], "batch_size": 16, "n_step": 3},
    "nodes": {"env": {"count": 2}},
    "scheduler": {"replay_ratio": RATIO},
    "evaluation": {"every_env_steps": None},
    "checkpoint": {"every_updates": None, "at_end": True},
    "metrics": {"tensorboard": False},
    "diagnostics": {"digests": True},
    "stop": {"env_steps": TICKETS * ROWS},
}
DISCRETE: dict[str, Any] = CONTINUOUS | {
    "environment": {"id": "CartPole-v1", "frame_stack": 2},
    "algorithm": {"name": "dqn", "hidden_sizes": [8], "batch_size": 16, "n_step": 2},
}
TOGETHER: dict[str, Any] = CONTINUOUS | {"nodes": {"env": {"count": 2}, "optimizer": {"count": 2}}}
# Statistics of observations are averaged with the gradient; the rate falls with the env steps.
OPTIONS: dict[str, Any] = TOGETHER | {
    "algorithm": {
        "name": "dsact",
        "hidden_sizes": [8],
        "batch_size": 16,
        "normalize_observations": True,
        "learning_rate_schedule": "linear",
        "max_grad_norm": 0.5,
        "activation": "silu",
        "layer_norm": True,
        "actor_sizes": [6],
    }
}
# Each optimizer drops features of its own; every policy sees all of them.
OWN: dict[str, Any] = TOGETHER | {
    "algorithm": {
        "name": "dsact",
        "network": "tests.algos.own_networks:Dropping",
        "hidden_sizes": [8],
        "batch_size": 16,
    }
}

# Sequences that begin with what was remembered, shared by two optimizers.
REMEMBERING: dict[str, Any] = TOGETHER | {
    "environment": {
        "id": "Pendulum-v1",
        "wrappers": [{"name": "fast_core.envs.wrappers:KeepElements", "kwargs": {"kept": [0, 1]}}],
    },
    "algorithm": {
        "name": "sac",
        "recurrent": "lstm",
        "recurrent_size": 4,
        "hidden_sizes": [8],
        "sequence_length": 4,
        "burn_in": 3,
        "batch_size": 16,
        "n_step": 2,
    },
}

# An algorithm of a user's, with columns of the environment, of its policy and of its learner.
DECLARED: dict[str, Any] = CONTINUOUS | {
    "environment": {"id": COSTLY},
    "algorithm": {"name": "tests.process.declaring:DeclaringConfig"},
    "replay": CONTINUOUS["replay"] | {"prioritized": False},
}

# A policy that searches, and writes what it found; sequences of stacked frames.
SEARCHED: dict[str, Any] = DISCRETE | {
    "algorithm": {
        "name": "muzero",
        "hidden_sizes": [8],
        "latent": 6,
        "batch_size": 16,
        "n_step": 3,
        "unroll": 2,
        "simulations": 4,
        "bootstrap": "search",
        "reanalyze": 0.25,
        "normalize_observations": True,
    }
}

# Rows of 5 KiB: a checkpoint of them takes several turns of the replay node, between draws.
PICTURES: dict[str, Any] = DISCRETE | {
    "environment": {
        "id": "fastloop/Drift-v0",
        "modules": ["fast_core.clients.games.drift_task"],
        "kwargs": {"side": 72},
        "frame_stack": 2,
    },
    "algorithm": DISCRETE["algorithm"] | {"network": "mlp", "hidden_sizes": [4], "batch_size": 8},
}

TASKS = {
    "continuous": CONTINUOUS,
    "discrete": DISCRETE,
    "two optimizers": TOGETHER,
    "options": OPTIONS,
    "own networks": OWN,
    "declared columns": DECLARED,
    "searched": SEARCHED,
    "remembering": REMEMBERING,
}

# Longer than any test waits, with everything that may be killed.
ENDLESS: dict[str, Any] = CONTINUOUS | {
    "environment": {"id": "fastloop/Toy-v0", "modules": ["toy_envs"], "kwargs": {"step_s": 0.001}},
    "algorithm": {"name": "dqn", "hidden_sizes": [8], "batch_size": 16, "n_step": 2},
    "nodes": {"env": {"count": 2}, "optimizer": {"count": 2}},
    "diagnostics": {},
    "stop": {"time_s": 60},
}


def granted(env_steps: int) -> int:
    """Optimizer steps that so many environment steps grant in all."""
    return max(0, env_steps - WARM_UP * ROWS) * 3 // 10


def finished(launched: Launched, tickets: int = TICKETS) -> dict[int, str]:
    """The learner's digests by ticket, of a run that must have come to its end."""
    return harness.finished(launched, tickets, warm_up=WARM_UP)


def reached(launched: Launched) -> tuple[int, int]:
    """Environment steps and optimizer steps of the newest checkpoint."""
    _, manifest, notes = newest_valid(launched.run / "checkpoints")
    assert not notes
    return manifest.env_steps, manifest.version


def last_metrics(launched: Launched) -> dict[str, float]:
    """The last row of the run's metrics."""
    return metrics(launched)[-1]


def metrics(launched: Launched) -> list[dict[str, float]]:
    """The run's rows of metrics, without those of evaluations."""
    rows = [row["values"] for row in read_lines(launched.run / "metrics.jsonl")]
    return [row for row in rows if "eval/return_mean" not in row]


def assert_death_ends_the_run(launched: Launched, name: str) -> None:
    """Kill a node: the run ends within five seconds, names it last, and leaves nothing."""
    os.kill(launched.node(name), signal.SIGKILL)
    launched.ends_soon(1)
    assert_first_cause_is_last(launched, "SIGKILL")
    assert f"First cause: node '{name}'" in launched.screen


def await_learning(launched: Launched) -> None:
    """Wait until a row of metrics tells of steps taken."""
    launched.await_training()

    def learns() -> bool:
        assert read_process(launched.pid), f"the launcher ended:\n{launched.screen}"
        rows = metrics(launched)
        return bool(rows) and rows[-1].get("replay/updates_per_env_step", 0.0) > 0

    eventually(learns, f"learning\n{launched.screen}")


def learning(workplace: Workplace, *overrides: str, config: dict[str, Any] = ENDLESS) -> Launched:
    launched = workplace.launch(
        "metrics={interval_s: 0.05, tensorboard: false}", *overrides, config=config
    )
    await_learning(launched)
    return launched
