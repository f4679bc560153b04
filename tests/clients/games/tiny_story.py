"""A story of a few scenes that needs no interpreter, and the environment that tells it."""

from __future__ import annotations

from typing import Any

from fast_core.clients.games.text_game import Scene, TextGame

WON = ("open cupboard", "take lamp", "go down", "take gold", "go up")


class Cellar:
    """Take the lamp from the cupboard, fetch the gold from the cellar; there are three points.

    Args:
        songs: So many commands more, in each scene, that do nothing.
    """

    def __init__(self, songs: int = 0) -> None:
        self._songs = [f"sing song {number}" for number in range(songs)]
        self.closed = 0
        self.begin()

    def begin(self) -> Scene:
        self._down, self._open, self._held, self._lost = False, False, set[str](), False
        return self._scene("You are thirsty for gold.")

    def tell(self, command: str) -> Scene:
        assert command in self._scene("").commands, command
        if command.startswith("take"):
            self._held.add(command.removeprefix("take "))
        elif command.startswith("go"):
            self._down = command == "go down"
            self._lost = self._down and "lamp" not in self._held
        elif command.endswith("cupboard"):
            self._open = command.startswith("open")
        return self._scene(f"You {command}.")

    def close(self) -> None:
        self.closed += 1

    def _scene(self, told: str) -> Scene:
        up, gold = not self._down, "gold" in self._held
        possible = {
            "close cupboard": up and self._open,
            "go down": up,
            "go up": self._down,
            "open cupboard": up and not self._open,
            "take gold": self._down and not gold,
            "take lamp": up and self._open and "lamp" not in self._held,
        }
        home = up and gold
        place = "in the hall. The cupboard is" if up else "in the cellar. The cupboard was"
        door = "open" if self._open else "closed"
        text = f"{told} You are {place} {door}. You hold {' and '.join(sorted(self._held))}."
        over = home or self._lost
        commands = [] if over else [name for name, there in possible.items() if there]
        score = len(self._held) + home
        return Scene(text, commands + ([] if over else self._songs), score, over, {"won": home})


class CellarGame(TextGame):
    """`Cellar` as an environment."""

    def __init__(self, songs: int = 0, **kwargs: Any) -> None:
        self.story = Cellar(songs)
        super().__init__(self.story, **{"commands": 4, "words": 64, **kwargs})
