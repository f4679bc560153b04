"""Games in words as environments: what is told, and commands to choose from, as bags of words."""

from __future__ import annotations

import functools
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete
from numpy.typing import NDArray

from fast_core.errors import ConfigError
from fast_core.system.text_picture import picture

Bags = NDArray[np.int8]
Observation = dict[str, Any]
Info = dict[str, Any]

_WORD = re.compile(r"[^\W_]+")
_SMALLEST, _LARGEST = 8, 65_536


@dataclass(frozen=True)
class Scene:
    """What a story tells the player after a command.

    Attributes:
        text: Whatever is told.
        commands: What the player can do now that may lead on, best in an order that is always the
            same; only empty where the story is over.
        score: Points since the story began; a reward is their difference.
        over: Whether the story has ended.
        numbers: More that is known, by name, for ``info["episode"]``.
    """

    text: str
    commands: Sequence[str]
    score: float = 0.0
    over: bool = False
    numbers: dict[str, float] = field(default_factory=dict)


class Story(Protocol):
    """A story that can be played again and again; the same commands tell the same."""

    def begin(self) -> Scene:
        """Begin from the beginning."""
        ...

    def tell(self, command: str) -> Scene:
        """Go on by one of the scene's commands."""
        ...

    def close(self) -> None:
        """End it; it can be closed twice."""
        ...


class TextGame(gymnasium.Env[Observation, np.int64]):
    """A story of which the action chooses one of the commands that are possible now.

    Observes a Dict: ``text`` ``[words]``, the bag of words of what was told; ``commands``
    ``[commands, words]``, one of each command in the list, zeros behind the last; ``possible``
    ``[commands]``, a mask for ``environment.action_mask``. A bag of words is 1 in the place of each
    word that occurs, whatever its case, and 0 elsewhere; the place is the CRC-32 of the word in
    UTF-8 modulo ``words``, so several words may share one, and every run has the same places.

    Where a scene has more commands than the list, it holds the first ones, and in the next step it
    begins as many further on, so that each is on offer again and again. The info of a step has
    ``left_out``, how many are not on offer now, ``command``, what was done, and the group
    ``episode`` with ``score``, ``left_out``, the most that were left out in one step, and what the
    story adds.

    Args:
        story: What is played; it is closed with the environment.
        commands: Length of the list of commands.
        words: Places in a bag of words.
        render_mode: ``rgb_array``, the text as a picture, ``ansi``, the text, or None.

    Raises:
        ConfigError: A number is out of range.
    """

    metadata = {"render_modes": ["rgb_array", "ansi"], "watch_mode": "ansi", "render_fps": 2}

    def __init__(
        self,
        story: Story,
        *,
        commands: int = 32,
        words: int = 256,
        render_mode: str | None = None,
    ) -> None:
        _check("commands", commands, 1, 4096)
        _check("words", words, _SMALLEST, _LARGEST)
        self.render_mode = render_mode
        self.action_space = Discrete(commands)
        self.observation_space = Dict(
            {
                "text": Box(0, 1, (words,), np.int8),
                "commands": Box(0, 1, (commands, words), np.int8),
                "possible": Box(0, 1, (commands,), np.int8),
            }
        )
        self._story, self._commands, self._words = story, commands, words
        self._bag = functools.lru_cache(maxsize=4096)(self._new_bag)
        self._scene = Scene("", ())
        self._offered: Sequence[str] = ()
        self._steps = self._most_left_out = 0

    def reset(
        self, *, seed: int | None = None, options: Info | None = None
    ) -> tuple[Observation, Info]:
        """Begin the story; every episode is the same one."""
        super().reset(seed=seed)
        self._scene = self._story.begin()
        self._steps = self._most_left_out = 0
        return self._offer(), {"left_out": self._left_out}

    def step(self, action: np.int64) -> tuple[Observation, float, bool, bool, Info]:
        """Do what the chosen command says."""
        if not 0 <= int(action) < len(self._offered):
            raise ValueError(
                f"an action must choose one of the {len(self._offered)} commands on offer, from 0; "
                f"got {action!r}. Set environment.action_mask: possible."
            )
        command, before = self._offered[int(action)], self._scene.score
        scene = self._scene = self._story.tell(command)
        self._steps += 1
        obs = self._offer()
        info = {"command": command, "left_out": self._left_out, "episode": self._summary()}
        return obs, float(scene.score - before), scene.over, False, info

    @property
    def offered(self) -> Sequence[str]:
        """The commands that an action chooses from now."""
        return self._offered

    @property
    def text(self) -> str:
        """What was told last."""
        return self._scene.text

    def render(self) -> Any:
        """What was told and what can be done, as text or as a picture ``[H, W, 3]`` uint8."""
        listed = "".join(f"\n> {command}" for command in self._offered)
        shown = f"{self._scene.text}\n\nScore: {self._scene.score:g}\n{listed}"
        return shown if self.render_mode == "ansi" else picture(shown)

    def close(self) -> None:
        """End the story."""
        self._story.close()

    @property
    def _left_out(self) -> int:
        return len(self._scene.commands) - len(self._offered)

    def _summary(self) -> dict[str, float]:
        own = {"score": self._scene.score, "left_out": float(self._most_left_out)}
        return {**self._scene.numbers, **own}

    def _offer(self) -> Observation:
        """Fill the list with the scene's commands, and tell what is observed."""
        self._offered = self._window(self._scene.commands)
        self._most_left_out = max(self._most_left_out, self._left_out)
        commands: Bags = np.zeros((self._commands, self._words), np.int8)
        for row, command in zip(commands, self._offered, strict=False):
            row[self._bag(command)] = 1
        text: Bags = np.zeros(self._words, np.int8)
        text[self._bag(self._scene.text)] = 1
        possible: Bags = (np.arange(self._commands) < len(self._offered)).astype(np.int8)
        return {"text": text, "commands": commands, "possible": possible}

    def _window(self, commands: Sequence[str]) -> Sequence[str]:
        """The commands, or as many as there is room for, others in each step."""
        if not commands and not self._scene.over:
            raise ValueError(
                "the story goes on but offers no command, so nothing can be chosen; a Story has to "
                f"end (Scene.over) or to offer one. It told: {self._scene.text[:200]!r}"
            )
        if len(commands) <= self._commands:
            return tuple(commands)
        first = self._steps * self._commands % len(commands)
        return (*commands[first:], *commands[:first])[: self._commands]

    def _new_bag(self, text: str) -> NDArray[np.intp]:
        """The places of the words of a text."""
        found = {word.lower() for word in _WORD.findall(text)}
        return np.array(sorted({zlib.crc32(w.encode()) % self._words for w in found}), np.intp)


def _check(name: str, value: object, low: int, high: int) -> None:
    """Refuse what is no integer from ``low`` to ``high``.

    Raises:
        ConfigError: It is not.
    """
    if type(value) is not int or not low <= value <= high:
        raise ConfigError(
            f"environment.kwargs.{name} of a text game must be an integer from {low} to {high}; "
            f"got {value!r}"
        )
