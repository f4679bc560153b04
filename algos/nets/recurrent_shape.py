"""What a recurrent layer looks like: the names and sizes of its parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Cell = Literal["gru", "lstm"]


@dataclass(frozen=True)
class MemoryShape:
    """The recurrent layer of a network, between its torso and its heads.

    Attributes:
        cell: Which cell.
        inputs: Features that enter it.
        size: Features that leave it, ``H``.
    """

    cell: Cell
    inputs: int
    size: int

    @property
    def gates(self) -> int:
        """Gates of the cell."""
        return 3 if self.cell == "gru" else 4

    @property
    def state_size(self) -> int:
        """Numbers remembered for each environment."""
        return self.size if self.cell == "gru" else 2 * self.size

    @property
    def products(self) -> int:
        """Multiplications of one row's forward pass."""
        return self.gates * self.size * (self.inputs + self.size)

    @property
    def parameters(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """Name and shape of each parameter; all gates of one kind lie in one array."""
        rows = self.gates * self.size
        return (
            ("memory.input.weight", (rows, self.inputs)),
            ("memory.input.bias", (rows,)),
            ("memory.state.weight", (rows, self.size)),
            ("memory.state.bias", (rows,)),
        )
