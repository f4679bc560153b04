"""Networks of one's own against Stable-Baselines3's, in env steps per second while training.

    python -m benchmarks.own_network [--quick]

The same work for both, as in `benchmarks.ppo_throughput` and `benchmarks.sac_throughput`. The
networks are the modules of this file, equal to what SB3 has: two torsos of 2x64 tanh for PPO,
critics and policy of 2x256 relu for SAC, differentiated by autograd. SB3 runs on 1 and on 2 torch
threads and its better median counts. The ratio is that of PPO; SAC's is ``sac_ratio``, with a
target of its own. ``built_in`` figures are of FastLoop's own networks, whose gradients are written
by hand.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from benchmarks.against_sb3 import Race, best_peer, quick_asked
from benchmarks.measure import print_result
from fast_core.algorithm.spec import SpaceSpec

TARGET = 2.0
SAC_TARGET = 1.1
PEERS = ("stable-baselines3", "mujoco")
HEADS = "algorithm.hidden_sizes=null"  # nothing between the module and linear heads
PPO = ("algorithm.network=benchmarks.own_network:Torso", HEADS, "algorithm.shared_torso=false")
SAC = ("algorithm.network=benchmarks.own_network:Network", HEADS)
PPO_RACE = Race(
    name="own_network",
    config=Path("configs/ppo_cartpole_bench.yaml"),
    task="cartpole",
    target=TARGET,
)
SAC_RACE = Race(
    name="own_network",
    config=Path("configs/sac_halfcheetah_bench.yaml"),
    task="sac_halfcheetah",
    target=SAC_TARGET,
    rows=100,
    first_round=12,
    last_round=40,
    quick_last_round=20,
    rounds=3,
)


class Torso(nn.Module):
    """What policy and value of PPO have each."""

    def __init__(self, observation: SpaceSpec, width: int = 64) -> None:
        super().__init__()
        first, second = nn.Linear(observation.size, width), nn.Linear(width, width)
        self.layers = nn.Sequential(first, nn.Tanh(), second, nn.Tanh())

    def forward(self, obs: Tensor) -> Tensor:
        """Features ``[B, width]``."""
        features: Tensor = self.layers(obs)
        return features


class Network(nn.Module):
    """What policy and critics of SAC are each."""

    def __init__(self, observation: SpaceSpec, actions: int = 0, width: int = 256) -> None:
        super().__init__()
        self.first = nn.Linear(observation.size + actions, width)
        self.second = nn.Linear(width, width)

    def forward(self, obs: Tensor, action: Tensor | None = None) -> Tensor:
        """Features ``[B, width]``."""
        seen = obs if action is None else torch.cat([obs, action], 1)
        return torch.relu(self.second(torch.relu(self.first(seen))))


def main() -> None:
    """Measure everything and print the last line."""
    quick = quick_asked("PPO and SAC with networks of one's own against Stable-Baselines3.")
    skipped, found, ratios = PPO_RACE.skipped(), dict[str, float](), dict[str, float | None]()
    for name, race, own in (("ppo", PPO_RACE, PPO), ("sac", SAC_RACE, SAC)):
        medians = race.measure({"own": own, "built_in": ()}, quick=quick, peer=not skipped)
        best = best_peer(medians)
        ratios[name] = None if best is None else medians["own_env_steps_per_s"] / best
        found |= {f"{name}_{key}": value for key, value in medians.items()}
    if ratios["sac"] is not None:
        found["sac_ratio"] = ratios["sac"]
    found["sac_target"] = SAC_TARGET
    print_result("own_network", ratios["ppo"], TARGET, skipped=skipped, **found)


if __name__ == "__main__":
    main()
