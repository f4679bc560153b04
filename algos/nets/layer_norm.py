"""Normalisation of what a hidden layer puts out, over its features, in NumPy with its gradient."""

from __future__ import annotations

import numpy as np

from fast_core.algos.nets.networks import F32, Parameter

EPSILON = 1e-5  # torch's


class LayerNorm:
    """Centres and scales the features of each row, then scales and shifts each feature.

    Arrays are ``[M, out, B]``, for ``M`` networks.

    Source: Ba et al. 2016, arXiv:1607.06450.

    Args:
        scale: ``[M, out]``.
        shift: ``[M, out]``.
        flat: The vector with them.
        gradient: The vector that takes their gradients, if they are learned.
    """

    def __init__(self, scale: Parameter, shift: Parameter, flat: F32, gradient: F32 | None) -> None:
        self._scale, self._shift = scale.view(flat)[:, :, None], shift.view(flat)[:, :, None]
        self._gradients = [] if gradient is None else [p.view(gradient) for p in (scale, shift)]
        self._share = flat.dtype.type(1.0 / scale.shape[1])
        self._inverse = flat[:0]

    def forward(self, x: F32, out: F32) -> None:
        """Write what becomes of ``x`` into ``out``; ``x`` keeps what `backward` needs."""
        x -= np.add.reduce(x, axis=1, keepdims=True) * self._share
        variance = np.add.reduce(np.square(x, out=out), axis=1, keepdims=True) * self._share
        self._inverse = 1.0 / np.sqrt(variance + x.dtype.type(EPSILON))
        x *= self._inverse
        np.multiply(x, self._scale, out=out)
        out += self._shift

    def backward(self, delta: F32, kept: F32, rows: int) -> None:
        """Bring ``delta`` before the last `forward`, of which ``kept`` was the ``x``.

        Parameter gradients are those of the first ``rows`` columns; 0 leaves them.
        """
        if rows:
            own = delta[:, :, :rows]
            np.add.reduce(own * kept[:, :, :rows], axis=2, out=self._gradients[0])
            np.add.reduce(own, axis=2, out=self._gradients[1])
        delta *= self._scale
        along = np.add.reduce(delta * kept, axis=1, keepdims=True) * self._share
        delta -= np.add.reduce(delta, axis=1, keepdims=True) * self._share
        delta -= kept * along
        delta *= self._inverse
