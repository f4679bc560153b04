"""FastLoop's PPO against Stable-Baselines3's on Atari, in env steps per second while training.

    python -m benchmarks.ppo_pong [--quick]

The same work for both: Pong with the standard preprocessing (4 emulator frames a step, 84x84 grey,
4 frames stacked), 8 environments of 128 steps (1024 rows) a round, one Nature CNN under policy and
value, 4 epochs of minibatches of 256, strictly on-policy. FastLoop runs `configs/ppo_pong.yaml`;
``fastloop_bf16`` has `nodes.optimizer.precision` and `policy.precision` bf16. See
`benchmarks.against_sb3` for the way it is measured; the targets are for fp32 and for bf16, where
the CPU computes it.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.against_sb3 import Race, quick_asked, run

TARGET = 1.55
PEERS = ("stable-baselines3", "ale-py")
BF16_TARGET = 2.3
QUIET = ("evaluation.every_env_steps=null", "checkpoint.every_updates=null")
QUIET += ("evaluation.at_end=false", "checkpoint.at_end=false")
BF16 = ("nodes.optimizer.precision=bf16", "policy.precision=bf16")
RACE = Race(
    name="ppo_pong",
    config=Path("configs/ppo_pong.yaml"),
    task="pong",
    target=TARGET,
    first_round=2,
    last_round=12,
    quick_last_round=5,
    rounds=3,
    peer_limit_s=60.0,
)


def main() -> None:
    """Measure everything and print the last line."""
    quick = quick_asked("PPO on Pong against Stable-Baselines3.")
    variants = {"fastloop": QUIET, "fastloop_bf16": (*QUIET, *BF16)}
    run(RACE, variants, quick=quick, fastloop_bf16_target=BF16_TARGET)


if __name__ == "__main__":
    main()
