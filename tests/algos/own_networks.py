"""Networks as users write them, good ones and bad ones."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Plain(nn.Module):
    """Two hidden layers."""

    def __init__(self, observation, width=8):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(observation.size, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh()
        )

    def forward(self, obs: Tensor) -> Tensor:
        return self.layers(obs)


class Parts(nn.Module):
    """A layer for each part of a Dict, whatever it is."""

    def __init__(self, observation, width=6):
        super().__init__()
        self.images = {name for name, part in observation.parts if part.dtype == "uint8"}
        self.layers = nn.ModuleDict(
            {name: nn.Linear(part.size, width) for name, part in observation.parts}
        )

    def forward(self, obs: dict[str, Tensor]) -> Tensor:
        features = []
        for name, part in obs.items():
            numbers = part.float() / 255 if name in self.images else part
            features.append(self.layers[name](numbers.flatten(1)).relu())
        return torch.cat(features, 1)


class Frames(nn.Module):
    """Convolutions over stacked frames [B, stack, H, W] uint8."""

    def __init__(self, observation):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(observation.shape[0], 4, 8, 4), nn.ReLU(), nn.Flatten(), nn.LazyLinear(5)
        )

    def forward(self, obs: Tensor) -> Tensor:
        return self.layers(obs / 255)


class Dropping(Plain):
    """Random numbers while it learns."""

    def forward(self, obs: Tensor) -> Tensor:
        return nn.functional.dropout(self.layers(obs), 0.5, self.training)


class Fourier(nn.Module):
    """Random features that are drawn once, a frozen layer, and weights used twice."""

    def __init__(self, observation, width=8):
        super().__init__()
        self.register_buffer("frequencies", torch.randn(observation.size, width))
        self.register_buffer("order", torch.arange(width))
        self.frozen = nn.Linear(width, width).requires_grad_(False)
        self.once = nn.Linear(width, width)
        self.twice = self.once

    def forward(self, obs: Tensor) -> Tensor:
        waves = self.frozen((obs @ self.frequencies).sin())[:, self.order]
        return self.twice(self.once(waves).tanh()).tanh()


class NoForward(nn.Module):
    def __init__(self, observation):
        super().__init__()


class NoInit(nn.Module):
    def __init__(self, observation):
        self.layer = nn.Linear(observation.size, 4)


class Wrong(Plain):
    """Puts out what ``how`` says."""

    def __init__(self, observation, how):
        super().__init__(observation)
        self.how = how
        self.norm = nn.BatchNorm1d(8) if how == "batch norm" else nn.Identity()
        self.secret = torch.randn(8)
        self.scale = nn.Parameter(torch.ones(8, dtype=torch.float64)) if how == "double" else 1.0

    def forward(self, obs: Tensor):
        x = self.layers(obs)
        return {
            "one axis": lambda: x.sum(1),
            "transposed": lambda: x.t(),
            "tuple": lambda: (x, x),
            "half": lambda: x.half(),
            "batch": lambda: x.repeat(1, len(x)),
            "raises": lambda: x @ torch.zeros(3, 3),
            "detached": lambda: x.detach(),
            "batch norm": lambda: self.norm(x),
            "secret": lambda: x + self.secret,
            "double": lambda: (x * self.scale).float(),
            "in place": lambda: x.tanh().add_(x.exp_()),
            "scaled input": lambda: self.layers(obs.mul_(0.5)),
        }[self.how]()


def function(observation, width=4):
    return Plain(observation, width)


def nothing(observation):
    return None


class Nothing(nn.Module):
    """The observation itself."""

    def __init__(self, observation):
        super().__init__()

    def forward(self, obs: Tensor) -> Tensor:
        return obs


class Both(nn.Module):
    """A network itself, of observations alone or with actions."""

    def __init__(self, observation, actions=0, width=8):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(observation.size + actions, width), nn.ReLU())

    def forward(self, obs: Tensor, action: Tensor | None = None) -> Tensor:
        return self.layers(obs if action is None else torch.cat([obs, action], 1))


class Exploding(Plain):
    """Infinite while it learns, but for the batches that it is tried with."""

    def forward(self, obs: Tensor) -> Tensor:
        features = self.layers(obs)
        return features * float("inf") if self.training and len(obs) > 3 else features


class Positions(nn.Module):
    """Numbers with four axes that are no convolution, looked at as a vector."""

    def __init__(self, observation):
        super().__init__()
        self.layer = nn.Linear(observation.size, 24)
        self.positions = nn.Parameter(torch.randn(1, 2, 3, 4))

    def forward(self, obs: Tensor) -> Tensor:
        return (self.layer(obs) + self.positions.view(-1)).tanh()


class Remembering(Plain):
    """Makes a constant when it is first needed."""

    constant: Tensor | None = None

    def forward(self, obs: Tensor) -> Tensor:
        features = self.layers(obs)
        if self.constant is None:
            self.constant = torch.linspace(0, 1, features.shape[1], device=obs.device)
        return features * self.constant


class Quiet(Plain):
    """Noise while it learns, of a size that is learned and begins at nothing."""

    def __init__(self, observation):
        super().__init__(observation)
        self.size = nn.Parameter(torch.zeros(8))

    def forward(self, obs: Tensor) -> Tensor:
        features = self.layers(obs)
        return features + self.size * torch.randn_like(features) if self.training else features


class Scaling(Plain):
    """Features twice as large while it learns."""

    def forward(self, obs: Tensor) -> Tensor:
        return self.layers(obs) * (2.0 if self.training else 1.0)


class Scoring(nn.Module):
    """Scores the choices itself, each by one number of its own; ``few`` gives no features."""

    scores_choices = True

    def __init__(self, observation, choices=0, few=False):
        super().__init__()
        self.few, self.scores = few, nn.Linear(observation.size, choices)
        self.features = nn.Linear(observation.size, 5)

    def forward(self, obs: Tensor) -> Tensor:
        scores = self.scores(obs)
        return scores if self.few else torch.cat([scores, self.features(obs).tanh()], 1)


class Undecided(Plain):
    """Takes ``choices``, whatever those are."""

    def __init__(self, observation, choices=3):
        super().__init__(observation, choices)


class Unrelated(Undecided):
    """Says that they are its own."""

    scores_choices = False


class Unasked(Plain):
    """Would score choices, and does not ask how many there are."""

    scores_choices = True


class Places(nn.Module):
    """A row of numbers for the largest observation, and a parameter that nothing reaches."""

    def __init__(self, observation, sparse=False):
        super().__init__()
        self.sparse, self.rows = sparse, nn.Parameter(torch.randn(observation.size, 6))
        self.idle = nn.Parameter(torch.ones(3))

    def forward(self, obs: Tensor) -> Tensor:
        return nn.functional.embedding(obs.argmax(1), self.rows, sparse=self.sparse)
