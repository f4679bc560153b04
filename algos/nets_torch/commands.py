"""A network for games in words, whose actions are commands from a list that changes."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from fast_core.algorithm.spec import SpaceSpec
from fast_core.errors import ConfigError

TEXT, COMMANDS = "text", "commands"


class ScoreCommands(nn.Module):
    """Scores each command of a list by what the text says, with weights that all share.

    A command's score depends on its words alone, never on its place: commands that change places
    change scores. A network of one's own (docs/own-networks.md) with ``scores_choices``, for what
    ``fastloop/TextGame-v0`` observes.

    Args:
        observation: A Dict with the parts ``text``, ``[words]``, and ``commands``,
            ``[choices, words]``: bags of words.
        choices: How many commands there are to choose from.
        width: Of its layers.

    Raises:
        ConfigError: Something else is observed or chosen.
    """

    scores_choices = True

    def __init__(self, observation: SpaceSpec, choices: int = 0, width: int = 64) -> None:
        super().__init__()
        parts = dict(observation.parts) if observation.kind == "composite" else {}
        text, commands = (parts.get(name) for name in (TEXT, COMMANDS))
        seen = [None if part is None else part.shape for part in (text, commands)]
        if text is None or commands is None or seen[1] != (choices, *text.shape):
            raise ConfigError(
                "ScoreCommands needs a Dict observation with the parts text [words] and commands "
                "[choices, words], and an action that chooses one of the commands (PPO, APPO or "
                f"IMPALA); got {choices} choices, text {seen[0]} and commands {seen[1]}. "
                "fastloop/TextGame-v0 has them."
            )
        (words,) = text.shape
        self.text = nn.Linear(words, width)
        self.command = nn.Linear(words, width, bias=False)
        self.score = nn.Linear(width, 1, bias=False)
        self.value = nn.Linear(width, width)
        with torch.no_grad():
            self.score.weight.mul_(0.1)  # the first policy is close to uniform

    def forward(self, obs: dict[str, Tensor]) -> Tensor:
        """Scores of the commands and features for the value, ``[B, choices + width]``."""
        text: Tensor = self.text(obs[TEXT])
        both = torch.tanh(text[:, None] + self.command(obs[COMMANDS]))
        scores: Tensor = self.score(both).squeeze(-1)
        features = torch.tanh(self.value(torch.tanh(text)))
        return torch.cat([scores, features], 1)
