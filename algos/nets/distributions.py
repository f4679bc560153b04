"""Action distributions in NumPy: sampling, log-probability, entropy and their gradients.

Outputs of a policy head are ``[A, B]`` (see `nets.mlp`). Each class keeps what `evaluate`
computed until `backward`, so an object serves one caller at a time.
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fast_core.algos.nets.networks import F32, NetworkShape

I64 = NDArray[np.int64]
Bool = NDArray[np.bool_]
LOG_2PI = math.log(2.0 * math.pi)
# The logit of what is not allowed. Its exponential is exactly 0 and, unlike that of minus
# infinity, its product with 0 is 0: entropies and gradients stay finite.
FORBIDDEN = -1e30


class Distribution(Protocol):
    """What a policy head's output means.

    ``mask`` ``[A, B]`` says which choices are allowed, None where all are; only distributions
    over choices take one. In a row without an allowed choice all count as equally likely.
    """

    def sample(
        self, output: F32, noise: NDArray[np.generic], mask: Bool | None = None
    ) -> tuple[NDArray[np.generic], F32]:
        """Return actions ``[B, ...]`` and their log-probabilities ``[B]``."""
        ...

    def mode(self, output: F32, mask: Bool | None = None) -> tuple[NDArray[np.generic], F32]:
        """Return the most likely actions and their log-probabilities."""
        ...

    def evaluate(
        self, output: F32, action: NDArray[np.generic], mask: Bool | None = None
    ) -> tuple[F32, F32]:
        """Return log-probability and entropy, each ``[B]``."""
        ...

    def backward(self, log_prob_gradient: F32, entropy_gradient: float) -> F32:
        """Return the gradient ``[A, B]`` with respect to the output last evaluated.

        Args:
            log_prob_gradient: ``[B]``, of the loss with respect to each log-probability.
            entropy_gradient: The same number for the entropy of every row.
        """
        ...


class Categorical:
    """One of ``A`` choices, from logits. Actions count from 0."""

    def __init__(self) -> None:
        self._log_probs: F32 = np.empty((0, 0), np.float32)
        self._probs = self._entropy = self._log_probs
        self._index: I64 = np.empty(0, np.int64)
        self._columns: dict[int, I64] = {}

    def sample(
        self, output: F32, noise: NDArray[np.generic], mask: Bool | None = None
    ) -> tuple[I64, F32]:
        """Invert the distribution function: ``noise [B]`` is uniform in [0, 1)."""
        if mask is not None:
            output = _allowed(output, mask)
        shifted, exponentials, total = _exponentials(output)
        threshold = np.asarray(noise, np.float32) * total
        if len(output) == 2:  # the general way, less two calls on every step of many tasks
            action: I64 = (threshold >= exponentials[0]).astype(np.int64)
        else:
            below = np.add.accumulate(exponentials[:-1], axis=0)
            action = np.add.reduce(threshold >= below, axis=0, dtype=np.int64)
        if mask is not None:
            action = _legal(action, exponentials, mask)
        return action, self._pick(shifted, action) - np.log(total)

    def mode(self, output: F32, mask: Bool | None = None) -> tuple[I64, F32]:
        """Take the largest logit, the first of equal ones."""
        if mask is not None:
            output = _allowed(output, mask)
        shifted, _, total = _exponentials(output)
        action: I64 = output.argmax(axis=0)
        return action, self._pick(shifted, action) - np.log(total)

    def evaluate(
        self, output: F32, action: NDArray[np.generic], mask: Bool | None = None
    ) -> tuple[F32, F32]:
        """Return log-probability and entropy of ``action [B]`` int64."""
        if mask is not None:
            output = _allowed(output, mask)
        shifted, exponentials, total = _exponentials(output)
        self._log_probs = np.subtract(shifted, np.log(total), out=shifted)
        self._probs = np.divide(exponentials, total, out=exponentials)
        self._entropy = -np.add.reduce(self._probs * self._log_probs, axis=0)
        return self._pick(self._log_probs, action), self._entropy

    def backward(self, log_prob_gradient: F32, entropy_gradient: float) -> F32:
        """Return the gradient with respect to the logits."""
        gradient = self._probs * -log_prob_gradient
        gradient.reshape(-1)[self._index] += log_prob_gradient
        if entropy_gradient != 0.0:
            surprise = self._log_probs + self._entropy
            gradient -= np.float32(entropy_gradient) * self._probs * surprise
        return gradient

    def _pick(self, table: F32, action: NDArray[np.generic]) -> F32:
        """Take the entry of each row's action from ``table [A, B]``."""
        rows = action.shape[0]
        columns = self._columns.get(rows)
        if columns is None:
            columns = self._columns[rows] = np.arange(rows)
        self._index = action * rows + columns
        picked: F32 = table.reshape(-1).take(self._index)
        return picked


def _exponentials(logits: F32) -> tuple[F32, F32, F32]:
    """Return logits less their maximum, the exponentials of those, and their sum ``[B]``."""
    shifted: F32 = logits - np.maximum.reduce(logits, axis=0)
    exponentials: F32 = np.exp(shifted)
    total: F32 = np.add.reduce(exponentials, axis=0)
    return shifted, exponentials, total


def _allowed(output: F32, mask: Bool) -> F32:
    """Return the logits, those of choices that are not allowed out of reach."""
    allowed: F32 = np.where(mask, output, np.float32(FORBIDDEN))
    return allowed


def _legal(action: I64, exponentials: F32, mask: Bool) -> I64:
    """Replace choices that are not allowed by the likeliest one: rounding may pass the end."""
    legal = np.take_along_axis(mask, action[None], axis=0)[0] | ~mask.any(axis=0)
    if legal.all():
        return action
    likeliest = np.where(mask, exponentials, np.float32(-1)).argmax(axis=0)
    chosen: I64 = np.where(legal, action, likeliest)
    return chosen


def probabilities(output: F32, counts: tuple[int, ...], mask: Bool | None = None) -> list[F32]:
    """Of each choice, ``[n, B]`` for every dimension; their logits lie one after the other.

    Args:
        output: ``[A, B]``.
        counts: Choices of each dimension.
        mask: ``[A, B]``, which are allowed; None: all.
    """
    found, place = [], 0
    for count in counts:
        part = slice(place, place := place + count)
        logits = output[part] if mask is None else _allowed(output[part], mask[part])
        _, exponentials, total = _exponentials(logits)
        found.append(np.divide(exponentials, total, out=exponentials))
    return found


class MultiCategorical:
    """One choice in each of ``D`` dimensions, independent of each other.

    Args:
        counts: Choices of each dimension; the logits of all lie one after the other.
    """

    def __init__(self, counts: tuple[int, ...]) -> None:
        ends = np.cumsum(counts).tolist()
        self._places = [slice(end - count, end) for end, count in zip(ends, counts, strict=True)]
        self._dimensions = [Categorical() for _ in counts]

    def sample(
        self, output: F32, noise: NDArray[np.generic], mask: Bool | None = None
    ) -> tuple[I64, F32]:
        """Sample every dimension with its own number of ``noise [B, D]``."""
        columns = np.asarray(noise).reshape(output.shape[1], -1).T
        return self._stacked(
            [
                dimension.sample(output[place], column, None if mask is None else mask[place])
                for dimension, place, column in zip(
                    self._dimensions, self._places, columns, strict=True
                )
            ]
        )

    def mode(self, output: F32, mask: Bool | None = None) -> tuple[I64, F32]:
        """Take the largest logit of every dimension."""
        return self._stacked(
            [
                dimension.mode(output[place], None if mask is None else mask[place])
                for dimension, place in zip(self._dimensions, self._places, strict=True)
            ]
        )

    def evaluate(
        self, output: F32, action: NDArray[np.generic], mask: Bool | None = None
    ) -> tuple[F32, F32]:
        """Return log-probability and entropy of ``action [B, D]`` int64."""
        log_prob, entropy = np.zeros((2, output.shape[1]), np.float32)
        for dimension, place, choice in zip(self._dimensions, self._places, action.T, strict=True):
            allowed = None if mask is None else mask[place]
            one = dimension.evaluate(output[place], choice, allowed)
            log_prob += one[0]
            entropy += one[1]
        return log_prob, entropy

    def backward(self, log_prob_gradient: F32, entropy_gradient: float) -> F32:
        """Return the gradient with respect to the logits of all dimensions."""
        return np.concatenate(
            [d.backward(log_prob_gradient, entropy_gradient) for d in self._dimensions]
        )

    @staticmethod
    def _stacked(parts: list[tuple[I64, F32]]) -> tuple[I64, F32]:
        action = np.stack([choice for choice, _ in parts], axis=1)
        log_prob: F32 = np.add.reduce([log_prob for _, log_prob in parts])
        return action, log_prob


class DiagonalGaussian:
    """Independent normals with the given means and one log-scale per dimension.

    Args:
        log_std: ``[A]``, read whenever the distribution is used.
        log_std_gradient: ``[A]``, where `backward` writes the gradient; None for acting.
    """

    def __init__(self, log_std: F32, log_std_gradient: F32 | None = None) -> None:
        self._log_std = log_std
        self._gradient = log_std_gradient
        self._standard: F32 = np.empty((0, 0), np.float32)

    def sample(
        self, output: F32, noise: NDArray[np.generic], mask: Bool | None = None
    ) -> tuple[F32, F32]:
        """Scale and shift ``noise [B, A]``, standard normal."""
        standard = np.asarray(noise, np.float32).reshape(output.shape[1], -1)
        action: F32 = np.multiply(standard, np.exp(self._log_std))
        np.add(action, output.T, out=action)
        return action, self._log_prob(standard.T)

    def mode(self, output: F32, mask: Bool | None = None) -> tuple[F32, F32]:
        """Take the means."""
        log_prob = np.full(output.shape[1], self._normaliser(), np.float32)
        return np.ascontiguousarray(output.T), log_prob

    def evaluate(
        self, output: F32, action: NDArray[np.generic], mask: Bool | None = None
    ) -> tuple[F32, F32]:
        """Return log-probability and entropy of ``action [B, A]``."""
        self._standard = (np.asarray(action, np.float32).T - output) * np.exp(-self._log_std)[
            :, None
        ]
        entropy = np.full(output.shape[1], 0.5 * len(output) - self._normaliser(), np.float32)
        return self._log_prob(self._standard), entropy

    def backward(self, log_prob_gradient: F32, entropy_gradient: float) -> F32:
        """Return the gradient with respect to the means and write that of ``log_std``."""
        standard = self._standard
        gradient: F32 = standard * log_prob_gradient
        if self._gradient is not None:
            np.add.reduce(gradient * standard, axis=1, out=self._gradient)
            rows = standard.shape[1]
            self._gradient += entropy_gradient * rows - np.add.reduce(log_prob_gradient)
        gradient *= np.exp(-self._log_std)[:, None]
        return gradient

    def _log_prob(self, standard: F32) -> F32:
        squares: F32 = np.add.reduce(np.square(standard), axis=0)
        squares *= np.float32(-0.5)
        squares += np.float32(self._normaliser())
        return squares

    def _normaliser(self) -> float:
        """Return the log-density at the means."""
        return -float(np.add.reduce(self._log_std)) - 0.5 * LOG_2PI * len(self._log_std)


def make_distribution(
    shape: NetworkShape, log_std: F32 | None, log_std_gradient: F32 | None = None
) -> Distribution:
    """The distribution that a network's policy head stands for.

    Args:
        shape: The network.
        log_std: Its ``policy.log_std``, None where it has none.
        log_std_gradient: Where the gradient of ``log_std`` goes; None for acting.
    """
    if log_std is not None:
        return DiagonalGaussian(log_std, log_std_gradient)
    return MultiCategorical(shape.choices) if shape.choices else Categorical()
