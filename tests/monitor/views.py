"""Values for tests of the display."""

from __future__ import annotations

from dataclasses import replace

from fast_core.monitor.view import (
    EvaluationView,
    NodeView,
    ProgressView,
    ReplayView,
    RoundsView,
    RunSummary,
    StopCondition,
)

LAST = EvaluationView(mean=312.4, std=88.1, version=3200, env_steps=204_800)
BEST = EvaluationView(mean=475.0, std=12.1, version=2800, env_steps=180_000)

VIEW = ProgressView(
    run_name="ppo_cartpole",
    seed=7,
    phase="training",
    elapsed_s=8.43,
    env_steps=240_128,
    updates=3752,
    version=3752,
    stops=(
        StopCondition("env_steps", 240_128, 500_000),
        StopCondition("score", 312.4, 475.0),
    ),
    mean_return=213.4,
    mean_length=198.6,
    episodes=1832,
    evaluation=LAST,
    best=BEST,
    lag_mean=0.25,
    lag_max=3,
    degree=2,
    nodes=(
        NodeView("env-0", "stepping", 0.82, 0.18, "shards 0, 2", 12345, 1),
        NodeView("env-1", "waiting", 0.79, 0.21, "shards 1, 3", 12346, 1),
        NodeView("optimizer-0", "learning", 0.55, 0.45, "cpu", 12347, 2),
    ),
    cores="2 cores granted (affinity 2, quota 3.5)",
)

REPLAYED = replace(
    VIEW, replay=ReplayView(rows=12_345, capacity=50_000, updates_per_env_step=0.5, age=6120.4)
)

ROUNDS = RoundsView(
    way="auto",
    collected=1203,
    merged=1202,
    trained=1201,
    collecting=0.6,
    training=0.97,
    ess=0.981,
    clip_fraction=0.08,
)

EMPTY = ProgressView(
    run_name="new", seed=0, phase="starting", elapsed_s=0.0, env_steps=0, updates=0
)

SUMMARY = RunSummary(
    outcome="finished",
    text="evaluation of version 2800 reached 475.0",
    run_name="ppo_cartpole",
    run_directory="runs/ppo_cartpole/2025-11-27_22-40-00",
    elapsed_s=75.0,
    env_steps=300_000,
    updates=4000,
    session_s=50.0,
    session_env_steps=200_000,
    session_updates=3000,
    best=BEST,
    last=LAST,
    checkpoint="000000004000",
)


def view_at(elapsed_s: float, env_steps: int, updates: int = 0) -> ProgressView:
    """The view after some time and steps."""
    return replace(VIEW, elapsed_s=elapsed_s, env_steps=env_steps, updates=updates)
