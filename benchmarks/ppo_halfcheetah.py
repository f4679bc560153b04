"""FastLoop's PPO against Stable-Baselines3's on MuJoCo, in env steps per second while training.

    python -m benchmarks.ppo_halfcheetah [--quick]

The same work for both: HalfCheetah-v5 in 8 environments, policy and value networks of 2x64 tanh,
rounds of 128 steps (1024 rows), 4 epochs of minibatches of 256, strictly on-policy. FastLoop runs
`configs/ppo_halfcheetah_bench.yaml`. See `benchmarks.against_sb3` for the way it is measured.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.against_sb3 import Race, quick_asked, run

TARGET = 2.5
PEERS = ("stable-baselines3", "mujoco")
RACE = Race(
    name="ppo_halfcheetah",
    config=Path("configs/ppo_halfcheetah_bench.yaml"),
    task="halfcheetah",
    target=TARGET,
    first_round=5,
    last_round=60,
    quick_last_round=20,
)


def main() -> None:
    """Measure everything and print the last line."""
    quick = quick_asked("PPO on HalfCheetah against Stable-Baselines3.")
    run(RACE, {"fastloop": ()}, quick=quick)


if __name__ == "__main__":
    main()
