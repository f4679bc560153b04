"""What algorithms share: networks, distributions of actions, moving averages."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions import Independent, Normal

from gops.utils.common_utils import set_seed

_SQUASHED_EPSILON = 1e-6


class AlgorithmBase:
    """One with `container`, the class of its networks, and `compute` and `apply`."""

    container: Any

    def __init__(self, index: int = 0, **kwargs: Any) -> None:
        set_seed(kwargs["trainer"], kwargs["seed"], index + 300)
        self.networks = self.container(**kwargs)

    def state_dict(self) -> Any:
        return self.networks.state_dict()

    def load_state_dict(self, state_dict: Any) -> None:
        self.networks.load_state_dict(state_dict)

    def local_update(self, data: dict[str, Tensor], iteration: int) -> dict[str, float]:
        figures = self.compute(data)
        self.apply(iteration)
        return figures

    def compute(self, data: dict[str, Tensor]) -> dict[str, float]:
        """Gradients of all losses."""
        raise NotImplementedError

    def apply(self, iteration: int) -> None:
        """Steps of optimizers."""
        raise NotImplementedError


class Gaussian:
    """Means and deviations side by side, behind a tanh."""

    def __init__(self, logits: Tensor) -> None:
        self._mean, std = logits.chunk(2, dim=-1)
        self._normal = Independent(Normal(self._mean, std), 1)

    def rsample(self) -> tuple[Tensor, Tensor]:
        raw = self._normal.rsample()
        squashed = torch.tanh(raw)
        slope = torch.log(1.0 + _SQUASHED_EPSILON - squashed.pow(2)).sum(-1)
        return squashed, self._normal.log_prob(raw) - slope

    def sample(self) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            return self.rsample()

    def log_prob(self, action: Tensor) -> Tensor:
        inside = action.clamp(-1.0 + _SQUASHED_EPSILON, 1.0 - _SQUASHED_EPSILON)
        slope = torch.log(1.0 + _SQUASHED_EPSILON - inside.pow(2)).sum(-1)
        return self._normal.log_prob(torch.atanh(inside)) - slope

    def mode(self) -> Tensor:
        return torch.tanh(self._mean)


class Dirac:
    """One action."""

    def __init__(self, logits: Tensor) -> None:
        self._action = logits

    def sample(self) -> tuple[Tensor, Tensor]:
        return self._action, torch.zeros(len(self._action))

    def mode(self) -> Tensor:
        return self._action


class GaussianPolicy(nn.Module):
    """Observation to mean and deviation."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__()
        sizes = (kwargs["obsv_dim"], *kwargs["policy_hidden_sizes"], 2 * kwargs["action_dim"])
        self.layers = perceptron(sizes)
        self._limits = kwargs["policy_min_log_std"], kwargs["policy_max_log_std"]

    def forward(self, obs: Tensor) -> Tensor:
        mean, log_std = self.layers(obs).chunk(2, dim=-1)
        return torch.cat([mean, log_std.clamp(*self._limits).exp()], dim=-1)


def perceptron(sizes: Sequence[int]) -> nn.Sequential:
    """Linear layers with ReLU between them."""
    layers: list[nn.Module] = []
    for inputs, outputs in itertools.pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def frozen_copy(network: Any) -> Any:
    """A target of ``network``."""
    return copy.deepcopy(network).requires_grad_(False)


@torch.no_grad()
def follow(pairs: Sequence[tuple[nn.Module, nn.Module]], tau: float) -> None:
    """Move each target a little, parameter by parameter."""
    for online, target in pairs:
        for new, old in zip(online.parameters(), target.parameters(), strict=True):
            old.mul_(1.0 - tau).add_(tau * new)
