"""Actor-critic MLPs in torch, over named parameter tensors; rows are ``[B, ...]``."""

from __future__ import annotations

import torch
from torch import Tensor

from algos.distributions import LOG_2PI
from algos.networks import NetworkShape


class Network:
    """The forward pass of an actor-critic; it owns no parameters."""

    def __init__(self, shape: NetworkShape) -> None:
        self._shape = shape

    def value(self, leaves: dict[str, Tensor], obs: Tensor) -> Tensor:
        """Values ``[B]``."""
        features = self._torso(leaves, self._shape.torsos[-1], obs)
        return _linear(leaves, "value.head", features).squeeze(-1)

    def evaluate(
        self, leaves: dict[str, Tensor], obs: Tensor, action: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Log-probability of ``action``, entropy and value, each ``[B]``."""
        features = self._torso(leaves, self._shape.torsos[0], obs)
        output = _linear(leaves, "policy.head", features)
        if self._shape.gaussian:
            log_prob, entropy = gaussian(output, leaves["policy.log_std"], action)
        else:
            log_prob, entropy = categorical(output, action)
        if not self._shape.shared_torso:
            features = self._torso(leaves, "value", obs)
        return log_prob, entropy, _linear(leaves, "value.head", features).squeeze(-1)

    def _torso(self, leaves: dict[str, Tensor], torso: str, x: Tensor) -> Tensor:
        activation = torch.tanh if self._shape.activation == "tanh" else torch.relu
        for index in range(len(self._shape.hidden_sizes)):
            x = activation(_linear(leaves, f"{torso}.{index}", x))
        return x


def categorical(logits: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
    """Log-probability and entropy ``[B]`` of choices ``[B]`` from ``logits [B, A]``."""
    log_probs = torch.log_softmax(logits, -1)
    log_prob = log_probs.gather(1, action[:, None]).squeeze(1)
    return log_prob, -(log_probs.exp() * log_probs).sum(-1)


def gaussian(mean: Tensor, log_std: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
    """Log-probability and entropy ``[B]`` of ``action [B, A]`` with ``log_std [A]``."""
    standard = (action - mean) * torch.exp(-log_std)
    log_prob = (-0.5 * standard.square() - log_std - 0.5 * LOG_2PI).sum(-1)
    entropy = (log_std + 0.5 * (1 + LOG_2PI)).sum().expand(len(mean))
    return log_prob, entropy


def _linear(leaves: dict[str, Tensor], name: str, x: Tensor) -> Tensor:
    return torch.nn.functional.linear(x, leaves[f"{name}.weight"], leaves[f"{name}.bias"])
