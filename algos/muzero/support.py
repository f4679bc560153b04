"""Values and rewards on a scale that is finest around 0, as policies read them."""

from __future__ import annotations

import numpy as np

from fast_core.algos.muzero import _native
from fast_core.algos.nets.networks import F32


class Support:
    """What a head says of a number: on the scale ``h(x)``, which grows like the root of ``x``.

    Source: Schrittwieser et al. 2020, appendix F, after Pohlen et al. 2018, arXiv:1805.11593.
    `torch_support` has what is learned of it.

    Args:
        most: Categories on either side of that of 0; 0: it says the number on the scale itself.

    Attributes:
        outputs: Numbers of the head.
    """

    def __init__(self, most: int) -> None:
        self.outputs = 2 * most + 1

    def decode(self, said: F32) -> F32:
        """The numbers ``[B]`` that a head's ``[outputs, B]`` says."""
        found: F32 = np.empty(said.shape[1], np.float32)
        said = np.ascontiguousarray(said, np.float32)
        _native.decode(said, self.outputs, len(found), found)
        return found
