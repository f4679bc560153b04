"""Gymnasium's spaces again, from FastLoop's; imports Gymnasium."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from fast_core.algorithm.spec import Branch, SpaceSpec, Tree

Space = gymnasium.Space[Any]


def as_space(space: SpaceSpec, tree: Tree = "") -> Space:
    """The space that `fast_core.envs.spaces` made ``space`` of, or one that holds the same values.

    What FastLoop takes for choices (boxes of integers, MultiBinary actions) is MultiDiscrete.

    Args:
        space: What is observed, or acts.
        tree: How a composite one is nested.
    """
    if isinstance(tree, Branch):
        below = [as_space(space, part) for part in tree.parts]
        if tree.named:
            return spaces.Dict(dict(zip(tree.keys, below, strict=True)))  # type: ignore[arg-type]
        return spaces.Tuple(below)
    leaf = dict(space.parts)[tree] if tree else space
    dtype: Any = leaf.row_dtype.type
    if leaf.kind == "discrete":
        return spaces.Discrete(leaf.n, start=leaf.start, dtype=dtype)
    if leaf.kind == "multi_discrete":
        counts = np.reshape(leaf.counts, leaf.shape)
        starts = np.reshape(leaf.starts or (0,) * leaf.size, leaf.shape)
        return spaces.MultiDiscrete(counts, dtype=dtype, start=starts)
    if leaf.row_dtype.kind == "b":
        return spaces.MultiBinary(leaf.shape)
    low, high = (bound.astype(leaf.dtype) for bound in leaf.bounds)
    return spaces.Box(low, high, leaf.shape, dtype)
