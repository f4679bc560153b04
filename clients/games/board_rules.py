"""What games have in common in which two players put stones on a board in turn."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

Observation = dict[str, Any]
Picture = NDArray[np.uint8]
Cover = NDArray[np.floating[Any]]
CELL = 64  # pixels
_WORD = 64  # bits for the stones of a player


class Rules(ABC):
    """Where stones may be put, and what wins.

    A set of cells is an integer with a bit for each. A position is two of them: the stones of who
    moves, ``own``, and those of the ``other``.

    Attributes:
        name: Under which the game is registered.
        places: ``[rows, columns]``, which bit each cell is, as the board is seen.
        lines: The sets of cells that win.
        actions: How many there are.
        marks: ``[rows, columns]``, what stands for an empty cell in the text.
        below: Lines of such marks below the board.
    """

    name: ClassVar[str]
    places: ClassVar[NDArray[np.int64]]
    lines: ClassVar[tuple[int, ...]]
    actions: ClassVar[int]
    marks: ClassVar[NDArray[np.str_]]
    below: ClassVar[tuple[tuple[str, ...], ...]] = ()

    @abstractmethod
    def stone(self, taken: int, action: int) -> int:
        """The cell that an action takes; 0 where it is not allowed."""

    @abstractmethod
    def won(self, stones: int) -> bool:
        """Whether they have a line."""

    @abstractmethod
    def tiles(self) -> Picture:
        """Pictures of a cell, ``[3, CELL, CELL, 3]``.

        Without a stone, with one of the player who begins, with one of the other.
        """

    @cached_property
    def full(self) -> int:
        """All cells."""
        return sum(1 << place for place in self.places.ravel().tolist())

    @property
    def most_without_line(self) -> int:
        """How many stones there can be on the board before anybody can have a line."""
        return 2 * self.lines[0].bit_count() - 2

    @cached_property
    def _places_of_both(self) -> NDArray[np.int64]:
        return np.stack([self.places, self.places + _WORD], axis=-1)

    def allowed(self, taken: int) -> list[int]:
        """The actions that are."""
        return [action for action in range(self.actions) if self.stone(taken, action)]

    def line(self, stones: int) -> int:
        """The cells of all lines that they have."""
        has = 0
        for line in self.lines:
            has |= line if line & stones == line else 0
        return has

    def board(self, own: int, other: int = 0) -> NDArray[np.int8]:
        """One where a stone of each lies, ``[rows, columns, 2]``."""
        words = (own | other << _WORD).to_bytes(2 * _WORD // 8, "little")
        bits = np.unpackbits(np.frombuffer(words, np.uint8), bitorder="little")
        return bits[self._places_of_both].view(np.int8)

    def observed(self, own: int, other: int, player: int, over: bool = False) -> Observation:
        """What the player sees whose stones are ``own``, see `BoardGame`."""
        moves = np.zeros(self.actions, np.int8)
        if not over:
            moves[self.allowed(own | other)] = 1
        return {"board": self.board(own, other), "moves": moves, "to_play": np.int64(player)}


def tile(ground: tuple[int, ...] | Picture, *layers: tuple[Cover, tuple[int, ...]]) -> Any:
    """A picture of a cell, ``[CELL, CELL, 3]``: a ground, and on it each colour where its cover is.

    A cover is from 0 to 1 in each pixel; between them lies a soft edge.
    """
    picture = np.empty((CELL, CELL, 3))
    picture[...] = ground
    for cover, colour in layers:
        cover = np.clip(cover, 0, 1)[..., None]
        picture = picture * (1 - cover) + np.array(colour) * cover
    return picture.round().astype(np.uint8)


def from_middle() -> tuple[Cover, Cover]:
    """How far each row and column of a tile is from the middle, in pixels."""
    middle: Cover = np.arange(CELL) - (CELL - 1) / 2
    return middle[:, None], middle[None]


def disc(radius: float) -> Cover:
    """The cover of a disc in the middle of a tile."""
    down, right = from_middle()
    covered: Cover = radius + 0.5 - np.hypot(down, right)
    return covered
