"""PPO's loss in torch: for convolutions, users' networks and GPUs.

It states the loss the short way and is what the hand-written gradient is tested against.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fast_core.algos.ppo.config import PPOConfig
from fast_core.algos.rollouts.torch_core import Minibatch


def clipped_loss(settings: PPOConfig, rows: Minibatch) -> tuple[Tensor, dict[str, Tensor]]:
    """The loss of a minibatch, whose ``scheduled`` is how far ratios are rewarded from 1."""
    clip_epsilon, advantage = rows.scheduled, rows.advantage
    if settings.normalize_advantage and len(advantage) > 1:
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    if "weight" in rows.extra:
        advantage = advantage * rows.extra["weight"]
    log_ratio = rows.log_prob - rows.old_log_prob
    ratio = log_ratio.exp()
    clipped = ratio.clamp(1 - clip_epsilon, 1 + clip_epsilon)
    policy_loss = -torch.min(ratio * advantage, clipped * advantage).mean()
    value_error = (rows.value - rows.target).square()
    if settings.value_clip_epsilon is not None:
        limit = settings.value_clip_epsilon
        near = rows.old_value + (rows.value - rows.old_value).clamp(-limit, limit)
        value_error = torch.max(value_error, (near - rows.target).square())
    value_loss, entropy = value_error.mean(), rows.entropy.mean()
    loss = policy_loss + settings.value_coef * value_loss - settings.entropy_coef * entropy
    with torch.no_grad():
        approx_kl = (ratio - 1 - log_ratio).mean()
        clip_fraction = (clipped != ratio).float().mean()
    return loss, {
        "policy_loss": policy_loss,
        "value_loss": value_loss,
        "entropy": entropy,
        "approx_kl": approx_kl,
        "clip_fraction": clip_fraction,
    }
