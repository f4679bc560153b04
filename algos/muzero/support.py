"""Values and rewards on a scale that is finest around 0, as categories of it, in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]
SLOPE = 0.001  # of the scale, far from 0
LEAST = 1e-20  # sums of exponentials whose numbers float32 has


def compressed(x: Floats) -> Floats:
    """``h(x)``, which grows like the root of ``x``.

    Source: Schrittwieser et al. 2020, appendix F, after Pohlen et al. 2018, arXiv:1805.11593.
    """
    scaled: Floats = np.sign(x) * (np.sqrt(np.abs(x) + 1) - 1) + SLOPE * x
    return scaled


def expanded(y: Floats) -> Floats:
    """The ``x`` of which `compressed` makes ``y``.

    The root of a square equation, in the form that takes no difference of near numbers: float32
    has six digits of it everywhere.
    """
    above = np.abs(y) + (1 + SLOPE)
    root = 2 * above / (1 + np.sqrt(1 + 4 * SLOPE * above))  # sqrt(|x| + 1)
    found: Floats = np.sign(y) * (np.square(root) - 1)
    return found


class Support:
    """What a head says of a number.

    Args:
        most: Categories on either side of that of 0; 0: it says the compressed number itself.

    Attributes:
        outputs: Numbers of the head.
    """

    def __init__(self, most: int) -> None:
        self.outputs = 2 * most + 1
        atoms = np.arange(-most, most + 1, dtype=np.float32)
        self._sums = np.stack([atoms, np.ones_like(atoms)])
        self._weights: Floats = np.empty((self.outputs, 0), np.float32)

    def average(self, said: Floats) -> Floats:
        """The compressed numbers ``[B]`` that a head's ``[outputs, B]`` says."""
        if self.outputs == 1:
            scalar: Floats = said[0]
            return scalar
        if self._weights.shape != said.shape:
            self._weights = np.empty(said.shape, np.float32)
        # Without the greatest one taken off, which takes as long as all the rest; where numbers
        # are too large or too small for that, it is.
        with np.errstate(over="ignore", invalid="ignore"):
            number, total = self._sums @ np.exp(said, out=self._weights)
            far = ~((total > LEAST) & (total < 1 / LEAST))
            if far.any():
                those = said[:, far]
                number[far], total[far] = self._sums @ np.exp(those - those.max(axis=0))
        found: Floats = number / total
        return found
