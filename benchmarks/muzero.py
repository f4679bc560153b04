"""Moves that MuZero's search finds in a second on one core, with those that it is meant to find.

    python -m benchmarks.muzero [--quick]

64 roots and 25 simulations with NumPy's networks, as policies search, in processor time on one
thread: latent states of 128 numbers with values and rewards of 601 categories, and of 64 with one
number each. The trees alone stand beside what was measured before they were written: LightZero
0.2's compiled tree, and one in NumPy's arrays.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.measure import alternate, print_result
from fast_core.algorithm.spec import EnvironmentSpec, SpaceSpec
from fast_core.algos.muzero.model import ModelShape, NumpyModel
from fast_core.algos.muzero.search import Search
from fast_core.system.threads import set_threads

TARGET = 1.0
ROOTS, SIMULATIONS = 64, 25
ROUNDS, QUICK_ROUNDS = 9, 3
SECONDS = 0.4
ENVIRONMENT = EnvironmentSpec(
    "CartPole-v1", SpaceSpec("box", (4,), "float32", low=(-1e3,), high=(1e3,)),
    SpaceSpec("discrete", (), "int64", n=2),
)  # fmt: skip


@dataclass(frozen=True)
class Networks:
    """What is searched with.

    Attributes:
        width: Numbers of a latent state, and of each network's hidden layer.
        supports: Numbers that say a value or a reward.
        moves_per_s: That are to be reached.
    """

    width: int
    supports: int
    moves_per_s: float


NETWORKS = {
    "categories": Networks(128, 601, 4_000),
    "scalars": Networks(64, 1, 20_000),
}


@dataclass(frozen=True)
class Tree:
    """A tree without networks.

    Attributes:
        actions: Of each node.
        simulations: Of each root.
        arrays_us: By roots, for each move: a tree in NumPy's arrays.
        lightzero_us: LightZero's, by roots.
    """

    actions: int
    simulations: int
    arrays_us: dict[int, float]
    lightzero_us: dict[int, float]


TREES = {
    "2_actions": Tree(2, 25, {8: 30, 64: 9, 256: 7}, {8: 31, 64: 28, 256: 34}),
    "81_actions": Tree(81, 50, {8: 157, 64: 127, 256: 168}, {8: 1_164, 64: 2_365}),
}


def search_with(networks: Networks) -> Callable[[], object]:
    """One search of all roots."""
    rng = np.random.default_rng(0)
    shape = ModelShape(
        4, 2, networks.width, (networks.width,), networks.supports, networks.supports, "relu", False
    )
    model = NumpyModel(shape, ENVIRONMENT, None)
    parameters = [p for name, part in shape.parts.items() for p in part.parameters(name, 0)]
    model.load([rng.normal(0, 0.1, p.shape).astype(np.float32) for p in parameters])
    search = Search(2, SIMULATIONS, discount=0.997)
    obs = rng.normal(size=(ROOTS, 4)).astype(np.float32)
    noise = rng.random((ROOTS, 2), np.float32)
    return lambda: search.run(*model.root(obs), model.step, noise=noise)


def tree_alone(tree: Tree, roots: int) -> Callable[[], object]:
    """The same with networks that say at once what was drawn before."""
    rng = np.random.default_rng(0)

    def said() -> tuple[Any, ...]:
        reward, value = (rng.normal(size=roots).astype(np.float32) for _ in range(2))
        logits = rng.normal(size=(roots, tree.actions)).astype(np.float32)
        return np.zeros((roots, 1), np.float32), reward, value, logits

    answers = [said() for _ in range(tree.simulations)]
    latent, _, value, logits = answers[0]
    noise = rng.random((roots, tree.actions), np.float32)
    search = Search(tree.actions, tree.simulations, discount=0.997)

    def run() -> None:
        left = iter(answers)
        search.run(logits, value, latent, lambda *_: next(left), noise=noise)

    return run


def processor_us(call: Callable[[], object], roots: int) -> float:
    """Processor time of each root of one call."""
    call()
    calls, begin_s = 0, time.process_time()
    while (spent_s := time.process_time() - begin_s) < SECONDS:
        call()
        calls += 1
    return 1e6 * spent_s / (calls * roots)


def main() -> None:
    """Measure and print the last line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    rounds = QUICK_ROUNDS if parser.parse_args().quick else ROUNDS
    set_threads(1)
    calls = {name: (search_with(networks), ROOTS) for name, networks in NETWORKS.items()}
    for name, tree in TREES.items():
        for roots in tree.arrays_us:
            calls[f"tree_{name}_{roots}_roots"] = tree_alone(tree, roots), roots
    measured = {name: lambda one=one: processor_us(*one) for name, one in calls.items()}
    found = alternate(rounds, **measured)
    shares = {}
    for name, networks in NETWORKS.items():
        shares[name] = 1e6 / found[name] / networks.moves_per_s
        print(f"{name}: {1e6 / found[name]:,.0f} moves/s (target {networks.moves_per_s:,.0f})")
    for name, tree in TREES.items():
        for roots, arrays_us in tree.arrays_us.items():
            us = found[f"tree_{name}_{roots}_roots"]
            other_us = tree.lightzero_us.get(roots)
            print(
                f"tree alone, {name}, {roots} roots: {us:.1f} us a move; in arrays {arrays_us:g}, "
                f"LightZero's {'-' if other_us is None else f'{other_us:g}'}"
            )
    figures = {f"{name}_us_per_move": us for name, us in found.items()}
    figures |= {f"{name}_share_of_target": share for name, share in shares.items()}
    print_result("muzero", min(shares.values()), TARGET, **figures)


if __name__ == "__main__":
    main()
